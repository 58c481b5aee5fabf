//! The gRPC services in addition to the echo service: reflection and health.

use std::convert::Infallible;
use std::io;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tonic::body::Body;
use tower_service::Service;

use super::messages::{SERVICE, descriptor_set};

/// Answers the requests for one service.
pub(crate) type Handler =
    Box<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// The services by their names.
pub(crate) struct Services(Vec<(&'static str, Handler)>);

impl Services {
    /// Reflection in both versions, and health.
    ///
    /// # Errors
    /// Never in practice, because the descriptors are part of the program.
    pub(crate) async fn new() -> io::Result<Self> {
        let echo = descriptor_set()?;
        let described = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(&echo)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let v1 = described().build_v1().map_err(io::Error::other)?;
        let v1alpha = described().build_v1alpha().map_err(io::Error::other)?;
        let (reporter, health) = tonic_health::server::health_reporter();
        let serving = tonic_health::ServingStatus::Serving;
        reporter.set_service_status(SERVICE, serving).await;
        Ok(Self(vec![
            ("grpc.reflection.v1.ServerReflection", handler(v1)),
            ("grpc.reflection.v1alpha.ServerReflection", handler(v1alpha)),
            ("grpc.health.v1.Health", handler(health)),
        ]))
    }

    /// The service with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Handler> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, handler)| handler)
    }
}

/// Boxes a generated server.
fn handler<S>(server: S) -> Handler
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    Box::new(move |request| {
        let answer = server.clone().call(request);
        answer.unwrap_or_else(|never| match never {}).boxed()
    })
}
