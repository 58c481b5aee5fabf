//! What the host takes of this machine while it measures.

/// Stolen time up to which a measurement passes for undisturbed: one step of the count.
pub const UNDISTURBED_MS: f64 = 10.0;

/// What the host has given to others since it started, in milliseconds over both cores;
/// in steps of 10.
pub fn stolen_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = text.lines().next().unwrap_or_default();
    let ticks = all.split_whitespace().nth(8);
    10.0 * ticks.and_then(|t| t.parse().ok()).unwrap_or(0.0)
}

/// In words: the milliseconds that the host took of measurements that count.
pub fn disturbance(stolen_ms: &[f64]) -> String {
    let disturbed = stolen_ms.iter().filter(|ms| **ms > UNDISTURBED_MS).count();
    match disturbed {
        0 => "undisturbed".to_owned(),
        n => format!(
            "disturbed: the host took up to {:.0} ms of {n} of {}",
            stolen_ms.iter().copied().fold(0.0, f64::max),
            stolen_ms.len()
        ),
    }
}
