//! Where the servers of these tests are: in virtual time with bytes in random pieces,
//! and on loopback sockets.

use std::collections::HashMap;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use tare_model::load::{LoadResult, LoadSpec, Pace};
use tare_model::rng::Rng;

use super::MS;
use super::server::{Peer, Server};
use crate::conformance::take;
use crate::driver::{ConnId, Driver, EpollDriver, Fault, SimDriver, SimServer, Step, TlsDriver};
use crate::targets::Targets;
use crate::testing::{drive, plan};
use crate::tls::peers;

pub(super) trait World {
    /// How long it takes at least to open a connection with its handshake.
    fn open_ns_min(&self) -> u64;

    fn run(&self, server: &Server, spec: &LoadSpec) -> LoadResult;
}

/// Drives `spec` over TLS on top of `inner`.
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

/// Bytes in random pieces, both ways.
pub(super) struct Simulated {
    pub(super) seed: u64,
}

pub(super) struct InPieces {
    pub(super) server: Server,
    /// Each with the instant until which its bytes are on their way.
    pub(super) peers: HashMap<(ConnId, u64), (Peer, u64)>,
    pub(super) rng: Rng,
    /// Of a hundred answers, so many go wrong.
    pub(super) trouble: u64,
}

impl SimServer for InPieces {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((50_000, Ok(Vec::new())))
    }

    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        Vec::new()
    }

    fn bytes(&mut self, now: u64, stream: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        let server = &self.server;
        let place = self.peers.entry(stream);
        let (peer, busy_until) = place.or_insert_with(|| (server.peer(), 0));
        let mut steps = Vec::new();
        let mut at = busy_until.saturating_sub(now).max(20_000);
        for mut step in peer.bytes(bytes) {
            if self.rng.below(100) < self.trouble {
                at += self.rng.below(30 * MS);
                step = spoilt(step, &mut self.rng);
            }
            match step {
                Step::Bytes(_, whole) => {
                    let mut rest = whole.as_slice();
                    while !rest.is_empty() {
                        let most = [3, 700, 5_000, 1 << 20][self.rng.below(4) as usize];
                        let n = (1 + self.rng.below(most) as usize).min(rest.len());
                        steps.push(Step::Bytes(at, rest[..n].to_vec()));
                        rest = &rest[n..];
                        at += self.rng.below(3) * 10;
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

/// Something else than the server meant.
fn spoilt(step: Step, rng: &mut Rng) -> Step {
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
        // Late only.
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
        let mut driver = SimDriver::new(InPieces {
            server: server.clone(),
            peers: HashMap::new(),
            rng,
            trouble: 0,
        });
        driver.send_bytes_max = send_bytes_max;
        over(driver, spec, "10.0.0.1:443".parse().unwrap())
    }
}

pub(super) struct Loopback;

impl World for Loopback {
    fn open_ns_min(&self) -> u64 {
        // A slot may take the connection that was opened for the one before it.
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
        let goes_on = |step| take(&step, &mut stream);
        if n == 0 || !peer.bytes(&buffer[..n]).into_iter().all(goes_on) {
            return;
        }
    }
}
