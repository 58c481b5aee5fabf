//! Data in the page that is too long to stand there as text: JSON, compressed (zlib)
//! and in base64. A browser undoes both without help.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;

use crate::page::html::Html;

/// A block of data that the script finds by its `id`. Base64 holds nothing that
/// could end the element.
pub(crate) fn block(page: &mut Html, id: &str, base64: &str) {
    page.raw(&format!(
        "<script type=\"application/octet-stream\" id=\"{id}\">"
    ));
    page.raw(base64).raw("</script>\n");
}

/// A document as [`block`] takes it.
pub(crate) fn packed(document: &impl Serialize) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let bytes = serde_json::to_vec(document)
        .ok()
        .and_then(|json| encoder.write_all(&json).ok())
        .and_then(|()| encoder.finish().ok());
    // Writing to memory does not fail; a page without the data says what it lacks.
    STANDARD.encode(bytes.unwrap_or_default())
}
