//! The addresses of an origin.
//!
//! Connections are spread evenly over the addresses of the family that the resolver prefers. A host
//! often has an address of each family, and may listen on only one of them, so the addresses of the
//! other family are used only if all of the preferred one have failed.

use std::net::SocketAddr;

use super::conn::BACKOFF_NS_MAX;

/// How long an address is avoided after a failure, as long as the longest pause of a connection.
const AVOIDED_NS: u64 = BACKOFF_NS_MAX;

/// The addresses of an origin, with the connections of this loop.
#[derive(Debug)]
pub(super) struct Addresses {
    /// Those of the preferred family first.
    all: Vec<Address>,
    /// The first one to use, so that loops and generators with few connections use different ones.
    first: usize,
}

#[derive(Debug)]
struct Address {
    at: SocketAddr,
    preferred: bool,
    /// After a failure: avoided until this instant, or until all have failed.
    down_until: u64,
    /// Connections that are open or being opened.
    used: u32,
    attempts: u64,
    opened: u64,
}

impl Addresses {
    /// `before` connections are those of other loops and generators, which come first.
    pub(super) fn new(addrs: &[SocketAddr], before: u32) -> Self {
        let preferred = |at: &SocketAddr| at.is_ipv4() == addrs[0].is_ipv4();
        let count = addrs.iter().filter(|at| preferred(at)).count().max(1);
        let address = |at: &SocketAddr| Address {
            at: *at,
            preferred: preferred(at),
            down_until: 0,
            used: 0,
            attempts: 0,
            opened: 0,
        };
        Self {
            all: addrs.iter().map(address).collect(),
            first: before as usize % count,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Chooses the address of an attempt at `now`, with its index; `None` when the name did not
    /// resolve.
    pub(super) fn begin(&mut self, now: u64) -> Option<(usize, SocketAddr)> {
        if self.all.iter().all(|a| now < a.down_until) {
            self.all.iter_mut().for_each(|a| a.down_until = 0);
        }
        let usable = self.all.iter().enumerate();
        let usable = usable.filter(|(_, a)| now >= a.down_until);
        let (index, _) = usable.min_by_key(|&(i, a)| {
            let before_first = i < self.first;
            (!a.preferred, a.used, a.attempts, before_first, i)
        })?;
        let chosen = &mut self.all[index];
        chosen.used += 1;
        chosen.attempts += 1;
        Some((index, chosen.at))
    }

    /// Counts a connection that can carry requests.
    pub(super) fn opened(&mut self, index: usize) {
        self.all[index].opened += 1;
    }

    /// Ends a connection or an attempt.
    pub(super) fn ended(&mut self, index: usize) {
        self.all[index].used -= 1;
    }

    /// Avoids an address that failed at `now`: for a while if connections to it were open before,
    /// which may be possible again. Otherwise until all have failed, because nothing may listen on
    /// it, and each attempt would fail a request.
    pub(super) fn avoid(&mut self, index: usize, now: u64) {
        let address = &mut self.all[index];
        address.down_until = match address.opened {
            0 => u64::MAX,
            _ => now.saturating_add(AVOIDED_NS),
        };
    }

    /// How many connections were opened to each address.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.all.iter().map(|a| a.opened).collect()
    }
}
