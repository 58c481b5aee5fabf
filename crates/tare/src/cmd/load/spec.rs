//! The load specification of a command line.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine as _;
use serde::{Deserialize, Deserializer};
use tare_plan::load::{Arrivals, Endpoint, GrpcCall, LoadSpec, Mode, Protocol, masked};

use super::{Args, connect_to, grpc_flags};
use crate::cmd::input::{self, Headers};

/// Default length of the window.
const DURATION_NS: u64 = 10_000_000_000;

pub(super) fn from_args(args: &Args) -> anyhow::Result<LoadSpec> {
    let request = request(args)?;
    let of_url = |url: &String| {
        grpc_flags::by_scheme(Endpoint {
            name: masked(url),
            url: url.clone(),
            ..request.clone()
        })
    };
    let mut endpoints: Vec<Endpoint> = args.urls.iter().map(of_url).collect();
    if let Some(path) = &args.endpoints {
        endpoints.extend(from_file(path, &request)?);
    }
    connect_to::apply(&args.connect_to, &mut endpoints)?;
    number_masked(&mut endpoints);
    let tls = args.tls.spec(!args.tls_no_resumption)?;
    check_options(args, &endpoints, tls.is_some())?;
    let (mode, duration_ns) = mode(args)?;
    Ok(LoadSpec {
        warmup_ns: args.warmup,
        timeout_ns: args.timeout,
        drain_ns: args.drain,
        connections: args.connections,
        streams: args.streams,
        threads: args.threads,
        pace: args.pace,
        seed: args.seed,
        tls,
        requests_per_connection: args.requests_per_connection,
        pin: args.pin,
        awake: args.awake,
        kernel_timestamps_every: args.kernel_timestamps,
        ..LoadSpec::new(endpoints, mode, duration_ns)
    })
}

/// Numbers endpoints whose URLs differ only in what their names do not show, because endpoints of one
/// name would be reported together.
fn number_masked(endpoints: &mut [Endpoint]) {
    let mut urls: HashMap<String, Vec<String>> = HashMap::new();
    for endpoint in endpoints.iter_mut().filter(|e| e.name.contains("=***")) {
        let known = urls.entry(endpoint.name.clone()).or_default();
        let found = known.iter().position(|url| *url == endpoint.url);
        let number = found.unwrap_or_else(|| {
            known.push(endpoint.url.clone());
            known.len() - 1
        });
        if number > 0 {
            endpoint.name = format!("{} ({})", endpoint.name, number + 1);
        }
    }
}

/// Rejects options that have no effect on any endpoint, and gRPC calls without a method.
fn check_options(args: &Args, endpoints: &[Endpoint], with_tls: bool) -> anyhow::Result<()> {
    let is_grpc = |e: &Endpoint| e.protocol == Protocol::Grpc;
    if args.streams > 1 && endpoints.iter().all(|e| e.protocol.is_http1()) {
        bail!("--streams applies to HTTP/2 and gRPC only: add --http2");
    }
    if let Some(option) = args.grpc.given().filter(|_| !endpoints.iter().any(is_grpc)) {
        bail!(
            "{option} applies to gRPC calls only: expected a URL such as grpc://host:port/package.Service/Method"
        );
    }
    let is_tls = |e: &Endpoint| e.url.to_ascii_lowercase().starts_with("https:");
    if with_tls && !endpoints.iter().any(is_tls) {
        bail!("the TLS options apply to https:// and grpcs:// only: expected such a URL");
    }
    let path = |url: &str| url.splitn(4, '/').nth(3).map(str::to_owned);
    let incomplete = |e: &&Endpoint| is_grpc(e) && path(&e.url).is_none_or(|p| p.is_empty());
    if let Some(endpoint) = endpoints.iter().find(incomplete) {
        bail!(
            "{}: the method is missing, expected grpc://host:port/package.Service/Method",
            endpoint.name
        );
    }
    Ok(())
}

/// Parses a share of requests: `1%` gives 100 (one in a hundred), `off` gives 0.
pub(super) fn share(text: &str) -> Result<u32, String> {
    if text == "off" {
        return Ok(0);
    }
    let percent = text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
    match percent {
        Some(p) if p > 0.0 && p <= 100.0 => Ok((100.0 / p).round().min(1e9) as u32),
        _ => Err("expected a percentage above 0% and up to 100%, or `off`".to_owned()),
    }
}

/// Returns the mode (open or closed loop) and the length of the window.
fn mode(args: &Args) -> anyhow::Result<(Mode, u64)> {
    if args.max {
        return Ok((Mode::Saturate, args.duration.unwrap_or(DURATION_NS)));
    }
    let read = |path: &str| input::read_text(Path::new(path)).map_err(|e| format!("{e:#}"));
    let arrivals = Arrivals::parse(&args.arrivals, &read).context("--arrivals")?;
    let own_window_ns = arrivals.own_window_ns().unwrap_or(DURATION_NS);
    let duration_ns = args.duration.unwrap_or(own_window_ns);
    let rate_rps = match (args.rate, arrivals.own_rate_rps(duration_ns)) {
        (Some(rate_rps), None) | (None, Some(rate_rps)) => rate_rps,
        (None, None) => bail!("missing rate: expected --rate, or --max for a closed loop"),
        (Some(_), Some(own)) => bail!(
            "--arrivals {arrivals} defines its own rate ({own} rps on average): remove --rate, or choose other arrivals"
        ),
    };
    Ok((Mode::Open { rate_rps, arrivals }, duration_ns))
}

/// Returns the request that the flags describe, without a URL.
fn request(args: &Args) -> anyhow::Result<Endpoint> {
    let mut headers = Headers::all(&args.header)?;
    headers.extend(Headers::all(&args.grpc.metadata)?);
    let body = match (&args.body, &args.body_file) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(path)) => Some(input::read(path)?),
        (None, None) => None,
    };
    let body_base64 = body.map(|b| base64::engine::general_purpose::STANDARD.encode(b));
    Ok(Endpoint {
        name: String::new(),
        protocol: match args.http2 {
            true => Protocol::Http2,
            false => Protocol::Http1,
        },
        method: args.method.clone(),
        url: String::new(),
        connect: None,
        headers,
        body_base64,
        messages_base64: args.grpc.messages()?,
        grpc: args.grpc.call(),
        weight: 1,
    })
}

/// A line of an endpoint file. The flags give the defaults of everything except the URL.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    url: String,
    name: Option<String>,
    protocol: Option<Protocol>,
    method: Option<String>,
    connect: Option<String>,
    headers: Option<Vec<(String, String)>>,
    /// `null` means no body, even if the flags define one.
    #[serde(default, deserialize_with = "present")]
    body_base64: Option<Option<String>>,
    messages_base64: Option<Vec<String>>,
    grpc: Option<GrpcCall>,
    weight: Option<u32>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl Line {
    fn over(self, flags: &Endpoint) -> Endpoint {
        Endpoint {
            name: self.name.unwrap_or_else(|| masked(&self.url)),
            url: self.url,
            protocol: self.protocol.unwrap_or(flags.protocol),
            method: self.method.unwrap_or_else(|| flags.method.clone()),
            connect: self.connect,
            headers: self.headers.unwrap_or_else(|| flags.headers.clone()),
            body_base64: self
                .body_base64
                .unwrap_or_else(|| flags.body_base64.clone()),
            messages_base64: self
                .messages_base64
                .unwrap_or_else(|| flags.messages_base64.clone()),
            grpc: self.grpc.unwrap_or(flags.grpc),
            weight: self.weight.unwrap_or(flags.weight),
        }
    }
}

/// Reads endpoints from a file with one JSON object per line.
fn from_file(path: &Path, request: &Endpoint) -> anyhow::Result<Vec<Endpoint>> {
    let endpoints = from_lines(&input::read_text(path)?, request)
        .with_context(|| format!("invalid endpoint file {}", path.display()))?;
    if endpoints.is_empty() {
        bail!("{} contains no endpoint", path.display());
    }
    Ok(endpoints)
}

fn from_lines(text: &str, request: &Endpoint) -> anyhow::Result<Vec<Endpoint>> {
    let mut endpoints = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line: Line = serde_json::from_str(line)
            .context("expected a JSON object with at least \"url\"")
            .with_context(|| format!("line {}", i + 1))?;
        endpoints.push(grpc_flags::by_scheme(line.over(request)));
    }
    Ok(endpoints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[test]
    fn a_url_with_the_scheme_grpc_is_a_call() {
        let text = "{\"url\": \"grpc://h:1/p.S/M\"}\n{\"url\": \"http://h/\"}";
        let all = from_lines(text, &Endpoint::get("")).unwrap();
        assert_eq!(
            (all[0].protocol, all[0].url.as_str(), all[0].name.as_str()),
            (Protocol::Grpc, "http://h:1/p.S/M", "grpc://h:1/p.S/M")
        );
        // A call without data sends one empty message.
        assert_eq!(all[0].messages_base64, [""]);
        assert_eq!(all[1].protocol, Protocol::Http1);
    }

    #[test]
    fn names_have_no_secrets_and_still_differ() {
        let urls = ["?t=secret", "?t=other", "?t=secret", "?u=x", ""];
        let lines = urls.map(|query| format!("{{\"url\": \"http://h/{query}\"}}\n"));
        let mut all = from_lines(&lines.concat(), &Endpoint::get("")).unwrap();
        number_masked(&mut all);
        let names: Vec<&str> = all.iter().map(|e| e.name.as_str()).collect();
        let expected = ["?t=***", "?t=*** (2)", "?t=***", "?u=***", ""];
        assert_eq!(names, expected.map(|query| format!("http://h/{query}")));
    }

    #[test]
    fn the_flags_are_the_defaults_of_a_line() {
        let flags = Endpoint {
            method: "PUT".into(),
            headers: vec![("a".into(), "b".into())],
            body_base64: Some("QQ==".into()),
            ..Endpoint::get("")
        };
        let text = "{\"url\": \"http://h/\"}\n\
                    {\"url\": \"http://h/\", \"method\": \"POST\", \"headers\": [], \"body_base64\": null}";
        let all = from_lines(text, &flags).unwrap();
        assert_eq!((all[0].method.as_str(), all[0].headers.len()), ("PUT", 1));
        assert_eq!((all[1].method.as_str(), all[1].headers.len()), ("POST", 0));
        assert_eq!(all[0].body_base64.as_deref(), Some("QQ=="));
        assert_eq!(all[1].body_base64, None);
    }

    #[test]
    fn an_endpoint_needs_only_its_url() {
        let text = "# two\n{\"url\": \"http://h/a\", \"weight\": 3}\n\n{\"url\": \"http://h/b\"}\n";
        let all = from_lines(text, &Endpoint::get("")).unwrap();
        let e = &all[0];
        assert_eq!(
            (e.name.as_str(), e.method.as_str(), e.weight),
            ("http://h/a", "GET", 3)
        );
        assert_eq!((all.len(), all[1].weight), (2, 1));
    }

    #[test]
    fn an_error_names_its_line() {
        let error = |text: &str| format!("{:#}", from_lines(text, &Endpoint::get("")).unwrap_err());
        assert!(error("\n{\"name\": \"a\"}").starts_with("line 2: "));
        assert!(error("{\"url\": \"http://h/\", \"wieght\": 3}").contains("wieght"));
        assert!(error("- url: x").contains("JSON object"));
        assert!(error("{\"name\": \"a\"}").contains("`url`"));
    }

    #[test]
    fn options_without_effect_are_rejected() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            load: Args,
        }
        let check = |args: &[&str]| {
            let line = Line::try_parse_from([&["load", "--rate", "1"], args].concat()).unwrap();
            from_args(&line.load).map_or_else(|e| e.to_string(), |_| "ok".to_owned())
        };
        let (http, https, grpc) = ("http://h/", "https://h/", "grpc://h/p.S/M");
        let streams = "--streams applies to HTTP/2 and gRPC only: add --http2";
        assert_eq!(check(&[http, "--streams", "5"]), streams);
        assert_eq!(check(&[http, "--streams", "5", "--http2"]), "ok");
        assert_eq!(check(&[grpc, "--streams", "5", "--deadline", "5s"]), "ok");
        assert!(check(&[http, "--deadline", "5s"]).starts_with("--deadline applies to gRPC"));
        assert!(check(&[http, "--streaming", "bidi"]).starts_with("--streaming applies to gRPC"));
        assert!(check(&[http, "-k"]).starts_with("the TLS options apply to https://"));
        assert_eq!(check(&[http, https, "-k", "--tls-no-resumption"]), "ok");
        for url in ["grpc://h", "grpc://h/"] {
            assert!(check(&[url]).starts_with(&format!("{url}: the method is missing")));
        }
    }

    #[test]
    fn a_share_becomes_one_request_in_n() {
        assert_eq!(share("1%"), Ok(100));
        assert_eq!(share("100%"), Ok(1));
        assert_eq!(share("0.25%"), Ok(400));
        assert_eq!(share("off"), Ok(0));
        for text in ["0%", "101%", "1", "x%", "-1%", "nan%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
