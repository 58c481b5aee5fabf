//! Messages and paths of the package `emojivoto.v1`. Its empty messages are `()`.

use hyper::http::uri::PathAndQuery;

/// The emoji service.
pub(crate) const EMOJI: &str = "emojivoto.v1.EmojiService";
/// The voting service.
pub(crate) const VOTING: &str = "emojivoto.v1.VotingService";

pub(crate) const LIST_ALL: PathAndQuery =
    PathAndQuery::from_static("/emojivoto.v1.EmojiService/ListAll");
pub(crate) const FIND_BY_SHORTCODE: PathAndQuery =
    PathAndQuery::from_static("/emojivoto.v1.EmojiService/FindByShortcode");
pub(crate) const RESULTS: PathAndQuery =
    PathAndQuery::from_static("/emojivoto.v1.VotingService/Results");

/// One emoji.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Emoji {
    #[prost(string, tag = "1")]
    pub(crate) unicode: String,
    /// With colons, such as `:joy:`.
    #[prost(string, tag = "2")]
    pub(crate) shortcode: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListAllEmojiResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) list: Vec<Emoji>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FindByShortcodeRequest {
    #[prost(string, tag = "1")]
    pub(crate) shortcode: String,
}

/// `emoji` is absent for an unknown shortcode.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FindByShortcodeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) emoji: Option<Emoji>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResultsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) results: Vec<VotingResult>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VotingResult {
    #[prost(string, tag = "1")]
    pub(crate) shortcode: String,
    #[prost(int32, tag = "2")]
    pub(crate) votes: i32,
}
