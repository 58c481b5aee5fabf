//! The queries of requests to the simulated API server.

use serde_json::Value;

/// Whether a label selector selects an object.
pub(crate) fn selected(object: &Value, selector: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    selector.split(',').filter(|s| !s.is_empty()).all(|term| {
        if let Some((key, value)) = term.split_once("!=") {
            labels[key] != value
        } else if let Some((key, value)) = term.split_once('=') {
            labels[key] == value
        } else if let Some(key) = term.strip_prefix('!') {
            labels[key].is_null()
        } else {
            !labels[term].is_null()
        }
    })
}

/// Returns a part of a query without its percent-encoding.
pub(crate) fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let hex: Vec<u8> = bytes.by_ref().take(2).collect();
            out.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).unwrap()
}
