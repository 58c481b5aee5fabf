//! Resolves host names once before the start, in bounded time.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use super::Origin;

/// A name without an answer after this time counts as unresolved.
const LIMIT: Duration = Duration::from_secs(10);
const THREADS: usize = 16;

/// The addresses of each origin in the resolver's order, but those of the family of the first one
/// before the others; empty where the name does not resolve in time.
pub(crate) fn resolve(origins: &[Origin]) -> Vec<Vec<SocketAddr>> {
    let mut known: HashMap<&str, Vec<SocketAddr>> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    for origin in origins {
        let host = origin.host.as_str();
        if known.contains_key(host) {
            continue;
        }
        let literal: Option<IpAddr> = host.parse().ok();
        if literal.is_none() {
            names.push(host.to_owned());
        }
        let literal = literal.map(|ip| SocketAddr::new(ip, 0));
        known.insert(host, literal.into_iter().collect());
    }
    let found = look_up(names, LIMIT);
    origins
        .iter()
        .map(|o| {
            let addrs = found.get(&o.host).or_else(|| known.get(o.host.as_str()));
            let with_port = |addr: &SocketAddr| {
                let mut addr = *addr;
                addr.set_port(o.port);
                addr
            };
            addrs.into_iter().flatten().map(with_port).collect()
        })
        .collect()
}

/// Removes repeated addresses, and moves those of the family of the first one to the front.
fn in_order(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addrs: Vec<SocketAddr> = Vec::new();
    for addr in found {
        if !addrs.contains(&addr) {
            addrs.push(addr);
        }
    }
    let first = addrs.first().map(SocketAddr::is_ipv4);
    addrs.sort_by_key(|addr| Some(addr.is_ipv4()) != first);
    addrs
}

/// Of each host that has several addresses: how many connections were opened to each address.
pub(crate) fn opened_by_address(
    origins: &[Origin],
    addrs: &[Vec<SocketAddr>],
    opened: &[Vec<u64>],
) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut all: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for ((origin, addrs), opened) in origins.iter().zip(addrs).zip(opened) {
        if addrs.len() < 2 {
            continue;
        }
        let host = format!("{}:{}", origin.host, origin.port);
        let counts = all.entry(host).or_default();
        for (addr, n) in addrs.iter().zip(opened) {
            *counts.entry(addr.to_string()).or_default() += n;
        }
    }
    all
}

/// Resolves on separate threads, because a resolver may block for longer than the limit;
/// such threads are abandoned.
fn look_up(names: Vec<String>, limit: Duration) -> HashMap<String, Vec<SocketAddr>> {
    let until = Instant::now() + limit;
    let mut missing = names.len();
    let threads = missing.min(THREADS);
    let queue = Arc::new(Mutex::new(names));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..threads {
        let (queue, sender) = (Arc::clone(&queue), sender.clone());
        std::thread::spawn(move || {
            while let Some(name) = queue.lock().ok().and_then(|mut q| q.pop()) {
                let found = (name.as_str(), 0).to_socket_addrs();
                let addrs = found.map(in_order).unwrap_or_default();
                if sender.send((name, addrs)).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let mut found = HashMap::new();
    while missing > 0 {
        let left = until.saturating_duration_since(Instant::now());
        let Ok((name, addrs)) = receiver.recv_timeout(left) else {
            break;
        };
        found.insert(name, addrs);
        missing -= 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::support::spec;
    use crate::target::Targets;

    #[test]
    fn a_zone_becomes_the_scope_of_the_address() {
        let mut s = spec(&[
            "http://[fe80::1%25lo]:81/",
            "http://h/",
            "http://[fe80::1%25none]/",
        ]);
        s.endpoints[1].connect = Some("[fe80::1%lo]:82".into());
        let addrs = resolve(&Targets::new(&s).unwrap().origins);
        let scopes: Vec<Option<u32>> = addrs
            .iter()
            .map(|all| match all.as_slice() {
                [SocketAddr::V6(addr)] => Some(addr.scope_id()),
                _ => None,
            })
            .collect();
        let index = std::fs::read_to_string("/sys/class/net/lo/ifindex").unwrap();
        let lo = index.trim().parse().ok();
        assert_eq!(scopes, [lo, lo, None], "{addrs:?}");
        assert_eq!((addrs[0][0].port(), addrs[1][0].port()), (81, 82));
    }

    #[test]
    fn the_family_of_the_first_address_comes_first() {
        let addrs = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|t| t.parse().unwrap()).collect()
        };
        let found = addrs(&["[::1]:0", "127.0.0.1:0", "[::2]:0", "[::1]:0"]);
        let expected = addrs(&["[::1]:0", "[::2]:0", "127.0.0.1:0"]);
        assert_eq!(in_order(found.into_iter()), expected);
    }

    #[test]
    fn the_addresses_of_names_with_several_are_counted() {
        let s = spec(&["http://shop:81/", "http://shop:81/a", "http://one/"]);
        let origins = Targets::new(&s).unwrap().origins;
        let of = |ips: &[&str]| ips.iter().map(|t| t.parse().unwrap()).collect();
        let addrs = [of(&["10.0.0.1:81", "10.0.0.2:81"]), of(&["10.0.0.3:80"])];
        let found = opened_by_address(&origins, &addrs, &[vec![3, 2], vec![9]]);
        let counts: Vec<(&str, u64)> = found["shop:81"].iter().map(|(a, n)| (&**a, *n)).collect();
        assert_eq!(counts, [("10.0.0.1:81", 3), ("10.0.0.2:81", 2)]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn literal_addresses_need_no_resolver_and_unknown_names_have_no_address() {
        let targets = Targets::new(&spec(&[
            "http://127.0.0.1:81/",
            "http://[::1]/",
            "http://no-such-host.invalid/",
        ]))
        .unwrap();
        let addrs = resolve(&targets.origins);
        assert_eq!(addrs[0], ["127.0.0.1:81".parse().unwrap()]);
        assert_eq!(addrs[1], ["[::1]:80".parse().unwrap()]);
        assert!(addrs[2].is_empty());
    }
}
