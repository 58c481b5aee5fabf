//! The counts of a histogram: a list of bucket indices while there are few values, pages of
//! counters afterwards. With a thousand endpoints, each has only a few values per second; pages
//! of 1 KiB each would be nearly empty.

/// Counters in a page.
const PAGE: usize = 128;
/// Most values in the list. They take 1 KiB, whereas the pages of a single value take 3 KiB.
/// Smaller in tests, so that most histograms exceed it.
const LISTED_MAX: usize = if cfg!(test) { 24 } else { 512 };

type Page = Box<[u64; PAGE]>;

const _: () = assert!(Buckets::LEN <= 1 << 16, "an index has 16 bits in a list");

/// Counts by bucket index. The counts do not depend on the representation.
#[derive(Clone, Default)]
pub(crate) struct Buckets {
    /// `None` for a page without counts; empty while values are in the list.
    pages: Box<[Option<Page>]>,
    /// The bucket index of each value, unsorted; empty once pages exist.
    listed: Vec<u16>,
}

impl Buckets {
    /// Number of buckets.
    const LEN: usize = crate::scale::BUCKETS;

    /// Empty counts that use pages from the first value on, for callers with deadlines: the
    /// conversion of a full list creates many pages in one call, which takes too long.
    pub(crate) fn in_pages() -> Self {
        let mut buckets = Self::default();
        buckets.make_pages();
        buckets
    }

    /// Counts `n` values of bucket `index`.
    #[inline]
    pub(crate) fn add(&mut self, index: usize, n: u64) {
        debug_assert!(index < Self::LEN);
        match self.pages.get_mut(index / PAGE) {
            Some(Some(page)) => page[index % PAGE] += n,
            _ => self.add_first(index, n),
        }
    }

    /// The part of [`Self::add`] for a bucket without a page.
    #[inline(never)]
    fn add_first(&mut self, index: usize, n: u64) {
        if self.pages.is_empty() && n <= (LISTED_MAX - self.listed.len()) as u64 {
            self.listed.extend((0..n).map(|_| index as u16));
            return;
        }
        self.make_pages();
        new_page(&mut self.pages[index / PAGE])[index % PAGE] += n;
    }

    /// Converts the list to pages, unless pages exist already.
    fn make_pages(&mut self) {
        if !self.pages.is_empty() {
            return;
        }
        self.pages = vec![None; Self::LEN.div_ceil(PAGE)].into_boxed_slice();
        for index in std::mem::take(&mut self.listed) {
            let index = usize::from(index);
            new_page(&mut self.pages[index / PAGE])[index % PAGE] += 1;
        }
    }

    /// Adds all counts of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.pages.is_empty() {
            return other.listed.iter().for_each(|i| self.add((*i).into(), 1));
        }
        self.make_pages();
        for (mine, theirs) in self.pages.iter_mut().zip(&other.pages) {
            match (mine, theirs) {
                (Some(a), Some(b)) => a.iter_mut().zip(b.iter()).for_each(|(a, b)| *a += b),
                (empty @ None, Some(b)) => *empty = Some(b.clone()),
                (_, None) => {}
            }
        }
    }

    /// Index and count of the non-empty buckets, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let mut counted: Vec<(usize, u64)> = Vec::new();
        for index in self.sorted().into_iter().map(usize::from) {
            match counted.last_mut() {
                Some((last, n)) if *last == index => *n += 1,
                _ => counted.push((index, 1)),
            }
        }
        let paged = self.paged().flat_map(|(first, page)| {
            let used = page.iter().enumerate().filter(|(_, n)| **n > 0);
            used.map(move |(i, n)| (first + i, *n))
        });
        // One of the two is always empty.
        counted.into_iter().chain(paged)
    }

    /// The bucket of the value at each of `ranks`, which must be in ascending order. Rank 1 is
    /// the smallest value, and 0 counts as 1. Ranks above the number of values are omitted.
    pub(crate) fn of_ranks(&self, ranks: impl Iterator<Item = u64>) -> Vec<usize> {
        let ranks = ranks.map(|rank| rank.max(1));
        if self.pages.is_empty() {
            let sorted = self.sorted();
            let of = |rank: u64| {
                let index = sorted.get(usize::try_from(rank - 1).ok()?)?;
                Some(usize::from(*index))
            };
            return ranks.map_while(of).collect();
        }
        let mut found = Vec::with_capacity(ranks.size_hint().0);
        let mut ranks = ranks.peekable();
        let mut seen = 0;
        for (first, page) in self.paged() {
            if ranks.peek().is_none() {
                break;
            }
            let here: u64 = page.iter().sum();
            let (mut passed, mut bucket) = (seen, 0);
            while let Some(rank) = ranks.next_if(|rank| *rank <= seen + here) {
                while passed < rank {
                    passed += page[bucket];
                    bucket += 1;
                }
                found.push(first + bucket - 1);
            }
            seen += here;
        }
        found
    }

    fn sorted(&self) -> Vec<u16> {
        let mut sorted = self.listed.clone();
        sorted.sort_unstable();
        sorted
    }

    /// The existing pages, each with the index of its first bucket.
    fn paged(&self) -> impl Iterator<Item = (usize, &Page)> {
        let pages = self.pages.iter().enumerate();
        pages.filter_map(|(p, page)| page.as_ref().map(|page| (p * PAGE, page)))
    }
}

#[cold]
fn new_page(slot: &mut Option<Page>) -> &mut Page {
    slot.get_or_insert_with(|| Box::new([0; PAGE]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Counts in neighbouring and in distant buckets. Half of the cases have few enough values for
    /// a list; the others have some large counts.
    fn counts() -> impl Strategy<Value = Vec<(usize, u64)>> {
        let index = || prop_oneof![0..40usize, 0..Buckets::LEN, Just(Buckets::LEN - 1)];
        let few = prop::collection::vec((index(), 1..4u64), 0..10);
        let many = prop_oneof![Just(1), 1..1_000_000u64];
        prop_oneof![few, prop::collection::vec((index(), many), 0..40)]
    }

    fn of(counts: &[(usize, u64)]) -> Buckets {
        let mut buckets = Buckets::default();
        counts.iter().for_each(|(index, n)| buckets.add(*index, *n));
        buckets
    }

    fn reference(counts: &[(usize, u64)]) -> Vec<(usize, u64)> {
        let mut all = BTreeMap::new();
        for (index, n) in counts {
            *all.entry(*index).or_default() += n;
        }
        all.into_iter().collect()
    }

    #[test]
    fn one_value_above_the_limit_converts_the_list_to_pages() {
        let mut buckets = of(&[(7, LISTED_MAX as u64)]);
        assert!(buckets.pages.is_empty());
        buckets.add(3, 1);
        assert!(buckets.listed.is_empty() && !buckets.pages.is_empty());
        let all = [(3, 1), (7, LISTED_MAX as u64)];
        assert!(buckets.iter().eq(all));
        // The same with one large count, after another value and in an empty histogram.
        let many = [(2, 1), (Buckets::LEN - 1, u64::MAX)];
        assert!(of(&many).iter().eq(many));
        assert!(of(&many[1..]).iter().eq(many[1..].iter().copied()));
        // `in_pages` never uses the list.
        let mut paged = Buckets::in_pages();
        paged.add(3, 1);
        assert!(paged.listed.is_empty() && paged.iter().eq([(3, 1)]));
        let mut merged = of(&[(3, 2)]);
        merged.merge(&paged);
        paged.merge(&of(&[(3, 2)]));
        assert!(merged.iter().eq([(3, 3)]) && paged.iter().eq([(3, 3)]));
    }

    proptest! {
        #[test]
        fn lists_and_pages_have_the_same_counts(a in counts(), b in counts()) {
            prop_assert!(of(&a).iter().eq(reference(&a)));
            let both: Vec<_> = a.iter().chain(&b).copied().collect();
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert!(merged.iter().eq(reference(&both)));
        }

        #[test]
        fn every_rank_is_found(
            counts in counts(),
            asked in prop::collection::vec((any::<u64>(), any::<bool>()), 1..9),
        ) {
            let expected = reference(&counts);
            let total: u64 = expected.iter().map(|(_, n)| n).sum();
            // Ranks of at most two above the number of values, and arbitrary ones.
            let rank = |(any, within): &(u64, bool)| if *within { any % (total + 3) } else { *any };
            let mut ranks: Vec<u64> = asked.iter().map(rank).collect();
            ranks.sort_unstable();
            let holder = |rank: u64| {
                let mut seen = 0;
                expected.iter().find(|(_, n)| { seen += n; seen >= rank.max(1) }).map(|(index, _)| *index)
            };
            let found = of(&counts).of_ranks(ranks.iter().copied());
            prop_assert_eq!(found, ranks.into_iter().map_while(holder).collect::<Vec<_>>());
        }
    }
}
