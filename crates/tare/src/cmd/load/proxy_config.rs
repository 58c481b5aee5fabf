//! Reads the configuration of the generator's own proxy. A dump makes a proxy allocate memory, so
//! this happens only after the load, and a failure here does not fail the load.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tare_analysis::proxy_config::{ASKS_AFTER, ASKS_WITHIN, BYTES_MAX, settings};
use tare_records::record::LoadRecord;

/// Returns a record for each document, given by name and address: its settings, or the reason why
/// it is missing.
pub(super) fn ask(addresses: &BTreeMap<String, String>) -> Vec<LoadRecord> {
    if !addresses.is_empty() {
        std::thread::sleep(ASKS_AFTER);
    }
    let until = Instant::now() + ASKS_WITHIN;
    let ask = |(name, url): (&String, &String)| {
        let left = until.saturating_duration_since(Instant::now());
        let json = get(url, left);
        match json.and_then(|json| settings(name, &json).map_err(|e| e.to_string())) {
            Ok(settings) => LoadRecord::ProxyConfig(settings),
            Err(found) => LoadRecord::ProxyConfigMissing {
                name: name.clone(),
                found: format!("{url}: {found}"),
            },
        }
    };
    addresses.iter().map(ask).collect()
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
