//! Fits text from anywhere into the width of a terminal.

pub(crate) use tare_plan::text::printable;

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
    fn text_is_shortened_and_wrapped_to_the_width() {
        assert_eq!(fit("envoy/mtls", 20), "envoy/mtls");
        assert_eq!(fit("envoy/mtls", 6), "envoy…");
        let lines = wrap("one two three four", 10, "- ", "  ");
        assert_eq!(lines, ["- one two", "  three", "  four"]);
    }
}
