//! gRPC server reflection, v1 and v1alpha.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::Duration;

use futures_util::stream;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{DescriptorError, DescriptorPool};
use tare_load::tls::{TlsPeer, explained};
use tare_plan::innermost;
use tonic::codegen::http::uri::{InvalidUri, PathAndQuery};
use tonic::metadata::{MetadataKey, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::connector::Connector;
use super::unknown;

/// Maximum time to wait for a connection, and for each response.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Maximum number of files in the schema of a service.
const FILES_MAX: usize = 10_000;

/// The two versions of the service; their messages have the same encoding.
const VERSIONS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Why server reflection failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReflectionError {
    /// The server is not reachable.
    #[error("cannot connect to {address} for server reflection: {problem}")]
    Connect {
        /// The server.
        address: String,
        /// The innermost cause.
        problem: String,
    },
    /// The server has no reflection.
    #[error(
        "{address} has no server reflection: give --proto FILE (with --import-path), --descriptor-set FILE, or encoded messages with --data-raw"
    )]
    Absent {
        /// The server.
        address: String,
    },
    /// The server has no such service.
    #[error("{0}")]
    Service(String),
    /// An invalid response.
    #[error("invalid response of the server reflection of {address}: {problem}")]
    Answer {
        /// The server.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The address is invalid.
    #[error("invalid address {0:?}: expected host:port")]
    Address(String),
    /// The files of the schema are inconsistent.
    #[error("the server's schema is inconsistent: {0}")]
    Description(#[from] DescriptorError),
}

/// A connection to the reflection service of a server.
pub(crate) struct Reflection {
    address: String,
    tls: bool,
    channel: Channel,
    version: &'static str,
    metadata: Vec<(String, String)>,
}

impl Reflection {
    /// Connects to a host and port with the authority `authority`, over TLS if `tls` is
    /// given, and finds out which version the server supports. Each call carries `metadata`.
    ///
    /// # Errors
    /// When the server is not reachable or has no reflection.
    pub(crate) async fn connect(
        place: (String, u16),
        authority: &str,
        tls: Option<&TlsPeer>,
        metadata: &[(String, String)],
    ) -> Result<Self, ReflectionError> {
        let address = match place.0.contains(':') {
            true => format!("[{}]:{}", place.0, place.1),
            false => format!("{}:{}", place.0, place.1),
        };
        let bad = |_: InvalidUri| ReflectionError::Address(authority.to_owned());
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("http://{authority}"))
            .map_err(|_| ReflectionError::Address(authority.to_owned()))?
            .origin(format!("{scheme}://{authority}").parse().map_err(bad)?)
            .connect_timeout(ANSWER_MAX)
            .timeout(ANSWER_MAX);
        let connector = Connector::new(place, tls);
        let opened = endpoint.connect_with_connector(connector).await;
        let channel = opened.map_err(|e| ReflectionError::Connect {
            address: address.clone(),
            problem: explained(innermost(&e)),
        })?;
        let mut reflection = Self {
            address,
            tls: tls.is_some(),
            channel,
            version: VERSIONS[0],
            metadata: metadata.to_vec(),
        };
        for version in VERSIONS {
            reflection.version = version;
            match reflection.ask(list()).await {
                Ok(_) => return Ok(reflection),
                Err(status) if status.code() == Code::Unimplemented => {}
                Err(status) => return Err(reflection.failed(&status)),
            }
        }
        Err(ReflectionError::Absent {
            address: reflection.address,
        })
    }

    /// Returns the names of all services.
    ///
    /// # Errors
    /// An invalid response.
    pub(crate) async fn services(&self) -> Result<Vec<String>, ReflectionError> {
        match self.ask(list()).await {
            Ok(MessageResponse::ListServicesResponse(list)) => {
                Ok(list.service.into_iter().map(|s| s.name).collect())
            }
            Ok(_) => Err(self.unexpected()),
            Err(status) => Err(self.failed(&status)),
        }
    }

    /// Returns the schema of the service `name`.
    ///
    /// # Errors
    /// When the service does not exist (the message names those that exist), or the schema is
    /// inconsistent.
    pub(crate) async fn describe(&self, name: &str) -> Result<DescriptorPool, ReflectionError> {
        let question = MessageRequest::FileContainingSymbol(name.to_owned());
        let mut files = BTreeMap::new();
        match self.ask(question).await {
            Ok(MessageResponse::FileDescriptorResponse(found)) => {
                self.take(&mut files, found.file_descriptor_proto)?;
            }
            // Some servers respond with this error, others end the call with it.
            Ok(MessageResponse::ErrorResponse(e)) if e.error_code == Code::NotFound as i32 => {
                return Err(self.unknown(name).await?);
            }
            Err(status) if status.code() == Code::NotFound => {
                return Err(self.unknown(name).await?);
            }
            Ok(_) => return Err(self.unexpected()),
            Err(status) => return Err(self.failed(&status)),
        }
        while let Some(missing) = first_missing(&files) {
            self.fetch(&mut files, missing).await?;
        }
        let mut pool = DescriptorPool::new();
        pool.add_file_descriptor_protos(files.into_values())?;
        Ok(pool)
    }

    async fn unknown(&self, service: &str) -> Result<ReflectionError, ReflectionError> {
        let known = self.services().await?;
        Ok(ReflectionError::Service(unknown(
            "service", service, &known,
        )))
    }

    /// Reads one imported file. The server need not provide the well-known types.
    async fn fetch(
        &self,
        files: &mut BTreeMap<String, FileDescriptorProto>,
        name: String,
    ) -> Result<(), ReflectionError> {
        if let Some(known) = DescriptorPool::global().get_file_by_name(&name) {
            files.insert(name, known.file_descriptor_proto().clone());
            return Ok(());
        }
        let question = MessageRequest::FileByFilename(name.clone());
        if let Ok(MessageResponse::FileDescriptorResponse(found)) = self.ask(question).await {
            self.take(files, found.file_descriptor_proto)?;
        }
        if !files.contains_key(&name) || files.len() > FILES_MAX {
            return Err(ReflectionError::Answer {
                address: self.address.clone(),
                problem: format!("the file {name} is missing, which the schema imports"),
            });
        }
        Ok(())
    }

    fn take(
        &self,
        files: &mut BTreeMap<String, FileDescriptorProto>,
        encoded: Vec<Vec<u8>>,
    ) -> Result<(), ReflectionError> {
        for bytes in encoded {
            let file = FileDescriptorProto::decode(bytes.as_slice());
            let file = file.map_err(|e| ReflectionError::Answer {
                address: self.address.clone(),
                problem: format!("a file cannot be decoded: {e}"),
            })?;
            files.insert(file.name().to_owned(), file);
        }
        Ok(())
    }

    /// Makes one request.
    async fn ask(&self, question: MessageRequest) -> Result<MessageResponse, Status> {
        let message = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(question),
        };
        let mut request = tonic::Request::new(stream::iter([message]));
        for (name, value) in &self.metadata {
            let key = MetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes());
            if let (Ok(key), Ok(value)) = (key, MetadataValue::try_from(value.as_str())) {
                request.metadata_mut().insert(key, value);
            }
        }
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready()
            .await
            .map_err(|e| Status::unavailable(innermost(&e)))?;
        let codec = ProstCodec::<ServerReflectionRequest, ServerReflectionResponse>::default();
        let path = PathAndQuery::from_static(self.version);
        let answer = grpc.streaming(request, path, codec).await?;
        let answer = answer.into_inner().message().await?;
        answer
            .and_then(|a| a.message_response)
            .ok_or_else(|| Status::internal("empty response"))
    }

    fn failed(&self, status: &Status) -> ReflectionError {
        // A status with a cause means that the connection failed; the server did not send it.
        let problem = match (status.source(), self.tls) {
            (None, _) => format!("{:?}: {}", status.code(), status.message()),
            (Some(cause), true) => innermost(cause),
            (Some(cause), false) => {
                format!("{}; if the server uses TLS, use grpcs://", innermost(cause))
            }
        };
        ReflectionError::Answer {
            address: self.address.clone(),
            problem,
        }
    }

    fn unexpected(&self) -> ReflectionError {
        ReflectionError::Answer {
            address: self.address.clone(),
            problem: "found a response of another kind than requested".to_owned(),
        }
    }
}

fn list() -> MessageRequest {
    MessageRequest::ListServices(String::new())
}

fn first_missing(files: &BTreeMap<String, FileDescriptorProto>) -> Option<String> {
    let imported = files.values().flat_map(|f| &f.dependency);
    imported
        .into_iter()
        .find(|d| !files.contains_key(*d))
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_workload::{EchoOptions, EchoServer};

    #[tokio::test]
    async fn both_versions_describe_the_same_service() {
        let server = EchoServer::start(&EchoOptions::at("127.0.0.1:0")).unwrap();
        let address = server.address();
        let place = (address.ip().to_string(), address.port());
        let mut client = Reflection::connect(place, &address.to_string(), None, &[])
            .await
            .unwrap();
        assert_eq!(client.version, VERSIONS[0]);
        for version in VERSIONS {
            client.version = version;
            let pool = client.describe("tare.echo.v1.Echo").await.unwrap();
            let service = pool.get_service_by_name("tare.echo.v1.Echo").unwrap();
            assert_eq!(service.methods().len(), 4);
        }
    }
}
