//! How many requests the services of a graph receive for one request of a load.

use std::collections::{BTreeMap, BTreeSet};

use super::service_graph::{App, MixEndpoint, ServiceGraph};

/// Longest chain of calls that is followed. It bounds the recursion for graphs that were not validated.
const DEPTH_MAX: usize = 1_000;

/// Mean numbers of requests by service and endpoint; `None` while or if it is unknown.
type Known<'a> = BTreeMap<(&'a str, &'a str), Option<f64>>;

impl ServiceGraph {
    /// Returns the mean number of requests that all services together receive for one request of the
    /// mix, its own included: 5 for the mix of `chain-5`. `None` if the number is unknown: for an
    /// unknown mix, if an endpoint fails a share of its requests and so makes fewer calls, for a
    /// request that a built-in application rejects, or for an application of the user.
    #[must_use]
    pub fn requests_per_request(&self, mix: &str) -> Option<f64> {
        if self.application.is_some() {
            return None;
        }
        let endpoints = &self.mix(mix)?.endpoints;
        let mut known = Known::new();
        let mut weighted = 0.0;
        for endpoint in endpoints {
            let requests = self.requests(&endpoint.service, &endpoint.path, &mut known, 0)?;
            weighted += f64::from(endpoint.weight) * requests;
        }
        let weights: f64 = endpoints.iter().map(|e| f64::from(e.weight)).sum();
        (weights > 0.0).then(|| weighted / weights)
    }

    /// The requests that services receive for one request to this endpoint.
    fn requests<'a>(
        &'a self,
        service: &'a str,
        path: &'a str,
        known: &mut Known<'a>,
        depth: usize,
    ) -> Option<f64> {
        if let Some(&found) = known.get(&(service, path)) {
            return found;
        }
        // An endpoint that calls itself finds this entry.
        known.insert((service, path), None);
        let found = self.count(service, path, known, depth);
        known.insert((service, path), found);
        found
    }

    fn count<'a>(
        &'a self,
        service: &'a str,
        path: &'a str,
        known: &mut Known<'a>,
        depth: usize,
    ) -> Option<f64> {
        let called = self.service(service)?;
        if let Some(app) = called.app {
            return Some(1.0 + f64::from(self.calls_of(app, path)?));
        }
        let without_query = path.split('?').next()?;
        let mut endpoints = called.endpoints.iter();
        let endpoint = endpoints.find(|e| e.path == without_query)?;
        if endpoint.error_rate > 0.0 || depth > DEPTH_MAX {
            return None;
        }
        let mut requests = 1.0;
        for call in endpoint.calls.iter().flat_map(|step| &step.parallel) {
            let each = self.requests(&call.service, &call.path, known, depth + 1)?;
            requests += f64::from(call.times) * call.share * each;
        }
        Some(requests)
    }

    /// The calls that a built-in application makes for one request. The applications that it calls make
    /// no calls.
    fn calls_of(&self, app: App, path: &str) -> Option<u32> {
        if app != App::EmojivotoWeb {
            return Some(0);
        }
        let (page, query) = path.split_once('?').unwrap_or((path, ""));
        match page {
            "/" | "/leaderboard" => Some(0),
            "/api/list" => Some(1),
            // It finds the emoji, then votes.
            "/api/vote" => vote_method(query).map(|_| 2),
            // It requests the results, then finds each emoji that has votes.
            "/api/leaderboard" => Some(1 + self.emoji_with_votes()?),
            _ => None,
        }
    }

    /// The number of emoji that the mixes vote for: each has votes from the start.
    fn emoji_with_votes(&self) -> Option<u32> {
        let mut methods = BTreeSet::new();
        for endpoint in self.mixes.iter().flat_map(|m| &m.endpoints) {
            if let Some(method) = self.vote(endpoint) {
                methods.insert(method?);
            }
        }
        methods.remove(DOUGHNUT);
        u32::try_from(methods.len()).ok()
    }

    /// The vote method that a request of a mix leads to: `None` if it does not vote, `Some(None)` if
    /// its choice is unknown.
    fn vote(&self, endpoint: &MixEndpoint) -> Option<Option<String>> {
        match self.service(&endpoint.service)?.app? {
            App::EmojivotoWeb => {
                let query = endpoint.path.strip_prefix("/api/vote?")?;
                Some(vote_method(query))
            }
            App::EmojivotoVoting if endpoint.path.starts_with("Vote") => {
                Some(Some(endpoint.path.clone()))
            }
            App::EmojivotoVoting | App::EmojivotoEmoji => None,
        }
    }
}

/// Votes for the doughnut fail, so it never has any.
const DOUGHNUT: &str = "VoteDoughnut";

/// The vote method of a query such as `choice=:joy:`; `None` for one in another form.
fn vote_method(query: &str) -> Option<String> {
    let name = query.strip_prefix("choice=:")?.strip_suffix(':')?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || !name.chars().all(plain) {
        return None;
    }
    let capitalised = name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    Some(format!("Vote{}", capitalised.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::graph::{ServiceGraph, builtin};

    fn graph(front: serde_json::Value) -> ServiceGraph {
        serde_json::from_value(json!({
            "name": "shop",
            "services": [
                {"name": "front", "protocol": "http", "endpoints": [front]},
                {"name": "stock", "protocol": "http", "endpoints": [
                    {"path": "/", "calls": [{"service": "users", "path": "Get"}]}]},
                {"name": "users", "protocol": "grpc", "endpoints": [{"path": "Get"}]},
            ],
            "mixes": [{"name": "default", "endpoints": [
                {"name": "home", "service": "front", "path": "/?page=1"},
                {"name": "user", "service": "users", "path": "Get", "weight": 3},
            ]}],
        }))
        .unwrap()
    }

    #[test]
    fn requests_of_a_mix_are_counted_along_its_calls() {
        let of = |name: &str| builtin(name).unwrap().requests_per_request("default");
        assert_eq!(of("chain-1"), Some(1.0));
        assert_eq!(of("chain-5"), Some(5.0));
        assert_eq!(of("fanout-10"), Some(11.0));
        assert_eq!(builtin("chain-5").unwrap().requests_per_request("x"), None);
        // 2 of front's requests reach stock and users, half of them one more time users.
        let calls = json!([{"service": "stock", "path": "/", "times": 2},
            {"parallel": [{"service": "users", "path": "Get", "share": 0.5}]}]);
        let shop = graph(json!({"path": "/", "calls": calls}));
        let home = 1.0 + 2.0 * 2.0 + 0.5;
        assert_eq!(
            shop.requests_per_request("default"),
            Some((home + 3.0) / 4.0)
        );
    }

    #[test]
    fn requests_of_emojivoto_are_those_of_its_pages() {
        let emojivoto = builtin("emojivoto").unwrap();
        // A list is 2 requests, a vote 3, and a leaderboard of 10 emoji 12.
        let found = emojivoto.requests_per_request("default").unwrap();
        assert!((found - 17.0 / 3.0).abs() < 1e-12, "{found}");
        assert_eq!(emojivoto.requests_per_request("kinvolk-2019"), Some(2.0));
        assert_eq!(emojivoto.requests_per_request("grpc"), Some(1.0));
    }

    #[test]
    fn requests_that_depend_on_failures_are_unknown() {
        let failing = graph(json!({"path": "/", "error_rate": 0.1}));
        assert_eq!(failing.requests_per_request("default"), None);
        let circular =
            graph(json!({"path": "/", "calls": [{"service": "front", "path": "/?page=1"}]}));
        assert_eq!(circular.requests_per_request("default"), None);
        let mut emojivoto = builtin("emojivoto").unwrap();
        for path in ["/api/vote", "/api/vote?choice=joy", "/unknown"] {
            emojivoto.mixes[0].endpoints[0].path = path.to_owned();
            assert_eq!(emojivoto.requests_per_request("default"), None, "{path}");
        }
    }
}
