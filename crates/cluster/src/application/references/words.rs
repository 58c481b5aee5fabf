//! References in a text: the forms in which a namespace is named beside its Service, its identity, or the word for it.

use super::{Names, in_name};

/// Characters between the word "namespace" and a name: `--namespace=shop`, `"namespace": "shop"`, `namespaces: [a, b]`.
const SEPARATORS: &[char] = &[
    ' ', '\t', '\n', '\r', '"', '\'', '\\', '=', ':', '!', ',', '[', '(', '-',
];

/// What a namespace in a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// A reference to the namespace.
    Reference,
    /// Another word that is spelled alike.
    Word,
    /// A Service in the namespace that is not one of the objects.
    ForeignService,
}

/// A text with its references replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) text: String,
    /// The first reference that is not replaced, because its Service is unknown: `db.shop.svc`.
    pub(super) foreign: Option<String>,
}

/// Replaces the namespaces of all references in a text by `to`.
pub(super) fn replace(names: &Names, text: &str, to: &str) -> Replaced {
    replace_in(names, text, to, false)
}

/// Replaces the namespaces of all references in the name of a field by `to`.
pub(super) fn replace_in_key(names: &Names, key: &str, to: &str) -> String {
    replace_in(names, key, to, true).text
}

fn replace_in(names: &Names, text: &str, to: &str, is_key: bool) -> Replaced {
    let (mut out, mut foreign) = (String::new(), None);
    let mut done = 0;
    for (start, end) in words(names, text) {
        let (before, after) = (&text[..start], &text[end..]);
        match meaning(names, before, &text[start..end], after, is_key) {
            Meaning::Reference => {
                out += &text[done..start];
                out += to;
                done = end;
            }
            Meaning::Word => {}
            Meaning::ForeignService => {
                let host = before.rfind(|c| !in_name(c) && c != '.');
                let from = host.map_or(0, |at| at + char_len(before, at));
                foreign.get_or_insert_with(|| text[from..end].to_owned());
            }
        }
    }
    out += &text[done..];
    Replaced { text: out, foreign }
}

/// The places of a text at which a namespace stands as a whole word, in order.
pub(super) fn words(names: &Names, text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(length) = text[from..].find(in_name) {
        let start = from + length;
        let rest = &text[start..];
        let end = start + rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        if names.namespaces.contains(&text[start..end]) {
            found.push((start, end));
        }
        from = end;
    }
    found
}

fn meaning(names: &Names, before: &str, namespace: &str, after: &str, is_key: bool) -> Meaning {
    // A host in a regular expression has `\.` in place of each dot.
    let label = ["\\.", "."].iter().find_map(|dot| before.strip_suffix(dot));
    if after.starts_with(".serviceaccount.") || after.starts_with("\\.serviceaccount") {
        return Meaning::Reference;
    }
    let of_cluster = continues(after, "svc") || continues(after, "pod");
    if let Some(above) = label {
        let start = above.rfind(|c| !in_name(c) && c != '*');
        let label = &above[start.map_or(0, |at| at + char_len(above, at))..];
        let is_own = names.services.contains(label);
        // `cache.default` may be the name of a setting. A namespace that the objects name is clear.
        let is_host = || {
            names.unnamed.as_deref() != Some(namespace) || is_place_of_host(before, after, is_key)
        };
        return match of_cluster {
            true if is_own || label == "*" || continues(after, "pod") => Meaning::Reference,
            // The Service of the API server.
            true if label == "kubernetes" && namespace == "default" => Meaning::Word,
            true => Meaning::ForeignService,
            false if is_own && !goes_on(after) && is_host() => Meaning::Reference,
            false => Meaning::Word,
        };
    }
    if of_cluster || is_named(names, before, after) {
        return Meaning::Reference;
    }
    Meaning::Word
}

/// Whether a name that ends between these texts is in a place for a host: the whole text, if it is
/// not the name of a field, after `//` or `@`, or before a port.
fn is_place_of_host(before: &str, after: &str, is_key: bool) -> bool {
    let above = before.trim_end_matches(|c| in_name(c) || matches!(c, '.' | '\\' | '*'));
    let is_whole = above.trim().is_empty() && after.trim().is_empty();
    let port = after.strip_prefix(':').unwrap_or_default();
    (is_whole && !is_key)
        || above.ends_with("//")
        || above.ends_with('@')
        || port.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether the text before or after a namespace names it as one: in an identity, a path of the API, or an option.
fn is_named(names: &Names, before: &str, after: &str) -> bool {
    // A pattern covers more than the namespace.
    if goes_on(after) || after.starts_with('*') {
        return false;
    }
    let is_after = |prefix: &str| {
        let above = before.strip_suffix(prefix);
        above.is_some_and(|above| !above.ends_with(in_name))
    };
    if is_after("ns/")
        || is_after("system:serviceaccounts:")
        || (is_after("system:serviceaccount:") && after.starts_with(':'))
        || before.ends_with("/api/v1/namespaces/")
        || (before.ends_with("/namespaces/") && before.contains("/apis/"))
    {
        return true;
    }
    let option = before.trim_end_matches([' ', '\t', '=', '"', '\'']);
    let is_option = option.len() < before.len() && option.strip_suffix("-n").is_some();
    if is_option && !option[..option.len() - 2].ends_with(|c| in_name(c) || c == '-') {
        return true;
    }
    is_listed(names, before)
}

/// Whether a text ends with the word "namespace" and a separator, or with this and other namespaces.
fn is_listed(names: &Names, before: &str) -> bool {
    let mut rest = before;
    loop {
        let trimmed = rest.trim_end_matches(SEPARATORS);
        if trimmed.len() == rest.len() {
            return false;
        }
        let start = trimmed.rfind(|c| !in_name(c));
        let word = &trimmed[start.map_or(0, |at| at + char_len(trimmed, at))..];
        let lower = word.to_ascii_lowercase();
        if lower.ends_with("namespace") || lower.ends_with("namespaces") {
            return true;
        }
        if !names.namespaces.contains(word) {
            return false;
        }
        rest = &trimmed[..trimmed.len() - word.len()];
    }
}

/// Whether a host continues with this label: `.svc`, `.svc.cluster.local`, but not `.svcx`.
fn continues(after: &str, label: &str) -> bool {
    let rest = after
        .strip_prefix("\\.")
        .or_else(|| after.strip_prefix('.'));
    let rest = rest.and_then(|rest| rest.strip_prefix(label));
    rest.is_some_and(|rest| !rest.starts_with(in_name))
}

/// Whether a host continues with another label: `web.shop.com` is not the Service `web`.
fn goes_on(after: &str) -> bool {
    let rest = after
        .strip_prefix("\\.")
        .or_else(|| after.strip_prefix('.'));
    rest.is_some_and(|rest| rest.starts_with(in_name))
}

/// Length of the character at `index`.
fn char_len(text: &str, index: usize) -> usize {
    text[index..].chars().next().map_or(1, char::len_utf8)
}
