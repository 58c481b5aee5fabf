//! gRPC request messages on the command line: JSON, encoded as Protobuf before the load starts.

use std::path::PathBuf;

use anyhow::{Context, bail};
use prost_reflect::DescriptorPool;
use serde_json::Value;
use tare_load::tls::peers;
use tare_load::{Targets, host_port, without_zone};
use tare_plan::load::{Endpoint, LoadSpec, Protocol};

use crate::cmd::input::read_text;
use crate::protobuf::{self, Reflection, ReflectionError};

/// Request messages of gRPC calls, and the source of their schema.
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// gRPC: request message as JSON; several in a row, or an array, for client streams. The schema comes from server reflection, or from --proto or --descriptor-set.
    #[arg(long, value_name = "JSON", conflicts_with_all = ["data_file", "data_raw"])]
    data: Option<String>,
    /// gRPC: file with request messages: one JSON document, one per line, or an array.
    #[arg(long, value_name = "FILE", conflicts_with = "data_raw")]
    data_file: Option<PathBuf>,
    /// gRPC: .proto file with the schema of the service.
    #[arg(long, value_name = "FILE", conflicts_with = "descriptor_set")]
    proto: Option<PathBuf>,
    /// gRPC: directory to search for imports of the .proto file; may be repeated.
    #[arg(long, value_name = "DIR", requires = "proto")]
    import_path: Vec<PathBuf>,
    /// gRPC: encoded descriptor set with the schema of the service.
    #[arg(long, value_name = "FILE")]
    descriptor_set: Option<PathBuf>,
}

/// Encodes the messages of all gRPC endpoints without messages, and sets the kind of their methods.
///
/// # Errors
/// When the schema, service, method or field does not exist, or the JSON is invalid.
pub(super) fn fill(spec: &mut LoadSpec, args: &Args) -> anyhow::Result<()> {
    let wanted = args.data.is_some() || args.data_file.is_some();
    if !spec.endpoints.iter().any(|e| e.protocol == Protocol::Grpc) {
        if wanted {
            bail!(
                "--data and --data-file apply to gRPC calls only: expected a URL such as grpc://host:port/package.Service/Method"
            );
        }
        return Ok(());
    }
    let values = match (&args.data, &args.data_file) {
        (Some(text), _) => Some(protobuf::values(text).context("--data")?),
        (None, Some(path)) => {
            let text = read_text(path)?;
            Some(protobuf::values(&text).with_context(|| path.display().to_string())?)
        }
        (None, None) => None,
    };
    let described = match (&args.proto, &args.descriptor_set) {
        (Some(file), _) => Some(protobuf::from_proto(file, &args.import_path)?),
        (None, Some(file)) => Some(protobuf::from_descriptor_set(file)?),
        (None, None) => None,
    };
    let runtime = crate::cmd::runtime()?;
    let alone = LoadSpec {
        endpoints: Vec::new(),
        ..spec.clone()
    };
    let undecided = spec.endpoints.iter_mut().filter(|e| {
        // One empty message is the default of a call.
        e.protocol == Protocol::Grpc && matches!(e.messages_base64.as_slice(), [m] if m.is_empty())
    });
    for endpoint in undecided {
        let pool = match &described {
            Some(pool) => pool.clone(),
            None => match runtime.block_on(ask(&alone, endpoint)) {
                Ok(pool) => pool,
                Err(e) if !wanted && has_no_schema(&e) => continue,
                Err(e) => return Err(e.context(endpoint.name.clone())),
            },
        };
        encode(endpoint, &pool, values.as_deref()).with_context(|| endpoint.name.clone())?;
    }
    Ok(())
}

/// Whether the server provided no schema. This is a failure only with data, which must be encoded.
/// A server that does not exist is reported by the load itself.
fn has_no_schema(error: &anyhow::Error) -> bool {
    !matches!(
        error.downcast_ref::<ReflectionError>(),
        Some(ReflectionError::Service(_))
    )
}

/// Without values the message stays empty, which is valid for every type; its JSON need not be `{}`.
fn encode(
    endpoint: &mut Endpoint,
    pool: &DescriptorPool,
    values: Option<&[Value]>,
) -> anyhow::Result<()> {
    let (_, path) = split_url(&endpoint.url)?;
    let (service, method) = protobuf::split_path(path)?;
    let service = protobuf::service(pool, service)?;
    let method = protobuf::method(&service, method)?;
    if let Some(values) = values {
        endpoint.messages_base64 = protobuf::encode(&method, values)?;
    }
    endpoint.grpc.streaming = protobuf::streaming(&method);
    Ok(())
}

/// Gets the schema through server reflection, with the connection settings of the load; `alone` is
/// its specification without endpoints.
async fn ask(alone: &LoadSpec, endpoint: &Endpoint) -> anyhow::Result<DescriptorPool> {
    let (authority, path) = split_url(&endpoint.url)?;
    let (service, _) = protobuf::split_path(path)?;
    let spec = LoadSpec {
        endpoints: vec![endpoint.clone()],
        ..alone.clone()
    };
    let origins = Targets::new(&spec)?.origins;
    let peers = peers(&spec.tls.unwrap_or_default(), &origins)?;
    let place = endpoint.connect.as_deref().unwrap_or(authority);
    let place = host_port(place, origins[0].port)?;
    let (authority, tls) = (without_zone(authority), peers[0].as_ref());
    let server = Reflection::connect(place, &authority, tls, &endpoint.headers).await?;
    Ok(server.describe(service).await?)
}

/// Splits an endpoint's URL into authority and path.
fn split_url(url: &str) -> anyhow::Result<(&str, &str)> {
    let Some((_, rest)) = url.split_once("://") else {
        bail!("found {url:?}, expected grpc://host:port/package.Service/Method");
    };
    let at = rest.find('/').unwrap_or(rest.len());
    Ok(rest.split_at(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use clap::Parser;
    use tare_plan::load::Streaming;
    use tare_workload::{EchoOptions, EchoServer, LocalInstance, TlsOptions};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: super::super::Args,
    }

    /// Returns the endpoint of `tare load` with these arguments.
    fn filled(args: &[&str]) -> anyhow::Result<Endpoint> {
        let line = Line::try_parse_from([&["load", "--rate", "1"], args].concat())?;
        let mut spec = super::super::spec::from_args(&line.load)?;
        fill(&mut spec, &line.load.messages)?;
        Ok(spec.endpoints.remove(0))
    }

    fn error(args: &[&str]) -> String {
        format!("{:#}", filled(args).unwrap_err())
    }

    fn echo() -> (EchoServer, String) {
        let server = started(None);
        let url = format!("grpc://{}/tare.echo.v1.Echo", server.address());
        (server, url)
    }

    fn started(tls: Option<(String, TlsOptions)>) -> EchoServer {
        EchoServer::start(&EchoOptions {
            tls,
            ..EchoOptions::at("127.0.0.1:0")
        })
        .unwrap()
    }

    /// `{"name": "x"}` as an EchoRequest: field 1, length 1.
    const NAME_X: &str = "CgF4";

    #[test]
    fn reflection_gives_the_schema() {
        let (_server, url) = echo();
        let unary = filled(&[&format!("{url}/Unary"), "--data", r#"{"name":"x"}"#]).unwrap();
        assert_eq!(unary.messages_base64, [NAME_X]);
        assert_eq!(unary.grpc.streaming, Streaming::Unary);
        let data = r#"{"name":"x"} {}"#;
        let bidi = filled(&[&format!("{url}/BidiStream"), "--data", data]).unwrap();
        assert_eq!(bidi.messages_base64, [NAME_X, ""]);
        assert_eq!(bidi.grpc.streaming, Streaming::Bidi);
        // Without data, the message is empty and the call has the kind of its method.
        let server = filled(&[&format!("{url}/ServerStream")]).unwrap();
        assert_eq!(server.messages_base64, [""]);
        assert_eq!(server.grpc.streaming, Streaming::Server);
    }

    #[test]
    fn reflection_uses_the_tls_settings_of_the_load() {
        let mutual = TlsOptions {
            mutual: true,
            ..TlsOptions::default()
        };
        let server = started(Some(("127.0.0.1:0".to_owned(), mutual)));
        let url = format!(
            "grpcs://{}/tare.echo.v1.Echo/Unary",
            server.tls_address().unwrap()
        );
        let issued = server.issued().unwrap();
        let path = |p: &std::path::Path| p.to_str().unwrap().to_owned();
        let (ca, cert) = (path(&issued.ca), path(&issued.client_certificate));
        let key = path(&issued.client_key);
        let data = ["--data", r#"{"name":"x"}"#];
        let identity = ["--cert", &cert, "--key", &key];
        let asked = |trust: &[&str]| filled(&[&[url.as_str()], &data[..], trust].concat());
        for trust in [&["--ca", ca.as_str()][..], &["--insecure"]] {
            let endpoint = asked(&[trust, &identity].concat()).unwrap();
            assert_eq!(endpoint.messages_base64, [NAME_X]);
        }
        // An untrusted server, and a client without a certificate.
        let strange = format!("{:#}", asked(&identity).unwrap_err());
        assert!(strange.contains("certificate"), "{strange}");
        assert!(asked(&["--ca", &ca]).is_err());
        // With TLS, the schema may also come from a file.
        let proto = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../workload/proto/tare_echo.proto"
        );
        assert_eq!(
            asked(&["--proto", proto]).unwrap().messages_base64,
            [NAME_X]
        );
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest_known_one() {
        let (_server, url) = echo();
        let method = error(&[&format!("{url}/Unray"), "--data", "{}"]);
        assert!(method.contains("did you mean Unary?"), "{method}");
        let service = url.replace("v1.Echo", "v1.Ecko");
        let service = error(&[&format!("{service}/Unary")]);
        assert!(
            service.contains("did you mean tare.echo.v1.Echo?"),
            "{service}"
        );
        let field = error(&[&format!("{url}/Unary"), "--data", r#"{"nmae":"x"}"#]);
        assert!(field.contains("did you mean name?"), "{field}");
        let path = error(&[url.trim_end_matches("tare.echo.v1.Echo"), "--data", "{}"]);
        assert!(path.contains("/package.Service/Method"), "{path}");
    }

    #[test]
    fn a_file_gives_the_schema_when_the_server_has_no_reflection() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let graph = tare_plan::graph::builtin("emojivoto").unwrap();
        let instance = runtime.block_on(LocalInstance::start(&graph, 1)).unwrap();
        let (_, _, address) = instance
            .services()
            .find(|(name, ..)| *name == "emoji")
            .unwrap();
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        let serving = std::thread::spawn(move || {
            runtime.block_on(async {
                let _ = end.await;
                drop(instance);
            });
        });
        let url = format!("grpc://{address}/tare.echo.v1.Echo/Unary");
        let none = error(&[&url, "--data", "{}"]);
        assert!(
            none.contains("--proto") && none.contains("--descriptor-set"),
            "{none}"
        );
        // Without data, no schema is needed.
        assert_eq!(filled(&[&url]).unwrap().messages_base64, [""]);
        let proto = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../workload/proto/tare_echo.proto"
        );
        let json = r#"{"name":"x"}"#;
        let by_proto = filled(&[&url, "--data", json, "--proto", proto]).unwrap();
        assert_eq!(by_proto.messages_base64, [NAME_X]);
        let dir = tempfile::tempdir().unwrap();
        let set = dir.path().join("echo.bin");
        let includes = [std::path::Path::new(proto).parent().unwrap()];
        let compiled = protox::compile([proto], includes).unwrap();
        std::fs::write(
            &set,
            prost_reflect::prost::Message::encode_to_vec(&compiled),
        )
        .unwrap();
        let set = set.to_str().unwrap();
        let by_set = filled(&[&url, "--data", json, "--descriptor-set", set]).unwrap();
        assert_eq!(by_set.messages_base64, [NAME_X]);
        let no_set = error(&[&url, "--data", json, "--descriptor-set", proto]);
        assert!(no_set.contains("not a valid descriptor set"), "{no_set}");
        drop(ended);
        serving.join().unwrap();
    }

    /// The types whose JSON is special, with a message and its encoding.
    const SPECIAL: [(&str, &str, &[u8]); 16] = [
        ("StringValue", r#""x""#, b"\x0a\x01x"),
        ("BytesValue", r#""eA==""#, b"\x0a\x01x"),
        ("BoolValue", "true", b"\x08\x01"),
        ("Int32Value", "1", b"\x08\x01"),
        ("Int64Value", r#""1""#, b"\x08\x01"),
        ("UInt32Value", "1", b"\x08\x01"),
        ("UInt64Value", "1", b"\x08\x01"),
        ("FloatValue", "0.0", b""),
        ("DoubleValue", "0.0", b""),
        ("Timestamp", r#""1970-01-01T00:00:01Z""#, b"\x08\x01"),
        ("Duration", r#""1s""#, b"\x08\x01"),
        ("FieldMask", r#""a""#, b"\x0a\x01a"),
        ("ListValue", "[true]", b"\x0a\x02\x20\x01"),
        ("Value", "[]", b"\x32\x00"),
        ("Struct", "{}", b""),
        ("Empty", "{}", b""),
    ];

    #[test]
    fn a_message_whose_json_is_no_object_can_be_omitted_and_given() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("special.proto");
        let files = "any duration empty field_mask struct timestamp wrappers";
        let mut proto = "syntax = \"proto3\";\npackage p;\n".to_owned();
        for file in files.split(' ') {
            proto += &format!("import \"google/protobuf/{file}.proto\";\n");
        }
        let types = SPECIAL.iter().map(|(name, ..)| *name).chain(["Any"]);
        proto += "service S {\n";
        for name in types.clone() {
            let full = format!("google.protobuf.{name}");
            proto += &format!("rpc {name}({full}) returns ({full});\n");
            proto += &format!("rpc {name}s(stream {full}) returns ({full});\n");
        }
        std::fs::write(&file, proto + "}").unwrap();
        let file = file.to_str().unwrap();
        let called = |method: &str, data: &[&str]| {
            let url = format!("grpc://127.0.0.1:1/p.S/{method}");
            filled(&[&[url.as_str(), "--proto", file], data].concat())
        };
        for name in types {
            let unary = called(name, &[]).unwrap();
            assert_eq!(unary.messages_base64, [""], "{name}");
            let client = called(&format!("{name}s"), &[]).unwrap();
            assert_eq!(client.messages_base64, [""], "{name}");
            assert_eq!(client.grpc.streaming, Streaming::Client);
        }
        for (name, json, bytes) in SPECIAL {
            let expected = base64::engine::general_purpose::STANDARD.encode(bytes);
            let unary = called(name, &["--data", json]).unwrap();
            assert_eq!(
                unary.messages_base64,
                std::slice::from_ref(&expected),
                "{name}"
            );
            let two = format!("{json}\n{json}");
            let client = called(&format!("{name}s"), &["--data", &two]).unwrap();
            assert_eq!(
                client.messages_base64,
                [expected.clone(), expected],
                "{name}"
            );
        }
        // An object is still refused where the type has none.
        assert!(called("StringValue", &["--data", "{}"]).is_err());
    }

    #[test]
    fn data_applies_to_calls_only() {
        let refused = error(&["http://127.0.0.1:1/", "--data", "{}"]);
        assert!(refused.contains("grpc://"), "{refused}");
        let gone = error(&["grpc://127.0.0.1:1/a.B/C", "--data", "{}"]);
        assert!(gone.contains("cannot connect to 127.0.0.1:1"), "{gone}");
    }
}
