//! Limits for `tare compare`: how much worse a figure may become, such as `p99:+5%`.

use tare_model::summary::comparison::{Change, ComparedCell, Judged, JudgedBy};
use tare_model::units::{parse_bytes, parse_duration, parse_share};

use crate::compare::figures::FIGURES;

/// The limit of one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    what: String,
    limit: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// A share of the figure before the change.
    Share(f64),
    /// A difference in the unit of the figure.
    Amount(f64),
}

impl std::str::FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!("found {text:?}, expected a figure and a limit, like `p99:+5%` or `p50:+200us`")
        };
        let (what, limit) = text.split_once(':').ok_or_else(form)?;
        let (what, limit) = (what.trim(), limit.trim());
        let limit = limit.strip_prefix('+').unwrap_or(limit).trim();
        let Some((_, unit)) = FIGURES.iter().find(|f| f.0 == what) else {
            let names = FIGURES.map(|f| f.0).join(", ");
            return Err(format!(
                "found the figure {what:?}, expected one of {names}"
            ));
        };
        let amount = match *unit {
            "ns" => parse_duration(limit).ok().map(|ns| ns as f64),
            "bytes" => parse_bytes(limit).ok().map(|bytes| bytes as f64),
            _ => limit
                .parse()
                .ok()
                .filter(|x: &f64| x.is_finite() && *x >= 0.0),
        };
        // An overhead can be near 0, so a share of it has no meaning.
        let share = parse_share(limit)
            .ok()
            .filter(|_| !what.starts_with("over_"));
        let limit = match (share, amount) {
            (Some(share), _) => Limit::Share(share),
            (None, Some(amount)) => Limit::Amount(amount),
            (None, None) => {
                let example = match *unit {
                    "ns" => "200us",
                    "bytes" => "20MB",
                    _ => "0.1",
                };
                let expected = if what.starts_with("over_") {
                    format!("a duration like `{example}`")
                } else {
                    format!("a share like `5%`, or an amount like `{example}`")
                };
                return Err(format!("found the limit {limit:?}, expected {expected}"));
            }
        };
        Ok(Self {
            text: text.to_owned(),
            what: what.to_owned(),
            limit,
        })
    }
}

impl Threshold {
    /// Compares the change of the figure in `cell` with the limit; `None` if the figure was not
    /// measured or has too few samples.
    #[must_use]
    pub fn judge(&self, cell: &ComparedCell, judged_by: JudgedBy) -> Option<Judged> {
        let stated = |c: &&Change| c.what == self.what && c.supported;
        let change = cell.changes.iter().find(stated)?;
        let (limit, estimate, bound) = match self.limit {
            Limit::Share(limit) => (limit, change.ratio, change.ratio_low),
            Limit::Amount(limit) => (limit, Some(change.difference), change.low),
        };
        let found = match judged_by {
            JudgedBy::Bound => bound,
            JudgedBy::Estimate => estimate,
        };
        Some(Judged {
            threshold: self.text.clone(),
            mesh: cell.mesh.clone(),
            load: cell.load.clone(),
            judged_by,
            found,
            limit,
            exceeded: found.is_some_and(|found| found > limit),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_with_their_units() {
        let limit = |text: &str| text.parse::<Threshold>().map(|t| t.limit);
        assert_eq!(limit("p99:+5%"), Ok(Limit::Share(0.05)));
        assert_eq!(limit("p50: 200us"), Ok(Limit::Amount(200_000.0)));
        assert_eq!(limit("memory:+20MB"), Ok(Limit::Amount(20e6)));
        assert_eq!(limit("cpu:+0.1"), Ok(Limit::Amount(0.1)));
        assert_eq!(limit("over_p99:+1ms"), Ok(Limit::Amount(1e6)));
        for (wrong, expected) in [
            ("p99", "a figure and a limit"),
            ("p98:+5%", "one of p50, p90"),
            ("p99:+5", "a share like `5%`, or an amount like `200us`"),
            ("p99:-5%", "a share like"),
            ("over_p99:+5%", "a duration like"),
            ("cpu:+-1", "like `0.1`"),
        ] {
            let error = wrong.parse::<Threshold>().unwrap_err().to_string();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }
}
