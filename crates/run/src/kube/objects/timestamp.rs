//! Timestamps as Kubernetes writes them.

use k8s_openapi::jiff::Timestamp;

/// Nanoseconds of Unix time of an RFC 3339 timestamp.
pub(crate) fn unix_ns(text: &str) -> Option<i64> {
    let timestamp: Timestamp = text.parse().ok()?;
    i64::try_from(timestamp.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_read_to_the_nanosecond() {
        assert_eq!(unix_ns("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(
            unix_ns("2000-02-29T12:34:56.000000001Z"),
            Some(951_827_696_000_000_001)
        );
        assert_eq!(
            unix_ns("2000-02-29T14:34:56.5+02:00"),
            Some(951_827_696_500_000_000)
        );
        assert_eq!(unix_ns("{\"type\":"), None);
    }
}
