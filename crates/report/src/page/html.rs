//! HTML under construction. Text from anywhere is escaped; only markup of this crate is raw.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;

/// HTML under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Html(pub(crate) String);

impl Html {
    /// Appends markup of this crate.
    pub(crate) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends text, escaped.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&escape(text));
        self
    }

    /// Appends `<tag>text</tag>`, the text escaped. `open` is the name and the attributes.
    pub(crate) fn tag(&mut self, open: &str, text: &str) -> &mut Self {
        let name = open.split(' ').next().unwrap_or(open);
        self.raw("<")
            .raw(open)
            .raw(">")
            .text(text)
            .raw("</")
            .raw(name)
            .raw(">")
    }

    /// Appends data that the script finds by its `id`, as JSON.
    pub(crate) fn data(&mut self, id: &str, document: &impl Serialize) -> &mut Self {
        // Without data the page has its tables.
        self.packed(id, &serde_json::to_vec(document).unwrap_or_default())
    }

    /// Appends bytes that a script finds by their `id`: compressed (zlib), in base64, which cannot contain the end of the
    /// element.
    pub(crate) fn packed(&mut self, id: &str, bytes: &[u8]) -> &mut Self {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        let packed = encoder
            .write_all(bytes)
            .and_then(|()| encoder.finish())
            // Writing to memory does not fail.
            .unwrap_or_default();
        self.raw("<script type=\"application/octet-stream\" id=\"")
            .raw(id)
            .raw("\">")
            .raw(&STANDARD.encode(packed))
            .raw("</script>\n")
    }
}

/// Escapes text for element content and for quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(
            escape("<b a=\"'\">&\u{1b}"),
            "&lt;b a=&quot;&#39;&quot;&gt;&amp;\u{fffd}"
        );
    }

    #[test]
    fn a_closing_tag_has_no_attributes() {
        let mut h = Html::default();
        h.tag("td class=\"n\"", "1 < 2");
        assert_eq!(h.0, "<td class=\"n\">1 &lt; 2</td>");
    }
}
