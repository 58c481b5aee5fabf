//! What an entry of a history may contain. Entries come from files, so they are checked when they are read.

use std::collections::HashSet;

use super::{FIGURES, HistoryEntry, HistoryFigure, HistoryVariant};
use tare_plan::Figure;
use tare_plan::text::{one_of, quoted};

/// Longest name of a build, a mesh or a load, in characters.
const NAME_MAX: usize = 200;
/// Longest other text, such as the address of a report, in characters.
const TEXT_MAX: usize = 2_000;
/// Largest value: bytes and nanoseconds above it do not exist.
const VALUE_MAX: f64 = 1e18;

impl HistoryFigure {
    /// Largest ratio, and inverse of the smallest.
    pub const RATIO_MAX: f64 = 1e9;
}

impl HistoryEntry {
    /// Checks names and figures.
    ///
    /// # Errors
    /// The place in the entry, what was found there, and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let names = [
            ("id", &self.id),
            ("build", &self.build),
            ("anchor", &self.anchor),
        ];
        for (place, text) in names {
            check_name(place, text)?;
        }
        let texts = [
            ("plan", &self.plan),
            ("plan_key", &self.plan_key),
            ("host", &self.host),
            ("host_key", &self.host_key),
        ];
        for (place, text) in texts {
            check_text(place, text, TEXT_MAX)?;
        }
        for text in self.runs.iter() {
            check_text("runs", text, TEXT_MAX)?;
        }
        for text in self
            .versions
            .iter()
            .flat_map(|(name, digest)| [name, digest])
        {
            check_text("versions", text, TEXT_MAX)?;
        }
        let mut seen = HashSet::new();
        for (i, variant) in self.variants.iter().enumerate() {
            let place = format!("variants[{i}]");
            check_name(&format!("{place}.name"), &variant.name)?;
            if !seen.insert(&variant.name) {
                let found = quoted(&variant.name);
                return Err(format!(
                    "{place}.name: found {found} twice, expected it once"
                ));
            }
            check_figures(&place, variant)?;
        }
        Ok(())
    }
}

fn check_figures(place: &str, variant: &HistoryVariant) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (i, figure) in variant.figures.iter().enumerate() {
        let place = format!("{place}.figures[{i}]");
        check_name(&format!("{place}.load"), &figure.load)?;
        check_unit(&place, figure)?;
        check_values(&place, figure)?;
        if !seen.insert((&figure.what, &figure.load)) {
            let (what, load) = (&figure.what, quoted(&figure.load));
            return Err(format!(
                "{place}: found {what} at {load} twice, expected it once"
            ));
        }
    }
    Ok(())
}

fn check_unit(place: &str, figure: &HistoryFigure) -> Result<(), String> {
    if !FIGURES.contains(&figure.what) {
        let (found, known) = (quoted(figure.what.id()), one_of(FIGURES.map(Figure::id)));
        return Err(format!("{place}.what: found {found}, expected {known}"));
    }
    match figure.unit == figure.what.unit() {
        true => Ok(()),
        false => Err(format!(
            "{place}.unit: found {}, expected `{}` for {}",
            quoted(figure.unit.id()),
            figure.what.unit().id(),
            figure.what
        )),
    }
}

fn check_values(place: &str, figure: &HistoryFigure) -> Result<(), String> {
    if let Some(value) = figure.value.filter(|v| !(0.0..=VALUE_MAX).contains(v)) {
        return Err(format!(
            "{place}.value: found {value:e}, expected 0 to {VALUE_MAX:e}"
        ));
    }
    let most = HistoryFigure::RATIO_MAX.ln();
    let ratios = [
        ("log_ratio", figure.log_ratio),
        ("low", figure.low),
        ("high", figure.high),
    ];
    for (key, log) in ratios {
        if let Some(log) = log.filter(|log| !(-most..=most).contains(log)) {
            return Err(format!(
                "{place}.{key}: found {log:e}, expected the logarithm of a ratio, from {:.1} to {most:.1}",
                -most
            ));
        }
        if figure.log_ratio.is_none() && log.is_some() {
            return Err(format!(
                "{place}.{key}: found the end of an interval without `log_ratio`, expected both or none"
            ));
        }
    }
    match figure.low.zip(figure.high) {
        Some((low, high)) if low > high => Err(format!(
            "{place}.low: found {low}, expected at most `high`, which is {high}"
        )),
        _ => Ok(()),
    }
}

fn check_name(place: &str, text: &str) -> Result<(), String> {
    match text.is_empty() {
        true => Err(format!("{place}: found nothing, expected a name")),
        false => check_text(place, text, NAME_MAX),
    }
}

fn check_text(place: &str, text: &str, most: usize) -> Result<(), String> {
    let count = text.chars().count();
    if count > most {
        return Err(format!(
            "{place}: found {count} characters, expected at most {most}"
        ));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!(
            "{place}: found the control character {}, expected a text on one line",
            c.escape_unicode()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::Unit;

    fn entry() -> HistoryEntry {
        let figure = |what: Figure, log: Option<f64>| HistoryFigure {
            what,
            load: "60rps".to_owned(),
            unit: what.unit(),
            value: Some(1e6),
            log_ratio: log,
            low: log.map(|log| log - 0.1),
            high: log.map(|log| log + 0.1),
        };
        let figures = vec![figure(Figure::P50, Some(1.0)), figure(Figure::Memory, None)];
        HistoryEntry {
            schema_version: tare_plan::SCHEMA_VERSION,
            id: "n1".to_owned(),
            at_unix_ns: 1,
            build: "1.40.0".to_owned(),
            plan: "patrol".to_owned(),
            plan_key: "1".to_owned(),
            host: "host".to_owned(),
            host_key: "1".to_owned(),
            anchor: "bare".to_owned(),
            versions: Default::default(),
            runs: Vec::new(),
            variants: vec![HistoryVariant {
                name: "envoy".to_owned(),
                figures,
            }],
        }
    }

    #[test]
    fn what_cannot_be_is_found_with_its_place() {
        type Change = fn(&mut HistoryEntry);
        let figure = "variants[0].figures[0]";
        let cases: [(Change, &str); 16] = [
            (
                |e| e.build = "b".repeat(65_536),
                "build: found 65536 characters",
            ),
            (
                |e| e.variants[0].name = "b".repeat(201),
                "variants[0].name: found 201",
            ),
            (
                |e| e.variants[0].name = String::new(),
                "variants[0].name: found nothing",
            ),
            (
                |e| e.host = "a\u{1b}[31m".to_owned(),
                "host: found the control character \\u{1b}",
            ),
            (
                |e| e.runs = vec!["a".repeat(2_001)],
                "runs: found 2001 characters",
            ),
            (
                |e| e.variants.push(e.variants[0].clone()),
                "variants[1].name: found `envoy` twice",
            ),
            (
                |e| e.variants[0].figures[0].unit = Unit::Rps,
                "{f}.unit: found `rps`, expected `ns` for p50",
            ),
            (
                |e| e.variants[0].figures[0].what = Figure::P90,
                "{f}.what: found `p90`",
            ),
            (
                |e| e.variants[0].figures[0].value = Some(-1.0),
                "{f}.value: found -1e0",
            ),
            (
                |e| e.variants[0].figures[0].value = Some(1e308),
                "{f}.value: found 1e308",
            ),
            (
                |e| e.variants[0].figures[0].value = Some(f64::NAN),
                "{f}.value: found NaN",
            ),
            (
                |e| e.variants[0].figures[0].log_ratio = Some(1e308),
                "{f}.log_ratio: found 1e308",
            ),
            (
                |e| e.variants[0].figures[0].low = Some(-400.0),
                "{f}.low: found -4e2",
            ),
            (
                |e| e.variants[0].figures[0].high = Some(0.2),
                "{f}.low: found 0.9, expected at most `high`",
            ),
            (
                |e| e.variants[0].figures[1].low = Some(0.2),
                "variants[0].figures[1].low: found the end",
            ),
            (
                |e| {
                    let first = e.variants[0].figures[0].clone();
                    e.variants[0].figures.push(first);
                },
                "variants[0].figures[2]: found p50 at `60rps` twice",
            ),
        ];
        assert_eq!(entry().check(), Ok(()));
        for (change, words) in cases {
            let mut entry = entry();
            change(&mut entry);
            let found = entry.check().unwrap_err();
            assert!(found.starts_with(&words.replace("{f}", figure)), "{found}");
        }
    }
}
