//! The graphs that come with tare.

use super::{App, Call, Mix, MixEndpoint, Protocol, Service, ServiceEndpoint, ServiceGraph, Step};

/// One entry of the list of built-in graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Name, `N` standing for a number from 1 to 50.
    pub name: &'static str,
    /// A name that [`builtin`] knows.
    pub example: &'static str,
    /// One line for people.
    pub title: &'static str,
}

/// The built-in graphs.
pub const BUILTINS: [Builtin; 5] = [
    Builtin {
        name: "emojivoto",
        example: "emojivoto",
        title: "web by HTTP, emoji and voting by gRPC: list, vote and leaderboard pages",
    },
    Builtin {
        name: "bookinfo",
        example: "bookinfo",
        title: "productpage calls details and reviews, which calls ratings; all by HTTP",
    },
    Builtin {
        name: "chain-N",
        example: "chain-5",
        title: "N HTTP services, each calling the next: cost per hop",
    },
    Builtin {
        name: "fanout-N",
        example: "fanout-10",
        title: "one HTTP service that calls N others at once: the slowest decides",
    },
    Builtin {
        name: "echo",
        example: "echo",
        title: "one HTTP service that answers 1 KiB at once",
    },
];

/// Largest N of `chain-N` and `fanout-N`.
const N_MAX: u32 = 50;

/// The graph of that name: `emojivoto`, `bookinfo`, `echo`, `chain-5`, `fanout-10`.
/// `None` when there is none, or when N is not a number from 1 to 50.
#[must_use]
pub fn builtin(name: &str) -> Option<ServiceGraph> {
    match name {
        "emojivoto" => Some(emojivoto()),
        "bookinfo" => Some(bookinfo()),
        "echo" => Some(echo()),
        _ => {
            let (kind, n) = name.rsplit_once('-')?;
            if n.starts_with(['0', '+']) {
                return None;
            }
            let n = n.parse().ok().filter(|n| (1..=N_MAX).contains(n))?;
            match kind {
                "chain" => Some(chain(n)),
                "fanout" => Some(fanout(n)),
                _ => None,
            }
        }
    }
}

/// The ten emoji that the load votes for.
const VOTES: [&str; 10] = [
    "joy",
    "sunglasses",
    "ghost",
    "rocket",
    "pizza",
    "tada",
    "fire",
    "cat",
    "rainbow",
    "dog",
];

fn emojivoto() -> ServiceGraph {
    let service = |name: &str, app: App, uses: &[&str]| Service {
        name: name.to_owned(),
        protocol: app.protocol(),
        app: Some(app),
        uses: uses.iter().map(|u| (*u).to_owned()).collect(),
        endpoints: Vec::new(),
    };
    let votes = || VOTES.map(|emoji| get("vote", "web", &format!("/api/vote?choice=:{emoji}:"), 1));
    let mut default = vec![get("list", "web", "/api/list", 10)];
    default.extend(votes());
    default.push(get("leaderboard", "web", "/api/leaderboard", 10));
    let mut kinvolk = vec![get("leaderboard-page", "web", "/leaderboard", 10)];
    kinvolk.extend(votes());
    let grpc = vec![
        get("list", "emoji", "ListAll", 1),
        get("vote", "voting", "VoteJoy", 1),
        get("leaderboard", "voting", "Results", 1),
    ];
    ServiceGraph {
        name: "emojivoto".to_owned(),
        description: "Emojivoto with its real messages. The mix `default` makes the calls that \
            the pages make; `kinvolk-2019` is the load of 2019 to 2021, half of which is a static \
            page that calls nobody; `grpc` asks emoji and voting themselves. voting starts with one vote for each emoji that a mix votes \
            for, so that the leaderboard is as long at the first request as at the last."
            .to_owned(),
        services: vec![
            service("web", App::EmojivotoWeb, &["emoji", "voting"]),
            service("emoji", App::EmojivotoEmoji, &[]),
            service("voting", App::EmojivotoVoting, &[]),
        ],
        mixes: vec![
            mix("default", default),
            mix("kinvolk-2019", kinvolk),
            mix("grpc", grpc),
        ],
    }
}

fn bookinfo() -> ServiceGraph {
    let product = vec![
        step(vec![call("details", "/details/0", 1.0)]),
        step(vec![call("reviews", "/reviews/0", 1.0)]),
    ];
    let pages = ["normal", "test", "guest", "reader", "buyer"].map(|user| {
        get(
            "productpage",
            "productpage",
            &format!("/productpage?u={user}"),
            1,
        )
    });
    let mut default = vec![get("index", "productpage", "/", 15)];
    default.extend(pages);
    ServiceGraph {
        name: "bookinfo".to_owned(),
        description: "Bookinfo's calls and sizes. reviews stands for its three versions, of which \
            two call ratings: two of three requests do. The original burns milliseconds of CPU \
            time per page and ends at about 50 requests per second; this one burns none, so that \
            the mesh is what shows. Set cpu_us to have it back."
            .to_owned(),
        services: vec![
            http(
                "productpage",
                vec![
                    endpoint("/", 1_683, vec![]),
                    endpoint("/productpage", 5_179, product),
                ],
            ),
            http("details", vec![endpoint("/details/0", 178, vec![])]),
            http(
                "reviews",
                vec![endpoint(
                    "/reviews/0",
                    375,
                    vec![step(vec![call("ratings", "/ratings/0", 0.6667)])],
                )],
            ),
            http("ratings", vec![endpoint("/ratings/0", 48, vec![])]),
        ],
        mixes: vec![mix("default", default)],
    }
}

fn chain(n: u32) -> ServiceGraph {
    let service = |i: u32| {
        let next = format!("s{}", i + 1);
        let calls = (i < n).then(|| step(vec![call(&next, "/", 1.0)]));
        let name = format!("s{i}");
        http(
            &name,
            vec![endpoint("/", 1024, calls.into_iter().collect())],
        )
    };
    ServiceGraph {
        name: format!("chain-{n}"),
        description: format!("A chain of {n} HTTP services; each answers 1 KiB."),
        services: (1..=n).map(service).collect(),
        mixes: vec![mix("default", vec![get("chain", "s1", "/", 1)])],
    }
}

fn fanout(n: u32) -> ServiceGraph {
    let leaf = |i: u32| format!("leaf{i}");
    let calls = (1..=n).map(|i| call(&leaf(i), "/", 1.0)).collect();
    let mut services = vec![http("front", vec![endpoint("/", 1024, vec![step(calls)])])];
    services.extend((1..=n).map(|i| http(&leaf(i), vec![endpoint("/", 1024, vec![])])));
    ServiceGraph {
        name: format!("fanout-{n}"),
        description: format!("A front that calls {n} HTTP services at once; each answers 1 KiB."),
        services,
        mixes: vec![mix("default", vec![get("fanout", "front", "/", 1)])],
    }
}

fn echo() -> ServiceGraph {
    ServiceGraph {
        name: "echo".to_owned(),
        description: "One HTTP service that answers 1 KiB at once.".to_owned(),
        services: vec![http("echo", vec![endpoint("/", 1024, vec![])])],
        mixes: vec![mix("default", vec![get("echo", "echo", "/", 1)])],
    }
}

fn http(name: &str, endpoints: Vec<ServiceEndpoint>) -> Service {
    Service {
        name: name.to_owned(),
        protocol: Protocol::Http,
        app: None,
        uses: Vec::new(),
        endpoints,
    }
}

fn endpoint(path: &str, response_bytes: u32, calls: Vec<Step>) -> ServiceEndpoint {
    ServiceEndpoint {
        path: path.to_owned(),
        response_bytes,
        cpu_us: 0,
        delay_us: 0,
        error_rate: 0.0,
        calls,
    }
}

fn step(parallel: Vec<Call>) -> Step {
    Step { parallel }
}

fn call(service: &str, path: &str, share: f64) -> Call {
    Call {
        service: service.to_owned(),
        path: path.to_owned(),
        request_bytes: 0,
        times: 1,
        share,
    }
}

fn mix(name: &str, endpoints: Vec<MixEndpoint>) -> Mix {
    Mix {
        name: name.to_owned(),
        endpoints,
    }
}

fn get(name: &str, service: &str, path: &str, weight: u32) -> MixEndpoint {
    MixEndpoint {
        name: name.to_owned(),
        service: service.to_owned(),
        path: path.to_owned(),
        method: "GET".to_owned(),
        request_bytes: 0,
        weight,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn weights(m: &Mix) -> BTreeMap<&str, u32> {
        let mut sums = BTreeMap::new();
        for e in &m.endpoints {
            *sums.entry(e.name.as_str()).or_default() += e.weight;
        }
        sums
    }

    #[test]
    fn every_builtin_is_valid_and_survives_its_json() {
        for b in BUILTINS {
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
            "chain-0", "chain-51", "chain-", "chain", "chain-+5", "chain-05", "tree-3",
        ] {
            assert!(builtin(name).is_none(), "{name}");
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
