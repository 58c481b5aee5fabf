//! A history as families of metrics. The dashboard `docs/grafana/tare-history.json` uses these names.

use std::cmp::Ordering;

use tare_analysis::formats::families::{Family, Kind, Sample};
use tare_model::history::{HistoryEntry, HistorySeries};

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
    for one in series {
        let points = one.points.iter().filter_map(|p| {
            let entry = entries.iter().find(|e| e.id == p.entry)?;
            Some((entry, p))
        });
        let points: Vec<_> = points.collect();
        let labels = |entry| {
            let mut labels = of_entry(entry);
            let key = &one.key;
            labels.extend([
                ("mesh", key.variant.clone()),
                ("load", key.load.clone()),
                ("figure", key.what.clone()),
            ]);
            labels
        };
        let names = match &one.key.unit {
            None => RATIOS,
            Some(_) => VALUES,
        };
        for (name, of) in names {
            let found = points.iter().filter_map(|&(entry, point)| {
                let ends = [Some(point.log), point.low, point.high];
                Some(at(entry, labels(entry), ends[of]?.exp()))
            });
            set.family(name).samples.extend(found);
        }
        let changed = points.iter().map(|(entry, point)| {
            let loud = |c: &&_| is_loud(c, &point.entry);
            let ratio = one.changes.iter().find(loud).map_or(1.0, |c| c.ratio);
            at(entry, labels(entry), ratio)
        });
        let help = "New level divided by the old one where a level changes, otherwise 1";
        let family = set.family(("tare_history_change_ratio", "", help));
        family.samples.extend(changed);
    }
    set.0
}

fn is_loud(change: &tare_model::history::HistoryChange, entry: &str) -> bool {
    !change.silent && change.entry == entry
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

/// The ratio to the anchor, and which of value, lower and upper end it is.
const RATIOS: [(Name, usize); 3] = [
    (
        (
            "tare_history_ratio",
            "",
            "A figure divided by that of the baseline in the same blocks",
        ),
        0,
    ),
    (
        ("tare_history_ratio_low", "", "Lower end of its interval"),
        1,
    ),
    (
        ("tare_history_ratio_high", "", "Upper end of its interval"),
        2,
    ),
];
/// The same of a figure that the baseline lacks.
const VALUES: [(Name, usize); 3] = [
    (
        (
            "tare_history_value",
            "",
            "A figure that the baseline lacks: nanoseconds, bytes, or requests per second",
        ),
        0,
    ),
    (
        ("tare_history_value_low", "", "Lower end of its interval"),
        1,
    ),
    (
        ("tare_history_value_high", "", "Upper end of its interval"),
        2,
    ),
];

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
