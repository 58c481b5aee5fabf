//! HTML under construction. Text from anywhere is escaped; only markup of this crate is raw.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;
use serde_json::{Number, Value};

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

    /// The same for charts: without the parts of these names, which no chart needs, and numbers with a fraction have
    /// [`DIGITS`].
    pub(crate) fn chart_data(
        &mut self,
        id: &str,
        document: &impl Serialize,
        without: &[&str],
    ) -> &mut Self {
        let mut json = serde_json::to_value(document).unwrap_or_default();
        if let Value::Object(map) = &mut json {
            map.retain(|name, _| !without.contains(&name.as_str()));
        }
        round(&mut json);
        self.data(id, &json)
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

/// Significant digits of numbers with a fraction in the data of charts: so many that what is shown, with three, is the same. With
/// all of them a page of 28 meshes would be 100 KiB larger.
const DIGITS: usize = 8;

/// Rounds all numbers with a fraction.
fn round(json: &mut Value) {
    match json {
        Value::Object(map) => map.values_mut().for_each(round),
        Value::Array(list) => list.iter_mut().for_each(round),
        Value::Number(number) if number.is_f64() => {
            let exact = number.as_f64().unwrap_or_default();
            let rounded = format!("{exact:.*e}", DIGITS - 1).parse().ok();
            if let Some(rounded) = rounded.and_then(Number::from_f64) {
                *number = rounded;
            }
        }
        _ => {}
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
    fn numbers_with_a_fraction_are_rounded_and_others_are_exact() {
        let mut json = serde_json::json!({"a": [1.234_567_891_2, 1_234_567_891, -0.000_012_345_678_9, 0.5], "b": "1.234567891"});
        round(&mut json);
        let expected = serde_json::json!({"a": [1.234_567_9, 1_234_567_891, -0.000_012_345_679, 0.5], "b": "1.234567891"});
        assert_eq!(json, expected);
    }

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
