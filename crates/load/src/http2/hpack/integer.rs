//! Prefixed integers. Source: RFC 7541, section 5.1.

use super::HpackError;

/// Maximum number of octets after the prefix: 28 bits, far above any limit here.
const OCTETS_MAX: usize = 4;

/// Reads an integer with a prefix of `bits` from the front of `input`.
pub(super) fn decode(input: &mut &[u8], bits: u32) -> Result<usize, HpackError> {
    let (&first, mut rest) = input.split_first().ok_or(HpackError::Cut)?;
    let most = (1usize << bits) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (&octet, after) = rest.split_first().ok_or(HpackError::Cut)?;
            rest = after;
            value += usize::from(octet & 0x7f) << shift;
            shift += 7;
            if octet & 0x80 == 0 {
                break;
            }
            if shift == 7 * OCTETS_MAX {
                return Err(HpackError::Integer);
            }
        }
    }
    *input = rest;
    Ok(value)
}

/// Appends `value` with a prefix of `bits`; the bits before the prefix come from `first`.
pub(super) fn encode(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let most = (1usize << bits) - 1;
    if value < most {
        out.push(first | value as u8);
        return;
    }
    out.push(first | most as u8);
    let mut left = value - most;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, appendix C.1.
    #[test]
    fn integers_of_the_standard_round_trip() {
        for (value, bits, bytes) in [
            (10, 5, &[0x0a][..]),
            (1337, 5, &[0x1f, 0x9a, 0x0a]),
            (42, 8, &[0x2a]),
        ] {
            let mut out = Vec::new();
            encode(&mut out, 0, bits, value);
            assert_eq!(out, bytes);
            assert_eq!(decode(&mut &*out, bits), Ok(value));
        }
    }

    #[test]
    fn endless_and_truncated_integers_are_errors() {
        assert_eq!(
            decode(&mut &[0xff, 0x80, 0x80, 0x80, 0x80, 0x01][..], 7),
            Err(HpackError::Integer)
        );
        assert_eq!(decode(&mut &[0xff, 0x80][..], 7), Err(HpackError::Cut));
        assert_eq!(decode(&mut &[][..], 7), Err(HpackError::Cut));
    }
}
