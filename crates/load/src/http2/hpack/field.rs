//! What a reader of responses must know of a field. It is worked out once, when the
//! field enters a table, and not again for each response.

/// Kind of a field, by its name; and whether name and value are valid at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `:status`.
    Status,
    /// Any other name with a colon first: none is defined for responses.
    OtherPseudo,
    /// `content-length`.
    ContentLength,
    /// `content-type`.
    ContentType,
    /// `grpc-status`.
    GrpcStatus,
    /// Concerns one connection of HTTP/1.1, and makes a response malformed.
    ConnectionSpecific,
    /// Nothing to know.
    Regular,
    /// Characters that neither name nor value may hold.
    Invalid,
}

impl Kind {
    /// Source: RFC 9113, sections 8.2 and 8.3.
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
    fn names_and_values_are_judged() {
        let of = |name: &str, value: &str| Kind::of(name.as_bytes(), value.as_bytes());
        assert_eq!(of(":status", "200"), Kind::Status);
        assert_eq!(of(":path", "/"), Kind::OtherPseudo);
        assert_eq!(of("x-a", "b c"), Kind::Regular);
        assert_eq!(of("upgrade", "h2c"), Kind::ConnectionSpecific);
        for (name, value) in [
            ("X-A", "b"),
            ("", "b"),
            ("a b", "c"),
            ("a", "b\n"),
            ("a", " b"),
        ] {
            assert_eq!(of(name, value), Kind::Invalid, "{name:?} {value:?}");
        }
    }
}
