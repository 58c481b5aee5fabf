//! The buckets of every histogram: the layout of HdrHistogram (Gil Tene) for lowest 1 ns, highest
//! 1 h and 3 significant digits. Values up to 2,047 ns have a bucket each. Above that, each power
//! of two is divided into 1,024 buckets, so that a bucket is never wider than 0.1 % of its value.

/// Largest value of a histogram: one hour in nanoseconds. Larger values are clamped to it.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

const SUB_BUCKET_BITS: u32 = 11;
const SUB_BUCKET_HALF: usize = 1 << (SUB_BUCKET_BITS - 1);
const SUB_BUCKET_MASK: u64 = (1 << SUB_BUCKET_BITS) - 1;
/// Largest half width of a bucket, relative to its value: the resolution of every figure.
pub const HALF_BUCKET: f64 = 0.5 / SUB_BUCKET_HALF as f64;
/// Number of buckets.
pub(crate) const BUCKETS: usize = index_of(HIGHEST_NS) + 1;

/// Returns the index of the bucket that counts `value` (nanoseconds, at most [`HIGHEST_NS`]).
pub(crate) const fn index_of(value: u64) -> usize {
    let bucket = 64 - SUB_BUCKET_BITS - (value | SUB_BUCKET_MASK).leading_zeros();
    // For `bucket` 0 the index is `value` itself; each further `bucket` adds its upper half.
    ((bucket as usize) << (SUB_BUCKET_BITS - 1)) + (value >> bucket) as usize
}

/// Smallest and largest value of bucket `index`.
pub(crate) fn range_of(index: usize) -> (u64, u64) {
    if index < 2 * SUB_BUCKET_HALF {
        return (index as u64, index as u64);
    }
    let bucket = index / SUB_BUCKET_HALF - 1;
    let sub = (index % SUB_BUCKET_HALF + SUB_BUCKET_HALF) as u64;
    (sub << bucket, ((sub + 1) << bucket) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_range_and_are_narrow() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let (low, high) = range_of(index);
            assert_eq!(low, next);
            assert_eq!(index_of(low), index);
            assert_eq!(index_of(high), index);
            assert!((high - low) as f64 <= low as f64 / 1000.0);
            next = high + 1;
        }
        assert!(next > HIGHEST_NS);
    }
}
