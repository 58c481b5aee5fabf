//! Classifies fields. A field is classified once, when it enters a table, instead of in each
//! response.

/// The kind of a field, by its name and by whether its name and value are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// `:status`.
    Status,
    /// Any other name that begins with a colon; none is defined for responses.
    OtherPseudo,
    /// `content-length`.
    ContentLength,
    /// `content-type`.
    ContentType,
    /// `grpc-status`.
    GrpcStatus,
    /// A connection-specific field of HTTP/1.1, which makes a response malformed.
    ConnectionSpecific,
    /// Any other valid field.
    Regular,
    /// Invalid characters in name or value.
    Invalid,
}

impl FieldKind {
    /// Classifies a field. Source: RFC 9113, sections 8.2 and 8.3.
    pub(super) fn of(name: &[u8], value: &[u8]) -> Self {
        if !is_value(value) {
            return Self::Invalid;
        }
        match name {
            b":status" => Self::Status,
            [b':', ..] => Self::OtherPseudo,
            b"content-length" => Self::ContentLength,
            b"content-type" => Self::ContentType,
            b"grpc-status" => Self::GrpcStatus,
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding"
            | b"upgrade" => Self::ConnectionSpecific,
            _ if is_name(name) => Self::Regular,
            _ => Self::Invalid,
        }
    }
}

fn is_name(name: &[u8]) -> bool {
    let bad = |b: &u8| matches!(b, 0..=0x20 | b'A'..=b'Z' | b':' | 0x7f..);
    !name.is_empty() && !name.iter().any(bad)
}

fn is_value(value: &[u8]) -> bool {
    let blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    !value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'))
        && !blank(value.first())
        && !blank(value.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_classified() {
        let of = |name: &str, value: &str| FieldKind::of(name.as_bytes(), value.as_bytes());
        assert_eq!(of(":status", "200"), FieldKind::Status);
        assert_eq!(of(":path", "/"), FieldKind::OtherPseudo);
        assert_eq!(of("x-a", "b c"), FieldKind::Regular);
        assert_eq!(of("upgrade", "h2c"), FieldKind::ConnectionSpecific);
        for (name, value) in [
            ("X-A", "b"),
            ("", "b"),
            ("a b", "c"),
            ("a", "b\n"),
            ("a", " b"),
        ] {
            assert_eq!(of(name, value), FieldKind::Invalid, "{name:?} {value:?}");
        }
    }
}
