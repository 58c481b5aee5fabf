//! The certificate authority of the run, and a certificate with a SPIFFE identity for each pod. The
//! authority's key never leaves memory; the keys of the pods are only in the private directory of
//! the run.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme, version,
};

use crate::envoy::tls::TlsFiles;
use tare_run::environment::EnvironmentError;

/// Trust domain of the run.
const TRUST_DOMAIN: &str = "tare.local";

/// Returns the SPIFFE identity of a service of an instance.
pub(super) fn spiffe_id(namespace: &str, account: &str) -> String {
    format!("spiffe://{TRUST_DOMAIN}/ns/{namespace}/sa/{account}")
}

/// The name of a service in its certificate, for proxies that compare names of hosts: `web.shop-0` of the identity of `web` in
/// `shop-0`. It is also the authority of calls to it.
pub(super) fn name_of(identity: &str) -> Option<String> {
    let rest = identity.strip_prefix("spiffe://")?.split_once("/ns/")?.1;
    let (namespace, account) = rest.split_once("/sa/")?;
    Some(format!("{account}.{namespace}"))
}

fn failed(problem: impl std::fmt::Display) -> EnvironmentError {
    let problem = std::io::Error::other(problem.to_string());
    EnvironmentError::io("create the certificates of the run")(problem)
}

fn created<T>(result: Result<T, rcgen::Error>) -> Result<T, EnvironmentError> {
    result.map_err(|e| failed(format!("failed to create a certificate: {e}")))
}

/// The authority of the run: ECDSA on P-256.
#[derive(Debug)]
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Creates a key and a certificate for it.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub(super) fn new() -> Result<Self, EnvironmentError> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params
            .distinguished_name
            .push(DnType::CommonName, "tare run");
        let key = created(KeyPair::generate())?;
        let issuer = created(CertifiedIssuer::self_signed(params, key))?;
        Ok(Self { issuer })
    }

    /// Issues a certificate with this identity, for either side of a connection.
    ///
    /// # Errors
    /// When the cryptography fails.
    pub(super) fn issue(&self, identity: &str) -> Result<Leaf, EnvironmentError> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(created(identity.try_into())?)];
        params.distinguished_name = DistinguishedName::new();
        if let Some(name) = name_of(identity) {
            let dns = SanType::DnsName(created(name.as_str().try_into())?);
            params.subject_alt_names.push(dns);
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = created(KeyPair::generate())?;
        let certificate = created(params.signed_by(&key, &self.issuer))?;
        Ok(Leaf { certificate, key })
    }

    /// Writes a pod's certificate, key and the authority's certificate into a
    /// directory that only this user can enter.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn write(
        &self,
        leaf: &Leaf,
        dir: &Path,
        name: &str,
    ) -> Result<TlsFiles, EnvironmentError> {
        let files = TlsFiles {
            certificate: dir.join(format!("{name}.crt")),
            key: dir.join(format!("{name}.key")),
            authority: dir.join("authority.crt"),
        };
        write_private(&files.certificate, &leaf.certificate.pem())?;
        write_private(&files.key, &leaf.key.serialize_pem())?;
        if !files.authority.exists() {
            write_private(&files.authority, &self.issuer.pem())?;
        }
        Ok(files)
    }
}

fn write_private(path: &Path, text: &str) -> Result<(), EnvironmentError> {
    tare_files::create_private(path, text.as_bytes())
        .map_err(|e| failed(format!("failed to write a certificate: {e}")))
}

/// A certificate and its key.
#[derive(Debug)]
pub(super) struct Leaf {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Leaf {
    /// The certificate and its key in one text (PEM).
    pub(super) fn pem(&self) -> String {
        self.certificate.pem() + &self.key.serialize_pem()
    }

    /// The certificate in DER, as in a handshake.
    pub(super) fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }
}

/// Returns a TLS client for a proof, of version 1.3 or 1.2. It presents `leaf`, if given, and accepts only the
/// certificate `server`.
///
/// # Errors
/// When the certificate and its key do not match.
pub(super) fn client(
    leaf: Option<&Leaf>,
    server: CertificateDer<'static>,
    alpn: &str,
) -> Result<Arc<ClientConfig>, EnvironmentError> {
    let failed = |e: TlsError| failed(format!("failed to set up a TLS client: {e}"));
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { server, provider }));
    let mut config = match leaf {
        None => builder.with_no_client_auth(),
        Some(leaf) => {
            let key = PrivatePkcs8KeyDer::from(leaf.key.serialize_der());
            let key = PrivateKeyDer::from(key);
            builder
                .with_client_auth_cert(vec![leaf.der()], key)
                .map_err(failed)?
        }
    };
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    Ok(Arc::new(config))
}

/// A verifier that accepts one certificate. SPIFFE certificates do not name a host, so the usual
/// check of names is not possible; comparing the whole certificate is stricter.
#[derive(Debug)]
struct Pinned {
    server: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        if end_entity.as_ref() == self.server.as_ref() {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(TlsError::General(
                "found another certificate, expected that of the pod".to_owned(),
            ))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_owner_can_read_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new().unwrap();
        let leaf = authority.issue(&spiffe_id("shop-0", "front")).unwrap();
        let files = authority.write(&leaf, dir.path(), "shop-0-front").unwrap();
        let other = authority.issue(&spiffe_id("shop-0", "back")).unwrap();
        authority.write(&other, dir.path(), "shop-0-back").unwrap();
        let mode = std::fs::metadata(&files.key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(&files.authority).unwrap();
        assert!(text.starts_with("-----BEGIN CERTIFICATE-----") && !text.contains("KEY"));
        assert_ne!(leaf.der(), other.der());
        let text = format!("{:?}", String::from_utf8_lossy(&leaf.der()));
        assert!(text.contains("spiffe://tare.local/ns/shop-0/sa/front"));
    }
}
