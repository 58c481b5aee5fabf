//! Encodes fields with the static table only.

use super::integer;
use super::table::STATIC;

/// A field that proxies must not store in a table (RFC 7541, section 7.1.3).
const SECRET: &str = "authorization";

/// Appends a field: an index where the static table has name and value, otherwise a literal
/// without indexing. `name` is in lower case.
pub(in super::super) fn encode_field(out: &mut Vec<u8>, name: &str, value: &str) {
    if let Some(at) = STATIC.iter().position(|&(n, v)| (n, v) == (name, value)) {
        integer::encode(out, 0x80, 7, at + 1);
        return;
    }
    let first = if name == SECRET { 0x10 } else { 0x00 };
    match STATIC.iter().position(|&(n, _)| n == name) {
        Some(at) => integer::encode(out, first, 4, at + 1),
        None => {
            out.push(first);
            string(out, name.as_bytes());
        }
    }
    string(out, value.as_bytes());
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    integer::encode(out, 0, 7, bytes.len());
    out.extend_from_slice(bytes);
}
