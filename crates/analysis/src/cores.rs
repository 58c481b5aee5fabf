//! How far the cores of a machine were from each other, over many looks.

use tare_model::summary::CoreToCore;

use tare_stats::order::{middle, sorted};

/// Most by least from which the cores count as moved. On a virtual machine looks were 24 to
/// 57 ns while the host had the cores near each other, and 140 to 270 ns while it had not:
/// a move to the other side never passes unsaid, one within the near side may be said, too.
const MOVED: f64 = 2.0;

/// All looks, in nanoseconds; `None` without any.
#[must_use]
pub fn over(looks: impl IntoIterator<Item = f64>) -> Option<CoreToCore> {
    let all = sorted(&looks.into_iter().collect::<Vec<f64>>());
    Some(CoreToCore {
        least_ns: *all.first()?,
        median_ns: middle(&all),
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
        assert!(moved(57.0, 140.0) && moved(140.0, 57.0));
        assert!(!moved(38.0, 75.0) && !moved(140.0, 270.0));
    }
}
