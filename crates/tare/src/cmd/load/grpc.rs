//! `tare grpc`: lists the services of a server, through server reflection.

use std::process::ExitCode;

use anyhow::bail;
use prost_reflect::{DynamicMessage, MethodDescriptor, SerializeOptions};
use tare_load::tls::http2_peer;
use tare_load::{host_port, without_zone};
use tare_plan::load::Streaming;
use tare_plan::load::transport::TlsSpec;

use crate::cmd::input::Headers;
use crate::cmd::load::tls::TlsArgs;
use crate::protobuf::{self, Reflection};

/// List services and methods of a gRPC server with reflection.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List services, the methods of a service, or the request message of a method as JSON for --data
    List {
        /// host:port[/package.Service[/Method]], with or without grpc://; grpcs:// for TLS
        #[arg(value_name = "HOST:PORT[/SERVICE[/METHOD]]")]
        place: String,
        /// Metadata of the reflection calls, `name: value`, or `@FILE` with one on each line; may be repeated
        #[arg(long, value_name = "NAME: VALUE|@FILE", value_parser = Headers::parse)]
        metadata: Vec<Headers>,
        #[command(flatten)]
        tls: TlsArgs,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Action::List {
        place,
        metadata,
        tls,
    } = args.action;
    let runtime = crate::cmd::runtime()?;
    let text = runtime.block_on(list(&place, &Headers::all(&metadata)?, tls.spec(true)?))?;
    crate::cmd::output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(
    place: &str,
    metadata: &[(String, String)],
    tls: Option<TlsSpec>,
) -> anyhow::Result<String> {
    let (secure, path) = match place.split_once("://") {
        Some(("grpcs", path)) => (true, path),
        Some(("grpc", path)) => (false, path),
        Some((scheme, _)) => bail!("invalid scheme {scheme}://: expected grpc:// or grpcs://"),
        None => (false, place),
    };
    if tls.is_some() && !secure {
        bail!("found TLS options for {place}, expected a grpcs:// address");
    }
    let mut parts = path.trim_end_matches('/').splitn(3, '/');
    let address = parts.next().unwrap_or_default();
    let place = host_port(address, if secure { 443 } else { 80 })?;
    let authority = without_zone(address);
    let (host, _) = host_port(&authority, place.1)?;
    let peer = secure.then(|| http2_peer(&tls.unwrap_or_default(), &host));
    let peer = peer.transpose()?;
    let server = Reflection::connect(place, &authority, peer.as_ref(), metadata).await?;
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

/// Formats a method in one line: its name, request and response.
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

/// Returns the request message with the default of every field that has one.
fn template(method: &MethodDescriptor) -> anyhow::Result<String> {
    match method.input().full_name() {
        // An empty message of these types has no JSON.
        "google.protobuf.Value" => return Ok("null\n".to_owned()),
        "google.protobuf.Any" => {
            return Ok("{\"@type\": \"type.googleapis.com/package.Message\"}\n".to_owned());
        }
        _ => {}
    }
    let empty = DynamicMessage::new(method.input());
    let options = SerializeOptions::new().skip_default_fields(false);
    let value = empty.serialize_with_options(serde_json::value::Serializer, &options)?;
    Ok(format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_workload::{EchoOptions, EchoServer, TlsOptions};

    fn started(tls: Option<TlsOptions>) -> EchoServer {
        EchoServer::start(&EchoOptions {
            tls: tls.map(|tls| ("127.0.0.1:0".to_owned(), tls)),
            ..EchoOptions::at("127.0.0.1:0")
        })
        .unwrap()
    }

    #[tokio::test]
    async fn services_methods_and_messages_are_listed() {
        let server = started(None);
        let at = |path: &str| format!("grpc://{}{path}", server.address());
        let services = list(&at(""), &[], None).await.unwrap();
        assert!(
            services.lines().any(|l| l == "tare.echo.v1.Echo"),
            "{services}"
        );
        let methods = list(&at("/tare.echo.v1.Echo"), &[], None).await.unwrap();
        let bidi = "(stream tare.echo.v1.EchoRequest) -> stream tare.echo.v1.EchoReply";
        assert!(
            methods.contains(bidi) && methods.lines().count() == 4,
            "{methods}"
        );
        let unary = at("/tare.echo.v1.Echo/Unary");
        let message = list(&unary, &[], None).await.unwrap();
        let message: serde_json::Value = serde_json::from_str(&message).unwrap();
        assert_eq!(
            (&message["name"], &message["count"]),
            (&"".into(), &0.into())
        );
        let wrong = list(&at("/tare.echo.v1.Ecko"), &[], None)
            .await
            .unwrap_err();
        assert!(format!("{wrong:#}").contains("did you mean"), "{wrong:#}");
    }

    #[test]
    fn every_type_has_a_message_to_begin_with() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("special.proto");
        let source = r#"
            syntax = "proto3";
            package p;
            import "google/protobuf/any.proto";
            import "google/protobuf/struct.proto";
            import "google/protobuf/timestamp.proto";
            import "google/protobuf/wrappers.proto";
            message Own { google.protobuf.Value value = 1; google.protobuf.Any any = 2; int32 n = 3; }
            service S {
                rpc Any(google.protobuf.Any) returns (Own);
                rpc Value(google.protobuf.Value) returns (Own);
                rpc List(google.protobuf.ListValue) returns (Own);
                rpc Text(google.protobuf.StringValue) returns (Own);
                rpc Time(google.protobuf.Timestamp) returns (Own);
                rpc Own(Own) returns (Own);
            }"#;
        std::fs::write(&file, source).unwrap();
        let pool = protobuf::from_proto(&file, &[]).unwrap();
        let service = protobuf::service(&pool, "p.S").unwrap();
        let of = |name: &str| {
            let method = protobuf::method(&service, name).unwrap();
            template(&method).unwrap()
        };
        assert_eq!(of("Value"), "null\n");
        assert_eq!(of("List"), "[]\n");
        assert_eq!(of("Text"), "\"\"\n");
        assert_eq!(of("Time"), "\"1970-01-01T00:00:00Z\"\n");
        assert!(of("Any").contains("@type"));
        assert_eq!(of("Own"), "{\"n\":0}\n");
    }

    #[tokio::test]
    async fn a_server_is_listed_over_mutual_tls() {
        let server = started(Some(TlsOptions {
            mutual: true,
            ..TlsOptions::default()
        }));
        let place = format!("grpcs://{}", server.tls_address().unwrap());
        let issued = server.issued().unwrap();
        let read = |path: &std::path::Path| Some(std::fs::read_to_string(path).unwrap());
        let known = TlsSpec {
            client_cert_pem: read(&issued.client_certificate),
            client_key_pem: read(&issued.client_key),
            ..TlsSpec::default()
        };
        let asked = async |tls: TlsSpec| list(&place, &[], Some(tls)).await;
        let trusting = TlsSpec {
            ca_pem: read(&issued.ca),
            ..known.clone()
        };
        let insecure = TlsSpec {
            insecure: true,
            ..known.clone()
        };
        for tls in [trusting.clone(), insecure] {
            let services = asked(tls).await.unwrap();
            assert!(services.contains("tare.echo.v1.Echo"), "{services}");
        }
        let strange = format!("{:#}", asked(known).await.unwrap_err());
        assert!(strange.contains("certificate"), "{strange}");
        let other_name = TlsSpec {
            server_name: Some("another.example".into()),
            ..trusting.clone()
        };
        let other_name = format!("{:#}", asked(other_name).await.unwrap_err());
        assert!(other_name.contains("another.example"), "{other_name}");
        let unknown = TlsSpec {
            client_cert_pem: None,
            client_key_pem: None,
            ..trusting.clone()
        };
        assert!(
            asked(unknown).await.is_err(),
            "the server requires a client certificate"
        );
        let in_plain = place.replace("grpcs", "grpc");
        let in_plain = list(&in_plain, &[], None).await.unwrap_err();
        assert!(
            format!("{in_plain:#}").contains("use grpcs://"),
            "{in_plain:#}"
        );
        let plain = list("127.0.0.1:1", &[], Some(trusting)).await.unwrap_err();
        assert!(plain.to_string().contains("expected a grpcs://"), "{plain}");
        let scheme = list("http://127.0.0.1:1", &[], None).await.unwrap_err();
        assert!(
            scheme.to_string().contains("grpc:// or grpcs://"),
            "{scheme}"
        );
    }
}
