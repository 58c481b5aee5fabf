//! TLS certificates: from files, or generated with a temporary authority.

use std::fmt::Display;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tare_plan::load::transport::is_encrypted_key;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// The TLS options of a server.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// Files with the certificate chain and its key (PEM); `None`: generated.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Require a client certificate of this authority (PEM).
    pub client_ca: Option<PathBuf>,
    /// Require a client certificate of the generated authority.
    pub mutual: bool,
    /// Names and addresses for the certificate, in addition to those of loopback.
    pub names: Vec<String>,
}

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// An unreadable file, or one without the expected PEM content.
    #[error("failed to read {}: {problem}; expected {expected} in PEM format", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What was found.
        problem: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The generated certificates could not be stored.
    #[error("failed to write the certificates to {}: {error}", path.display())]
    Write {
        /// The file or the directory.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// Certificates and keys that do not match.
    #[error("failed to serve TLS with these certificates: {0}")]
    Config(String),
    /// A certificate could not be generated.
    #[error("failed to generate a certificate: {0}")]
    Generate(#[from] rcgen::Error),
}

impl TlsError {
    fn read(path: &Path, problem: impl Display, expected: &'static str) -> Self {
        Self::Read {
            path: path.to_owned(),
            problem: problem.to_string(),
            expected,
        }
    }

    fn write(path: &Path, error: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            error,
        }
    }

    fn config(error: impl Display) -> Self {
        Self::Config(error.to_string())
    }
}

/// The files of generated certificates, which are removed when this is dropped.
#[derive(Debug)]
pub struct Issued {
    dir: PathBuf,
    /// The authority to trust.
    pub ca: PathBuf,
    /// A client certificate.
    pub client_certificate: PathBuf,
    /// The key of the client certificate.
    pub client_key: PathBuf,
}

impl Drop for Issued {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// An acceptor for these options, and the files of generated certificates.
pub(crate) fn acceptor(options: &TlsOptions) -> Result<(TlsAcceptor, Option<Issued>), TlsError> {
    let provider = Arc::new(ring::default_provider());
    let authority = match (&options.certificate, options.mutual) {
        (Some(_), false) => None,
        _ => Some(authority()?),
    };
    let (chain, key) = match (&options.certificate, &authority) {
        (Some((certificate, key)), _) => (read_chain(certificate)?, read_key(key)?),
        (None, Some(authority)) => {
            let (certificate, key) = issue(authority, names(&options.names))?;
            let key = PrivatePkcs8KeyDer::from(key.serialize_der());
            (vec![certificate.der().clone()], PrivateKeyDer::from(key))
        }
        (None, None) => return Err(TlsError::config("found no certificate")),
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::config)?;
    let mut roots = RootCertStore::empty();
    if let Some(path) = &options.client_ca {
        for certificate in read_chain(path)? {
            roots.add(certificate).map_err(TlsError::config)?;
        }
    }
    if let (true, Some(authority)) = (options.mutual, &authority) {
        let own = authority.as_ref().der().clone();
        roots.add(own).map_err(TlsError::config)?;
    }
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(TlsError::config)?;
        builder.with_client_cert_verifier(verifier)
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(TlsError::config)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let issued = authority.map(|a| write(&a)).transpose()?;
    Ok((TlsAcceptor::from(Arc::new(config)), issued))
}

fn names(more: &[String]) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    for name in more {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Result<Authority, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "tare serve-echo");
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn issue(
    authority: &Authority,
    names: Vec<String>,
) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    Ok((certificate, key))
}

/// Writes the authority and a client certificate to a new directory that only this user can
/// read.
fn write(authority: &Authority) -> Result<Issued, TlsError> {
    let (certificate, key) = issue(authority, vec!["client".to_owned()])?;
    let mut number = 0;
    let dir = loop {
        let name = format!("tare-echo-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => break dir,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(TlsError::write(&dir, error)),
        }
    };
    let issued = Issued {
        ca: dir.join("ca.pem"),
        client_certificate: dir.join("client.pem"),
        client_key: dir.join("client.key"),
        dir,
    };
    for (path, pem) in [
        (&issued.ca, authority.pem()),
        (&issued.client_certificate, certificate.pem()),
        (&issued.client_key, key.serialize_pem()),
    ] {
        let written = tare_files::create_private(path, pem.as_bytes());
        written.map_err(|error| TlsError::write(path, error))?;
    }
    Ok(issued)
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read_pem(path, "certificates")?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = read.map_err(|e| TlsError::read(path, e, "certificates"))?;
    if chain.is_empty() {
        return Err(TlsError::read(path, "found no certificate", "certificates"));
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let pem = read_pem(path, "a private key")?;
    if is_encrypted_key(&String::from_utf8_lossy(&pem)) {
        let expected = "a private key without a passphrase (`openssl pkey -in KEY -out DECRYPTED`)";
        return Err(TlsError::read(
            path,
            "the private key is encrypted",
            expected,
        ));
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|e| TlsError::read(path, e, "a private key"))
}

fn read_pem(path: &Path, expected: &'static str) -> Result<Vec<u8>, TlsError> {
    let read = tare_files::read(path, tare_files::DOCUMENT_BYTES_MAX);
    read.map_err(|e| TlsError::read(path, e, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_certificates_are_private_and_removed_when_dropped() {
        use std::os::unix::fs::PermissionsExt;
        let (_, issued) = acceptor(&TlsOptions::default()).unwrap();
        let issued = issued.unwrap();
        let dir = issued.dir.clone();
        let mode = std::fs::metadata(&dir).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(read_chain(&issued.ca).unwrap().len(), 1);
        assert!(read_key(&issued.client_key).is_ok());
        drop(issued);
        assert!(!dir.exists());
    }

    #[test]
    fn an_encrypted_key_is_refused_with_the_way_to_decrypt_it() {
        let (_, issued) = acceptor(&TlsOptions::default()).unwrap();
        let issued = issued.unwrap();
        let key = issued.dir.join("encrypted.key");
        let pem =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
        std::fs::write(&key, pem).unwrap();
        let options = TlsOptions {
            certificate: Some((issued.client_certificate.clone(), key)),
            ..TlsOptions::default()
        };
        let error = acceptor(&options).err().unwrap().to_string();
        assert!(
            error.contains("is encrypted") && error.contains("openssl pkey"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_file_is_named_in_the_error() {
        let path = PathBuf::from("/nonexistent/cert.pem");
        let options = TlsOptions {
            certificate: Some((path.clone(), path)),
            ..TlsOptions::default()
        };
        let error = acceptor(&options).err().unwrap().to_string();
        assert!(
            error.contains("/nonexistent/cert.pem") && error.contains("PEM"),
            "{error}"
        );
    }
}
