//! The cause of an error.

use std::error::Error;

/// The message of the innermost cause of `error`. The outer errors of network libraries only
/// state that something failed.
#[must_use]
pub fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_cause_is_found() {
        let inner = std::io::Error::other("refused");
        let outer = std::io::Error::other(std::io::Error::other(inner));
        assert_eq!(innermost(&outer), "refused");
    }
}
