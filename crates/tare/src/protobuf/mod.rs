//! From JSON to the bytes of Protobuf messages, by a description of the service:
//! from the server itself (reflection), a .proto file, or a descriptor set.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use tare_model::load::Streaming;
use tare_model::nearest;

mod encode;
mod reflect;
mod tls;

pub(crate) use encode::{encode, values};
pub(crate) use reflect::{Reflection, ReflectionError};

/// Names listed in messages; the rest is counted.
const NAMES_SHOWN: usize = 12;

/// What a .proto file and its imports describe.
///
/// # Errors
/// Files that are missing or wrong, as the compiler names them.
pub(crate) fn from_proto(file: &Path, imports: &[PathBuf]) -> anyhow::Result<DescriptorPool> {
    let mut includes = imports.to_vec();
    let parent = file.parent().filter(|p| !p.as_os_str().is_empty());
    includes.push(parent.unwrap_or(Path::new(".")).to_owned());
    let compiled = protox::Compiler::new(&includes).and_then(|mut compiler| {
        compiler.open_file(file)?;
        Ok(compiler.descriptor_pool())
    });
    compiled.with_context(|| {
        format!(
            "cannot compile {}; expected a .proto file, its imports under --import-path",
            file.display()
        )
    })
}

/// What a descriptor set (`protoc --include_imports --descriptor_set_out`) describes.
///
/// # Errors
/// A file that cannot be read or is none.
pub(crate) fn from_descriptor_set(file: &Path) -> anyhow::Result<DescriptorPool> {
    let bytes =
        std::fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
    DescriptorPool::decode(bytes.as_slice()).with_context(|| {
        format!(
            "{} is no descriptor set; expected what `protoc --include_imports --descriptor_set_out` writes",
            file.display()
        )
    })
}

/// `/package.Service/Method` of a URL's path, or `package.Service/Method`, in two.
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
        _ => bail!("found the path {path:?}, expected /package.Service/Method"),
    }
}

/// The service of that name.
///
/// # Errors
/// None of it, with those that there are.
pub(crate) fn service(pool: &DescriptorPool, name: &str) -> anyhow::Result<ServiceDescriptor> {
    pool.get_service_by_name(name).with_context(|| {
        let known: Vec<String> = pool.services().map(|s| s.full_name().to_owned()).collect();
        absent("service", name, &known)
    })
}

/// The method of that name.
///
/// # Errors
/// None of it, with those that there are.
pub(crate) fn method(service: &ServiceDescriptor, name: &str) -> anyhow::Result<MethodDescriptor> {
    service
        .methods()
        .find(|m| m.name() == name)
        .with_context(|| {
            let known: Vec<String> = service.methods().map(|m| m.name().to_owned()).collect();
            format!(
                "{} has no such method: {}",
                service.full_name(),
                absent("method", name, &known)
            )
        })
}

/// Which side of a method sends a stream.
pub(crate) fn streaming(method: &MethodDescriptor) -> Streaming {
    match (method.is_client_streaming(), method.is_server_streaming()) {
        (false, false) => Streaming::Unary,
        (true, false) => Streaming::Client,
        (false, true) => Streaming::Server,
        (true, true) => Streaming::Bidi,
    }
}

/// `found KIND "name", expected one of: ...; did you mean ...?`.
pub(crate) fn absent(kind: &str, name: &str, known: &[String]) -> String {
    let meant = nearest(name, known.iter().map(String::as_str));
    let meant = meant.map_or(String::new(), |m| format!("; did you mean {m}?"));
    let shown = known[..known.len().min(NAMES_SHOWN)].join(", ");
    let more = match known.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    match known {
        [] => format!("found {kind} {name:?}, and there is none to expect"),
        [one] => format!("found {kind} {name:?}, expected {one}{meant}"),
        _ => format!("found {kind} {name:?}, expected one of: {shown}{more}{meant}"),
    }
}
