//! Reads files and values of options.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use tare_model::units::format_bytes;

/// Largest file or pipe that is read.
const BYTES_MAX: u64 = 1 << 30;
/// Largest input from anything else, because a device such as `/dev/zero` has no end.
const DEVICE_BYTES_MAX: u64 = 64 << 10;

/// Reads a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    open(path).with_context(|| format!("failed to read {}", path.display()))
}

fn open(path: &Path) -> anyhow::Result<Vec<u8>> {
    use std::os::unix::fs::FileTypeExt as _;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let (known, kind) = (metadata.len(), metadata.file_type());
    let limit = match kind.is_file() || kind.is_fifo() || kind.is_socket() {
        true => BYTES_MAX,
        false => DEVICE_BYTES_MAX,
    };
    ensure!(known <= limit, too_large(limit));
    limited(file, limit)
}

/// Reads all of `input`, which must not have more than `limit` bytes.
fn limited(input: impl Read, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(limit + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= limit, too_large(limit));
    Ok(bytes)
}

fn too_large(limit: u64) -> String {
    format!("found more than {}", format_bytes(limit as f64))
}

/// Reads a text file.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    String::from_utf8(read(path)?)
        .with_context(|| format!("failed to read {}: expected UTF-8", path.display()))
}

/// Reads a file, or all of standard input for `-`.
pub(crate) fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str() != "-" {
        return read(path);
    }
    limited(std::io::stdin(), BYTES_MAX).context("failed to read standard input")
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
    fn an_endless_or_too_large_input_is_refused() {
        let error = read_text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "failed to read /dev/zero: found more than 64.0 KiB"
        );
        assert!(read(Path::new("/dev/null")).unwrap().is_empty());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        File::create(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
        let error = format!("{:#}", read_text(&path).unwrap_err());
        assert!(error.ends_with("found more than 1.00 GiB"), "{error}");
        assert_eq!(limited(&b"abc"[..], 3).unwrap(), b"abc");
        assert!(limited(&b"abcd"[..], 3).is_err());
    }

    #[test]
    fn only_the_first_colon_divides_a_header() {
        let expected = ("a".to_owned(), "b:c".to_owned());
        assert_eq!(name_value("a: b:c").unwrap(), expected);
        assert!(name_value("ab").is_err());
    }
}
