//! Which endpoint a slot asks: weights dealt like cards.
//!
//! Each cycle of as many slots as the weights add up to holds every endpoint
//! exactly its weight times, in an order of its own. The order is a function of
//! the slot's index, so all shards agree without talking, and dealing costs the
//! same for one endpoint as for a thousand.

use tare_model::rng::Rng;

/// Most cards in a deck, after the weights' common factor is taken out.
pub const CARDS_MAX: u64 = 1 << 22;

/// The weights are too fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the weights add up to {0} after removing their common factor: expected at most {CARDS_MAX}; use rounder weights"
)]
pub struct DeckError(u64);

/// Cards dealt at once: none of them waits for the one before it, so the processor works
/// at several.
const HAND: usize = 16;

/// A shuffled deck for every cycle.
#[derive(Debug, Clone)]
pub struct Deck {
    cards: Vec<u32>,
    bits: u32,
    seed: u64,
    cycle: u64,
    keys: [u64; 3],
    /// Cards of indices that lie `step` apart, and the next of them.
    hand: [u32; HAND],
    held: usize,
    next: u64,
    step: u64,
}

impl Deck {
    /// A deck in which card `i` lies `weights[i]` times (weights of 0 count as absent).
    ///
    /// # Errors
    /// When the weights need more than [`CARDS_MAX`] cards.
    pub fn new(weights: &[u32], seed: u64) -> Result<Self, DeckError> {
        let divisor = weights.iter().fold(0, |a, &b| gcd(a, u64::from(b))).max(1);
        let total = weights.iter().map(|&w| u64::from(w)).sum::<u64>() / divisor;
        if total > CARDS_MAX {
            return Err(DeckError(total));
        }
        let mut cards = Vec::with_capacity(total as usize);
        for (i, &w) in weights.iter().enumerate() {
            cards.extend(std::iter::repeat_n(
                i as u32,
                (u64::from(w) / divisor) as usize,
            ));
        }
        let bits = (total.max(2) - 1).ilog2() + 1;
        let mut deck = Self {
            cards,
            bits,
            seed,
            cycle: 0,
            keys: [0; 3],
            hand: [0; HAND],
            held: 0,
            next: 0,
            step: 1,
        };
        deck.turn_to(0);
        Ok(deck)
    }

    /// The card for slot `index`. Cheapest when indices rise in equal steps.
    #[inline]
    pub fn card(&mut self, index: u64) -> usize {
        if self.cards.len() <= 1 {
            return self.cards.first().map_or(0, |&card| card as usize);
        }
        if index != self.next || self.held == 0 {
            self.deal(index);
        }
        let card = self.hand[HAND - self.held];
        self.held -= 1;
        self.next = index.wrapping_add(self.step);
        card as usize
    }

    /// Takes a hand of the card for `index` and those that will follow if the step from
    /// the index before it is also the next.
    fn deal(&mut self, index: u64) {
        let before = self.next.wrapping_sub(self.step);
        self.step = index.checked_sub(before).filter(|&s| s > 0).unwrap_or(1);
        for i in 0..HAND {
            let index = index.wrapping_add(self.step.wrapping_mul(i as u64));
            self.hand[i] = self.look_up(index);
        }
        self.held = HAND;
    }

    fn look_up(&mut self, index: u64) -> u32 {
        let len = self.cards.len() as u64;
        let cycle = index / len;
        if cycle != self.cycle {
            self.turn_to(cycle);
        }
        // Cycle walking: a permutation of 0..2^bits, applied until it lands in the
        // deck, permutes the deck. Source: Black and Rogaway, "Ciphers with
        // arbitrary finite domains" (2002).
        let mut at = index % len;
        loop {
            at = self.permute(at);
            if at < len {
                return self.cards[at as usize];
            }
        }
    }

    fn turn_to(&mut self, cycle: u64) {
        let mut rng = Rng::stream(self.seed, cycle.wrapping_add(1 << 63));
        self.keys = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        self.cycle = cycle;
    }

    /// Rounds of steps that can each be undone: adding a key, multiplying by an odd
    /// number, folding the high bits onto the low ones, all modulo 2^bits.
    fn permute(&self, mut x: u64) -> u64 {
        let mask = (1u64 << self.bits) - 1;
        let shift = self.bits.div_ceil(2);
        for key in self.keys {
            x = x.wrapping_add(key) & mask;
            x = x.wrapping_mul((key >> 20) | 1) & mask;
            x ^= x >> shift;
        }
        x.wrapping_add(self.keys[0] >> 40) & mask
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_cycle_holds_the_exact_proportions(
            weights in prop::collection::vec(1u32..40, 1..60), seed: u64, cycle in 0u64..1000,
        ) {
            let mut deck = Deck::new(&weights, seed).unwrap();
            let len = deck.cards.len() as u64;
            let mut counts = vec![0u32; weights.len()];
            for i in cycle * len..(cycle + 1) * len {
                counts[deck.card(i)] += 1;
            }
            let factor = weights[0] / counts[0];
            prop_assert_eq!(counts.iter().map(|c| c * factor).collect::<Vec<_>>(), weights);
        }

        #[test]
        fn shards_agree_whatever_their_order(weights in prop::collection::vec(1u32..9, 2..20), seed: u64) {
            let mut forth = Deck::new(&weights, seed).unwrap();
            let mut back = Deck::new(&weights, seed).unwrap();
            let a: Vec<usize> = (0..300).map(|i| forth.card(i)).collect();
            let mut b: Vec<usize> = (0..300).rev().map(|i| back.card(i)).collect();
            b.reverse();
            prop_assert_eq!(a, b);
        }

        #[test]
        fn steps_and_leaps_find_the_same_cards(
            weights in prop::collection::vec(1u32..9, 2..20), seed: u64,
            walks in prop::collection::vec((0u64..2000, 1u64..70, 1u64..40), 1..6),
        ) {
            let mut deck = Deck::new(&weights, seed).unwrap();
            let mut looking = deck.clone();
            for (from, step, length) in walks {
                for index in (0..length).map(|i| from + i * step) {
                    prop_assert_eq!(deck.card(index), looking.look_up(index) as usize);
                }
            }
        }
    }

    #[test]
    fn the_order_is_shuffled_anew_each_cycle() {
        let mut deck = Deck::new(&[1; 100], 7).unwrap();
        let cycles: Vec<Vec<usize>> = (0..50)
            .map(|c| (0..100).map(|i| deck.card(c * 100 + i)).collect())
            .collect();
        for pair in cycles.windows(2) {
            let same = (0..100).filter(|&i| pair[0][i] == pair[1][i]).count();
            assert!(same < 15, "{same} cards kept their places");
        }
        // Each card's mean place over 50 cycles is near the middle: 49.5, s.d. 4.1.
        for card in 0..100 {
            let mean = cycles
                .iter()
                .map(|c| c.iter().position(|&x| x == card).unwrap())
                .sum::<usize>() as f64
                / 50.0;
            assert!((25.0..74.0).contains(&mean), "card {card} lies at {mean}");
        }
    }

    #[test]
    fn common_factors_are_taken_out_and_the_size_is_bounded() {
        assert_eq!(
            Deck::new(&[1_000_000_000, 3_000_000_000], 1)
                .unwrap()
                .cards
                .len(),
            4
        );
        assert!(Deck::new(&[u32::MAX, u32::MAX - 1], 1).is_err());
        assert_eq!(Deck::new(&[5], 1).unwrap().card(123), 0);
    }
}
