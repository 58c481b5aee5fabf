//! Reads files and values of options.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;

/// Reads a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Reads a text file.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Reads a file, or all of standard input for `-`.
pub(crate) fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Parses a header or metadata.
pub(crate) fn name_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("found no colon, expected `name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Parses one of the names that a type has in documents.
pub(crate) fn one_of<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).try_map(|name| serde_json::from_value(name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_colon_divides_a_header() {
        let expected = ("a".to_owned(), "b:c".to_owned());
        assert_eq!(name_value("a: b:c").unwrap(), expected);
        assert!(name_value("ab").is_err());
    }
}
