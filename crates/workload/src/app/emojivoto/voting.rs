//! The voting service.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};

use hyper::body::Incoming;
use hyper::{Request, Response};
use tare_plan::graph::{App, ServiceGraph};
use tonic::Status;
use tonic::body::Body;

use super::catalogue::{CATALOGUE, DOUGHNUT, vote_method};
use super::messages::{ResultsResponse, VotingResult};
use crate::counters::UNKNOWN;
use crate::protocol::grpc::{unary, unimplemented};
use crate::protocol::http::query_value;

/// Keeps the votes in memory.
#[derive(Debug)]
pub(crate) struct Voting {
    /// In the order of the catalogue.
    votes: Vec<AtomicI32>,
    /// Method name to index in the catalogue.
    methods: HashMap<String, usize>,
}

impl Voting {
    /// The name under which all votes are counted; their methods start with it.
    pub(crate) const VOTE: &str = "Vote";
    pub(crate) const METHODS: &[&str] = &[Self::VOTE, "Results"];

    /// Starts with one vote for each emoji that a mix of the graph votes for. The leaderboard
    /// then has its final length from the start, and every leaderboard request of a trial makes
    /// the same number of calls.
    pub(crate) fn new(graph: &ServiceGraph) -> Self {
        let voting = Self {
            votes: CATALOGUE.iter().map(|_| AtomicI32::new(0)).collect(),
            methods: (0..)
                .zip(CATALOGUE)
                .map(|(i, (name, _))| (vote_method(name), i))
                .collect(),
        };
        for (name, votes) in CATALOGUE.iter().map(|(n, _)| *n).zip(&voting.votes) {
            let choice = format!(":{name}:");
            if name != DOUGHNUT
                && voted_for(graph).any(|voted| voted == choice || voted == vote_method(name))
            {
                votes.store(1, Ordering::Relaxed);
            }
        }
        voting
    }

    /// Answers a request; returns the name under which it is counted, and the response. All
    /// votes count as `Vote`.
    pub(crate) async fn answer(
        &self,
        method: &str,
        request: Request<Incoming>,
    ) -> (&'static str, Response<Body>) {
        if method == "Results" {
            let call = |(): ()| async {
                let results = self.results();
                Ok(ResultsResponse { results })
            };
            return ("Results", unary(request, call).await);
        }
        match self.methods.get(method) {
            Some(&index) => {
                let call = |(): ()| async move { self.vote(index) };
                (Self::VOTE, unary(request, call).await)
            }
            None => (UNKNOWN, unimplemented(method)),
        }
    }

    fn vote(&self, index: usize) -> Result<(), Status> {
        if CATALOGUE[index].0 == DOUGHNUT {
            return Err(Status::unknown("votes for the doughnut always fail"));
        }
        self.votes[index].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The emoji with votes, most votes first.
    fn results(&self) -> Vec<VotingResult> {
        let counted = CATALOGUE
            .iter()
            .zip(&self.votes)
            .map(|((name, _), votes)| VotingResult {
                shortcode: format!(":{name}:"),
                votes: votes.load(Ordering::Relaxed),
            });
        let mut results: Vec<_> = counted.filter(|r| r.votes > 0).collect();
        results.sort_by_key(|r| std::cmp::Reverse(r.votes));
        results
    }
}

/// The choices of the vote URLs and the vote methods in all mixes.
fn voted_for(graph: &ServiceGraph) -> impl Iterator<Item = String> {
    let endpoints = graph.mixes.iter().flat_map(|m| &m.endpoints);
    endpoints.filter_map(|e| match graph.service(&e.service)?.app? {
        App::EmojivotoWeb => query_value(e.path.strip_prefix("/api/vote?")?, "choice"),
        App::EmojivotoVoting => Some(e.path.clone()),
        App::EmojivotoEmoji => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::messages;
    use tare_plan::graph::{App, builtin};

    #[test]
    fn every_method_that_a_mix_may_use_is_implemented() {
        let voting = Voting::new(&builtin("emojivoto").unwrap());
        let votes = |path: &&str| voting.methods.contains_key(*path);
        let (known, others): (Vec<&str>, Vec<&str>) =
            App::EmojivotoVoting.paths().iter().partition(|p| votes(p));
        assert_eq!((known.len(), others), (10, vec!["Results"]));
        assert_eq!(App::EmojivotoVoting.grpc_service(), Some(messages::VOTING));
        assert_eq!(App::EmojivotoEmoji.grpc_service(), Some(messages::EMOJI));
    }

    #[test]
    fn emoji_that_are_voted_for_over_grpc_have_a_vote_from_the_start() {
        let mut graph = builtin("emojivoto").unwrap();
        graph.mixes.retain(|m| m.name == "grpc");
        let results = Voting::new(&graph).results();
        assert_eq!(results.len(), 1);
        assert_eq!(results[0].shortcode, ":joy:");
    }

    #[test]
    fn the_leaderboard_has_its_final_length_from_the_start() {
        let graph = builtin("emojivoto").unwrap();
        let voting = Voting::new(&graph);
        let first = voting.results();
        assert_eq!(first.len(), 10);
        assert!(first.iter().all(|r| r.votes == 1));
        for method in ["VoteJoy", "VoteJoy", "VoteRainbow"] {
            voting.vote(voting.methods[method]).unwrap();
        }
        let later = voting.results();
        assert_eq!(later.len(), 10);
        assert_eq!((later[0].shortcode.as_str(), later[0].votes), (":joy:", 3));
        assert_eq!(
            (later[1].shortcode.as_str(), later[1].votes),
            (":rainbow:", 2)
        );
    }

    #[test]
    fn votes_for_the_doughnut_fail() {
        let mut graph = builtin("emojivoto").unwrap();
        graph.mixes[0].endpoints[1].path = "/api/vote?choice=:doughnut:".to_owned();
        let voting = Voting::new(&graph);
        let refused = voting.vote(voting.methods["VoteDoughnut"]).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unknown);
        assert!(voting.results().iter().all(|r| r.shortcode != ":doughnut:"));
    }
}
