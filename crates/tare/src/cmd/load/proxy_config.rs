//! After the load a worker may ask its own proxy what its configuration is. A dump makes a
//! proxy allocate: this is never done before the load or in it, and nothing of it makes a
//! load fail.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tare_analysis::config::proxy_config::{ASKS_AFTER, ASKS_WITHIN, BYTES_MAX, Packer, missing};
use tare_model::record::LoadRecord;

/// The records of all documents, by name and address, or of why they are missing.
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
        return Err(format!("no time is left of {} s", ASKS_WITHIN.as_secs()));
    }
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(within))
        .max_redirects(0)
        // Whatever the surroundings say: it is asked for on loopback.
        .proxy(None)
        .build();
    let request = ureq::Agent::new_with_config(config)
        .get(url)
        .header("Accept", "application/json");
    let mut answer = request.call().map_err(|e| e.to_string())?;
    let body = answer.body_mut().with_config().limit(BYTES_MAX as u64);
    body.read_to_vec().map_err(|e| e.to_string())
}
