//! Text that may come from anywhere, made fit for a terminal.

/// `text` with control characters written out, so that a name cannot move the
/// cursor, change colours or hide what follows it.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control() || is_invisible(c);
            let written: Vec<char> = if escaped {
                c.escape_unicode().collect()
            } else {
                vec![c]
            };
            written
        })
        .collect()
}

/// Marks that reorder or hide text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// `text` in at most `width` characters, cut at its end with an ellipsis.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= width {
        return text;
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// `text` in lines of at most `width` characters, the further ones indented.
pub(crate) fn wrap(text: &str, width: usize, first: &str, further: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in printable(text).split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, further.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_cannot_reach_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\r\n"), "a\\u{1b}[31mb\\u{d}\\u{a}");
        assert_eq!(printable("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(printable("Größe <b>"), "Größe <b>");
    }

    #[test]
    fn fitting_and_wrapping_keep_to_the_width() {
        assert_eq!(fit("envoy/mtls", 20), "envoy/mtls");
        assert_eq!(fit("envoy/mtls", 6), "envoy…");
        let lines = wrap("one two three four", 10, "- ", "  ");
        assert_eq!(lines, ["- one two", "  three", "  four"]);
    }
}
