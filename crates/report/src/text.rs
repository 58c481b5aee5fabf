//! Makes text from anywhere safe for a terminal.

/// Returns `text` with control characters escaped, so that a name cannot move the cursor, change
/// colours or hide other text.
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

/// Returns whether the character reorders or hides text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns `text` in at most `width` characters; an ellipsis ends a shortened text.
pub(crate) fn fit(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= width {
        return text;
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Splits `text` into lines of at most `width` characters; `first` and `further` begin the lines.
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
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\x1b[31mb\r\n"), "a\\u{1b}[31mb\\u{d}\\u{a}");
        assert_eq!(printable("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(printable("Größe <b>"), "Größe <b>");
    }

    #[test]
    fn text_is_shortened_and_wrapped_to_the_width() {
        assert_eq!(fit("envoy/mtls", 20), "envoy/mtls");
        assert_eq!(fit("envoy/mtls", 6), "envoy…");
        let lines = wrap("one two three four", 10, "- ", "  ");
        assert_eq!(lines, ["- one two", "  three", "  four"]);
    }
}
