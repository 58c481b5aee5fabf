//! Words of the price list of features, which the terminal and the page share.

use tare_analysis::figures;
use tare_plan::{Figure, Unit};
use tare_records::summary::{
    Answer, Cell, Estimate, FeaturePrice, Outcome, Price, PriceList, Summary,
};

use crate::table::{Mark, Scale};

/// Returns the outcome: `higher`, `lower`, `the same within the margin`, `not resolved` or `no answer`.
pub(crate) fn outcome(price: &Price) -> &'static str {
    match price.outcome {
        None => "no answer",
        Some(Outcome::Different) if price.ratio > 1.0 => "higher",
        Some(Outcome::Different) => "lower",
        Some(outcome) => outcome.words(),
    }
}

/// Returns the mark of a figure.
pub(crate) fn mark(price: &Price) -> Mark {
    price.outcome.map_or(Mark::NoAnswer, Mark::Outcome)
}

/// What the picture of the prices shows.
pub(crate) const PICTURE: &str = "Dot and line: estimate and interval, filled if the feature changes CPU. Grey band: the interval of a \
    feature that changes nothing, which is the noise of this run. Faint: not resolved.";

/// Returns how many features cost CPU, and which cost most, in sentences.
pub(crate) fn answer(summary: &Summary, list: &PriceList) -> String {
    let priced = list.features.iter().filter(|f| !f.nothing);
    let prices: Vec<(&str, &Price)> = priced
        .filter_map(|f| Some((name(&f.mesh), f.cpu.as_ref()?)))
        .collect();
    let with = |outcome| {
        prices
            .iter()
            .filter(move |(_, p)| p.outcome == Some(outcome))
    };
    let hop = list.reference_hop_ns.as_ref();
    let hop = hop.map_or(String::new(), |e| {
        format!(
            ", which is {} without a feature",
            figures::duration(e.value)
        )
    });
    let mut sentences = vec![match with(Outcome::Different).count() {
        0 => format!("No feature is certain to change the CPU time of a hop{hop}."),
        n => {
            let change = if n == 1 { "changes" } else { "change" };
            format!(
                "{n} of {} features {change} the CPU time of a hop{hop}.",
                prices.len()
            )
        }
    }];
    // The features are in the order of what they add.
    let added = |p: &Price| p.added.clone().filter(|e| e.value > 0.0);
    let most = with(Outcome::Different).filter_map(|(name, p)| {
        let e = added(p)?;
        let shown = figures::amount_interval(e.value, e.low, e.high, Unit::Ns);
        Some(format!("{name} (+{})", shown.value))
    });
    let most: Vec<String> = most.take(MOST).collect();
    if !most.is_empty() {
        sentences.push(format!("Most: {}.", most.join(", ")));
    }
    let same = with(Outcome::Same).count();
    if same > 0 {
        let ratios = summary.comparisons.iter().flat_map(|c| &c.ratios);
        let margin = ratios.into_iter().find(|r| r.what == Figure::ProxyCpu);
        let margin = margin.map_or(0.0, |r| r.margin);
        let percent = Scale::Margin.number(margin);
        sentences.push(format!("{} the same within {percent} %.", are(same)));
    }
    let open = with(Outcome::NotResolved).count();
    if open > 0 {
        sentences.push(format!("{} not resolved.", are(open)));
    }
    sentences.join(" ")
}

/// So many features, and the verb.
fn are(count: usize) -> String {
    match count {
        1 => "1 is".to_owned(),
        n => format!("{n} are"),
    }
}

/// Number of features that the answer names.
const MOST: usize = 3;

/// Returns the cell of a feature; `None` if the summary has none.
pub(crate) fn cell<'a>(
    summary: &'a Summary,
    list: &PriceList,
    feature: &FeaturePrice,
) -> Option<&'a Cell> {
    let own = |c: &&Cell| c.mesh == feature.mesh && c.load == list.load;
    summary.cells.iter().find(own)
}

/// What is shown of an answer.
pub(crate) struct Shortened<'a> {
    pub(crate) answer: &'a Answer,
    /// Whether its sentence is shown; else only what qualifies it.
    pub(crate) sentence: bool,
}

/// Returns the answers that are shown: without a price list all of them. A price list has the figures of
/// its features in fewer words, so it leaves of them those without figures, those of features that
/// reached a limit, and what qualifies the others.
pub(crate) fn answers<'a>(summary: &'a Summary) -> Vec<Shortened<'a>> {
    let shown = |answer: &'a Answer| {
        let list = summary.price_list.as_ref();
        let own = |f: &&FeaturePrice| f.mesh == answer.mesh;
        let Some((list, feature)) = list.and_then(|l| Some((l, l.features.iter().find(own)?)))
        else {
            return Some(Shortened {
                answer,
                sentence: true,
            });
        };
        let limited = cell(summary, list, feature).is_some_and(|c| c.saturation.is_some());
        let sentence = list.no_answer.is_none() && (answer.outcome.is_none() || limited);
        (sentence || answer.caution.is_some()).then_some(Shortened { answer, sentence })
    };
    summary.answers.iter().filter_map(shown).collect()
}

/// Returns why the list states no outcomes, in a sentence.
pub(crate) fn no_answer(list: &PriceList) -> Option<String> {
    let why = list.no_answer.as_ref()?;
    Some(format!(
        "No answer, because {why}. The figures below are no prices of the features."
    ))
}

/// Returns the name of a feature: that of its mesh without the part before the slash.
pub(crate) fn name(mesh: &str) -> &str {
    mesh.rsplit('/').next().unwrap_or(mesh)
}

/// Returns what the figures mean, in sentences.
pub(crate) fn legend(summary: &Summary, list: &PriceList) -> String {
    let confidence = format!("{:.0} %", summary.confidence * 100.0);
    let own = |e: &Option<Estimate>, words: fn(f64) -> String| {
        e.as_ref().map_or(String::new(), |e| {
            format!(" ({} without a feature)", words(e.value))
        })
    };
    format!(
        "Sidecars with the feature are compared with those of {}, by block, with {confidence} intervals. p50 and \
         p99: latency of the whole request with the feature, divided by that without it. CPU: CPU time that the feature \
         adds to a hop, which is one pass of one request through one proxy{}. Memory: what the feature adds to a \
         proxy{}. The outcomes of p50, p99 and CPU of a feature are corrected for each other (Holm), not for the number of \
         features: one feature in 20 can seem different by chance.{}",
        list.reference,
        own(&list.reference_hop_ns, figures::duration),
        own(&list.reference_proxy_bytes, figures::bytes),
        by_chance(list),
    )
}

/// What a feature that changes nothing shows about the noise, if it seems to change something.
fn by_chance(list: &PriceList) -> String {
    let different = |price: &Option<Price>| {
        let outcome = price.as_ref().and_then(|p| p.outcome);
        outcome == Some(Outcome::Different)
    };
    let nothing =
        |f: &&FeaturePrice| f.nothing && [&f.p50, &f.p99, &f.cpu].into_iter().any(different);
    match list.features.iter().find(nothing) {
        None => String::new(),
        Some(f) => format!(
            " In this run, {} seems different, although it changes nothing: prices of that size are noise here.",
            name(&f.mesh)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(outcome: Outcome) -> Price {
        Price {
            ratio: 1.2,
            low: Some(1.1),
            high: Some(1.3),
            outcome: Some(outcome),
            added: None,
        }
    }

    #[test]
    fn a_feature_that_changes_nothing_shows_what_is_noise() {
        let feature = |mesh: &str, nothing, outcome| FeaturePrice {
            mesh: mesh.to_owned(),
            title: String::new(),
            nothing,
            p50: Some(price(outcome)),
            p99: None,
            cpu: None,
            memory: None,
            proofs: Vec::new(),
            off: None,
        };
        let list = |features| PriceList {
            reference: "envoy".to_owned(),
            load: "400rps".to_owned(),
            no_answer: None,
            reference_hop_ns: None,
            reference_proxy_bytes: None,
            features,
        };
        let noisy = list(vec![feature("features/nothing", true, Outcome::Different)]);
        assert!(by_chance(&noisy).starts_with(" In this run, nothing seems different"));
        let quiet = list(vec![
            feature("features/jwt", false, Outcome::Different),
            feature("features/nothing", true, Outcome::NotResolved),
        ]);
        assert_eq!(by_chance(&quiet), "");
    }

    #[test]
    fn outcomes_have_words_of_their_own() {
        let less = price(Outcome::Different);
        assert_eq!(outcome(&less), "higher");
        let none = Price {
            outcome: None,
            ..less
        };
        assert_eq!(outcome(&none), "no answer");
        assert_eq!(name("features/jwt"), "jwt");
    }
}
