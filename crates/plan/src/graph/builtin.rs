//! Built-in graphs: the files of `graphs/`, and chains, fan-outs and generated graphs of any size.

use serde_json::{Value, json};

use super::generate::{Generate, SERVICES_MAX};
use super::service_graph::ServiceGraph;
use crate::builtin_files::{GRAPHS, stem};
use crate::source::yaml_to_json;

/// One entry of the list of built-in graphs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltinGraph {
    /// Name; `N` stands for a number from 1 to 50, or to 200 in `generated-N`.
    pub name: &'static str,
    /// A name that [`builtin`] accepts.
    pub example: &'static str,
    /// Title on one line.
    pub title: String,
}

/// The built-in graphs: those of files in alphabetical order, then those of any size.
#[must_use]
pub fn builtins() -> Vec<BuiltinGraph> {
    let of_file = |(file, text): &(&'static str, &str)| {
        let description = parse(file, text).map_or_else(String::new, |g| g.description);
        BuiltinGraph {
            name: stem(file),
            example: stem(file),
            title: first_sentence(&description).to_owned(),
        }
    };
    let of_template = |name, example, title: &str| BuiltinGraph {
        name,
        example,
        title: title.to_owned(),
    };
    let chain = "N HTTP services, each calling the next: cost per hop";
    let fanout = "One HTTP service that calls N others at once: the slowest sets the latency";
    let mut all: Vec<BuiltinGraph> = GRAPHS.iter().map(of_file).collect();
    all.push(of_template("chain-N", "chain-5", chain));
    all.push(of_template("fanout-N", "fanout-10", fanout));
    let generated =
        "N HTTP services (up to 200), whose calls are drawn from a seed: for studies of scaling";
    all.push(of_template("generated-N", "generated-20", generated));
    all
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ")
        .map_or(text, |(first, _)| first)
        .trim_end_matches('.')
}

fn parse(file: &str, text: &str) -> Option<ServiceGraph> {
    serde_json::from_value(yaml_to_json(file, text).ok()?).ok()
}

/// Largest N of `chain-N` and `fanout-N`.
pub(crate) const N_MAX: u32 = 50;

/// Largest N of a template such as `chain`; `None` for an unknown one.
pub(crate) fn n_max(template: &str) -> Option<u32> {
    match template {
        "chain" | "fanout" => Some(N_MAX),
        "generated" => Some(SERVICES_MAX),
        _ => None,
    }
}

/// The graph called `name`: one of `graphs/`, or a template such as `chain-5` or `fanout-10`.
/// `None` for an unknown name, or if N is not a number from 1 to the largest one of the template.
#[must_use]
pub fn builtin(name: &str) -> Option<ServiceGraph> {
    if let Some((file, text)) = GRAPHS.iter().find(|(file, _)| stem(file) == name) {
        return parse(file, text);
    }
    let (kind, n) = name.rsplit_once('-')?;
    if n.starts_with(['0', '+']) {
        return None;
    }
    let max = n_max(kind)?;
    let n = n.parse().ok().filter(|n| (1..=max).contains(n))?;
    let graph = match kind {
        "chain" => chain(n),
        "fanout" => fanout(n),
        _ => return Generate::with_services(n).graph().ok(),
    };
    serde_json::from_value(graph).ok()
}

fn chain(n: u32) -> Value {
    let service = |i: u32| {
        let next = json!({"service": format!("s{}", i + 1), "path": "/"});
        http(&format!("s{i}"), (i < n).then_some(next))
    };
    json!({
        "name": format!("chain-{n}"),
        "description": format!("A chain of {n} HTTP services; each answers with 1 KiB."),
        "services": (1..=n).map(service).collect::<Vec<_>>(),
        "mixes": [mix("chain", "s1")],
    })
}

fn fanout(n: u32) -> Value {
    let leaves: Vec<String> = (1..=n).map(|i| format!("leaf{i}")).collect();
    let call = |leaf: &String| json!({"service": leaf, "path": "/"});
    let calls = json!({"parallel": leaves.iter().map(call).collect::<Vec<_>>()});
    let mut services = vec![http("front", Some(calls))];
    services.extend(leaves.iter().map(|leaf| http(leaf, None)));
    json!({
        "name": format!("fanout-{n}"),
        "description": format!("A front end that calls {n} HTTP services at once; each answers with 1 KiB."),
        "services": services,
        "mixes": [mix("fanout", "front")],
    })
}

fn http(name: &str, step: Option<Value>) -> Value {
    let endpoint = json!({"path": "/", "response_bytes": 1024, "calls": Vec::from_iter(step)});
    json!({"name": name, "protocol": "http", "endpoints": [endpoint]})
}

fn mix(name: &str, service: &str) -> Value {
    let endpoint = json!({"name": name, "service": service, "path": "/"});
    json!({"name": "default", "endpoints": [endpoint]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Mix;
    use std::collections::BTreeMap;

    fn weights(m: &Mix) -> BTreeMap<&str, u32> {
        let mut sums = BTreeMap::new();
        for e in &m.endpoints {
            *sums.entry(e.name.as_str()).or_default() += e.weight;
        }
        sums
    }

    #[test]
    fn every_builtin_is_valid_and_round_trips_through_json() {
        for b in builtins() {
            let graph = builtin(b.example).unwrap();
            assert_eq!(graph.name, b.example);
            assert_eq!(graph.validate(), Ok(()), "{}", b.name);
            let json = serde_json::to_string(&graph).unwrap();
            assert_eq!(serde_json::from_str::<ServiceGraph>(&json).unwrap(), graph);
        }
    }

    #[test]
    fn n_is_a_number_from_1_to_50() {
        for n in [1, 2, 50] {
            let graph = builtin(&format!("chain-{n}")).unwrap();
            assert_eq!((graph.services.len(), graph.validate()), (n, Ok(())));
            let graph = builtin(&format!("fanout-{n}")).unwrap();
            assert_eq!((graph.services.len(), graph.validate()), (n + 1, Ok(())));
        }
        for name in [
            "chain-0",
            "chain-51",
            "generated-0",
            "generated-201",
            "chain-",
            "chain",
            "chain-+5",
            "chain-05",
            "tree-3",
        ] {
            assert!(builtin(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_generated_graph_of_every_size_is_built_in() {
        for n in 1..=200 {
            let graph = builtin(&format!("generated-{n}")).unwrap();
            assert_eq!((graph.services.len(), graph.validate()), (n, Ok(())));
        }
    }

    #[test]
    fn emojivoto_weighs_its_pages_as_documented() {
        let graph = builtin("emojivoto").unwrap();
        let default = graph.mix("default").unwrap();
        let expected = BTreeMap::from([("leaderboard", 10), ("list", 10), ("vote", 10)]);
        assert_eq!(weights(default), expected);
        let old = graph.mix("kinvolk-2019").unwrap();
        assert_eq!(
            weights(old),
            BTreeMap::from([("leaderboard-page", 10), ("vote", 10)])
        );
        assert!(
            !default
                .endpoints
                .iter()
                .any(|e| e.path.contains("doughnut"))
        );
    }

    #[test]
    fn bookinfo_loads_15_to_5() {
        let graph = builtin("bookinfo").unwrap();
        let expected = BTreeMap::from([("index", 15), ("productpage", 5)]);
        assert_eq!(weights(graph.mix("default").unwrap()), expected);
        assert_eq!(graph.callees("productpage"), ["details", "reviews"]);
    }
}
