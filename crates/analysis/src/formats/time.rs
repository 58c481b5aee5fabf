//! Instants as text.

use tare_plan::limits::SECOND_NS;

/// An instant in UTC, as `2026-01-31T12:00:00.123456789Z`.
///
/// Source of the calendar: Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`.
#[must_use]
pub fn rfc3339(unix_ns: u64) -> String {
    let seconds = unix_ns / SECOND_NS;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that the leap day is the last day of a year. The first era of 400
    // years begins on 0000-03-01.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:09}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
        unix_ns % SECOND_NS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_767_268_799, "2026-01-01T11:59:59"),
            (4_102_444_799, "2099-12-31T23:59:59"),
        ] {
            assert_eq!(
                rfc3339(seconds * SECOND_NS + 7),
                format!("{date}.000000007Z")
            );
        }
    }
}
