//! Failures of requests, and their statuses in HTTP and gRPC.

use hyper::StatusCode;
use tonic::Status;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// Injected by the endpoint's `error_rate`.
    #[error("injected by the endpoint's error_rate")]
    Injected,
    /// A called service could not be reached, or its connection was lost.
    #[error("{service} is not reachable: {why}")]
    Unreachable {
        /// The called service.
        service: String,
        /// The error of the connection.
        why: String,
    },
    /// A called service answered with an error.
    #[error("{service} answered {status}")]
    Answered {
        /// The called service.
        service: String,
        /// Its status.
        status: String,
    },
    /// A probe names a service that is not called; the message lists those that are.
    #[error("{0}")]
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
