//! HTML out of text that may come from anywhere. All text goes through [`escape`]
//! (data through [`crate::page::embed`]); whatever is pushed as [`Html`] was written here.

/// HTML under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Html(pub(crate) String);

impl Html {
    /// Appends markup that was written in this crate.
    pub(crate) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends text, escaped.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push_str(&escape(text));
        self
    }

    /// Appends `<tag>text</tag>`, the text escaped. `open` is a tag's name and attributes.
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
}

/// Text for element content and for quoted attributes.
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
    fn nothing_breaks_out() {
        assert_eq!(
            escape("<b a=\"'\">&\u{1b}"),
            "&lt;b a=&quot;&#39;&quot;&gt;&amp;\u{fffd}"
        );
    }

    #[test]
    fn tags_close_by_their_name() {
        let mut h = Html::default();
        h.tag("td class=\"n\"", "1 < 2");
        assert_eq!(h.0, "<td class=\"n\">1 &lt; 2</td>");
    }
}
