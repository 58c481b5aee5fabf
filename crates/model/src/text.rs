//! Fragments of messages: quoted text, lists of names, and the valid name nearest to a typo.

/// Longest text that a message quotes, in characters; longer text is cut.
const FRAGMENT_CHARS_MAX: usize = 60;

/// A short form of `text` for a message, in backquotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(FRAGMENT_CHARS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(FRAGMENT_CHARS_MAX).is_some() {
        short.push_str("...");
    }
    format!("`{short}`")
}

/// `a`, `b` or `c`.
pub(crate) fn one_of<'c>(names: impl IntoIterator<Item = &'c str>) -> String {
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
            // Of a name of one letter, another letter is no typo.
            let allowed = (longest / 3).max(1).min(longest - 1);
            let contains = lower.len() >= 3 && (other.contains(&lower) || lower.contains(&other));
            (distance <= allowed || contains).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

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
