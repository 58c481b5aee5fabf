//! Fragments of messages: text from outside made safe to show, quoted text, lists of names, and the valid name
//! nearest to a typo.

/// Longest text that a message quotes, in characters; longer text is cut.
const FRAGMENT_CHARS_MAX: usize = 60;

/// Returns `text` with each character that [is hidden](is_hidden) escaped, such as `\u{1b}`: a name cannot move the
/// cursor, change colours, or hide and reorder other text.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    out
}

/// Whether a terminal acts on this character instead of showing it: a control character, or one that is invisible or
/// reorders text (Unicode's default ignorable and bidirectional formatting characters).
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A short form of `text` for a message, in backquotes.
pub fn quoted(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(FRAGMENT_CHARS_MAX)
        .map(|c| if is_hidden(c) { ' ' } else { c })
        .collect();
    if text.chars().nth(FRAGMENT_CHARS_MAX).is_some() {
        short.push_str("...");
    }
    format!("`{short}`")
}

/// `a`, `b` or `c`.
pub fn one_of<'c>(names: impl IntoIterator<Item = &'c str>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    match names.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// The candidate nearest to `name`, if `name` is likely a typo of it: at most a third of the
/// characters differ, or one contains the other.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let lower: String = name.to_lowercase().chars().take(64).collect();
    if lower.is_empty() {
        return None;
    }
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let other = candidate.to_lowercase();
            let distance = strsim::damerau_levenshtein(&lower, &other);
            let longest = lower.chars().count().max(other.chars().count());
            // Two different names of one letter have nothing in common.
            let allowed = (longest / 3).max(1).min(longest - 1);
            let contains = lower.len() >= 3 && (other.contains(&lower) || lower.contains(&other));
            (distance <= allowed || contains).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::{nearest, printable};

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(printable("a\x1b[31mb\r\n"), "a\\u{1b}[31mb\\u{d}\\u{a}");
        assert_eq!(printable("x\u{202e}y\u{9b}"), "x\\u{202e}y\\u{9b}");
        assert_eq!(printable("Größe <b>"), "Größe <b>");
        for c in [
            '\u{34f}',
            '\u{115f}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{e0100}',
            '\u{e01ef}',
        ] {
            assert_eq!(printable(&c.to_string()), c.escape_unicode().to_string());
        }
    }

    #[test]
    fn a_typo_is_recognised_and_an_unrelated_name_is_not() {
        let names = ["duration", "warmup", "rate", "threads"];
        assert_eq!(nearest("duratoin", names), Some("duration"));
        assert_eq!(nearest("Rate", names), Some("rate"));
        assert_eq!(nearest("warm", names), Some("warmup"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("b", ["a"]), None);
    }
}
