//! Requests to the API server that failed.

use hyper::StatusCode;
use kube::core::request;

use tare_run::environment::EnvironmentError;

/// A request that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{request}: {found}")]
pub(crate) struct ApiError {
    /// Method and path.
    pub(crate) request: String,
    /// HTTP status; `None` without a response.
    pub(crate) status: Option<u16>,
    /// Message of the server; without a response, the error of the connection.
    pub(crate) found: String,
}

impl ApiError {
    pub(super) fn new(
        request: &hyper::Request<Vec<u8>>,
        status: Option<StatusCode>,
        found: String,
    ) -> Self {
        Self {
            request: format!("{} {}", request.method(), request.uri().path()),
            status: status.map(|s| s.as_u16()),
            found,
        }
    }

    /// Whether the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == Some(404)
    }

    /// Returns the error without values of the object, which may be secret: server-side apply quotes those of a wrong
    /// type, such as `expected string, got &value.valueUnstructured{Value:1234}`.
    pub(super) fn without_values(mut self) -> Self {
        if let Some(end) = self.found.find(", got ") {
            self.found.truncate(end);
        }
        self
    }

    /// Whether RBAC forbids the request.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.status == Some(403)
    }

    /// Whether another client changed the object first, or an object of this name exists.
    pub(super) fn is_conflict(&self) -> bool {
        self.status == Some(409)
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        self.is_conflict() || self.status.is_none_or(|s| s == 429 || s >= 500)
    }
}

impl From<request::Error> for ApiError {
    fn from(error: request::Error) -> Self {
        Self {
            request: "build a request".to_owned(),
            status: None,
            found: error.to_string(),
        }
    }
}

impl From<ApiError> for EnvironmentError {
    fn from(error: ApiError) -> Self {
        Self::Cluster(error.to_string())
    }
}
