//! What a proxy says of its own configuration, on its way through a stream of records:
//! redacted, packed and cut into lines by the generator, put together, unpacked and
//! redacted again by whoever keeps it. Bounded on both sides.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tare_model::record::{LoadRecord, ProxyConfigPart};

use crate::config::redact::{is_private_key, redact};

/// Longest document, in bytes of JSON.
pub const BYTES_MAX: usize = 16 << 20;
/// Most base64 of all documents of one worker: container runtimes cut logs at 10 MiB.
const BASE64_BYTES_MAX: usize = 3 << 20;
/// Most base64 in one record.
const PART_BYTES_MAX: usize = 48 << 10;
/// In words, where that is what was too much.
const PACKED: &str = " when packed, all documents together";
/// So long after its load a worker asks: the window's last samples are read meanwhile, and
/// are to be of the load alone.
pub const ASKS_AFTER: Duration = Duration::from_millis(500);
/// Longest wait for all documents: whoever reads the records waits for the last one meanwhile.
pub const ASKS_WITHIN: Duration = Duration::from_secs(3);

/// Why a document is not to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyConfigError {
    /// It is not kept.
    #[error("found more than {limit} bytes{packed}: too much to keep")]
    Large {
        /// The limit.
        limit: usize,
        /// ` when packed, all documents together`, or nothing.
        packed: &'static str,
    },
    /// It is no document.
    #[error("found no JSON: {0}")]
    Json(String),
    /// A private key is where none can be redacted.
    #[error("a private key is in the name of a field")]
    Secret,
    /// A record does not follow the one before it.
    #[error("found part {found} of {parts}, expected part {expected}")]
    Part {
        /// In the record.
        found: u32,
        /// In the record.
        parts: u32,
        /// What would have followed.
        expected: u32,
    },
    /// The parts are damaged.
    #[error("its parts cannot be unpacked: {0}")]
    Packed(String),
    /// Some of the parts did not come.
    #[error("its records end after {0} parts")]
    Cut(u32),
    /// The generator had none, in its own words.
    #[error("{0}")]
    Missing(String),
}

/// The document for people, a field a line and without secrets ([`crate::config::redact`]).
///
/// # Errors
/// When it is no JSON, or longer than [`BYTES_MAX`].
pub fn document(json: &[u8]) -> Result<String, ProxyConfigError> {
    let text = format!("{:#}\n", redacted(json)?);
    if is_private_key(&text) {
        return Err(ProxyConfigError::Secret);
    }
    Ok(text)
}

fn redacted(json: &[u8]) -> Result<Value, ProxyConfigError> {
    if json.len() > BYTES_MAX {
        return Err(large(BYTES_MAX, ""));
    }
    let read = serde_json::from_slice(json);
    let mut value: Value = read.map_err(|e| ProxyConfigError::Json(e.to_string()))?;
    redact(&mut value);
    Ok(value)
}

fn large(limit: usize, packed: &'static str) -> ProxyConfigError {
    ProxyConfigError::Large { limit, packed }
}

/// Makes records of a worker's documents, as long as they are together no larger than its log
/// may become.
#[derive(Debug)]
pub struct Packer {
    left_bytes: usize,
}

impl Default for Packer {
    fn default() -> Self {
        Self {
            left_bytes: BASE64_BYTES_MAX,
        }
    }
}

impl Packer {
    /// The records of the next document: its parts, or why there are none.
    #[must_use]
    pub fn records(&mut self, name: &str, json: &[u8]) -> Vec<LoadRecord> {
        let packed = match pack(json).and_then(|packed| self.take(packed)) {
            Ok(packed) => packed,
            Err(error) => return vec![missing(name, error.to_string())],
        };
        let parts = packed.len().div_ceil(PART_BYTES_MAX) as u32;
        let part = |(part, text): (usize, &[u8])| {
            LoadRecord::ProxyConfig(ProxyConfigPart {
                name: name.to_owned(),
                part: part as u32,
                parts,
                zlib_base64: String::from_utf8_lossy(text).into_owned(),
            })
        };
        let texts = packed.as_bytes().chunks(PART_BYTES_MAX);
        texts.enumerate().map(part).collect()
    }

    fn take(&mut self, packed: String) -> Result<String, ProxyConfigError> {
        let left = self.left_bytes.checked_sub(packed.len());
        self.left_bytes = left.ok_or_else(|| large(BASE64_BYTES_MAX, PACKED))?;
        Ok(packed)
    }
}

/// The record of a document that is not to be had.
#[must_use]
pub fn missing(name: &str, found: String) -> LoadRecord {
    LoadRecord::ProxyConfigMissing {
        name: name.to_owned(),
        found,
    }
}

fn pack(json: &[u8]) -> Result<String, ProxyConfigError> {
    let text = redacted(json)?.to_string();
    if is_private_key(&text) {
        return Err(ProxyConfigError::Secret);
    }
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    let packed = zlib
        .write_all(text.as_bytes())
        .and_then(|()| zlib.finish())
        .map_err(|e| ProxyConfigError::Packed(e.to_string()))?;
    Ok(STANDARD.encode(packed))
}

fn unpack(base64: &str) -> Result<String, ProxyConfigError> {
    let damaged = |found: String| ProxyConfigError::Packed(found);
    let packed = STANDARD
        .decode(base64)
        .map_err(|e| damaged(e.to_string()))?;
    let mut json = Vec::new();
    flate2::read::ZlibDecoder::new(packed.as_slice())
        .take(BYTES_MAX as u64 + 1)
        .read_to_end(&mut json)
        .map_err(|e| damaged(e.to_string()))?;
    document(&json)
}

/// Puts together the documents that were asked for; other names are not heard.
#[derive(Debug, Default)]
pub struct ProxyConfigs {
    documents: BTreeMap<String, Result<Parts, ProxyConfigError>>,
    /// Base64 of all documents so far, in bytes.
    had_bytes: usize,
}

#[derive(Debug, Default)]
struct Parts {
    base64: String,
    had: u32,
    parts: Option<u32>,
}

impl Parts {
    fn take(&mut self, part: &ProxyConfigPart) -> Result<(), ProxyConfigError> {
        let parts = *self.parts.get_or_insert(part.parts);
        if part.part != self.had || part.parts != parts || part.part >= parts {
            return Err(ProxyConfigError::Part {
                found: part.part,
                parts: part.parts,
                expected: self.had,
            });
        }
        self.base64 += &part.zlib_base64;
        self.had += 1;
        Ok(())
    }

    fn finish(&self) -> Result<String, ProxyConfigError> {
        if self.parts != Some(self.had) {
            return Err(ProxyConfigError::Cut(self.had));
        }
        unpack(&self.base64)
    }
}

impl ProxyConfigs {
    /// Of documents with these names.
    #[must_use]
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        let none = |name| (name, Ok(Parts::default()));
        Self {
            documents: names.into_iter().map(none).collect(),
            had_bytes: 0,
        }
    }

    /// Takes a part; what is wrong with it is told in the end.
    pub fn take(&mut self, part: &ProxyConfigPart) {
        let Some(Ok(parts)) = self.documents.get_mut(&part.name) else {
            return;
        };
        self.had_bytes += part.zlib_base64.len();
        let taken = match self.had_bytes > BASE64_BYTES_MAX {
            true => Err(large(BASE64_BYTES_MAX, PACKED)),
            false => parts.take(part),
        };
        if let Err(error) = taken {
            self.documents.insert(part.name.clone(), Err(error));
        }
    }

    /// Takes the word that there is none, and why.
    pub fn missing(&mut self, name: &str, found: String) {
        if let Some(document) = self.documents.get_mut(name) {
            *document = Err(ProxyConfigError::Missing(found));
        }
    }

    /// Each document by its name, or why there is none.
    #[must_use]
    pub fn finish(self) -> BTreeMap<String, Result<String, ProxyConfigError>> {
        let finished = |parts: Result<Parts, _>| parts.and_then(|parts| parts.finish());
        let all = self.documents.into_iter();
        all.map(|(name, parts)| (name, finished(parts))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PEM: &str = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n";

    fn records(name: &str, json: &[u8]) -> Vec<LoadRecord> {
        Packer::default().records(name, json)
    }

    /// What comes out of the records of a document, when `change` has been at them.
    fn through(
        json: &[u8],
        change: impl FnOnce(&mut Vec<LoadRecord>),
    ) -> Result<String, ProxyConfigError> {
        let mut records = records("dump", json);
        change(&mut records);
        let mut all = ProxyConfigs::of(["dump".to_owned()]);
        for record in records {
            match record {
                LoadRecord::ProxyConfig(part) => all.take(&part),
                LoadRecord::ProxyConfigMissing { name, found } => all.missing(&name, found),
                other => panic!("{other:?}"),
            }
        }
        all.finish().remove("dump").unwrap()
    }

    /// Nothing of it can be packed.
    fn noise(bytes: usize) -> Value {
        let mut rng = tare_model::rng::Rng::stream(1, 1);
        let hex = |_| format!("{:016x}", rng.next_u64());
        json!({"noise": (0..bytes / 16).map(hex).collect::<String>()})
    }

    #[test]
    fn a_document_comes_through_in_bounded_lines() {
        let document = noise(400_000);
        let text = document.to_string();
        let lines: Vec<String> = records("dump", text.as_bytes())
            .iter()
            .map(|r| serde_json::to_string(r).unwrap())
            .collect();
        assert!(lines.len() > 3, "{}", lines.len());
        assert!(lines.iter().all(|l| l.len() < PART_BYTES_MAX + 200));
        let came = through(text.as_bytes(), |_| {}).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&came).unwrap(), document);
    }

    #[test]
    fn parts_that_are_lost_doubled_or_damaged_are_told() {
        let text = noise(400_000).to_string();
        let of = |change: fn(&mut Vec<LoadRecord>)| through(text.as_bytes(), change).unwrap_err();
        assert!(matches!(of(Vec::clear), ProxyConfigError::Cut(0)));
        let cut = of(|r| r.truncate(2));
        assert!(matches!(cut, ProxyConfigError::Cut(2)), "{cut}");
        let lost = of(|r| drop(r.remove(1)));
        assert!(
            matches!(
                lost,
                ProxyConfigError::Part {
                    found: 2,
                    expected: 1,
                    ..
                }
            ),
            "{lost}"
        );
        let doubled = of(|r| r.push(r[0].clone()));
        assert!(matches!(doubled, ProxyConfigError::Part { found: 0, .. }));
        let damaged = of(|r| {
            if let LoadRecord::ProxyConfig(part) = &mut r[1] {
                part.zlib_base64.replace_range(100..108, "AAAAAAAA");
            }
        });
        assert!(matches!(damaged, ProxyConfigError::Packed(_)), "{damaged}");
    }

    #[test]
    fn what_is_too_large_or_no_document_is_dropped_with_a_word() {
        let large = vec![b' '; BYTES_MAX + 1];
        let found = through(&large, |_| {}).unwrap_err().to_string();
        assert!(found.contains("16777216 bytes"), "{found}");
        let text = noise(9 << 20).to_string();
        let found = through(text.as_bytes(), |_| {}).unwrap_err().to_string();
        assert!(found.contains("when packed"), "{found}");
        let found = through(b"no healthy upstream", |_| {}).unwrap_err();
        assert!(found.to_string().contains("no JSON"), "{found}");
        let bomb = STANDARD.encode({
            let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            zlib.write_all(&large).unwrap();
            zlib.finish().unwrap()
        });
        assert_eq!(unpack(&bomb), Err(super::large(BYTES_MAX, "")));
    }

    /// Each of them alone is small enough.
    #[test]
    fn all_documents_together_are_no_larger_than_a_log_may_be() {
        let text = noise(3 << 20).to_string();
        let of = |packer: &mut Packer, name: &str| {
            let records = packer.records(name, text.as_bytes());
            let (mut parts, mut found) = (Vec::new(), Vec::new());
            for record in records {
                match record {
                    LoadRecord::ProxyConfig(part) => parts.push(part),
                    LoadRecord::ProxyConfigMissing { found: why, .. } => found.push(why),
                    other => panic!("{other:?}"),
                }
            }
            (parts, found)
        };
        let mut packer = Packer::default();
        assert!(of(&mut packer, "first").1.is_empty());
        let why = of(&mut packer, "second").1.remove(0);
        assert!(why.contains("all documents together"), "{why}");
        assert_eq!(packer.records("third", b"{}").len(), 1);

        // Whoever reads does not trust a worker to have done so.
        let mut all = ProxyConfigs::of(["first".to_owned(), "second".to_owned()]);
        for name in ["first", "second"] {
            let (parts, _) = of(&mut Packer::default(), name);
            parts.iter().for_each(|part| all.take(part));
        }
        let all = all.finish();
        assert!(all["first"].is_ok());
        assert_eq!(all["second"], Err(super::large(BASE64_BYTES_MAX, PACKED)));
    }

    #[test]
    fn names_that_nobody_asked_for_are_not_heard() {
        let mut all = ProxyConfigs::of(["dump".to_owned()]);
        for record in records("../../other", b"{}") {
            if let LoadRecord::ProxyConfig(part) = record {
                all.take(&part);
            }
        }
        all.missing("more", "gone".to_owned());
        let names: Vec<String> = all.finish().into_keys().collect();
        assert_eq!(names, ["dump"]);
    }

    #[test]
    fn a_private_key_that_cannot_be_redacted_keeps_the_document_out() {
        let hidden = json!({PEM: 1}).to_string();
        assert_eq!(pack(hidden.as_bytes()), Err(ProxyConfigError::Secret));
    }

    #[test]
    fn secrets_are_out_before_the_first_line_is_written() {
        let document = json!({"private_key": {"inline_string": PEM}}).to_string();
        let packed = pack(document.as_bytes()).unwrap();
        let packed = STANDARD.decode(packed).unwrap();
        let mut text = String::new();
        flate2::read::ZlibDecoder::new(packed.as_slice())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, r#"{"private_key":{"inline_string":"[redacted]"}}"#);
    }
}
