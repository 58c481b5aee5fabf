//! Values with probabilities: `1ms:10,5ms:5` is 1 ms in 10 % and 5 ms in 5 % of all
//! cases, and nothing in the rest.

/// Shares above this sum are a mistake; below it they may be rounding.
const SUM_MAX: f64 = 100.000_001;

/// Some values, each with a share of the cases.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice<T> {
    /// Each value with the sum of the shares up to its own, in 0 to 1.
    entries: Vec<(T, f64)>,
}

impl<T> Choice<T> {
    /// Parses `VALUE[:PERCENT],...` with `value` for each VALUE. Values without a
    /// percentage share all cases evenly.
    ///
    /// # Errors
    /// A sentence that says what was found and what was expected.
    pub(crate) fn parse(
        text: &str,
        value: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let bare = parts.iter().filter(|p| !p.contains(':')).count();
        if bare != 0 && bare != parts.len() {
            return Err(format!(
                "found {text:?} with percentages for some values only, expected one for each or for none"
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
            // Else rounding would leave a sliver of nothing.
            *last = 1.0;
        }
        Ok(Self { entries })
    }

    /// The value for `u`, uniform in 0 to 1; `None` for what is left over.
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
    fn shares_are_of_all_cases() {
        let choice = parse("1:10,5:5").unwrap();
        let drawn = |u| choice.at(u).copied();
        assert_eq!([drawn(0.0), drawn(0.0999)], [Some(1), Some(1)]);
        assert_eq!([drawn(0.1), drawn(0.1499)], [Some(5), Some(5)]);
        assert_eq!([drawn(0.1501), drawn(0.9999)], [None, None]);
    }

    #[test]
    fn without_percentages_all_cases_are_shared_evenly() {
        assert_eq!(parse("7").unwrap().at(0.999_999), Some(&7));
        let three = parse("1,2,3").unwrap();
        assert_eq!(three.at(0.34), Some(&2));
        assert_eq!(three.at(0.999_999_999_999), Some(&3));
    }

    #[test]
    fn mistakes_are_named() {
        let said = |text: &str| parse(text).unwrap_err();
        assert!(said("1:60,2:50").contains("add up to 110"));
        assert!(said("1:10,2").contains("some values only"));
        assert!(said("1:x").contains("\"x\""));
        assert!(said("1:-1").contains("from 0 to 100"));
        assert!(said("a:1").contains("\"a\""));
        assert!(said("").contains("\"\""));
    }
}
