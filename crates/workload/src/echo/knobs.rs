//! What a request can set: delay, size, status, close.

use std::sync::OnceLock;

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use tare_plan::units::{parse_bytes, parse_duration};
use tonic::Code;

use super::choice::Choice;
use crate::protocol::BODY_MAX;

/// Longest delay: an hour.
const DELAY_MAX_NS: u64 = 3_600_000_000_000;

/// The prefix of headers that set knobs.
const PREFIX: &str = "tare-";
/// How a connection ends, from the least to the most abrupt end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Close {
    /// Only the stream is reset (RST_STREAM); with HTTP/1.1 as [`Close::Abort`].
    Stream,
    /// After the response: `Connection: close`, GOAWAY.
    After,
    /// Instead of a response: closed (FIN).
    Abort,
    /// Instead of a response: reset (RST).
    Reset,
}

/// The status of a response, HTTP or gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyStatus {
    Http(StatusCode),
    Grpc(Code),
}

/// The settings of a request or the server's defaults, each with probabilities, such as
/// `1ms:10,5ms:5`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Knobs {
    pub(crate) delay_ns: Option<Choice<u64>>,
    pub(crate) size: Option<Choice<usize>>,
    pub(crate) status: Option<Choice<ReplyStatus>>,
    pub(crate) close: Option<Choice<Close>>,
}

/// An invalid value of a knob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{knob}: {problem}")]
pub struct KnobError {
    /// The knob.
    pub knob: &'static str,
    /// What was found and what was expected.
    pub problem: String,
}

/// One drawn case.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Drawn {
    pub(crate) delay_ns: u64,
    pub(crate) size: Option<usize>,
    pub(crate) status: Option<ReplyStatus>,
    pub(crate) close: Option<Close>,
}

/// The names of all knobs in queries; in headers they have the prefix `tare-`.
pub(crate) const NAMES: [&str; 4] = ["delay", "size", "status", "close"];

impl Knobs {
    /// Sets the knob `name` to `text`; `false` for an unknown name.
    ///
    /// # Errors
    /// [`KnobError`] for an invalid value.
    pub fn set(&mut self, name: &str, text: &str) -> Result<bool, KnobError> {
        let Some(knob) = NAMES.into_iter().find(|n| *n == name) else {
            return Ok(false);
        };
        let failed = |problem| KnobError { knob, problem };
        match knob {
            "delay" => self.delay_ns = Some(Choice::parse(text, delay).map_err(failed)?),
            "size" => self.size = Some(Choice::parse(text, size).map_err(failed)?),
            "status" => self.status = Some(Choice::parse(text, status).map_err(failed)?),
            _ => self.close = Some(Choice::parse(text, close).map_err(failed)?),
        }
        Ok(true)
    }

    /// The knobs in the headers: `tare-delay` and so on.
    ///
    /// # Errors
    /// An invalid value of a knob, or another header with the same prefix.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Self, KnobError> {
        let mut knobs = Self::default();
        for (name, value) in headers {
            let Some(name) = name.as_str().strip_prefix(PREFIX) else {
                continue;
            };
            let value = String::from_utf8_lossy(value.as_bytes());
            if !knobs.set(name, &value)? {
                return Err(KnobError {
                    knob: "header",
                    problem: format!(
                        "found {PREFIX}{name}, expected one of: tare-delay, tare-size, tare-status, tare-close"
                    ),
                });
            }
        }
        Ok(knobs)
    }

    /// These knobs; those that are not set come from `defaults`.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        Self {
            delay_ns: self.delay_ns.or_else(|| defaults.delay_ns.clone()),
            size: self.size.or_else(|| defaults.size.clone()),
            status: self.status.or_else(|| defaults.status.clone()),
            close: self.close.or_else(|| defaults.close.clone()),
        }
    }

    /// Draws one case; `u` returns numbers uniform in 0 to 1.
    pub(crate) fn draw(&self, mut u: impl FnMut() -> f64) -> Drawn {
        Drawn {
            delay_ns: at(&self.delay_ns, u()).unwrap_or(0),
            size: at(&self.size, u()),
            status: at(&self.status, u()),
            close: at(&self.close, u()),
        }
    }
}

fn at<T: Copy>(choice: &Option<Choice<T>>, u: f64) -> Option<T> {
    choice.as_ref().and_then(|c| c.at(u).copied())
}

fn delay(text: &str) -> Result<u64, String> {
    let ns = parse_duration(text).map_err(|e| e.to_string())?;
    if ns > DELAY_MAX_NS {
        return Err(format!("found {text:?}, expected at most 1h"));
    }
    Ok(ns)
}

fn size(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text).map_err(|e| e.to_string())?;
    usize::try_from(bytes)
        .ok()
        .filter(|b| *b <= BODY_MAX)
        .ok_or_else(|| format!("found {text:?}, expected at most 16MiB"))
}

fn status(text: &str) -> Result<ReplyStatus, String> {
    let text = text.trim();
    let wanted = match text.parse::<u16>() {
        Ok(n @ 0..=16) => Some(ReplyStatus::Grpc(Code::from_i32(n.into()))),
        Ok(n @ 200..=599) => StatusCode::from_u16(n).ok().map(ReplyStatus::Http),
        Ok(_) => None,
        Err(_) => code_of(text).map(ReplyStatus::Grpc),
    };
    wanted.ok_or_else(|| {
        format!(
            "found the status {text:?}, expected an HTTP status from 200 to 599, or a gRPC code from 0 to 16 or its name, such as UNAVAILABLE"
        )
    })
}

/// The code with that name, ignoring case and underscores.
fn code_of(name: &str) -> Option<Code> {
    let plain = |s: &str| s.replace(['_', '-'], "").to_lowercase();
    let name = match plain(name) {
        american if american == "canceled" => "cancelled".to_owned(),
        other => other,
    };
    (0..=16)
        .map(Code::from_i32)
        .find(|c| plain(&format!("{c:?}")) == name)
}

fn close(text: &str) -> Result<Close, String> {
    match text.trim() {
        "1" | "true" | "after" => Ok(Close::After),
        "abort" => Ok(Close::Abort),
        "reset" => Ok(Close::Reset),
        "stream" => Ok(Close::Stream),
        _ => Err(format!(
            "found {text:?}, expected 1 (after the response), abort (no response, FIN), reset (no response, RST) or stream (RST_STREAM)"
        )),
    }
}

/// A body of `size` letters.
pub(crate) fn filling(size: usize) -> Bytes {
    static FILLING: OnceLock<Bytes> = OnceLock::new();
    let all = FILLING.get_or_init(|| {
        let letters = b"abcdefghijklmnopqrstuvwxyz01234\n";
        Bytes::from(letters.repeat(BODY_MAX / letters.len()))
    });
    all.slice(..size.min(BODY_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn set(name: &str, text: &str) -> Result<Knobs, String> {
        let mut knobs = Knobs::default();
        match knobs.set(name, text) {
            Ok(known) => {
                assert!(known, "{name}");
                Ok(knobs)
            }
            Err(e) => Err(e.to_string()),
        }
    }

    #[test]
    fn each_knob_parses_its_values() {
        let always = |knobs: Knobs| knobs.draw(|| 0.0);
        assert_eq!(always(set("delay", "1.5ms").unwrap()).delay_ns, 1_500_000);
        assert_eq!(always(set("size", "1KiB:3").unwrap()).size, Some(1024));
        let status = |text| always(set("status", text).unwrap()).status;
        assert_eq!(
            status("503:2"),
            Some(ReplyStatus::Http(StatusCode::SERVICE_UNAVAILABLE))
        );
        let unavailable = Some(ReplyStatus::Grpc(Code::Unavailable));
        for name in ["14", "UNAVAILABLE", "unavailable"] {
            assert_eq!(status(name), unavailable);
        }
        assert_eq!(
            status("DEADLINE_EXCEEDED"),
            Some(ReplyStatus::Grpc(Code::DeadlineExceeded))
        );
        assert_eq!(
            always(set("close", "reset:1").unwrap()).close,
            Some(Close::Reset)
        );
    }

    #[test]
    fn errors_name_the_knob_and_the_expected_values() {
        let error = |name, text| set(name, text).unwrap_err();
        assert!(error("delay", "5").starts_with("delay: ") && error("delay", "5").contains("`5s`"));
        assert!(error("delay", "2h").contains("at most 1h"));
        assert!(error("size", "1GiB").contains("16MiB"));
        assert!(error("status", "99").contains("200 to 599"));
        assert!(error("close", "no").contains("abort"));
        assert_eq!(Knobs::default().set("dealy", "1ms"), Ok(false));
    }

    #[test]
    fn a_request_takes_precedence_over_the_defaults() {
        let both = set("delay", "1ms")
            .unwrap()
            .or(&set("delay", "9ms").unwrap());
        assert_eq!(both.draw(|| 0.5).delay_ns, 1_000_000);
        let unset = Knobs::default().or(&set("size", "7").unwrap());
        assert_eq!(unset.draw(|| 0.5).size, Some(7));
    }

    #[test]
    fn an_unknown_header_with_the_prefix_is_an_error() {
        let mut headers = HeaderMap::new();
        headers.insert("tare-delay", HeaderValue::from_static("1ms"));
        assert!(Knobs::from_headers(&headers).is_ok());
        headers.insert("tare-dealy", HeaderValue::from_static("1ms"));
        let error = Knobs::from_headers(&headers).unwrap_err().to_string();
        assert!(
            error.contains("tare-dealy") && error.contains("tare-size"),
            "{error}"
        );
    }

    #[test]
    fn a_filling_has_the_given_size() {
        assert_eq!(filling(3).as_ref(), b"abc");
        assert_eq!(filling(BODY_MAX).len(), BODY_MAX);
    }
}
