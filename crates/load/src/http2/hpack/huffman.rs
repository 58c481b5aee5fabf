//! The static Huffman code. It is canonical: the lengths determine it, because codes of one
//! length are consecutive in the order of their symbols.
//!
//! Source: RFC 7541, section 5.2 and appendix B.

use super::HpackError;

/// The end-of-string symbol, whose code is only used for padding.
const END: u16 = 256;
/// Longest code in bits.
const BITS_MAX: usize = 30;
/// Codes up to this length are found by one table lookup.
const QUICK_BITS: usize = 9;

/// Length of each symbol's code in bits; the last is the end-of-string symbol.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

struct Code {
    /// All symbols in the order of their codes.
    symbols: [u16; 257],
    /// By length: first code, and the index of its symbol.
    first: [u32; BITS_MAX + 1],
    offset: [u16; BITS_MAX + 1],
    /// By length: the first code of greater length, left-aligned in 32 bits.
    limit: [u64; BITS_MAX + 1],
    /// By the first bits: symbol and length; length 0 for longer codes.
    quick: [(u8, u8); 1 << QUICK_BITS],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut c = Code {
        symbols: [0; 257],
        first: [0; BITS_MAX + 1],
        offset: [0; BITS_MAX + 1],
        limit: [0; BITS_MAX + 1],
        quick: [(0, 0); 1 << QUICK_BITS],
    };
    let (mut code, mut placed, mut bits) = (0u32, 0usize, 1usize);
    while bits <= BITS_MAX {
        code <<= 1;
        c.first[bits] = code;
        c.offset[bits] = placed as u16;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == bits {
                c.symbols[placed] = symbol as u16;
                placed += 1;
                let mut fill = 0;
                while bits <= QUICK_BITS && fill < 1 << (QUICK_BITS - bits) {
                    let at = ((code as usize) << (QUICK_BITS - bits)) + fill;
                    c.quick[at] = (symbol as u8, bits as u8);
                    fill += 1;
                }
                code += 1;
            }
            symbol += 1;
        }
        c.limit[bits] = (code as u64) << (32 - bits);
        bits += 1;
    }
    c
}

/// Symbol and length of the code at the left of `window`.
#[inline]
fn lookup(window: u32) -> (u16, u32) {
    let (symbol, bits) = CODE.quick[(window >> (32 - QUICK_BITS)) as usize];
    if bits > 0 {
        return (u16::from(symbol), u32::from(bits));
    }
    let mut bits = QUICK_BITS + 1;
    while u64::from(window) >= CODE.limit[bits] {
        bits += 1;
    }
    let nth = (window >> (32 - bits)) - CODE.first[bits];
    let at = usize::from(CODE.offset[bits]) + nth as usize;
    (CODE.symbols[at], bits as u32)
}

/// Appends the decoded `input` to `out`.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let mut rest = input.iter();
    // Unused bits, left-aligned.
    let (mut bits, mut count) = (0u64, 0u32);
    loop {
        while count <= 56 {
            let Some(&byte) = rest.next() else { break };
            bits |= u64::from(byte) << (56 - count);
            count += 8;
        }
        if count == 0 {
            return Ok(());
        }
        let (symbol, length) = lookup((bits >> 32) as u32);
        if length > count {
            // Only padding may be left: fewer than eight bits, all of them 1.
            let padding = count < 8 && bits >> (64 - count) == (1 << count) - 1;
            return padding.then_some(()).ok_or(HpackError::Huffman);
        }
        if symbol == END {
            return Err(HpackError::Huffman);
        }
        out.push(symbol as u8);
        bits <<= length;
        count -= length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Result<String, HpackError> {
        let mut out = Vec::new();
        decode(input, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    /// Strings of RFC 7541, appendix C.4 and C.6.
    #[test]
    fn strings_of_the_standard_decode() {
        let examples: [(&[u8], &str); 4] = [
            (
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x64, 0x02], "302"),
            (&[0xae, 0xc3, 0x77, 0x1a, 0x4b], "private"),
        ];
        for (bytes, text) in examples {
            assert_eq!(decoded(bytes).as_deref(), Ok(text));
        }
    }

    #[test]
    fn the_code_is_complete_and_ends_as_in_the_standard() {
        let share: u64 = LENGTHS
            .iter()
            .map(|&l| 1u64 << (BITS_MAX - usize::from(l)))
            .sum();
        assert_eq!(share, 1 << BITS_MAX);
        assert_eq!(CODE.symbols[256], END);
        assert_eq!(lookup(0xffff_ffff), (END, 30));
        assert_eq!(lookup(0xf8 << 24), (u16::from(b'&'), 8));
    }

    #[test]
    fn wrong_padding_and_the_end_symbol_are_errors() {
        // "0" is 00000, then three bits of padding.
        assert_eq!(decoded(&[0b0000_0111]).as_deref(), Ok("0"));
        assert_eq!(decoded(&[0b0000_0110]), Err(HpackError::Huffman));
        assert_eq!(decoded(&[0b0000_0111, 0xff]), Err(HpackError::Huffman));
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(HpackError::Huffman));
    }
}
