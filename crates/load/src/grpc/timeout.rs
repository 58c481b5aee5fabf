//! `grpc-timeout`: at most eight digits and a unit.

/// The value of `grpc-timeout` for a deadline in nanoseconds: in the finest unit that fits,
/// rounded up.
#[must_use]
pub fn timeout(deadline_ns: u64) -> String {
    let units = [
        ('n', 1),
        ('u', 1_000),
        ('m', 1_000_000),
        ('S', 1_000_000_000),
        ('M', 60_000_000_000),
        ('H', 3_600_000_000_000_u64),
    ];
    let fits = units.map(|(unit, ns)| (unit, deadline_ns.div_ceil(ns)));
    let (unit, n) = fits
        .into_iter()
        .find(|(_, n)| *n < 100_000_000)
        .unwrap_or(fits[5]);
    format!("{n}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finest_unit_with_at_most_eight_digits_is_used() {
        assert_eq!(timeout(1), "1n");
        assert_eq!(timeout(99_999_999), "99999999n");
        assert_eq!(timeout(100_000_001), "100001u");
        assert_eq!(timeout(10_000_000_000), "10000000u");
        assert_eq!(timeout(86_400_000_000_000), "86400000m");
        assert_eq!(timeout(u64::MAX), "5124096H");
    }
}
