//! The web service.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hyper::StatusCode;
use hyper::http::uri::PathAndQuery;
use serde::Serialize;
use tare_plan::graph::{App, Service};
use tare_records::worker::WorkloadSpec;

use super::catalogue::{CATALOGUE, vote_method};
use super::messages::{
    FIND_BY_SHORTCODE, FindByShortcodeRequest, FindByShortcodeResponse, LIST_ALL,
    ListAllEmojiResponse, RESULTS, ResultsResponse, VOTING,
};
use crate::counters::UNKNOWN;
use crate::error::WorkloadError;
use crate::protocol::http::{Reply, answered, error, json, no_such_path, query_value, reply};
use crate::protocol::{Failure, GrpcUpstream, Upstream};

const PAGE: &str = include_str!("page.html");

/// Serves the pages and the API.
pub(crate) struct Web {
    emoji: Arc<GrpcUpstream>,
    voting: Arc<GrpcUpstream>,
    /// From a shortcode with colons to the path of its vote method.
    votes: HashMap<String, PathAndQuery>,
}

#[derive(Serialize)]
struct Listed<'a> {
    shortcode: &'a str,
    unicode: &'a str,
}

#[derive(Serialize)]
struct Ranked {
    shortcode: String,
    unicode: String,
    votes: i32,
}

impl Web {
    pub(crate) const ENDPOINTS: &[&str] =
        &["index", "leaderboard-page", "list", "vote", "leaderboard"];

    /// Finds the emoji and voting services by their application among the services in `uses`.
    pub(crate) fn new(
        spec: &WorkloadSpec,
        service: &Service,
        upstreams: &BTreeMap<String, Upstream>,
    ) -> Result<Self, WorkloadError> {
        let upstream = |app: App| {
            let is = |name: &&String| spec.graph.service(name).is_some_and(|s| s.app == Some(app));
            let name = service.uses.iter().find(is);
            match name.and_then(|n| upstreams.get(n)) {
                Some(Upstream::Grpc(upstream)) => Ok(upstream.clone()),
                _ => Err(WorkloadError::NoUpstream(app.name().to_owned())),
            }
        };
        let mut votes = HashMap::new();
        for (name, _) in CATALOGUE {
            let path = format!("/{VOTING}/{}", vote_method(name));
            let path = path.parse().map_err(|_| WorkloadError::Path(path))?;
            votes.insert(format!(":{name}:"), path);
        }
        Ok(Self {
            emoji: upstream(App::EmojivotoEmoji)?,
            voting: upstream(App::EmojivotoVoting)?,
            votes,
        })
    }

    /// Answers a request; returns the name under which it is counted, and the response.
    pub(crate) async fn answer(&self, path: &str, query: Option<&str>) -> (&'static str, Reply) {
        let page = || reply(StatusCode::OK, "text/html; charset=utf-8", PAGE);
        match path {
            "/" => ("index", page()),
            "/leaderboard" => ("leaderboard-page", page()),
            "/api/list" => ("list", answered(self.list().await)),
            "/api/vote" => {
                let choice = query_value(query.unwrap_or(""), "choice").unwrap_or_default();
                ("vote", answered(self.vote(choice).await))
            }
            "/api/leaderboard" => ("leaderboard", answered(self.leaderboard().await)),
            _ => (UNKNOWN, no_such_path()),
        }
    }

    async fn list(&self) -> Result<Reply, Failure> {
        let all: ListAllEmojiResponse = self.emoji.unary(LIST_ALL, ()).await?;
        let list = all.list.iter().map(|e| Listed {
            shortcode: &e.shortcode,
            unicode: &e.unicode,
        });
        Ok(json(StatusCode::OK, &list.collect::<Vec<_>>()))
    }

    async fn vote(&self, choice: String) -> Result<Reply, Failure> {
        if choice.is_empty() {
            let message = "found no choice, expected a shortcode, such as /api/vote?choice=:joy:";
            return Ok(error(StatusCode::BAD_REQUEST, message));
        }
        let Some(emoji) = self.find(choice.clone()).await? else {
            let message = format!("found choice {choice:?}, expected a shortcode of /api/list");
            return Ok(error(StatusCode::BAD_REQUEST, &message));
        };
        let Some(path) = self.votes.get(&emoji.shortcode) else {
            let message = format!("no vote method for {:?}", emoji.shortcode);
            return Ok(error(StatusCode::BAD_REQUEST, &message));
        };
        match self.voting.unary(path.clone(), ()).await {
            Ok(()) => Ok(reply(StatusCode::OK, "application/json", "{}")),
            // The application reported the error, so the connection works.
            Err(failure @ Failure::Answered { .. }) => Ok(error(
                StatusCode::INTERNAL_SERVER_ERROR,
                &failure.to_string(),
            )),
            Err(failure) => Err(failure),
        }
    }

    async fn leaderboard(&self) -> Result<Reply, Failure> {
        let board: ResultsResponse = self.voting.unary(RESULTS, ()).await?;
        let mut ranks = Vec::with_capacity(board.results.len());
        // In sequence, as in the original, which makes the page sensitive to the cost of a hop.
        for result in board.results {
            let found = self.find(result.shortcode.clone()).await?;
            ranks.push(Ranked {
                shortcode: result.shortcode,
                unicode: found.map(|e| e.unicode).unwrap_or_default(),
                votes: result.votes,
            });
        }
        Ok(json(StatusCode::OK, &ranks))
    }

    async fn find(&self, shortcode: String) -> Result<Option<super::messages::Emoji>, Failure> {
        let request = FindByShortcodeRequest { shortcode };
        let found: FindByShortcodeResponse = self.emoji.unary(FIND_BY_SHORTCODE, request).await?;
        Ok(found.emoji)
    }
}
