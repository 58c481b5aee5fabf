//! Reads files and values of options.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;

/// Largest file or pipe that is read.
pub(crate) const BYTES_MAX: u64 = 1 << 30;

/// The option with which a worker gets its specification.
#[derive(clap::Args)]
pub(crate) struct SpecFile {
    /// Specification, a JSON file; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
}

impl SpecFile {
    /// Reads the specification. `of` names the worker in messages.
    ///
    /// # Errors
    /// When the file cannot be read, or is not such a specification.
    pub(crate) fn read<T: DeserializeOwned>(&self, of: &str) -> anyhow::Result<T> {
        let json = read_input(&self.spec)?;
        serde_json::from_slice(&json).with_context(|| format!("invalid {of} specification"))
    }
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    tare_files::read(path, BYTES_MAX).with_context(|| failed(path))
}

/// Reads a text file.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    tare_files::read_text(path, BYTES_MAX).with_context(|| failed(path))
}

fn failed(path: &Path) -> String {
    format!("failed to read {}", path.display())
}

/// Reads a file, or all of standard input for `-`.
pub(crate) fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return read(path);
    }
    tare_files::all(std::io::stdin(), BYTES_MAX).context("failed to read standard input")
}

/// The headers or the metadata of one option, or why they are invalid. That is reported only when
/// they are used, because the parser of the command line would repeat the whole option.
#[derive(Debug, Clone)]
pub(crate) struct Headers(Result<Vec<(String, String)>, String>);

impl Headers {
    /// Parses `name: value`, or `@FILE` with one of them on each line: what is on a command line can
    /// be read by every user of this machine.
    pub(crate) fn parse(text: &str) -> Result<Self, Infallible> {
        Ok(Self(match text.strip_prefix('@') {
            Some(path) => in_file(path),
            None => name_value(text).map(|header| vec![header]),
        }))
    }

    /// The headers of all options.
    pub(crate) fn all(options: &[Self]) -> anyhow::Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        for Self(headers) in options {
            match headers {
                Ok(headers) => all.extend_from_slice(headers),
                Err(found) => bail!("invalid header or metadata: {found}"),
            }
        }
        Ok(all)
    }
}

fn in_file(path: &str) -> Result<Vec<(String, String)>, String> {
    let text = read_text(Path::new(path)).map_err(|e| format!("{e:#}"))?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            name_value(line).map_err(|found| format!("{path}: line {}: {found}", i + 1))
        })
        .collect()
}

/// Parses a header or metadata.
fn name_value(text: &str) -> Result<(String, String), String> {
    // The name of a pseudo-header begins with a colon.
    let start = usize::from(text.starts_with(':'));
    let colon = text[start..].find(':').map(|at| start + at);
    let at = colon.ok_or("found no colon, expected `name: value`")?;
    Ok((
        text[..at].trim().to_owned(),
        text[at + 1..].trim().to_owned(),
    ))
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
    fn a_file_that_is_none_is_named() {
        let error = read_text(Path::new("/dev/zero")).unwrap_err();
        let expected = "failed to read /dev/zero: it is a device, not a file";
        assert_eq!(format!("{error:#}"), expected);
    }

    #[test]
    fn headers_can_be_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("headers");
        let option = format!("@{}", path.display());
        std::fs::write(&path, "authorization: Bearer a:b\r\n\nx-key: 7\n").unwrap();
        let all = |texts: &[&str]| {
            let options = texts.iter().map(|text| Headers::parse(text).unwrap());
            Headers::all(&options.collect::<Vec<_>>()).map_err(|e| e.to_string())
        };
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        let expected = vec![
            pair("a", "b"),
            pair("authorization", "Bearer a:b"),
            pair("x-key", "7"),
        ];
        assert_eq!(all(&["a: b", &option]), Ok(expected));
        std::fs::write(&path, "a: b\nsecret\n").unwrap();
        for (text, place) in [
            (option.as_str(), "headers: line 2: "),
            ("secret", "metadata: "),
        ] {
            let error = all(&[text]).unwrap_err();
            let found = format!("{place}found no colon, expected `name: value`");
            assert!(
                error.ends_with(&found) && !error.contains("secret"),
                "{error}"
            );
        }
        assert!(all(&["@/does/not/exist"]).is_err());
    }

    #[test]
    fn only_the_first_colon_divides_a_header() {
        let expected = ("a".to_owned(), "b:c".to_owned());
        assert_eq!(name_value("a: b:c").unwrap(), expected);
        assert!(name_value("ab").is_err());
        let pseudo = (":authority".to_owned(), "x:1".to_owned());
        assert_eq!(name_value(":authority: x:1").unwrap(), pseudo);
        assert!(name_value(":authority").is_err());
    }
}
