//! Limits for `tare compare`: how much worse a figure may become, such as `p99:+5%`.

use tare_plan::units::{parse_bytes, parse_duration, parse_share};
use tare_plan::{Figure, Unit};
use tare_records::summary::comparison::{ComparedCell, Judged, JudgedBy, ThresholdResult};

use tare_stats::order::samples_needed;

use crate::compare::figures::COMPARED;
use crate::figures;

/// The limit of one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    what: Figure,
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
        // Of a rate, more is better.
        let names = || COMPARED.into_iter().filter(|figure| !figure.is_rate());
        let Some(figure) = names().find(|figure| figure.id() == what) else {
            let names: Vec<&str> = names().map(Figure::id).collect();
            let names = names.join(", ");
            return Err(format!(
                "found the figure {what:?}, expected one of {names}"
            ));
        };
        let amount = match figure.unit() {
            Unit::Ns => parse_duration(limit).ok().map(|ns| ns as f64),
            Unit::Bytes => parse_bytes(limit).ok().map(|bytes| bytes as f64),
            _ => None,
        };
        let limit = match (parse_share(limit).ok(), amount) {
            (Some(share), _) => Limit::Share(share),
            (None, Some(amount)) => Limit::Amount(amount),
            (None, None) => {
                let amount = match figure.unit() {
                    Unit::Ns => ", or a duration like `200us`",
                    Unit::Bytes => ", or an amount like `20MB`",
                    _ => "",
                };
                return Err(format!(
                    "found the limit {limit:?}, expected a share like `5%`{amount}"
                ));
            }
        };
        Ok(Self {
            text: text.to_owned(),
            what: figure,
            limit,
        })
    }
}

impl Threshold {
    /// Compares the change of the figure in `cell` with the limit; `None` if neither run has the
    /// figure, although both have usable trials: it does not exist there. A percentile of a load that has
    /// a median exists, and needs more responses.
    #[must_use]
    pub fn judge(&self, cell: &ComparedCell, judged_by: JudgedBy) -> Option<Judged> {
        let change = cell.changes.iter().find(|c| c.ratio.what == self.what);
        let median = match self.what {
            Figure::RatioP50 | Figure::RatioP99 => Figure::RatioP50,
            _ => Figure::P50,
        };
        let has_latency = || cell.changes.iter().any(|c| c.ratio.what == median);
        let too_short = responses_needed(self.what).is_some() && has_latency();
        if change.is_none() && cell.trials_before > 0 && cell.trials_after > 0 && !too_short {
            return None;
        }
        let limit = match self.limit {
            Limit::Share(limit) => Some(limit),
            Limit::Amount(amount) => change.map(|c| amount / c.before),
        };
        let found = change.and_then(|c| match judged_by {
            JudgedBy::Bound => c.ratio.low,
            JudgedBy::Estimate => Some(c.ratio.value),
        });
        let found = found.map(|ratio| ratio - 1.0);
        Some(Judged {
            threshold: self.text.clone(),
            mesh: cell.mesh.clone(),
            load: cell.load.clone(),
            judged_by,
            found,
            limit,
            result: match found.zip(limit) {
                None => ThresholdResult::NotChecked,
                Some((found, limit)) if found > limit => ThresholdResult::Exceeded,
                Some(_) => ThresholdResult::NotExceeded,
            },
        })
    }

    /// The figure that it limits.
    #[must_use]
    pub fn figure(&self) -> Figure {
        self.what
    }

    /// The threshold as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What a trial must have so that a figure exists: `p99 needs at least 299 responses in each trial`; `None`
/// for figures that are no percentiles.
#[must_use]
pub fn responses_needed(figure: Figure) -> Option<String> {
    let name = figure.percentile()?;
    let needed = figures::count(samples_needed(name.q()?));
    Some(format!(
        "{name} needs at least {needed} responses in each trial: measure longer, or at a higher rate"
    ))
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
        assert_eq!(limit("cpu:+20us"), Ok(Limit::Amount(20_000.0)));
        assert_eq!(limit("ratio_p99:+10%"), Ok(Limit::Share(0.10)));
        for (wrong, expected) in [
            ("p99", "a figure and a limit"),
            ("p98:+5%", "one of p50, ratio_p50, p90"),
            ("p99:+5", "a share like `5%`, or a duration like `200us`"),
            ("p99:-5%", "a share like"),
            ("ratio_p99:+1ms", "a share like `5%`"),
            ("memory:+-1", "an amount like `20MB`"),
        ] {
            let error = wrong.parse::<Threshold>().unwrap_err().to_string();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }
}
