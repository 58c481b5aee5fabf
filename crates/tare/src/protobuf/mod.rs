//! Encodes JSON as Protobuf messages. The schema comes from the server itself (reflection), a
//! .proto file, or a descriptor set.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use protox::file::{
    ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver,
};
use tare_plan::load::Streaming;
use tare_plan::nearest;

mod connector;
mod encode;
mod reflect;

pub(crate) use encode::{encode, values};
pub(crate) use reflect::{Reflection, ReflectionError};

/// Maximum number of names listed in an error; the rest is counted.
const NAMES_SHOWN: usize = 12;

/// Returns the schema of a .proto file and its imports.
///
/// # Errors
/// Missing or invalid files, as the compiler reports them.
pub(crate) fn from_proto(file: &Path, imports: &[PathBuf]) -> anyhow::Result<DescriptorPool> {
    let mut includes = imports.to_vec();
    let parent = file.parent().filter(|p| !p.as_os_str().is_empty());
    includes.push(parent.unwrap_or(Path::new(".")).to_owned());
    let mut resolver = ChainFileResolver::new();
    for folder in includes {
        resolver.add(ProtoFolder(folder));
    }
    resolver.add(GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.open_file(file).with_context(|| {
        format!(
            "failed to compile {}: expected a .proto file, with its imports in --import-path",
            file.display()
        )
    })?;
    Ok(compiler.descriptor_pool())
}

/// A folder with .proto files. Named pipes and devices in their place are refused.
struct ProtoFolder(PathBuf);

impl ProtoFolder {
    fn protox(&self) -> IncludeFileResolver {
        IncludeFileResolver::new(self.0.clone())
    }
}

impl FileResolver for ProtoFolder {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        self.protox().resolve_path(path)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let path = self.0.join(name);
        match tare_files::check(&path, tare_files::DOCUMENT_BYTES_MAX) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let found = format!("{}: {error}", path.display());
                Err(protox::Error::new(found))
            }
            _ => self.protox().open_file(name),
        }
    }
}

/// Returns the schema of a descriptor set (`protoc --include_imports --descriptor_set_out`).
///
/// # Errors
/// A file that cannot be read or is not a descriptor set.
pub(crate) fn from_descriptor_set(file: &Path) -> anyhow::Result<DescriptorPool> {
    let bytes = tare_files::read(file, tare_files::DOCUMENT_BYTES_MAX)
        .with_context(|| format!("failed to read {}", file.display()))?;
    DescriptorPool::decode(bytes.as_slice()).with_context(|| {
        format!(
            "{} is not a valid descriptor set: expected the output of `protoc --include_imports --descriptor_set_out`",
            file.display()
        )
    })
}

/// Splits `/package.Service/Method`, with or without the first slash, into service and method.
///
/// # Errors
/// Any other path.
pub(crate) fn split_path(path: &str) -> anyhow::Result<(&str, &str)> {
    let parts = path.trim_start_matches('/').split_once('/');
    match parts {
        Some((service, method))
            if !service.is_empty() && !method.is_empty() && !method.contains('/') =>
        {
            Ok((service, method))
        }
        _ => bail!("invalid path {path:?}: expected /package.Service/Method"),
    }
}

/// Finds a service by its name.
///
/// # Errors
/// When the service does not exist; the message names those that exist.
pub(crate) fn service(pool: &DescriptorPool, name: &str) -> anyhow::Result<ServiceDescriptor> {
    pool.get_service_by_name(name).with_context(|| {
        let known: Vec<String> = pool.services().map(|s| s.full_name().to_owned()).collect();
        unknown("service", name, &known)
    })
}

/// Finds a method by its name.
///
/// # Errors
/// When the method does not exist; the message names those that exist.
pub(crate) fn method(service: &ServiceDescriptor, name: &str) -> anyhow::Result<MethodDescriptor> {
    service
        .methods()
        .find(|m| m.name() == name)
        .with_context(|| {
            let known: Vec<String> = service.methods().map(|m| m.name().to_owned()).collect();
            format!(
                "{}: {}",
                service.full_name(),
                unknown("method", name, &known)
            )
        })
}

/// Returns which sides of a method send a stream.
pub(crate) fn streaming(method: &MethodDescriptor) -> Streaming {
    match (method.is_client_streaming(), method.is_server_streaming()) {
        (false, false) => Streaming::Unary,
        (true, false) => Streaming::Client,
        (false, true) => Streaming::Server,
        (true, true) => Streaming::Bidi,
    }
}

/// Formats `unknown KIND "name": expected one of ...; did you mean ...?`.
pub(crate) fn unknown(kind: &str, name: &str, known: &[String]) -> String {
    let meant = nearest(name, known.iter().map(String::as_str));
    let meant = meant.map_or(String::new(), |m| format!("; did you mean {m}?"));
    let shown = known[..known.len().min(NAMES_SHOWN)].join(", ");
    let more = match known.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    match known {
        [] => format!("unknown {kind} {name:?}: found no {kind} at all"),
        [one] => format!("unknown {kind} {name:?}: expected {one}{meant}"),
        _ => format!("unknown {kind} {name:?}: expected one of {shown}{more}{meant}"),
    }
}
