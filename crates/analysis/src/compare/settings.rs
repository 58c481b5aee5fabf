//! Which settings of two values differ, by their path.

use serde::Serialize;
use serde_json::Value;
use tare_plan::units::format_duration_ns;

/// Differences that are listed.
const SHOWN: usize = 4;

/// Longest text of a value, in characters.
const VALUE_CHARS: usize = 40;

/// The differing settings of two values, such as `concurrency: 1 before, 2 after`, except those at
/// and below the paths `ignored`; empty without a difference. A path that ends in `[` stands for
/// the items of a list, and not for their number.
pub(super) fn differences<T: Serialize>(before: &T, after: &T, ignored: &[&str]) -> Vec<String> {
    // A value of a plan is always JSON: plans are stored as such.
    let json = |value: &T| serde_json::to_value(value).unwrap_or_default();
    let mut found = Vec::new();
    compare(String::new(), &json(before), &json(after), &mut found);
    let is_ignored = |path: &str| {
        ignored.iter().any(|above| {
            let below = path.strip_prefix(above);
            let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
            below.is_some_and(|rest| above.ends_with('[') || ends(rest))
        })
    };
    found.retain(|(path, _)| !is_ignored(path));
    found.into_iter().map(|(_, words)| words).collect()
}

/// The first of several differences as text, with the number of the others.
pub(super) fn listed(all: &[String]) -> String {
    let mut shown = all[..all.len().min(SHOWN)].join("; ");
    if all.len() > SHOWN {
        shown += &format!("; and {} more", all.len() - SHOWN);
    }
    shown
}

fn compare(path: String, before: &Value, after: &Value, found: &mut Vec<(String, String)>) {
    let below = |name: &str| match path.as_str() {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match (before, after) {
        (b, a) if b == a => {}
        (Value::Object(b), Value::Object(a)) => {
            let more = a.keys().filter(|key| !b.contains_key(*key));
            for key in b.keys().chain(more) {
                let [b, a] = [b, a].map(|o| o.get(key).unwrap_or(&Value::Null));
                compare(below(key), b, a, found);
            }
        }
        (Value::Array(b), Value::Array(a)) if b.len() == a.len() => {
            for (i, (b, a)) in b.iter().zip(a).enumerate() {
                let name = b.get("name").filter(|name| Some(*name) == a.get("name"));
                let name = name.and_then(Value::as_str);
                let item = name.map_or((i + 1).to_string(), str::to_owned);
                compare(format!("{path}[{item}]"), b, a, found);
            }
        }
        (b, a) => {
            let [b, a] = [b, a].map(|value| words(&path, value));
            let name = path.trim_end_matches("_ns");
            found.push((path.clone(), format!("{name}: {b} before, {a} after")));
        }
    }
}

fn words(path: &str, value: &Value) -> String {
    let text = match value {
        Value::Null => "absent".to_owned(),
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.len() == 1 => "1 item".to_owned(),
        Value::Array(items) => format!("{} items", items.len()),
        Value::Object(_) => "present".to_owned(),
        value => match value.as_u64().filter(|_| path.ends_with("_ns")) {
            Some(ns) => format_duration_ns(ns),
            None => value.to_string(),
        },
    };
    match text.chars().count() > VALUE_CHARS {
        true => text.chars().take(VALUE_CHARS - 1).chain(['…']).collect(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_setting_that_differs_is_named_with_its_values() {
        let value = |concurrency: u32, timeout_ns: u64, replicas: &[u32]| {
            let services = replicas.iter().enumerate();
            let services: Vec<Value> = services
                .map(|(i, n)| json!({"name": format!("s{i}"), "replicas": n}))
                .collect();
            json!({"settings": {"concurrency": concurrency}, "timeout_ns": timeout_ns, "services": services})
        };
        let of = |b: Value, a: Value| differences(&b, &a, &[]);
        assert!(of(value(1, 5, &[1]), value(1, 5, &[1])).is_empty());
        assert_eq!(
            of(value(1, 1_000_000, &[1, 1]), value(2, 2_000_000, &[1, 3])),
            [
                "services[s1].replicas: 1 before, 3 after",
                "settings.concurrency: 1 before, 2 after",
                "timeout: 1.00 ms before, 2.00 ms after",
            ]
        );
        assert_eq!(
            of(json!({"a": [1]}), json!({"a": [1, 2], "b": {"c": 1}})),
            [
                "a: 1 item before, 2 items after",
                "b: absent before, present after"
            ]
        );
    }

    #[test]
    fn settings_at_and_below_a_path_can_be_ignored() {
        let value = |n: u32| json!({"a": n, "b": {"c": n}, "bc": n, "d": [n, 0], "e": [n]});
        let of = |ignored: &[&str]| differences(&value(1), &value(2), ignored);
        let left = ["bc: 1 before, 2 after"];
        assert_eq!(of(&["a", "b", "d", "e"]), left);
        assert_eq!(of(&["a", "b.c", "d[1]", "e["]), left);
        assert_eq!(of(&["a", "b", "bc", "d"]), ["e[1]: 1 before, 2 after"]);
        // The number of items is not an item.
        let found = differences(&json!({"a": [1]}), &json!({"a": [1, 2]}), &["a["]);
        assert_eq!(found, ["a: 1 item before, 2 items after"]);
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let all: Vec<String> = (0..6).map(|n| n.to_string()).collect();
        assert_eq!(listed(&all), "0; 1; 2; 3; and 2 more");
        assert_eq!(listed(&all[..1]), "0");
    }
}
