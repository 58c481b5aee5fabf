//! TLS settings of a generator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TLS of the `https://` endpoints. PEM is passed as text, because a worker has no files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSpec {
    /// Certificates of the trusted authorities; default: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_pem: Option<String>,
    /// The client's certificate and the intermediate certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert_pem: Option<String>,
    /// The client's private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key_pem: Option<String>,
    /// Server name (SNI) that the server's certificate must have; default: the host of each
    /// URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Oldest version to accept.
    pub version_min: TlsVersion,
    /// Newest version to offer.
    pub version_max: TlsVersion,
    /// Whether a connection may resume the session of an earlier one.
    pub resumption: bool,
    /// Accepts any certificate. Labelled as such in the result.
    pub insecure: bool,
}

impl Default for TlsSpec {
    fn default() -> Self {
        Self {
            ca_pem: None,
            client_cert_pem: None,
            client_key_pem: None,
            server_name: None,
            version_min: TlsVersion::V12,
            version_max: TlsVersion::V13,
            resumption: true,
            insecure: false,
        }
    }
}

/// A version of TLS.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    V12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    V13,
}

/// Whether a PEM private key needs a passphrase: PKCS #8, or the older form of OpenSSL.
#[must_use]
pub fn is_encrypted_key(pem: &str) -> bool {
    pem.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || pem.contains("Proc-Type: 4,ENCRYPTED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_keys_have_their_defaults() {
        let spec: TlsSpec =
            serde_json::from_str(r#"{"insecure": true, "version_min": "1.3"}"#).unwrap();
        assert!(spec.resumption && spec.insecure);
        assert_eq!(
            (spec.version_min, spec.version_max),
            (TlsVersion::V13, TlsVersion::V13)
        );
        let json = serde_json::to_string(&spec).unwrap();
        assert!(!json.contains("pem"), "{json}");
        assert_eq!(serde_json::from_str::<TlsSpec>(&json).unwrap(), spec);
        assert!(serde_json::from_str::<TlsSpec>(r#"{"insecur": true}"#).is_err());
    }
}
