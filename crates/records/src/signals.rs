//! Signals of a process, from `/proc/PID/status`. Source: proc(5).

/// Whether the process ignores the signal with this number.
#[must_use]
pub fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let place = u32::try_from(signal).ok().and_then(|s| s.checked_sub(1));
    let bit = place.and_then(|place| 1_u64.checked_shl(place));
    mask.zip(bit).is_some_and(|(mask, bit)| mask & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::is_ignored;

    #[test]
    fn the_bit_of_the_signal_counts() {
        // SIGHUP (1) and SIGCHLD (17).
        let status = "Name:\tsh\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000010001\n";
        let ignored: Vec<i32> = (-1..70).filter(|s| is_ignored(status, *s)).collect();
        assert_eq!(ignored, [1, 17]);
        assert!(!is_ignored("", 1) && !is_ignored("SigIgn:\tx", 1));
    }
}
