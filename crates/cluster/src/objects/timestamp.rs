//! Timestamps in the format of Kubernetes.

use k8s_openapi::jiff::Timestamp;

/// Converts an RFC 3339 timestamp to nanoseconds since 1970; `None` if it is invalid.
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
