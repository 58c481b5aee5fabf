//! The messages of `tare.echo.v1`, and their descriptors for reflection.

use std::io;

use hyper::body::Bytes;
use prost::Message as _;
use protox::file::{File, FileResolver};

/// The service's full name.
pub(crate) const SERVICE: &str = "tare.echo.v1.Echo";
const FILE: &str = "tare_echo.proto";
const SOURCE: &str = include_str!("../../proto/tare_echo.proto");

/// `tare.echo.v1.EchoRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EchoRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) body: Bytes,
    #[prost(string, tag = "3")]
    pub(crate) delay: String,
    #[prost(string, tag = "4")]
    pub(crate) size: String,
    #[prost(string, tag = "5")]
    pub(crate) status: String,
    #[prost(uint32, tag = "6")]
    pub(crate) count: u32,
}

/// `tare.echo.v1.EchoReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EchoReply {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) body: Bytes,
    #[prost(uint64, tag = "3")]
    pub(crate) index: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) received: u64,
}

/// The encoded file descriptor set of the service.
///
/// # Errors
/// Never in practice, because the source is part of the program.
pub(crate) fn descriptor_set() -> io::Result<Vec<u8>> {
    let mut compiler = protox::Compiler::with_file_resolver(Embedded);
    compiler.open_file(FILE).map_err(io::Error::other)?;
    Ok(compiler.file_descriptor_set().encode_to_vec())
}

/// Resolves the embedded source.
#[derive(Debug)]
struct Embedded;

impl FileResolver for Embedded {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == FILE {
            File::from_source(name, SOURCE)
        } else {
            Err(protox::Error::file_not_found(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptors_have_every_method_and_field() {
        let set = descriptor_set().unwrap();
        let text = String::from_utf8_lossy(&set);
        for name in ["Unary", "ServerStream", "ClientStream", "BidiStream"] {
            assert!(text.contains(name), "{name}");
        }
        for field in [
            "name", "body", "delay", "size", "status", "count", "received",
        ] {
            assert!(text.contains(field), "{field}");
        }
    }
}
