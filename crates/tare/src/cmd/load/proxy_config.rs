//! Reads the configuration of the generator's own proxy. A dump makes a proxy allocate memory, so
//! this happens only after the load, and a failure here does not fail the load.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tare_analysis::config::proxy_config::{ASKS_AFTER, ASKS_WITHIN, BYTES_MAX, Packer, missing};
use tare_model::record::LoadRecord;

/// Returns the records of all documents, by name and address, or the reason why one is missing.
pub(super) fn ask(addresses: &BTreeMap<String, String>) -> Vec<LoadRecord> {
    if !addresses.is_empty() {
        std::thread::sleep(ASKS_AFTER);
    }
    let until = Instant::now() + ASKS_WITHIN;
    let mut packer = Packer::default();
    let ask = |(name, url): (&String, &String)| {
        let left = until.saturating_duration_since(Instant::now());
        match get(url, left) {
            Ok(json) => packer.records(name, &json),
            Err(found) => vec![missing(name, format!("{url}: {found}"))],
        }
    };
    addresses.iter().flat_map(ask).collect()
}

fn get(url: &str, within: Duration) -> Result<Vec<u8>, String> {
    if within.is_zero() {
        return Err(format!(
            "not requested: the limit of {} s for all documents was used up",
            ASKS_WITHIN.as_secs()
        ));
    }
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(within))
        .max_redirects(0)
        // The address is on loopback: proxy settings of the system do not apply.
        .proxy(None)
        .build();
    let request = ureq::Agent::new_with_config(config)
        .get(url)
        .header("Accept", "application/json");
    let mut answer = request.call().map_err(|e| e.to_string())?;
    let body = answer.body_mut().with_config().limit(BYTES_MAX as u64);
    body.read_to_vec().map_err(|e| e.to_string())
}
