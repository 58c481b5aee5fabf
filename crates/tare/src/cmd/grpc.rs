//! `tare grpc`: what a server serves, as it says itself.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use prost_reflect::{DynamicMessage, MethodDescriptor, SerializeOptions};
use tare_model::load::Streaming;

use crate::protobuf::{self, Reflection};

/// Look around on a gRPC server with reflection.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List services; of a service, its methods; of a method, its request message as JSON for --data
    List {
        /// host:port[/package.Service[/Method]], with or without grpc://
        #[arg(value_name = "HOST:PORT[/SERVICE[/METHOD]]")]
        place: String,
        /// Metadata of the questions, `name: value`; may be repeated
        #[arg(long, value_name = "NAME: VALUE")]
        metadata: Vec<String>,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Action::List { place, metadata } = args.action;
    let metadata = metadata.iter().map(|text| {
        let (name, value) = text
            .split_once(':')
            .with_context(|| format!("metadata {text:?} has no colon: expected `name: value`"))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    });
    let metadata = metadata.collect::<anyhow::Result<Vec<_>>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let text = runtime.block_on(list(&place, &metadata))?;
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

async fn list(place: &str, metadata: &[(String, String)]) -> anyhow::Result<String> {
    let place = place.strip_prefix("grpc://").unwrap_or(place);
    let mut parts = place.trim_end_matches('/').splitn(3, '/');
    let address = parts.next().unwrap_or_default();
    let server = Reflection::connect(address, address, None, metadata).await?;
    let Some(service) = parts.next() else {
        let mut names = server.services().await?;
        names.sort();
        return Ok(names.iter().map(|n| format!("{n}\n")).collect());
    };
    let pool = server.describe(service).await?;
    let service = protobuf::service(&pool, service)?;
    match parts.next() {
        None => Ok(service.methods().map(|m| signature(&m)).collect()),
        Some(method) => template(&protobuf::method(&service, method)?),
    }
}

/// One line: the name, and what goes there and back.
fn signature(method: &MethodDescriptor) -> String {
    let (there, back) = match protobuf::streaming(method) {
        Streaming::Unary => ("", ""),
        Streaming::Client => ("stream ", ""),
        Streaming::Server => ("", "stream "),
        Streaming::Bidi => ("stream ", "stream "),
    };
    let (input, output) = (method.input(), method.output());
    format!(
        "{:<24} ({there}{}) -> {back}{}\n",
        method.name(),
        input.full_name(),
        output.full_name()
    )
}

/// The request message with all its fields that have a default.
fn template(method: &MethodDescriptor) -> anyhow::Result<String> {
    let empty = DynamicMessage::new(method.input());
    let options = SerializeOptions::new().skip_default_fields(false);
    let value = empty.serialize_with_options(serde_json::value::Serializer, &options)?;
    Ok(format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_workload::{EchoOptions, EchoServer};

    #[tokio::test]
    async fn services_methods_and_messages_are_listed() {
        let server = EchoServer::start(&EchoOptions::at("127.0.0.1:0")).unwrap();
        let at = |path: &str| format!("grpc://{}{path}", server.address());
        let services = list(&at(""), &[]).await.unwrap();
        assert!(
            services.lines().any(|l| l == "tare.echo.v1.Echo"),
            "{services}"
        );
        let methods = list(&at("/tare.echo.v1.Echo"), &[]).await.unwrap();
        let bidi = "(stream tare.echo.v1.EchoRequest) -> stream tare.echo.v1.EchoReply";
        assert!(
            methods.contains(bidi) && methods.lines().count() == 4,
            "{methods}"
        );
        let message = list(&at("/tare.echo.v1.Echo/Unary"), &[]).await.unwrap();
        let message: serde_json::Value = serde_json::from_str(&message).unwrap();
        assert_eq!(
            (&message["name"], &message["count"]),
            (&"".into(), &0.into())
        );
        let wrong = list(&at("/tare.echo.v1.Ecko"), &[]).await.unwrap_err();
        assert!(format!("{wrong:#}").contains("did you mean"), "{wrong:#}");
    }
}
