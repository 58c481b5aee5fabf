//! Turns the TLS part of a specification into rustls configurations: trust, identity,
//! versions.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls::{SupportedProtocolVersion, version};
use tare_plan::load::transport::{TlsSpec, TlsVersion, is_encrypted_key};

use super::Origin;

/// What is wrong with the certificate of a server that is that of an authority.
pub(crate) const CA_AS_SERVER: &str = "the server's own certificate is a CA certificate (CA:TRUE)";
/// Number of servers whose sessions are kept.
const SESSIONS: usize = 256;

/// Why the TLS part of a specification cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// Invalid PEM, or PEM of another kind.
    #[error("{field}: found {found}, expected {expected}")]
    Pem {
        /// Which option of `tare load`.
        field: &'static str,
        /// What is wrong.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A client certificate without its key, or a key without its certificate.
    #[error("tls.{0} is missing: a client certificate and its key must be given together")]
    Half(&'static str),
    /// No certificate to trust.
    #[error(
        "no trusted certificate authority: {0}; name one with --ca FILE, or skip verification with --insecure"
    )]
    NoRoots(String),
    /// The minimum version is above the maximum version.
    #[error("--tls-min is above --tls-max: no TLS version is left")]
    Versions,
    /// A host that cannot be in a certificate.
    #[error("invalid server name: {0}; set --server-name to a host name or an IP address")]
    Name(String),
    /// Another error of rustls.
    #[error("tls: {0}")]
    Rustls(String),
}

/// The TLS settings of one connection.
#[derive(Debug, Clone)]
pub struct TlsPeer {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
    pub(crate) insecure: bool,
    resumption: bool,
}

impl TlsPeer {
    /// The rustls configuration and the expected server name, for connections outside the
    /// load.
    #[must_use]
    pub fn client(&self) -> (Arc<ClientConfig>, ServerName<'static>) {
        (Arc::clone(&self.config), self.name.clone())
    }
}

/// The TLS settings for HTTP/2 with the server `host`, for connections outside the load.
///
/// # Errors
/// [`TlsError`] when the settings cannot be used on this machine.
pub fn http2_peer(spec: &TlsSpec, host: &str) -> Result<TlsPeer, TlsError> {
    let mut config = config(spec)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    peer(spec, &Arc::new(config), host)
}

fn peer(spec: &TlsSpec, config: &Arc<ClientConfig>, host: &str) -> Result<TlsPeer, TlsError> {
    let name = spec.server_name.as_deref().unwrap_or(host);
    Ok(TlsPeer {
        config: Arc::clone(config),
        name: ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?,
        insecure: spec.insecure,
        resumption: spec.resumption,
    })
}

/// The TLS settings of each origin; `None` for plain text. ALPN offers only the origin's
/// protocol, `h2` or `http/1.1`. Connections that share the result of one call share a
/// session store.
///
/// # Errors
/// [`TlsError`] when the settings cannot be used on this machine.
pub fn peers(spec: &TlsSpec, origins: &[Origin]) -> Result<Vec<Option<TlsPeer>>, TlsError> {
    if !origins.iter().any(|o| o.tls) {
        return Ok(vec![None; origins.len()]);
    }
    let http1 = config(spec)?;
    let mut http2 = http1.clone();
    http2.alpn_protocols = vec![b"h2".to_vec()];
    let configs = [Arc::new(http1), Arc::new(http2)];
    let peer = |origin: &Origin| {
        let config = &configs[usize::from(origin.multiplexed)];
        let peer = || peer(spec, config, &origin.server_name);
        origin.tls.then(peer).transpose()
    };
    origins.iter().map(peer).collect()
}

/// The same settings with their own session store, so that threads share no lock.
pub(crate) fn own_sessions(peers: &[Option<TlsPeer>]) -> Vec<Option<TlsPeer>> {
    // One configuration per protocol.
    let mut own: Vec<Arc<ClientConfig>> = Vec::new();
    let mut copy = |peer: &TlsPeer| {
        let alpn = &peer.config.alpn_protocols;
        let known = own.iter().position(|c| c.alpn_protocols == *alpn);
        let at = known.unwrap_or_else(|| {
            let mut config = ClientConfig::clone(&peer.config);
            config.resumption = resumption(peer.resumption);
            own.push(Arc::new(config));
            own.len() - 1
        });
        let config = &own[at];
        TlsPeer {
            config: Arc::clone(config),
            ..peer.clone()
        }
    };
    peers.iter().map(|p| p.as_ref().map(&mut copy)).collect()
}

fn config(spec: &TlsSpec) -> Result<ClientConfig, TlsError> {
    let rustls = |e: rustls::Error| TlsError::Rustls(e.to_string());
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(spec)?)
        .map_err(rustls)?;
    let builder = if spec.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    } else {
        builder.with_root_certificates(roots(spec)?)
    };
    let mut config = match identity(spec)? {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(rustls)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = resumption(spec.resumption);
    Ok(config)
}

fn resumption(wanted: bool) -> Resumption {
    match wanted {
        true => Resumption::in_memory_sessions(SESSIONS),
        false => Resumption::disabled(),
    }
}

fn versions(spec: &TlsSpec) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let range = spec.version_min..=spec.version_max;
    let mut versions = Vec::new();
    if range.contains(&TlsVersion::V13) {
        versions.push(&version::TLS13);
    }
    if range.contains(&TlsVersion::V12) {
        versions.push(&version::TLS12);
    }
    match versions.is_empty() {
        true => Err(TlsError::Versions),
        false => Ok(versions),
    }
}

fn certificates(
    field: &'static str,
    expected: &'static str,
    pem: &str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |found: String| TlsError::Pem {
        field,
        found,
        expected,
    };
    let all = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| wrong(e.to_string()))?;
    match all.is_empty() {
        true => Err(wrong("no certificate".to_owned())),
        false => Ok(all),
    }
}

fn roots(spec: &TlsSpec) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    if let Some(pem) = &spec.ca_pem {
        for certificate in certificates("--ca", "at least one PEM certificate", pem)? {
            store.add(certificate).map_err(|e| TlsError::Pem {
                field: "--ca",
                found: e.to_string(),
                expected: "certificates of certificate authorities",
            })?;
        }
        return Ok(store);
    }
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = store.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map(ToString::to_string);
        return Err(TlsError::NoRoots(
            why.unwrap_or_else(|| "the system's trust store is empty".to_owned()),
        ));
    }
    Ok(store)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(spec: &TlsSpec) -> Result<Option<Identity>, TlsError> {
    match (&spec.client_cert_pem, &spec.client_key_pem) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(TlsError::Half("client_key_pem")),
        (None, Some(_)) => Err(TlsError::Half("client_cert_pem")),
        (Some(chain), Some(key)) => {
            let chain = certificates("--cert", "at least one PEM certificate", chain)?;
            Ok(Some((chain, private_key(key)?)))
        }
    }
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    let wrong = |found: String, expected| TlsError::Pem {
        field: "--key",
        found,
        expected,
    };
    if is_encrypted_key(pem) {
        return Err(wrong(
            "an encrypted private key".to_owned(),
            "a PEM private key without a passphrase: decrypt it with `openssl pkey -in KEY -out DECRYPTED`",
        ));
    }
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|e| {
        let found = match certificates("", "", pem) {
            Ok(_) => "a certificate and no key".to_owned(),
            Err(_) => e.to_string(),
        };
        wrong(found, "a PEM private key")
    })
}

/// The text of a TLS failure, in words where the library has only the name of its error.
#[must_use]
pub fn explained(text: String) -> String {
    match text.contains("CaUsedAsEndEntity") {
        true => format!("invalid peer certificate: {CA_AS_SERVER}"),
        false => text,
    }
}

/// Accepts any certificate (`--insecure`), but still verifies that the peer has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_error(pem: &str) -> String {
        private_key(pem).unwrap_err().to_string()
    }

    #[test]
    fn a_key_that_cannot_be_used_is_described() {
        let pem = |name: &str, head: &str| {
            format!("-----BEGIN {name}-----\n{head}MAA=\n-----END {name}-----\n")
        };
        for encrypted in [
            pem("ENCRYPTED PRIVATE KEY", ""),
            pem(
                "RSA PRIVATE KEY",
                "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n",
            ),
        ] {
            let error = key_error(&encrypted);
            assert!(
                error.starts_with("--key: found an encrypted private key"),
                "{error}"
            );
            assert!(error.contains("openssl pkey -in"), "{error}");
        }
        let swapped = key_error(&pem("CERTIFICATE", ""));
        assert!(
            swapped.contains("found a certificate and no key"),
            "{swapped}"
        );
        assert!(key_error("").contains("expected a PEM private key"));
    }

    #[test]
    fn a_ca_certificate_of_a_server_is_named() {
        let error = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))";
        assert!(explained(error.to_owned()).contains("CA:TRUE"));
        assert_eq!(explained("other".to_owned()), "other");
    }
}
