//! A mesh's own certificate authority, made by tare for one trial: a trust anchor and
//! an issuer below it. The keys live in memory only; Helm gets the issuer's through
//! its standard input.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use serde_json::Value;

use crate::environment::EnvironmentError;

/// Name of the issuer, as Linkerd demands it.
const ISSUER: &str = "identity.linkerd.cluster.local";
const ANCHOR: &str = "root.linkerd.cluster.local";

/// PEM texts by the names that Helm values use.
struct Trust {
    anchor: String,
    issuer: String,
    issuer_key: String,
}

fn make() -> Result<Trust, rcgen::Error> {
    let params = |name: &str, below| -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(params)
    };
    // ECDSA on P-256: the only kind that Linkerd takes.
    let anchor = CertifiedIssuer::self_signed(params(ANCHOR, 1)?, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let issuer = params(ISSUER, 0)?.signed_by(&key, &anchor)?;
    Ok(Trust {
        anchor: anchor.pem(),
        issuer: issuer.pem(),
        issuer_key: key.serialize_pem(),
    })
}

/// Puts what tare makes in the place of `${tare.NAME}` in Helm values.
pub(super) fn fill(values: &mut Value) -> Result<(), EnvironmentError> {
    if !values.to_string().contains("${tare.") {
        return Ok(());
    }
    let trust = make().map_err(|e| EnvironmentError::Io {
        doing: "make the mesh's certificates".to_owned(),
        source: std::io::Error::other(e),
    })?;
    replace(values, &trust);
    Ok(())
}

fn replace(value: &mut Value, trust: &Trust) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|v| replace(v, trust)),
        Value::Array(list) => list.iter_mut().for_each(|v| replace(v, trust)),
        Value::String(text) => {
            let pem = match text.as_str() {
                "${tare.trust_anchor_pem}" => &trust.anchor,
                "${tare.issuer_certificate_pem}" => &trust.issuer,
                "${tare.issuer_key_pem}" => &trust.issuer_key,
                _ => return,
            };
            *text = pem.clone();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn placeholders_become_certificates_and_nothing_else_changes() {
        let mut values =
            json!({"a": "${tare.trust_anchor_pem}", "b": {"c": "${tare.issuer_key_pem}"}, "d": 1});
        fill(&mut values).unwrap();
        assert!(
            values["a"]
                .as_str()
                .unwrap()
                .starts_with("-----BEGIN CERTIFICATE")
        );
        assert!(values["b"]["c"].as_str().unwrap().contains("PRIVATE KEY"));
        assert_eq!(values["d"], 1);
        let mut plain = json!({"x": "${other}"});
        fill(&mut plain).unwrap();
        assert_eq!(plain, json!({"x": "${other}"}));
    }
}
