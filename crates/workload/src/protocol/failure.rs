//! Failures of requests, and their statuses in HTTP and gRPC.

use hyper::StatusCode;
use tonic::Status;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Injected by the endpoint's `error_rate`.
    Injected,
    /// A called service could not be reached, or its connection was lost.
    Unreachable {
        /// The called service.
        service: String,
        /// The error of the connection.
        why: String,
    },
    /// A called service answered with an error.
    Answered {
        /// The called service.
        service: String,
        /// Its status.
        status: String,
    },
    /// A probe names a service that is not called; the message lists those that are.
    NotCalled(String),
}

impl Failure {
    /// 502 after an error response of a called service, 404 for a service that is not called,
    /// otherwise 503.
    pub(crate) fn http_status(&self) -> StatusCode {
        match self {
            Self::Injected | Self::Unreachable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Answered { .. } => StatusCode::BAD_GATEWAY,
            Self::NotCalled(_) => StatusCode::NOT_FOUND,
        }
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Injected | Failure::Unreachable { .. } => {
                Self::unavailable(failure.to_string())
            }
            Failure::Answered { .. } => Self::internal(failure.to_string()),
            Failure::NotCalled(message) => Self::not_found(message),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Injected => write!(f, "injected by the endpoint's error_rate"),
            Self::Unreachable { service, why } => write!(f, "{service} is not reachable: {why}"),
            Self::Answered { service, status } => write!(f, "{service} answered {status}"),
            Self::NotCalled(message) => f.write_str(message),
        }
    }
}
