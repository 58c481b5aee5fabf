//! Ranges of addresses to which a mesh applies.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kubernetes::MeshKubernetes;
use crate::source::Problem;

/// Ranges of addresses to which a mesh applies: those of a Helm value, or its default. Its proxies forward connections
/// to other addresses without the features of the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeshNetworks {
    /// Name of the release with the value.
    pub release: String,
    /// Name of the Helm value: ranges such as `10.0.0.0/8`, separated by commas.
    pub value: String,
    /// The chart's default of the value.
    pub default: String,
}

impl MeshNetworks {
    /// Checks the names and the default.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.release.is_empty() || self.value.is_empty() {
            return Err(Problem::of("`networks` needs `release` and `value`"));
        }
        match ranges(&self.default).find(|range| parse(range).is_none()) {
            Some(range) => Err(Problem::new(
                format!("found `{range}` in `networks`"),
                "ranges such as `10.0.0.0/8,fd00::/8`",
            )),
            None => Ok(()),
        }
    }
}

impl MeshKubernetes {
    /// Returns those of `addresses` (of pods or services, with or without a prefix length) that are outside the ranges
    /// to which the mesh applies, and these ranges; `None` if all are inside.
    #[must_use]
    pub fn outside_networks(&self, addresses: &[String]) -> Option<(Vec<String>, String)> {
        let networks = self.networks.as_ref()?;
        let set = self
            .values
            .get(&networks.release)
            .and_then(|values| values[networks.value.as_str()].as_str());
        let text = set.unwrap_or(&networks.default);
        let inside = |address: &String| {
            let address = parse(address)?;
            Some(ranges(text).any(|range| parse(range).is_some_and(|r| contains(r, address))))
        };
        // What cannot be read is not reported as outside.
        let outside = addresses.iter().filter(|a| inside(a) == Some(false));
        let outside: Vec<String> = outside.cloned().collect();
        (!outside.is_empty()).then(|| (outside, text.to_owned()))
    }
}

fn ranges(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|r| !r.is_empty())
}

/// Parses a range or an address: its bits, their number, and the number of those that all of its addresses share.
fn parse(text: &str) -> Option<(u128, u32, u32)> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
        None => (text, None),
    };
    let (bits, width) = match address.parse().ok()? {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let prefix = prefix.unwrap_or(width);
    (prefix <= width).then_some((bits, width, prefix))
}

fn contains(range: (u128, u32, u32), part: (u128, u32, u32)) -> bool {
    let (bits, width, prefix) = range;
    let rest = width - prefix;
    let same = |a: u128, b: u128| a.checked_shr(rest) == b.checked_shr(rest);
    part.1 == width && part.2 >= prefix && same(bits, part.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn mesh(values: Value) -> MeshKubernetes {
        let mesh = json!({
            "releases": [{"name": "control", "chart": "c", "namespace": "n"}],
            "values": {"control": values},
            "networks": {"release": "control", "value": "networks", "default": "10.0.0.0/8, 172.16.0.0/12,fd00::/8"}});
        MeshKubernetes::default().overlaid(&mesh).unwrap()
    }

    #[test]
    fn addresses_outside_the_ranges_are_found() {
        let outside = |values: Value, addresses: &[&str]| {
            let addresses: Vec<String> = addresses.iter().map(|a| (*a).to_owned()).collect();
            mesh(values)
                .outside_networks(&addresses)
                .map(|(found, _)| found)
        };
        let inside = ["10.244.1.0/24", "172.31.255.255", "fd12::/64", "10.0.0.0/8"];
        assert_eq!(outside(json!({}), &inside), None);
        for address in ["34.118.224.1", "172.32.0.0/16", "10.0.0.0/7", "2001:db8::1"] {
            let found = outside(json!({}), &["10.1.1.1", address]);
            assert_eq!(found, Some(vec![address.to_owned()]));
        }
        let all = json!({"networks": "0.0.0.0/0,::/0"});
        assert_eq!(outside(all, &["34.118.224.1", "2001:db8::1"]), None);
        assert_eq!(outside(json!({}), &["no address"]), None);
        let addresses = ["34.118.224.1".to_owned()];
        assert_eq!(MeshKubernetes::default().outside_networks(&addresses), None);
    }

    #[test]
    fn an_invalid_range_is_an_error() {
        let overlay =
            |default: &str| json!({"networks": {"release": "r", "value": "v", "default": default}});
        for default in ["10.0.0.0/33", "10.0.0/8", "all"] {
            let wrong = MeshKubernetes::default().overlaid(&overlay(default));
            assert!(wrong.unwrap_err().to_string().contains(default));
        }
        let mut other = mesh(json!({}));
        other.networks.as_mut().unwrap().release = "contorl".to_owned();
        assert!(other.check().unwrap_err().to_string().contains("`contorl`"));
        let unnamed = MeshKubernetes::default().overlaid(&json!({"networks": {"value": "v"}}));
        assert!(
            unnamed
                .unwrap_err()
                .to_string()
                .contains("`networks` needs `release`")
        );
    }
}
