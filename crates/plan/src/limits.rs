//! The limits that plans, specifications and commands share. A value above its limit is
//! refused where it is read.

use crate::units::format_duration_ns;

/// Highest rate of a load, in requests per second.
pub const RATE_RPS_MAX: f64 = 1e8;
/// [`RATE_RPS_MAX`] as it is written in messages.
pub const RATE_MAX: &str = "100 million per second";
/// Most connections of a load.
pub const CONNECTIONS_MAX: u32 = 1_000_000;
/// Most event-loop threads of a generator or of the echo server.
pub const THREADS_MAX: u32 = 256;
/// Most concurrent requests on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 10_000;
/// Longest time in the specification of a load: 30 days.
pub const TIME_NS_MAX: u64 = 30 * 24 * HOUR_NS;
/// Longest measured window and longest warm-up of a trial: 24 hours.
pub const TRIAL_WINDOW_NS_MAX: u64 = 24 * HOUR_NS;
/// Longest timeout of a trial: 1 hour, the highest value of a histogram.
pub const TRIAL_TIMEOUT_NS_MAX: u64 = HOUR_NS;
/// Largest JSON document of a run directory, in bytes.
pub const JSON_BYTES_MAX: u64 = 256 << 20;
/// Longest line in a stream of records, in bytes.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Most blocks of a plan.
pub const REPEATS_MAX: u32 = 1_000;
/// Most times that a disturbed block is run again.
pub const RERUNS_MAX: u32 = 3;
/// Most meshes, and most loads, of a plan.
pub(crate) const LIST_MAX: usize = 64;
/// Most instances of a workload.
pub const INSTANCES_MAX: u32 = 1_000;

/// One second.
pub const SECOND_NS: u64 = 1_000_000_000;
/// One hour.
pub const HOUR_NS: u64 = 3_600_000_000_000;

/// Checks that a measured window has a length that a load can have, an end in nanoseconds since 1970
/// that fits into 64 bits, and a length above 0 if slots were due in it.
///
/// # Errors
/// What was found and expected, as a fragment of a sentence.
pub fn check_window(start_unix_ns: u64, window_ns: u64, has_slots: bool) -> Result<(), String> {
    if window_ns > TIME_NS_MAX {
        return Err(format!(
            "found a window of {}, expected at most {}",
            format_duration_ns(window_ns),
            format_duration_ns(TIME_NS_MAX)
        ));
    }
    if start_unix_ns.checked_add(window_ns).is_none() {
        let found = format!("found a window that starts at {start_unix_ns} ns since 1970");
        return Err(format!("{found}, expected an end below 2^64 ns"));
    }
    match window_ns == 0 && has_slots {
        true => Err("found slots in a window of 0 s".to_owned()),
        false => Ok(()),
    }
}
