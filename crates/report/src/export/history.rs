//! A history as families of metrics. The dashboard `docs/grafana/tare-history.json` uses these names.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tare_analysis::formats::families::{Family, Kind, Sample};
use tare_records::history::{HistoryEntry, HistoryPoint, HistorySeries};

use super::metrics::{Labels, Set};

/// Returns the families of a history. Each sample has the time of its entry.
#[must_use]
pub fn families(entries: &[HistoryEntry], series: &[HistorySeries]) -> Vec<Family> {
    let mut set = Set::default();
    for entry in entries {
        let mut labels = of_entry(entry);
        labels.push(("build", entry.build.clone()));
        let help = "The builds that were weighed";
        let family = set.family(("tare_history_build", "", help));
        family.kind = Kind::Info;
        family.samples.push(Sample {
            suffix: "_info",
            ..at(entry, labels, 1.0)
        });
    }
    // All samples of the same labels follow one another, also if a build was weighed twice.
    for family in &mut set.0 {
        family.samples.sort_by(|a, b| a.labels.cmp(&b.labels));
    }
    let by_id: BTreeMap<&str, &HistoryEntry> = entries.iter().map(|e| (&*e.id, e)).collect();
    for one in series {
        let points = one.points.iter();
        let points = points.filter_map(|p| Some((*by_id.get(&*p.entry)?, p)));
        let points: Vec<(&HistoryEntry, &HistoryPoint)> = points.collect();
        let sample = |entry: &HistoryEntry, value: f64| {
            let mut labels = of_entry(entry);
            labels.extend([
                ("mesh", one.key.variant.clone()),
                ("load", one.key.load.clone()),
                ("figure", one.key.what.to_string()),
            ]);
            at(entry, labels, value)
        };
        let (value, low, high) = match &one.key.unit {
            None => RATIO,
            Some(_) => VALUE,
        };
        let values = points.iter().map(|(e, p)| sample(e, p.log.exp()));
        set.family(value).samples.extend(values);
        let ends = points
            .iter()
            .filter_map(|(e, p)| Some(sample(e, p.low?.exp())));
        set.family(low).samples.extend(ends);
        let ends = points
            .iter()
            .filter_map(|(e, p)| Some(sample(e, p.high?.exp())));
        set.family(high).samples.extend(ends);
        let changes = points.iter().map(|(entry, point)| {
            let here = one
                .changes
                .iter()
                .find(|c| !c.silent && c.entry == point.entry);
            sample(entry, here.map_or(1.0, |c| c.ratio))
        });
        let help = "New level divided by the old one where a level changes, otherwise 1";
        let family = set.family(("tare_history_change_ratio", "", help));
        family.samples.extend(changes);
    }
    set.0
}

/// Returns the last sample of each series, without its time: what a server that reads the page of a history
/// should see.
#[must_use]
pub fn latest(families: &[Family]) -> Vec<Family> {
    let of = |family: &Family| {
        let mut kept: Vec<Sample> = Vec::new();
        for sample in &family.samples {
            match kept.last_mut().filter(|k| k.labels == sample.labels) {
                Some(last) => last.clone_from(sample),
                None => kept.push(sample.clone()),
            }
        }
        // Of the builds, only the last one is current.
        if family.kind == Kind::Info {
            let last = kept
                .into_iter()
                .max_by(|a, b| a.at_s.partial_cmp(&b.at_s).unwrap_or(Ordering::Equal));
            kept = last.into_iter().collect();
        }
        kept.iter_mut().for_each(|s| s.at_s = None);
        Family {
            samples: kept,
            ..family.clone()
        }
    };
    families.iter().map(of).collect()
}

/// Name, unit and help of a family.
type Name = (&'static str, &'static str, &'static str);
const LOW: &str = "Lower end of its interval";
const HIGH: &str = "Upper end of its interval";

/// The ratio to the anchor and the ends of its interval.
const RATIO: (Name, Name, Name) = (
    (
        "tare_history_ratio",
        "",
        "A figure divided by that of the baseline in the same blocks",
    ),
    ("tare_history_ratio_low", "", LOW),
    ("tare_history_ratio_high", "", HIGH),
);
/// The same of a figure that the baseline lacks.
const VALUE: (Name, Name, Name) = (
    (
        "tare_history_value",
        "",
        "A figure that the baseline lacks: nanoseconds, bytes, or requests per second",
    ),
    ("tare_history_value_low", "", LOW),
    ("tare_history_value_high", "", HIGH),
);

fn of_entry(entry: &HistoryEntry) -> Labels {
    vec![
        ("plan", entry.plan.clone()),
        ("host", entry.host.clone()),
        ("baseline", entry.anchor.clone()),
    ]
}

fn at(entry: &HistoryEntry, labels: Labels, value: f64) -> Sample {
    Sample {
        at_s: Some(entry.at_unix_ns as f64 / 1e9),
        ..Sample::new(labels, value)
    }
}
