//! Validates a specification, without I/O.

use tare_plan::limits::{
    CONNECTIONS_MAX, RATE_MAX, RATE_RPS_MAX, STREAMS_MAX, THREADS_MAX, TIME_NS_MAX,
};
use tare_plan::load::{ArrivalsError, LoadSpec, Mode};
use tare_plan::units::exact_duration;

use crate::http1::RequestError;

use super::shuffle::WeightsError;
use super::url::UrlError;

/// Why a specification cannot be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// Another version of the schema.
    #[error("schema_version is {found}, expected {}", tare_plan::SCHEMA_VERSION)]
    Schema {
        /// The specification's version.
        found: u32,
    },
    /// A value out of its range.
    #[error("{field} is {found}, expected {expected}")]
    Range {
        /// Which option of `tare load`, or which field if no option exists.
        field: &'static str,
        /// Its value.
        found: String,
        /// The range.
        expected: String,
    },
    /// No endpoint.
    #[error("found no endpoints, expected at least one")]
    NoEndpoints,
    /// An invalid URL or `connect` of an endpoint.
    #[error("{}{source}", unless_in(name, source))]
    Url {
        /// Which endpoint.
        name: String,
        /// What is wrong.
        source: UrlError,
    },
    /// An invalid method or header of an endpoint.
    #[error("endpoint {name:?}: {source}")]
    Request {
        /// Which endpoint.
        name: String,
        /// What is wrong.
        source: RequestError,
    },
    /// Messages that do not fit the kind of a gRPC call.
    #[error("endpoint {name:?}: found {found}, expected {expected}")]
    Call {
        /// Which endpoint.
        name: String,
        /// The endpoint's messages or body.
        found: String,
        /// The messages that its kind of call takes.
        expected: &'static str,
    },
    /// A body or message of an endpoint that is not base64.
    #[error("endpoint {name:?}: invalid base64 in its body or a message: {found}")]
    Body {
        /// Which endpoint.
        name: String,
        /// The decoder's error.
        found: String,
    },
    /// Invalid arrivals.
    #[error("arrivals: {0}")]
    Arrivals(#[from] ArrivalsError),
    /// Weights whose sum is too large.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// Returns the first error of `spec`, without checking its URLs and requests.
pub(super) fn check(spec: &LoadSpec) -> Result<(), SpecError> {
    if spec.schema_version != tare_plan::SCHEMA_VERSION {
        return Err(SpecError::Schema {
            found: spec.schema_version,
        });
    }
    if spec.endpoints.is_empty() {
        return Err(SpecError::NoEndpoints);
    }
    if let Mode::Open { rate_rps, arrivals } = &spec.mode {
        if !(*rate_rps > 0.0 && *rate_rps <= RATE_RPS_MAX) {
            let expected = format!("above 0 and at most {RATE_MAX}");
            return Err(range("--rate", format!("{rate_rps} rps"), expected));
        }
        arrivals.check(*rate_rps, spec.duration_ns)?;
    }
    for (field, ns, least) in [
        ("--duration", spec.duration_ns, 1),
        ("--warmup", spec.warmup_ns, 0),
        ("--timeout", spec.timeout_ns, 1),
        ("--drain", spec.drain_ns.unwrap_or(0), 0),
        ("think_ns", spec.think_ns, 0),
    ] {
        if !(least..=TIME_NS_MAX).contains(&ns) {
            let most = exact_duration(TIME_NS_MAX);
            let expected = match least {
                0 => format!("at most {most}"),
                _ => format!("above 0 and at most {most}"),
            };
            return Err(range(field, exact_duration(ns), expected));
        }
    }
    let connections = u64::from(spec.connections);
    in_range("--connections", connections, 1, CONNECTIONS_MAX.into())?;
    in_range("--streams", spec.streams.into(), 1, STREAMS_MAX.into())?;
    in_range("--threads", spec.threads.into(), 1, THREADS_MAX.into())?;
    if let Some(n) = spec.requests_per_connection {
        if spec.endpoints.iter().any(|e| !e.protocol.is_http1()) {
            let unset = "no value with HTTP/2, which keeps its connections".to_owned();
            return Err(range("--requests-per-connection", n, unset));
        }
        in_range("--requests-per-connection", n.into(), 1, u32::MAX.into())?;
    }
    in_range("shard.count", spec.shard.count.into(), 1, 1_000_000)?;
    let last = u64::from(spec.shard.count) - 1;
    in_range("shard.index", spec.shard.index.into(), 0, last)?;
    for endpoint in &spec.endpoints {
        in_range("weight", endpoint.weight.into(), 1, u32::MAX.into())?;
    }
    Ok(())
}

/// The name of an endpoint as the start of a message; empty if the message contains it.
fn unless_in(name: &str, message: &UrlError) -> String {
    match message.to_string().contains(&format!("{name:?}")) {
        true => String::new(),
        false => format!("endpoint {name:?}: "),
    }
}

fn in_range(field: &'static str, found: u64, least: u64, most: u64) -> Result<(), SpecError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(range(field, found, format!("{least} to {most}")))
}

fn range(field: &'static str, found: impl ToString, expected: String) -> SpecError {
    SpecError::Range {
        field,
        found: found.to_string(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::support::spec;
    use crate::target::Targets;

    #[test]
    fn errors_name_the_field_and_the_expected_value() {
        let broken = |change: &dyn Fn(&mut LoadSpec)| {
            let mut s = spec(&["http://a/"]);
            change(&mut s);
            Targets::new(&s).unwrap_err().to_string()
        };
        assert!(broken(&|s| s.endpoints.clear()).contains("at least one"));
        assert!(broken(&|s| s.threads = 0).contains("--threads is 0, expected 1 to 256"));
        assert!(
            broken(&|s| s.duration_ns = 0)
                .contains("--duration is 0ns, expected above 0 and at most 720h")
        );
        assert!(broken(&|s| s.endpoints[0].weight = 0).contains("weight is 0"));
        assert!(broken(&|s| s.shard.index = 1).contains("shard.index is 1, expected 0 to 0"));
        assert!(
            broken(&|s| s.mode = Mode::Open {
                rate_rps: f64::NAN,
                arrivals: Default::default()
            })
            .contains("--rate is NaN rps")
        );
        assert!(broken(&|s| s.endpoints[0].url = "ftp://a".into()).contains("http://"));
        assert!(broken(&|s| s.endpoints[0].body_base64 = Some("*".into())).contains("base64"));
        assert!(broken(&|s| s.schema_version = 9).contains("schema_version is 9"));
    }
}
