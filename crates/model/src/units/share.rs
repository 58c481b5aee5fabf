//! Parsing shares.

use super::UnitError;

const SHARE: &str = "a share with its sign, like `5%` or `0.5 %`";

/// Parses a percentage into a share: `5%` is 0.05. Without the sign it could be either.
///
/// # Errors
/// Anything else, with what was expected.
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let trimmed = text.trim();
    let found = || trimmed.to_owned();
    if trimmed.is_empty() {
        return Err(UnitError::Empty { expected: SHARE });
    }
    if trimmed.starts_with('-') {
        return Err(UnitError::Negative {
            found: found(),
            expected: SHARE,
        });
    }
    let number = trimmed.strip_suffix('%').map_or(trimmed, str::trim_end);
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value = number.parse::<f64>().ok().filter(|_| plain);
    let Some(value) = value else {
        return Err(UnitError::Malformed {
            found: found(),
            expected: SHARE,
        });
    };
    if !trimmed.ends_with('%') {
        return Err(UnitError::NoUnit {
            found: found(),
            expected: SHARE,
            suggestion: format!("{number}%"),
        });
    }
    Ok(value / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_their_sign() {
        assert_eq!(parse_share("5%"), Ok(0.05));
        assert_eq!(parse_share(" 0.5 % "), Ok(0.005));
        for wrong in ["", "5", "-5%", "five%", "1e3%", "%", "5%%"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
        let error = parse_share("5").unwrap_err().to_string();
        assert!(error.contains("did you mean `5%`"), "{error}");
    }
}
