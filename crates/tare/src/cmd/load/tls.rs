//! TLS from the command line.

use std::path::PathBuf;

use tare_plan::load::transport::{TlsSpec, TlsVersion};

use crate::cmd::input::{one_of, read_text};

const VERSIONS: [&str; 2] = ["1.2", "1.3"];

/// TLS options of https:// and grpcs:// URLs.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS, for https:// and grpcs://")]
pub(in crate::cmd) struct TlsArgs {
    /// PEM file with trusted CA certificates [default: those of the system].
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with the client certificate and its intermediate certificates.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the private key of the client certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Server name for SNI and certificate verification [default: the host of the URL].
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Minimum TLS version.
    #[arg(long, value_parser = one_of::<TlsVersion>(&VERSIONS), default_value = "1.2")]
    tls_min: TlsVersion,
    /// Maximum TLS version.
    #[arg(long, value_parser = one_of::<TlsVersion>(&VERSIONS), default_value = "1.3")]
    tls_max: TlsVersion,
    /// Accept any server certificate without verification.
    #[arg(long, short = 'k', conflicts_with = "ca")]
    insecure: bool,
}

impl TlsArgs {
    /// Returns the TLS settings, or `None` if all have their defaults.
    pub(in crate::cmd) fn spec(&self, resumption: bool) -> anyhow::Result<Option<TlsSpec>> {
        let read = |path: &Option<PathBuf>| path.as_deref().map(read_text).transpose();
        let spec = TlsSpec {
            ca_pem: read(&self.ca)?,
            client_cert_pem: read(&self.cert)?,
            client_key_pem: read(&self.key)?,
            server_name: self.server_name.clone(),
            version_min: self.tls_min,
            version_max: self.tls_max,
            resumption,
            insecure: self.insecure,
        };
        Ok((spec != TlsSpec::default()).then_some(spec))
    }
}
