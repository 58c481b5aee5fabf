//! How far the cores of a machine were from each other, over many looks.

use tare_model::summary::CoreToCore;

use crate::order::median;

/// Most by least from which the cores count as moved. Where they stay, looks differ by a
/// tenth or two; where a host moves them, by a factor of three to five.
const MOVED: f64 = 2.0;

/// All looks, in nanoseconds; `None` without any.
#[must_use]
pub fn over(looks: impl IntoIterator<Item = f64>) -> Option<CoreToCore> {
    let mut all: Vec<f64> = looks.into_iter().collect();
    all.sort_by(f64::total_cmp);
    Some(CoreToCore {
        least_ns: *all.first()?,
        median_ns: median(&all),
        most_ns: *all.last()?,
    })
}

/// Whether two distances, in nanoseconds, tell that the cores were moved in between.
#[must_use]
pub fn moved(one_ns: f64, other_ns: f64) -> bool {
    one_ns.max(other_ns) >= MOVED * one_ns.min(other_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_told_by_their_ends_and_their_middle() {
        let found = over([190.0, 38.0, 40.0, 42.0]).unwrap();
        assert_eq!(
            (found.least_ns, found.median_ns, found.most_ns),
            (38.0, 41.0, 190.0)
        );
        assert_eq!(over([]), None);
        assert!(moved(38.0, 190.0) && moved(190.0, 38.0) && !moved(38.0, 75.0));
    }
}
