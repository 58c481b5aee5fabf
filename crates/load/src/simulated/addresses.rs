//! Names with several addresses, in virtual time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use tare_plan::load::LoadSpec;
use tare_records::load::{ErrorClass, LoadResult};

use crate::driver::Fault;

use super::driver::{SimDriver, SimServer, Step};
use super::support::{MS, S, drive, errors_of, ok_response, plan, run_engine, spec};

/// Answers each request, and refuses connections to some ports.
#[derive(Default)]
struct Hosts {
    refused: Vec<u16>,
    /// Connections and requests by port.
    connections: BTreeMap<u16, u64>,
    requests: BTreeMap<u16, u64>,
    /// One connection is refused, after this number of others.
    refuses_after: Option<u64>,
    /// What follows a response.
    after: Option<Step>,
}

impl SimServer for Hosts {
    fn connect(&mut self, _now: u64, to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        if self.refused.contains(&to.port()) {
            return Some((1_000, Err(Fault::Refused)));
        }
        let opened: u64 = self.connections.values().sum();
        if self
            .refuses_after
            .take_if(|after| opened >= *after)
            .is_some()
        {
            return Some((1_000, Err(Fault::Refused)));
        }
        *self.connections.entry(to.port()).or_default() += 1;
        Some((1_000, Ok(Vec::new())))
    }

    fn request(&mut self, _now: u64, to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        *self.requests.entry(to.port()).or_default() += 1;
        let answer = Step::Bytes(MS, ok_response("x"));
        [answer].into_iter().chain(self.after.clone()).collect()
    }
}

fn of(connections: u32) -> LoadSpec {
    let mut s = spec(&["http://h/"]);
    s.duration_ns = S;
    s.connections = connections;
    s
}

/// Runs a load of a name with these addresses, of which those with `refused` ports refuse.
fn run(s: &LoadSpec, addrs: &[&str], hosts: Hosts) -> (LoadResult, Hosts) {
    let addrs = addrs.iter().map(|a| a.parse().unwrap()).collect();
    let mut driver = SimDriver::new(hosts);
    let result = drive(&mut driver, s, vec![addrs], &AtomicBool::new(false));
    (result, driver.into_server())
}

fn refusing(ports: &[u16]) -> Hosts {
    Hosts {
        refused: ports.to_vec(),
        ..Hosts::default()
    }
}

const THREE: [&str; 3] = ["10.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3"];

#[test]
fn connections_are_spread_evenly_over_all_addresses() {
    let (r, hosts) = run(&of(9), &THREE, Hosts::default());
    assert_eq!(r.counts.ok, r.counts.planned);
    assert_eq!(hosts.connections, BTreeMap::from([(1, 3), (2, 3), (3, 3)]));
    // Each connection is used in turn.
    let least = hosts.requests.values().min().unwrap();
    assert!(least * 3 + 9 >= r.counts.ok, "{:?}", hosts.requests);
}

#[test]
fn connections_that_are_opened_again_stay_spread() {
    let mut churn = of(9);
    churn.requests_per_connection = Some(1);
    let closing = Hosts {
        after: Some(Step::Close(2 * MS)),
        ..Hosts::default()
    };
    for (s, hosts) in [(churn, Hosts::default()), (of(9), closing)] {
        let (r, hosts) = run(&s, &THREE, hosts);
        assert_eq!(r.counts.ok, r.counts.planned, "{:?}", r.errors);
        let (least, most) = (
            hosts.connections.values().min(),
            hosts.connections.values().max(),
        );
        assert!(
            most.unwrap() - least.unwrap() <= 1,
            "{:?}",
            hosts.connections
        );
        assert!(
            hosts.connections.len() == 3 && *least.unwrap() > 9,
            "{:?}",
            hosts.connections
        );
    }
}

#[test]
fn the_connections_of_an_address_that_refuses_go_to_the_others_evenly() {
    let (r, hosts) = run(&of(10), &THREE, refusing(&[2]));
    assert_eq!(r.counts.ok, r.counts.planned, "{:?}", r.errors);
    assert_eq!(hosts.connections, BTreeMap::from([(1, 5), (3, 5)]));
    let (r, _) = run(&of(10), &THREE, refusing(&[1, 2, 3]));
    assert_eq!(errors_of(&r, ErrorClass::ConnectRefused), r.counts.planned);
}

#[test]
fn an_address_that_refused_one_connection_is_used_again_after_a_while() {
    let mut churn = of(3);
    churn.requests_per_connection = Some(1);
    churn.duration_ns = 4 * S;
    let hosts = Hosts {
        refuses_after: Some(100),
        ..Hosts::default()
    };
    let (r, hosts) = run(&churn, &THREE, hosts);
    assert_eq!(errors_of(&r, ErrorClass::ConnectRefused), 1);
    let least = *hosts.requests.values().min().unwrap();
    // A third of the requests of 3 of the 4 s.
    assert!(
        least > 900 && hosts.requests.len() == 3,
        "{:?}",
        hosts.requests
    );
}

#[test]
fn the_other_family_is_used_only_if_the_preferred_one_fails() {
    let localhost = ["[::1]:1", "127.0.0.1:2"];
    let (_, hosts) = run(&of(8), &localhost, Hosts::default());
    assert_eq!(hosts.connections, BTreeMap::from([(1, 8)]));
    let (r, hosts) = run(&of(8), &localhost, refusing(&[1]));
    assert_eq!(r.counts.ok, r.counts.planned, "{:?}", r.errors);
    assert_eq!(hosts.connections, BTreeMap::from([(2, 8)]));
    // With connections that are opened for each request, the failure is noticed once.
    let mut churn = of(8);
    churn.requests_per_connection = Some(1);
    let (r, _) = run(&churn, &localhost, refusing(&[1]));
    assert_eq!(r.counts.error, 1, "{:?}", r.errors);
}

#[test]
fn loops_with_few_connections_use_different_addresses() {
    let s = of(1);
    for before in 0..6 {
        let mut plan = plan(&s, vec![THREE.map(|a| a.parse().unwrap()).to_vec()]);
        plan.before = vec![before];
        let mut driver = SimDriver::new(Hosts::default());
        let mut opened = Vec::new();
        run_engine(&mut driver, &plan, &AtomicBool::new(false), &mut |flush| {
            opened.extend(flush.opened);
        });
        let expected = (0..3)
            .map(|i| u64::from(i == before % 3))
            .collect::<Vec<_>>();
        assert_eq!(opened, [expected], "the last flush has the counts");
    }
}
