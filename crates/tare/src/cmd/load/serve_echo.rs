//! `tare serve-echo`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use tare_workload::{EchoOptions, EchoServer, Knobs, TlsOptions, run_echo};

/// Run a test server whose responses the client chooses: HTTP/1.1, HTTP/2 and gRPC, plain and with
/// TLS.
///
/// Paths: / and /echo (return the request body), /delay/10ms, /status/503, /bytes/1KiB, /headers, /ready, /metrics.
/// Query parameters, or headers with the prefix `tare-`: delay, size, status, close. Values may have percentages:
/// `?delay=1ms:10,5ms:5` delays 10 % of the requests by 1 ms, 5 % by 5 ms, and the rest not at all.
/// `close` is 1 (after the response), abort, reset or stream. gRPC: tare.echo.v1.Echo, with reflection and health.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address and port to listen on; a port alone means 127.0.0.1; port 0 means any free port.
    #[arg(
        long,
        visible_alias = "port",
        default_value = "8080",
        value_name = "[ADDRESS:]PORT"
    )]
    listen: String,
    /// Also serve with TLS and ALPN on this address and port [default with any other TLS option: 8443].
    #[arg(long, value_name = "[ADDRESS:]PORT", num_args = 0..=1, default_missing_value = "8443")]
    tls: Option<String>,
    /// Server certificate chain (PEM). Without it, a certificate is generated, and the path of its CA is printed.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the server certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Additional name or address in the generated certificate, which always has those of loopback;
    /// may be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "cert")]
    name: Vec<String>,
    /// Mutual TLS: require client certificates of this CA (PEM).
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Mutual TLS: require client certificates, and generate one.
    #[arg(long)]
    mutual: bool,
    /// Number of event-loop threads; connections are assigned to them in turn.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Maximum number of requests served at a time; the capacity is exactly N divided by the mean
    /// delay [default: unlimited].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    concurrency: Option<u32>,
    /// Default delay, for example `1ms` or `1ms:10,5ms:5`.
    #[arg(long)]
    delay: Option<String>,
    /// Default size of responses, for example `1KiB` [default: the request body is returned].
    #[arg(long)]
    size: Option<String>,
    /// Default status, for example `503:2` (for 2 % of the requests) or `UNAVAILABLE:0.1`.
    #[arg(long)]
    status: Option<String>,
    /// Default way to close connections, for example `1:5` (after 5 % of the responses) or
    /// `reset:0.1`.
    #[arg(long)]
    close: Option<String>,
    /// Seed of the probabilities.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = options(&args)?;
    let (requests, connections) = run_echo(&options, |server| {
        // The server continues even if these lines cannot be written.
        let _ = describe(server);
    })?;
    crate::cmd::output::say(format_args!(
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
                .map_err(|error| anyhow!("--{name}: {}", error.problem))?;
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

/// Completes `8080` and `:8080` to an address on loopback.
fn address(text: &str) -> anyhow::Result<String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if port.parse::<u16>().is_ok() {
        return Ok(format!("127.0.0.1:{port}"));
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(text.to_owned())
        }
        _ => bail!("invalid address {text:?}: expected address:port, or a port from 0 to 65535"),
    }
}

fn describe(server: &EchoServer) -> io::Result<()> {
    let mut out = crate::terminal::out();
    let plain = server.address();
    writeln!(out, "listening on http://{plain} (HTTP/1.1, HTTP/2, gRPC)")?;
    if let Some(tls) = server.tls_address() {
        writeln!(out, "listening on https://{tls} (the same with TLS)")?;
    }
    if let Some(issued) = server.issued() {
        writeln!(out, "CA certificate: {}", issued.ca.display())?;
        writeln!(
            out,
            "client certificate and key: {} {}",
            issued.client_certificate.display(),
            issued.client_key.display()
        )?;
    }
    writeln!(
        out,
        "\ntry:\n  curl 'http://{plain}/echo?delay=1ms:10,5ms:5&size=1KiB'\n  curl -i 'http://{plain}/status/503:20'\n\nPress Ctrl-C to stop."
    )?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_loopback() {
        assert_eq!(address("81").unwrap(), "127.0.0.1:81");
        assert_eq!(address(":81").unwrap(), "127.0.0.1:81");
        assert_eq!(address("[::]:81").unwrap(), "[::]:81");
        assert!(address("here").is_err() && address("here:x").is_err());
    }
}
