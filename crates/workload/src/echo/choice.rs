//! Values with probabilities: `1ms:10,5ms:5` is 1 ms in 10 % and 5 ms in 5 % of all cases, and
//! no value in the others.

/// Largest sum of the percentages; slightly above 100 because of rounding.
const SUM_MAX: f64 = 100.000_001;

/// Values with their shares of all cases.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice<T> {
    /// Each value with the sum of the shares up to its own, from 0 to 1.
    entries: Vec<(T, f64)>,
}

impl<T> Choice<T> {
    /// Parses `VALUE[:PERCENT],...`; `value` parses each VALUE. Values without percentages share
    /// all cases evenly.
    ///
    /// # Errors
    /// A message with what was found and what was expected.
    pub(crate) fn parse(
        text: &str,
        value: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let bare = parts.iter().filter(|p| !p.contains(':')).count();
        if bare != 0 && bare != parts.len() {
            return Err(format!(
                "found {text:?} with percentages for some values only, expected percentages for all values or for none"
            ));
        }
        let mut sum = 0.0;
        let mut entries = Vec::with_capacity(parts.len());
        for part in &parts {
            let (text_of_value, share) = match part.rsplit_once(':') {
                Some((v, p)) => (v, percent(p)?),
                None => (*part, 100.0 / parts.len() as f64),
            };
            sum += share;
            entries.push((value(text_of_value)?, sum / 100.0));
        }
        if sum > SUM_MAX {
            return Err(format!(
                "found percentages that add up to {sum} in {text:?}, expected at most 100"
            ));
        }
        if sum > 99.999_999
            && let Some((_, last)) = entries.last_mut()
        {
            // Otherwise rounding would leave a few cases without a value.
            *last = 1.0;
        }
        Ok(Self { entries })
    }

    /// The value for `u`, uniform in 0 to 1; `None` in the cases without a value.
    pub(crate) fn at(&self, u: f64) -> Option<&T> {
        let found = self.entries.iter().find(|(_, up_to)| u < *up_to);
        found.map(|(value, _)| value)
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let value: Option<f64> = number.parse().ok();
    value
        .filter(|v| (0.0..=100.0).contains(v))
        .ok_or_else(|| format!("found the percentage {text:?}, expected a number from 0 to 100"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Choice<u32>, String> {
        Choice::parse(text, |v| {
            v.parse()
                .map_err(|_| format!("found {v:?}, expected a number"))
        })
    }

    #[test]
    fn percentages_are_shares_of_all_cases() {
        let choice = parse("1:10,5:5").unwrap();
        let drawn = |u| choice.at(u).copied();
        assert_eq!([drawn(0.0), drawn(0.0999)], [Some(1), Some(1)]);
        assert_eq!([drawn(0.1), drawn(0.1499)], [Some(5), Some(5)]);
        assert_eq!([drawn(0.1501), drawn(0.9999)], [None, None]);
    }

    #[test]
    fn values_without_percentages_share_all_cases_evenly() {
        assert_eq!(parse("7").unwrap().at(0.999_999), Some(&7));
        let three = parse("1,2,3").unwrap();
        assert_eq!(three.at(0.34), Some(&2));
        assert_eq!(three.at(0.999_999_999_999), Some(&3));
    }

    #[test]
    fn errors_name_the_invalid_part() {
        let error = |text: &str| parse(text).unwrap_err();
        assert!(error("1:60,2:50").contains("add up to 110"));
        assert!(error("1:10,2").contains("some values only"));
        assert!(error("1:x").contains("\"x\""));
        assert!(error("1:-1").contains("from 0 to 100"));
        assert!(error("a:1").contains("\"a\""));
        assert!(error("").contains("\"\""));
    }
}
