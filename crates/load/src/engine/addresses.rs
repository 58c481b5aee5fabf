//! The addresses of an origin.
//!
//! Connections are spread evenly over the addresses of the family that the resolver prefers. A host
//! often has an address of each family, and may listen on only one of them, so the addresses of the
//! other family are used only if all of the preferred one have failed.

use std::net::SocketAddr;

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
    /// Failed, while others have not.
    down: bool,
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
            down: false,
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

    /// Chooses the address of the next attempt, with its index; `None` when the name did not
    /// resolve.
    pub(super) fn begin(&mut self) -> Option<(usize, SocketAddr)> {
        if self.all.iter().all(|a| a.down) {
            self.all.iter_mut().for_each(|a| a.down = false);
        }
        let usable = self.all.iter().enumerate().filter(|(_, a)| !a.down);
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

    /// Avoids an address until all have failed.
    pub(super) fn avoid(&mut self, index: usize) {
        self.all[index].down = true;
    }

    /// How many connections were opened to each address.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.all.iter().map(|a| a.opened).collect()
    }
}
