//! Resolves host names once before the start, in bounded time.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use super::Origin;

/// A name without an answer after this time counts as unresolved.
const LIMIT: Duration = Duration::from_secs(10);
const THREADS: usize = 16;

/// The addresses of each origin in the resolver's order; empty where the name does not
/// resolve in time.
pub(crate) fn resolve(origins: &[Origin]) -> Vec<Vec<SocketAddr>> {
    let mut ips: HashMap<&str, Vec<IpAddr>> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    for origin in origins {
        let host = origin.host.as_str();
        if ips.contains_key(host) {
            continue;
        }
        let literal: Option<IpAddr> = host.parse().ok();
        if literal.is_none() {
            names.push(host.to_owned());
        }
        ips.insert(host, literal.into_iter().collect());
    }
    let found = look_up(names, LIMIT);
    origins
        .iter()
        .map(|o| {
            let ips = found.get(&o.host).or_else(|| ips.get(o.host.as_str()));
            ips.into_iter()
                .flatten()
                .map(|&ip| SocketAddr::new(ip, o.port))
                .collect()
        })
        .collect()
}

/// Resolves on separate threads, because a resolver may block for longer than the limit;
/// such threads are abandoned.
fn look_up(names: Vec<String>, limit: Duration) -> HashMap<String, Vec<IpAddr>> {
    let until = Instant::now() + limit;
    let mut missing = names.len();
    let threads = missing.min(THREADS);
    let queue = Arc::new(Mutex::new(names));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..threads {
        let (queue, sender) = (Arc::clone(&queue), sender.clone());
        std::thread::spawn(move || {
            while let Some(name) = queue.lock().ok().and_then(|mut q| q.pop()) {
                let ips: Vec<IpAddr> = (name.as_str(), 0)
                    .to_socket_addrs()
                    .map(|all| all.map(|a| a.ip()).collect())
                    .unwrap_or_default();
                if sender.send((name, ips)).is_err() {
                    return;
                }
            }
        });
    }
    drop(sender);
    let mut found = HashMap::new();
    while missing > 0 {
        let left = until.saturating_duration_since(Instant::now());
        let Ok((name, ips)) = receiver.recv_timeout(left) else {
            break;
        };
        found.insert(name, ips);
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
