//! Why a request was not answered well, and how that looks by HTTP and by gRPC.

use hyper::StatusCode;
use tonic::Status;

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The endpoint's error rate wants it so.
    Drawn,
    /// A called service could not be reached, or the connection was lost.
    Unreachable {
        /// The called service.
        service: String,
        /// What the connection said.
        why: String,
    },
    /// A called service answered with an error.
    Answered {
        /// The called service.
        service: String,
        /// Its status.
        status: String,
    },
}

impl Failure {
    /// 503 where nothing was answered, 502 where an error was.
    pub(crate) fn http_status(&self) -> StatusCode {
        match self {
            Self::Drawn | Self::Unreachable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Answered { .. } => StatusCode::BAD_GATEWAY,
        }
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Drawn | Failure::Unreachable { .. } => Self::unavailable(failure.to_string()),
            Failure::Answered { .. } => Self::internal(failure.to_string()),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Drawn => write!(f, "an error, as the endpoint's error_rate wants"),
            Self::Unreachable { service, why } => write!(f, "{service} is not reachable: {why}"),
            Self::Answered { service, status } => write!(f, "{service} answered {status}"),
        }
    }
}
