//! Valid bytes of header names and values (RFC 9110, sections 5.1 and 5.5).

/// Whether `b` is valid in a method or a header name.
pub(super) const fn is_token_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = is_token_byte(b as u8);
        b += 1;
    }
    table
};

/// Splits `line` after the token at its beginning, which may be empty.
#[inline]
pub(super) fn split_token(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(|&b| !TOKEN[usize::from(b)]);
    line.split_at(end.unwrap_or(line.len()))
}

/// Whether the token `name` equals `lower`, ignoring case. `lower` has only lower-case
/// letters and hyphens.
#[inline]
pub(super) fn is_named<const N: usize>(name: &[u8], lower: &[u8; N]) -> bool {
    // Among the bytes of a token, only upper-case letters become a lower-case letter or a hyphen
    // when this bit is set.
    let same = |same, (&a, &b): (&u8, &u8)| same & (a | 0x20 == b);
    name.len() == N && name.iter().zip(lower).fold(true, same)
}

/// The position of the CR LF that ends the line at the beginning of `bytes`, if the line is
/// complete and has no control bytes. `None` does not mean that the line is invalid.
#[inline]
pub(super) fn plain_line(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words = words.iter().zip((0..).step_by(8)).find_map(|(word, at)| {
        let word = u64::from_le_bytes(*word);
        // The lowest marked byte is exact, because a borrow only propagates upwards.
        let control = word.wrapping_sub(ONES * 0x20);
        let delete = (word ^ (ONES * 0x7f)).wrapping_sub(ONES);
        let marks = (control | delete) & !word & (ONES * 0x80);
        (marks != 0).then(|| at + marks.trailing_zeros() as usize / 8)
    });
    let end = in_words.or_else(|| {
        let at = rest.iter().position(|b| b.is_ascii_control())?;
        Some(bytes.len() - rest.len() + at)
    })?;
    bytes[end..].starts_with(b"\r\n").then_some(end)
}

/// Whether `name` is a token of at least one byte.
pub(super) fn is_token(name: &[u8]) -> bool {
    // Without an early exit the bytes are independent of each other.
    let good = |good, &b: &u8| good & TOKEN[usize::from(b)];
    !name.is_empty() && name.iter().fold(true, good)
}

/// Whether `value` has no control bytes except tabs.
pub(super) fn is_field_value(value: &[u8]) -> bool {
    // Without an early exit the compiler can use vector registers.
    value.iter().fold(true, |good, &b| {
        good & ((b >= 0x20) | (b == b'\t')) & (b != 0x7f)
    })
}

/// `value` without leading and trailing spaces and tabs.
pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The trimmed members of a comma-separated list, without empty ones.
pub(super) fn list(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(trim)
        .filter(|m| !m.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_compared_without_case() {
        let lower = b"transfer-encoding";
        assert!(is_named(b"Transfer-Encoding", lower) && is_named(b"TRANSFER-ENCODING", lower));
        assert!(!is_named(b"transfer-encodin", lower) && !is_named(b"transfer-encodings", lower));
        for at in 0..lower.len() {
            for b in (0..=u8::MAX).filter(|&b| is_token_byte(b)) {
                let mut name = *lower;
                name[at] = b;
                assert_eq!(
                    is_named(&name, lower),
                    name.eq_ignore_ascii_case(lower),
                    "{b:#x} at {at}"
                );
            }
        }
    }

    /// [`plain_line`], byte by byte.
    fn byte_by_byte(bytes: &[u8]) -> Option<usize> {
        let end = bytes.iter().position(|&b| b < 0x20 || b == 0x7f)?;
        (bytes[end..].starts_with(b"\r\n")).then_some(end)
    }

    #[test]
    fn a_plain_line_agrees_with_the_byte_by_byte_version_for_every_byte_and_position() {
        for length in 0..20 {
            for at in 0..length {
                for b in 0..=u8::MAX {
                    for around in [b'x', 0x20, 0x80, 0xff] {
                        let mut bytes = vec![around; length];
                        bytes[at] = b;
                        bytes.extend(b"\r\n: \x7f");
                        assert_eq!(plain_line(&bytes), byte_by_byte(&bytes), "{bytes:?}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_plain_line_ends_at_its_first_control_byte(
            bytes in prop::collection::vec(
                prop_oneof![8 => any::<u8>().prop_map(|b| b | 0x20), 1 => any::<u8>(), 1 => Just(b'\r'), 1 => Just(b'\n')],
                0..60,
            ),
        ) {
            prop_assert_eq!(plain_line(&bytes), byte_by_byte(&bytes));
        }

        #[test]
        fn a_line_is_split_after_its_token(line in prop::collection::vec(any::<u8>(), 0..20)) {
            let (name, rest) = split_token(&line);
            prop_assert_eq!([name, rest].concat(), line.clone());
            prop_assert!(name.iter().all(|&b| is_token_byte(b)));
            prop_assert!(rest.first().is_none_or(|&b| !is_token_byte(b)));
        }
    }
}
