//! `tare serve-echo`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use tare_workload::{EchoOptions, EchoServer, Knobs, TlsOptions, run_echo};

/// Serve a test server whose answers the client chooses: HTTP/1.1, HTTP/2 and gRPC, plain and TLS.
///
/// Paths: / and /echo (the body comes back), /delay/10ms, /status/503, /bytes/1KiB, /headers, /ready, /metrics.
/// Queries, or headers with `tare-` before the name: delay, size, status, close; each with percentages on request:
/// `?delay=1ms:10,5ms:5` is 1 ms for 10 % of the requests, 5 ms for 5 %, none for the rest.
/// `close` is 1 (after the answer), abort, reset, or stream. gRPC: tare.echo.v1.Echo, with reflection and health.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen: address:port, or a port of 127.0.0.1; port 0 is any free one.
    #[arg(
        long,
        visible_alias = "port",
        default_value = "8080",
        value_name = "[ADDRESS:]PORT"
    )]
    listen: String,
    /// Serve the same with TLS (and ALPN) as well, here [default with one of the next options: 8443].
    #[arg(long, value_name = "[ADDRESS:]PORT", num_args = 0..=1, default_missing_value = "8443")]
    tls: Option<String>,
    /// Certificate chain of the TLS side (PEM); without it, one is made, and its authority's file printed.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Key of that certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Names and addresses for the certificate that is made, besides those of loopback.
    #[arg(long, value_name = "NAME", conflicts_with = "cert")]
    name: Vec<String>,
    /// Ask clients for a certificate of this authority (PEM): mutual TLS.
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Ask clients for a certificate, and make one for them.
    #[arg(long)]
    mutual: bool,
    /// Event-loop threads; connections go to them in turn.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Requests served at a time: the capacity is this over the delay, exactly [default: any number].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    concurrency: Option<u32>,
    /// Delay of requests that ask for none, like `1ms` or `1ms:10,5ms:5`.
    #[arg(long)]
    delay: Option<String>,
    /// Size of the answer to requests that ask for none, like `1KiB` [default: the body comes back].
    #[arg(long)]
    size: Option<String>,
    /// Status for requests that ask for none, like `503:2` or `UNAVAILABLE:0.1`.
    #[arg(long)]
    status: Option<String>,
    /// How connections end for requests that do not say, like `1:5` or `reset:0.1`.
    #[arg(long)]
    close: Option<String>,
    /// Seed of the probabilities.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = options(&args)?;
    let (requests, connections) = run_echo(&options, |server| {
        // Nothing depends on these lines; the server goes on without a reader.
        let _ = describe(server);
    })?;
    super::say(format_args!(
        "served {requests} requests on {connections} connections"
    ));
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Args) -> anyhow::Result<EchoOptions> {
    let mut defaults = Knobs::default();
    for (name, value) in [
        ("delay", &args.delay),
        ("size", &args.size),
        ("status", &args.status),
        ("close", &args.close),
    ] {
        if let Some(value) = value {
            defaults
                .set(name, value)
                .with_context(|| format!("--{name}"))?;
        }
    }
    let with_tls = args.cert.is_some() || args.client_ca.is_some() || args.mutual;
    let tls = match (&args.tls, with_tls || !args.name.is_empty()) {
        (Some(listen), _) => Some(address(listen)?),
        (None, true) => Some(address("8443")?),
        (None, false) => None,
    };
    let tls_options = TlsOptions {
        certificate: args.cert.clone().zip(args.key.clone()),
        client_ca: args.client_ca.clone(),
        mutual: args.mutual,
        names: args.name.clone(),
    };
    Ok(EchoOptions {
        listen: address(&args.listen)?,
        tls: tls.map(|listen| (listen, tls_options)),
        threads: args.threads.into(),
        defaults,
        concurrency: args.concurrency.unwrap_or(0),
        seed: args.seed,
    })
}

/// `8080` and `:8080` are ports of loopback.
fn address(text: &str) -> anyhow::Result<String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if port.parse::<u16>().is_ok() {
        return Ok(format!("127.0.0.1:{port}"));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        bail!("found {text:?}, expected address:port, or a port from 0 to 65535");
    };
    if host.is_empty() || port.parse::<u16>().is_err() {
        bail!("found {text:?}, expected address:port, or a port from 0 to 65535");
    }
    Ok(text.to_owned())
}

fn describe(server: &EchoServer) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let plain = server.address();
    writeln!(out, "listening on http://{plain} (HTTP/1.1, HTTP/2, gRPC)")?;
    if let Some(tls) = server.tls_address() {
        writeln!(out, "listening on https://{tls} (the same with TLS)")?;
    }
    if let Some(issued) = server.issued() {
        writeln!(out, "authority: {}", issued.ca.display())?;
        writeln!(
            out,
            "client certificate and key: {} {}",
            issued.client_certificate.display(),
            issued.client_key.display()
        )?;
    }
    writeln!(
        out,
        "\ntry:\n  curl 'http://{plain}/echo?delay=1ms:10,5ms:5&size=1KiB'\n  curl -i 'http://{plain}/status/503:20'\n\nCtrl-C ends it."
    )?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_loopback() {
        assert_eq!(address("81").unwrap(), "127.0.0.1:81");
        assert_eq!(address(":81").unwrap(), "127.0.0.1:81");
        assert_eq!(address("[::]:81").unwrap(), "[::]:81");
        assert!(address("here").is_err() && address("here:x").is_err());
    }
}
