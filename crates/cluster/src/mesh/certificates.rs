//! The certificate authority of a mesh, new for each trial: a trust anchor and an issuer that it
//! signed. The keys exist in memory only; Helm reads the issuer's key from its standard input.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use serde_json::Value;

use tare_run::environment::EnvironmentError;

/// Name of the issuer that Linkerd requires.
const ISSUER: &str = "identity.linkerd.cluster.local";
const ANCHOR: &str = "root.linkerd.cluster.local";

/// Certificates and the issuer's key, as PEM.
struct Authority {
    anchor: String,
    issuer: String,
    issuer_key: String,
}

fn generate() -> Result<Authority, rcgen::Error> {
    let params = |name: &str, path_length| -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(path_length));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(params)
    };
    // The default is ECDSA on P-256, the only algorithm that Linkerd accepts.
    let anchor = CertifiedIssuer::self_signed(params(ANCHOR, 1)?, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let issuer = params(ISSUER, 0)?.signed_by(&key, &anchor)?;
    Ok(Authority {
        anchor: anchor.pem(),
        issuer: issuer.pem(),
        issuer_key: key.serialize_pem(),
    })
}

/// Replaces each `${tare.NAME}` in Helm values by a certificate or key.
pub(crate) fn fill(values: &mut Value) -> Result<(), EnvironmentError> {
    if !values.to_string().contains("${tare.") {
        return Ok(());
    }
    let authority = generate()
        .map_err(std::io::Error::other)
        .map_err(EnvironmentError::io("generate the mesh's certificates"))?;
    replace(values, &authority);
    Ok(())
}

fn replace(value: &mut Value, authority: &Authority) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|v| replace(v, authority)),
        Value::Array(list) => list.iter_mut().for_each(|v| replace(v, authority)),
        Value::String(text) => {
            let pem = match text.as_str() {
                "${tare.trust_anchor_pem}" => &authority.anchor,
                "${tare.issuer_certificate_pem}" => &authority.issuer,
                "${tare.issuer_key_pem}" => &authority.issuer_key,
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
    fn only_placeholders_become_certificates() {
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
