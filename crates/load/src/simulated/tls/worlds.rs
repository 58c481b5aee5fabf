//! The environments of these tests: virtual time with bytes in random pieces, and loopback
//! sockets.

use std::collections::HashMap;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use tare_plan::load::{LoadSpec, Pace};
use tare_records::load::LoadResult;
use tare_stats::rng::Rng;

use crate::driver::{ConnId, Driver, EpollDriver, Fault, TlsDriver};
use crate::simulated::chaos::Chaos;
use crate::simulated::conformance::take;
use crate::simulated::driver::{SimDriver, SimServer, Step};
use crate::simulated::support::{MS, drive, plan};
use crate::target::Targets;
use crate::target::tls::peers;

use super::server::{Peer, Server};

/// The address of the simulated server.
pub(super) fn addr() -> SocketAddr {
    "10.0.0.1:443".parse().unwrap()
}

pub(super) trait World {
    /// Shortest time to open a connection with its handshake, in nanoseconds.
    fn open_ns_min(&self) -> u64;

    fn run(&self, server: &Server, spec: &LoadSpec) -> LoadResult;
}

/// Runs `spec` over TLS on top of `inner`.
pub(super) fn over<D: Driver>(inner: D, spec: &LoadSpec, addr: SocketAddr) -> LoadResult {
    let targets = Targets::new(spec).unwrap();
    let tls = spec.tls.clone().unwrap_or_default();
    let peers = peers(&tls, &targets.origins).unwrap();
    let addrs = vec![vec![addr]; targets.origins.len()];
    let of_connections = plan(spec, addrs.clone())
        .origins_of_connections()
        .map(|o| peers[o].clone())
        .collect();
    let mut driver = TlsDriver::new(inner, of_connections);
    drive(&mut driver, spec, addrs, &AtomicBool::new(false))
}

/// Virtual time, with bytes in random pieces in both directions.
pub(super) struct Simulated {
    pub(super) seed: u64,
}

/// Sends the server's bytes in random pieces.
pub(super) struct RandomPieces {
    server: Server,
    /// By connection, each with the instant until which its bytes are in transit.
    peers: HashMap<(ConnId, u64), (Peer, u64)>,
    chaos: Chaos,
}

impl RandomPieces {
    pub(super) fn new(server: &Server, rng: &Rng, fault_percent: u64) -> Self {
        Self {
            server: server.clone(),
            peers: HashMap::new(),
            chaos: Chaos::new(rng, fault_percent),
        }
    }
}

impl SimServer for RandomPieces {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((50_000, Ok(Vec::new())))
    }

    fn bytes(&mut self, now: u64, stream: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        let server = &self.server;
        let entry = self.peers.entry(stream);
        let (peer, busy_until) = entry.or_insert_with(|| (server.peer(), 0));
        let mut steps = Vec::new();
        let mut at = busy_until.saturating_sub(now).max(20_000);
        for mut step in peer.bytes(bytes) {
            if self.chaos.draws_fault() {
                at += self.chaos.rng.below(30 * MS);
                step = corrupted(step, &mut self.chaos.rng);
            }
            match step {
                Step::Bytes(_, whole) => {
                    let mut rest = whole.as_slice();
                    while !rest.is_empty() {
                        let rng = &mut self.chaos.rng;
                        let most = [3, 700, 5_000, 1 << 20][rng.below(4) as usize];
                        let n = (1 + rng.below(most) as usize).min(rest.len());
                        steps.push(Step::Bytes(at, rest[..n].to_vec()));
                        rest = &rest[n..];
                        at += rng.below(3) * 10;
                    }
                }
                Step::Close(_) => steps.push(Step::Close(at)),
                Step::Reset(_) => steps.push(Step::Reset(at)),
            }
        }
        *busy_until = now + at;
        Some(steps)
    }
}

/// Returns the step closed, reset, truncated, changed, or without a change.
fn corrupted(step: Step, rng: &mut Rng) -> Step {
    match (rng.below(5), step) {
        (0, _) => Step::Close(0),
        (1, _) => Step::Reset(0),
        (2, Step::Bytes(at, mut bytes)) => {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
            Step::Bytes(at, bytes)
        }
        (3, Step::Bytes(at, mut bytes)) => {
            let place = rng.below(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << rng.below(8);
            Step::Bytes(at, bytes)
        }
        // No fault except the delay.
        (_, step) => step,
    }
}

impl World for Simulated {
    fn open_ns_min(&self) -> u64 {
        70_000
    }

    fn run(&self, server: &Server, spec: &LoadSpec) -> LoadResult {
        let mut rng = Rng::new(self.seed);
        let send_bytes_max = [0, 0, 7, 150][rng.below(4) as usize];
        let mut driver = SimDriver::new(RandomPieces::new(server, &rng, 0));
        driver.send_bytes_max = send_bytes_max;
        over(driver, spec, addr())
    }
}

pub(super) struct Loopback;

impl World for Loopback {
    fn open_ns_min(&self) -> u64 {
        // A slot may use the connection that was opened for the slot before it.
        1
    }

    fn run(&self, server: &Server, spec: &LoadSpec) -> LoadResult {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for stream in listener.incoming() {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let (stream, peer) = (stream.unwrap(), server.peer());
                    scope.spawn(move || serve(stream, peer));
                }
            });
            let result = over(EpollDriver::new(Pace::Sleep).unwrap(), spec, addr);
            done.store(true, Ordering::Relaxed);
            TcpStream::connect(addr).unwrap();
            result
        })
    }
}

fn serve(mut stream: TcpStream, mut peer: Peer) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = [0; 4096];
    while let Ok(n) = stream.read(&mut buffer) {
        let continues = |step| take(&step, &mut stream);
        if n == 0 || !peer.bytes(&buffer[..n]).into_iter().all(continues) {
            return;
        }
    }
}
