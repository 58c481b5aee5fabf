//! The static and the dynamic table. Source: RFC 7541, section 2.3 and appendix A.

use std::collections::VecDeque;

use super::field::FieldKind;
use super::{ENTRY_OVERHEAD_BYTES, TABLE_BYTES_MAX};

/// The static table; its first entry has index 1.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Maximum number of evicted entries whose memory is kept for new ones.
const SPARE_MAX: usize = 16;

#[derive(Debug)]
struct Entry {
    kind: FieldKind,
    /// Name, then value.
    bytes: Vec<u8>,
    name_len: usize,
}

/// The field of an index.
pub(super) struct Field<'a> {
    pub(super) kind: FieldKind,
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
}

/// The dynamic table, which the peer's encoder fills.
#[derive(Debug)]
pub(super) struct Table {
    /// Newest first.
    entries: VecDeque<Entry>,
    spare: Vec<Vec<u8>>,
    size: usize,
    limit: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            spare: Vec::new(),
            size: 0,
            limit: TABLE_BYTES_MAX,
        }
    }
}

impl Table {
    /// The field at `index`, counted from 1 with the static table first.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<Field<'_>> {
        if let Some(&(name, value)) = STATIC.get(index.wrapping_sub(1)) {
            let kind = match index {
                8..=14 => FieldKind::Status,
                _ => FieldKind::of(name.as_bytes(), value.as_bytes()),
            };
            return Some(Field {
                kind,
                name: name.as_bytes(),
                value: value.as_bytes(),
            });
        }
        let entry = self.entries.get(index.checked_sub(STATIC.len() + 1)?)?;
        let (name, value) = entry.bytes.split_at(entry.name_len);
        Some(Field {
            kind: entry.kind,
            name,
            value,
        })
    }

    /// Adds an entry. An entry larger than the table empties it.
    pub(super) fn insert(&mut self, kind: FieldKind, field: &[u8], name_len: usize) {
        let size = field.len() + ENTRY_OVERHEAD_BYTES;
        self.shrink_to(self.limit.saturating_sub(size));
        if size > self.limit {
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(field);
        self.size += size;
        self.entries.push_front(Entry {
            kind,
            bytes,
            name_len,
        });
    }

    /// Sets the size limit, as the peer's encoder requests.
    pub(super) fn resize(&mut self, limit: usize) {
        self.limit = limit;
        self.shrink_to(limit);
    }

    fn shrink_to(&mut self, size: usize) {
        while self.size > size {
            let Some(mut old) = self.entries.pop_back() else {
                return;
            };
            self.size -= old.bytes.len() + ENTRY_OVERHEAD_BYTES;
            if self.spare.len() < SPARE_MAX {
                old.bytes.clear();
                self.spare.push(old.bytes);
            }
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }
}
