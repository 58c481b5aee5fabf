//! The emoji service.

use hyper::body::Incoming;
use hyper::{Request, Response};
use tonic::body::Body;

use super::catalogue::CATALOGUE;
use super::messages::{
    self, FindByShortcodeRequest, FindByShortcodeResponse, ListAllEmojiResponse,
};
use crate::counters::UNKNOWN;
use crate::protocol::grpc::{unary, unimplemented};

/// Lists and finds emoji.
#[derive(Debug, Default)]
pub(crate) struct Emoji;

impl Emoji {
    pub(crate) const METHODS: &[&str] = &["ListAll", "FindByShortcode"];

    /// Answers a request; returns the name under which it is counted, and the response.
    pub(crate) async fn answer(
        &self,
        method: &str,
        request: Request<Incoming>,
    ) -> (&'static str, Response<Body>) {
        match method {
            "ListAll" => {
                let call = |(): ()| async {
                    let list = CATALOGUE.iter().map(message).collect();
                    Ok(ListAllEmojiResponse { list })
                };
                ("ListAll", unary(request, call).await)
            }
            "FindByShortcode" => {
                let call = |wanted: FindByShortcodeRequest| async move {
                    let emoji = find(&wanted.shortcode);
                    Ok(FindByShortcodeResponse { emoji })
                };
                ("FindByShortcode", unary(request, call).await)
            }
            other => (UNKNOWN, unimplemented(other)),
        }
    }
}

fn message((name, unicode): &(&str, &str)) -> messages::Emoji {
    messages::Emoji {
        unicode: (*unicode).to_owned(),
        shortcode: format!(":{name}:"),
    }
}

fn find(shortcode: &str) -> Option<messages::Emoji> {
    let name = shortcode.strip_prefix(':')?.strip_suffix(':')?;
    CATALOGUE.iter().find(|(n, _)| *n == name).map(message)
}
