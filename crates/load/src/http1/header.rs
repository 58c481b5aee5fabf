//! Which bytes may stand where (RFC 9110, sections 5.1 and 5.5).

/// Whether `b` may stand in a method or a header's name.
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

/// Whether `name` is a token of at least one byte.
pub(super) fn is_token(name: &[u8]) -> bool {
    // Without an early exit no byte waits for the one before it.
    let good = |good, &b: &u8| good & TOKEN[usize::from(b)];
    !name.is_empty() && name.iter().fold(true, good)
}

/// Whether `value` has no control bytes but tabs.
pub(super) fn is_field_value(value: &[u8]) -> bool {
    // A fold without an early exit, so that the compiler can use wide registers.
    value.iter().fold(true, |good, &b| {
        good & ((b >= 0x20) | (b == b'\t')) & (b != 0x7f)
    })
}

/// `value` without spaces and tabs at its ends.
pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The members of a comma-separated list, trimmed, without empty ones.
pub(super) fn list(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(trim)
        .filter(|m| !m.is_empty())
}
