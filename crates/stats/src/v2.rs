//! HdrHistogram's V2 encoding: a header, then counts as ZigZag LEB128 integers in
//! which a negative number stands for that many empty buckets.
//!
//! Source: HdrHistogram, `AbstractHistogram.encodeIntoByteBuffer` (format V2).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::wire::HistogramWire;

use crate::hist::Histogram;
use crate::scale::{BUCKETS, HIGHEST_NS, index_of, range_of};
use crate::sparse::Sparse;

const COOKIE: u32 = 0x1c84_9313;
const HEADER: usize = 40;
const DIGITS: u32 = 3;
/// Largest number of values of a decoded histogram: about nine years at a million per second. With
/// this limit, the sum of all histograms that fit into memory does not overflow.
const COUNT_MAX: u64 = 1 << 48;

/// Why a histogram cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not base64.
    #[error("invalid histogram: expected base64")]
    Base64,
    /// Too few or too many bytes.
    #[error("invalid histogram: found {found} bytes, expected {expected}")]
    Length {
        /// Number of bytes.
        found: usize,
        /// Number of bytes according to the header.
        expected: usize,
    },
    /// Another format or configuration.
    #[error("invalid histogram: {field} is {found}, expected {expected}")]
    Header {
        /// Field of the header.
        field: &'static str,
        /// Value of the field.
        found: u64,
        /// The only valid value.
        expected: u64,
    },
    /// Invalid counts.
    #[error("invalid histogram: {what} at byte {at}")]
    Counts {
        /// Description of the error.
        what: &'static str,
        /// Offset in the payload.
        at: usize,
    },
    /// An exact figure of the record contradicts the buckets.
    #[error("invalid histogram: {what} contradicts the buckets")]
    Contradiction {
        /// Name of the figure.
        what: &'static str,
    },
}

/// Decodes histograms one after the other and reuses its memory.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    sparse: Sparse,
}

impl Reader {
    /// Decodes the histogram of a record, and checks its exact figures against the buckets.
    ///
    /// # Errors
    /// The errors of [`Histogram::from_wire`].
    pub fn read(&mut self, wire: &HistogramWire) -> Result<&Sparse, WireError> {
        let Self { bytes, sparse } = self;
        bytes.clear();
        let decoded = STANDARD.decode_vec(&wire.v2, bytes);
        decoded.map_err(|_| WireError::Base64)?;
        read(bytes, sparse)?;
        sparse.make_exact(wire)?;
        Ok(sparse)
    }
}

impl Sparse {
    /// Decodes a single histogram; see [`Reader::read`].
    ///
    /// # Errors
    /// The errors of [`Histogram::from_wire`].
    pub fn from_wire(wire: &HistogramWire) -> Result<Self, WireError> {
        let mut reader = Reader::default();
        reader.read(wire)?;
        Ok(reader.sparse)
    }

    /// Takes the exact figures of `wire`, unless they contradict the buckets.
    fn make_exact(&mut self, wire: &HistogramWire) -> Result<(), WireError> {
        let contradiction = |what: &'static str| Err(WireError::Contradiction { what });
        if self.count != wire.count {
            return contradiction("count");
        }
        if wire.clamped > wire.count {
            return contradiction("clamped");
        }
        if wire.count > 0 {
            // The V2 encoding determines minimum and maximum only up to their buckets.
            if index_of(self.min) != index_of(wire.min_ns.min(HIGHEST_NS)) {
                return contradiction("min_ns");
            }
            if wire.max_ns > HIGHEST_NS || index_of(self.max) != index_of(wire.max_ns) {
                return contradiction("max_ns");
            }
            if wire.sum_ns < self.sum_min() || wire.sum_ns > self.sum {
                return contradiction("sum_ns");
            }
            (self.min, self.max, self.sum) = (wire.min_ns, wire.max_ns, wire.sum_ns);
        }
        self.clamped = wire.clamped;
        Ok(())
    }

    /// The smallest possible sum: each value at the lower end of its bucket.
    fn sum_min(&self) -> u128 {
        let least = |(index, n): &(usize, u64)| u128::from(range_of(*index).0) * u128::from(*n);
        self.buckets.iter().map(least).sum()
    }
}

impl Histogram {
    /// Encodes the histogram for a record; see [`HistogramWire`].
    #[must_use]
    pub fn to_wire(&self) -> HistogramWire {
        HistogramWire {
            count: self.count,
            min_ns: self.min(),
            max_ns: self.max,
            sum_ns: self.sum,
            clamped: self.clamped,
            v2: STANDARD.encode(self.to_v2()),
        }
    }

    /// Decodes the histogram of a record, and checks its exact figures against the buckets.
    ///
    /// # Errors
    /// [`WireError`] when the bytes are not a V2 histogram of tare's configuration, or when the
    /// exact figures contradict the buckets.
    pub fn from_wire(wire: &HistogramWire) -> Result<Self, WireError> {
        Ok(Self::from(&Sparse::from_wire(wire)?))
    }

    /// Encodes the histogram as uncompressed V2. The encoding has exact counts; minimum, maximum
    /// and sum have the resolution of the buckets.
    #[must_use]
    pub fn to_v2(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + 256);
        out.extend(COOKIE.to_be_bytes());
        out.extend(0u32.to_be_bytes());
        out.extend(0u32.to_be_bytes());
        out.extend(DIGITS.to_be_bytes());
        out.extend(1u64.to_be_bytes());
        out.extend(HIGHEST_NS.to_be_bytes());
        out.extend(1f64.to_be_bytes());
        let mut next = 0;
        for (index, n) in self.buckets() {
            if index > next {
                push_zigzag(&mut out, -((index - next) as i64));
            }
            push_zigzag(&mut out, n as i64);
            next = index + 1;
        }
        let payload = (out.len() - HEADER) as u32;
        out[4..8].copy_from_slice(&payload.to_be_bytes());
        out
    }

    /// Decodes the uncompressed V2 encoding of a histogram with tare's configuration.
    ///
    /// # Errors
    /// [`WireError`] when the bytes are anything else.
    pub fn from_v2(bytes: &[u8]) -> Result<Self, WireError> {
        let mut sparse = Sparse::default();
        read(bytes, &mut sparse)?;
        Ok(Self::from(&sparse))
    }
}

/// Decodes into `sparse`, replacing its content; see [`Histogram::from_v2`].
fn read(bytes: &[u8], sparse: &mut Sparse) -> Result<(), WireError> {
    if bytes.len() < HEADER {
        return Err(WireError::Length {
            found: bytes.len(),
            expected: HEADER,
        });
    }
    let field = |at: usize, len: usize| {
        bytes[at..at + len]
            .iter()
            .fold(0u64, |v, b| v << 8 | u64::from(*b))
    };
    for (name, at, len, expected) in [
        ("cookie", 0, 4, u64::from(COOKIE)),
        ("normalizing offset", 8, 4, 0),
        ("significant digits", 12, 4, u64::from(DIGITS)),
        ("lowest value", 16, 8, 1),
        ("highest value", 24, 8, HIGHEST_NS),
    ] {
        if field(at, len) != expected {
            return Err(WireError::Header {
                field: name,
                found: field(at, len),
                expected,
            });
        }
    }
    let expected = HEADER + field(4, 4) as usize;
    if bytes.len() != expected {
        return Err(WireError::Length {
            found: bytes.len(),
            expected,
        });
    }
    read_counts(&bytes[HEADER..], &mut sparse.buckets)?;
    sparse.sum_up();
    Ok(())
}

fn read_counts(payload: &[u8], counts: &mut Vec<(usize, u64)>) -> Result<(), WireError> {
    counts.clear();
    // Each bucket takes at least one byte.
    counts.reserve(payload.len().min(BUCKETS));
    let (mut at, mut index, mut total) = (0, 0usize, 0u64);
    while at < payload.len() {
        let start = at;
        let wrong = |what| Err(WireError::Counts { what, at: start });
        let Some(n) = read_zigzag(payload, &mut at) else {
            return wrong("truncated number");
        };
        if n < 0 {
            index = index.saturating_add(n.unsigned_abs() as usize);
        } else {
            if index >= BUCKETS {
                return wrong("bucket beyond one hour");
            }
            if n > 0 {
                counts.push((index, n as u64));
            }
            index += 1;
            total = total.saturating_add(n as u64);
            if total > COUNT_MAX {
                return wrong("more values than the limit");
            }
        }
        if index > BUCKETS {
            return wrong("bucket beyond one hour");
        }
    }
    Ok(())
}

/// Appends a number as ZigZag LEB128 in HdrHistogram's variant: the ninth byte carries 8 bits.
fn push_zigzag(out: &mut Vec<u8>, value: i64) {
    let mut v = ((value << 1) ^ (value >> 63)) as u64;
    for _ in 0..8 {
        if v < 0x80 {
            out.push(v as u8);
            return;
        }
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn read_zigzag(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let first = *bytes.get(*at)?;
    // Nearly all counts of a second take one byte.
    if first < 0x80 {
        *at += 1;
        return Some(i64::from(first >> 1) ^ -i64::from(first & 1));
    }
    let mut v = 0u64;
    for k in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if k == 8 {
            v |= u64::from(byte) << 56;
            break;
        }
        v |= u64::from(byte & 0x7f) << (7 * k);
        if byte < 0x80 {
            break;
        }
    }
    Some((v >> 1) as i64 ^ -((v & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_encoding_is_interchangeable_with_the_reference(
            values in prop::collection::vec((0u64..HIGHEST_NS, 1u64..1_000_000), 0..200),
        ) {
            let mut h = Histogram::new();
            let mut r = hdrhistogram::Histogram::<u64>::new_with_bounds(1, HIGHEST_NS, 3).unwrap();
            for (v, n) in &values {
                h.record_n(*v, *n);
                r.record_n(*v, *n).unwrap();
            }
            let theirs: hdrhistogram::Histogram<u64> =
                Deserializer::new().deserialize(&mut h.to_v2().as_slice()).unwrap();
            prop_assert_eq!(&theirs, &r);
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&r, &mut bytes).unwrap();
            let ours = Histogram::from_v2(&bytes).unwrap();
            prop_assert!(ours.iter().eq(h.iter()));
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), keep_header: bool) {
            if keep_header {
                let mut whole = Histogram::new().to_v2();
                whole[4..8].copy_from_slice(&(bytes.len() as u32).to_be_bytes());
                whole.append(&mut bytes);
                bytes = whole;
            }
            if let Ok(h) = Histogram::from_v2(&bytes) {
                prop_assert_eq!(h.iter().map(|(_, n)| n).sum::<u64>(), h.len());
            }
        }

        #[test]
        fn more_values_than_the_limit_are_refused(beyond in 1u64..1 << 60, buckets in 1u64..4) {
            let mut h = Histogram::new();
            (0..buckets).for_each(|b| h.record_n(b * 1_000_000, COUNT_MAX / buckets));
            let good = Histogram::from_v2(&h.to_v2());
            prop_assert_eq!(good.map(|h| h.len()), Ok(COUNT_MAX / buckets * buckets));
            h.record_n(5, COUNT_MAX % buckets + beyond);
            let refused = Histogram::from_v2(&h.to_v2()).is_err();
            prop_assert!(refused);
        }

        #[test]
        fn zigzag_round_trip(v: i64) {
            let mut out = Vec::new();
            push_zigzag(&mut out, v);
            let mut at = 0;
            prop_assert_eq!(read_zigzag(&out, &mut at), Some(v));
            prop_assert_eq!(at, out.len());
        }
    }
}
