//! TLS from the command line.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use tare_model::load::transport::{TlsSpec, TlsVersion};

/// TLS options of https:// and grpcs:// URLs.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS, for https:// and grpcs://")]
pub(super) struct TlsArgs {
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
    #[arg(long, value_enum, default_value_t = Version::V12)]
    tls_min: Version,
    /// Maximum TLS version.
    #[arg(long, value_enum, default_value_t = Version::V13)]
    tls_max: Version,
    /// Accept any server certificate without verification.
    #[arg(long, short = 'k', conflicts_with = "ca")]
    insecure: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Version {
    #[value(name = "1.2")]
    V12,
    #[value(name = "1.3")]
    V13,
}

impl From<Version> for TlsVersion {
    fn from(version: Version) -> Self {
        match version {
            Version::V12 => Self::V12,
            Version::V13 => Self::V13,
        }
    }
}

impl TlsArgs {
    /// Returns the TLS settings, or `None` if all have their defaults.
    pub(super) fn spec(&self, resumption: bool) -> anyhow::Result<Option<TlsSpec>> {
        let read = |path: &Option<PathBuf>| path.as_deref().map(text).transpose();
        let spec = TlsSpec {
            ca_pem: read(&self.ca)?,
            client_cert_pem: read(&self.cert)?,
            client_key_pem: read(&self.key)?,
            server_name: self.server_name.clone(),
            version_min: self.tls_min.into(),
            version_max: self.tls_max.into(),
            resumption,
            insecure: self.insecure,
        };
        Ok((spec != TlsSpec::default()).then_some(spec))
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}
