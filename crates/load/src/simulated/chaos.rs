//! Random faults, for the randomised tests of HTTP/1.1, HTTP/2 and TLS.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tare_plan::load::{Arrivals, LoadSpec, Mode, RateStep, Trace, WarmParts};
use tare_records::load::LoadResult;
use tare_stats::rng::Rng;

use crate::driver::{ConnId, Driver, Fault};
use crate::engine::LoopPlan;

use super::driver::{SimDriver, SimServer, Step};
use super::support::{MS, S, addr, drive, plan};

/// Seeds of the random worlds to try. TARE_WORLDS selects others for a long run:
/// `100000` for the first 100,000, `20000..40000` for a range.
pub(crate) fn worlds(default: u64) -> Range<u64> {
    let number = |text: &str| text.parse().expect("TARE_WORLDS is N or FROM..TO");
    match std::env::var("TARE_WORLDS") {
        Err(_) => 0..default,
        Ok(text) => match text.split_once("..") {
            None => 0..number(&text),
            Some((from, to)) => number(from)..number(to),
        },
    }
}

/// A random source of delays and faults.
#[derive(Clone)]
pub(crate) struct Chaos {
    pub(crate) rng: Rng,
    /// Probability of a fault, in percent.
    fault_percent: u64,
}

impl Chaos {
    pub(crate) fn new(rng: &Rng, fault_percent: u64) -> Self {
        Self {
            rng: rng.clone(),
            fault_percent,
        }
    }

    /// Draws whether a fault occurs this time.
    pub(crate) fn draws_fault(&mut self) -> bool {
        self.rng.below(100) < self.fault_percent
    }

    /// A random delay of less than 60 ms, in nanoseconds.
    pub(crate) fn delay(&mut self) -> u64 {
        let scale = [1_000, 100_000, 2 * MS, 60 * MS][self.rng.below(4) as usize];
        self.rng.below(scale)
    }

    /// The outcome of a connection attempt. A faulty connection may begin with one of
    /// `unsolicited`, which the server sends before any request.
    pub(crate) fn connect(
        &mut self,
        unsolicited: &[Vec<u8>],
    ) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        let delay = self.delay();
        if !self.draws_fault() {
            return Some((delay, Ok(Vec::new())));
        }
        let later = self.delay();
        let outcome = match self.rng.below(7 + unsolicited.len() as u64) {
            0 => return None,
            1 => Err(Fault::Refused),
            2 => Err(Fault::Other),
            3 => Err(Fault::Tls),
            4 => Err(Fault::Shortage),
            5 => Ok(vec![Step::Close(later)]),
            6 => Ok(vec![Step::Reset(later)]),
            n => Ok(vec![Step::Bytes(
                later,
                unsolicited[n as usize - 7].clone(),
            )]),
        };
        Some((delay, outcome))
    }
}

/// A random mode: the closed loop, or an arrival process at 100 to 1,000 rps over the window.
pub(crate) fn any_mode(rng: &mut Rng, window_ns: u64) -> Mode {
    let rate_rps = 100.0 + rng.below(900) as f64;
    let arrivals = match rng.below(12) {
        0 | 1 => return Mode::Saturate,
        2 | 3 => Arrivals::Poisson,
        4 => Arrivals::Wrk2,
        5 => Arrivals::Bursts {
            slots: 1 + rng.below(30) as u32,
        },
        6 => Arrivals::Ramp {
            from_rps: rng.below(900) as f64,
            to_rps: rate_rps,
        },
        7 => {
            let of = |rate_rps| RateStep {
                rate_rps,
                duration_ns: 1 + window_ns / 3,
            };
            Arrivals::Steps([rate_rps, 0.0, 900.0].map(of).to_vec())
        }
        8 => {
            let instants = (0..1 + rng.below(200)).map(|_| rng.below(window_ns));
            let trace = Trace::new(instants.collect()).unwrap();
            let warm = WarmParts {
                every_ns: 40 * MS,
                length_ns: rng.below(30) * MS,
            };
            Arrivals::Trace(trace.clone().with_warm_parts(warm).unwrap_or(trace))
        }
        _ => Arrivals::Constant,
    };
    Mode::Open {
        rate_rps: arrivals.own_rate_rps(window_ns).unwrap_or(rate_rps),
        arrivals,
    }
}

/// Sets what the tests of all protocols vary: mode, durations and seed.
pub(crate) fn vary(s: &mut LoadSpec, rng: &mut Rng, window_ms_max: u64) {
    s.duration_ns = 20 * MS + rng.below(window_ms_max) * MS;
    s.mode = any_mode(rng, s.duration_ns);
    s.think_ns = [0, rng.below(30) * MS][rng.below(2) as usize];
    s.warmup_ns = rng.below(3) * 40 * MS;
    s.timeout_ns = 5 * MS + rng.below(150) * MS;
    s.drain_ns = (rng.below(3) == 0).then(|| rng.below(50) * MS);
    s.seed = rng.next_u64();
}

/// Runs `spec` against `server` with random interrupts, stalls, send limits and
/// unresolved names. Checks that the run ends in time and that only an interrupt or a
/// limited drain leaves slots unfinished; [`drive`] checks that the slots add up.
pub(crate) fn run_world(
    seed: u64,
    rng: &mut Rng,
    spec: &LoadSpec,
    server: impl SimServer,
) -> LoadResult {
    let stop = Arc::new(AtomicBool::new(false));
    let mut driver = SimDriver::new(InterruptAt {
        at: match rng.below(12) {
            0 => S + rng.below(400) * MS,
            _ => u64::MAX,
        },
        stop: Arc::clone(&stop),
        server,
    });
    driver.send_bytes_max = [0, 0, 40, 5_000][rng.below(4) as usize];
    driver.send_refused_first = rng.below(8) == 0;
    driver.reads_later = rng.below(2) == 0;
    if rng.below(3) == 0 {
        driver.stalls = vec![(S + rng.below(200) * MS, rng.below(200) * MS)];
    }
    let addrs = match rng.below(8) {
        0 => vec![vec![addr()], Vec::new()],
        _ => vec![vec![addr(), "10.0.0.9:80".parse().unwrap()], vec![addr()]],
    };
    let stalls = !driver.stalls.is_empty();
    let users = users(&plan(spec, addrs.clone()));
    let result = drive(&mut driver, spec, addrs, &stop);
    let limit = 4 * S + spec.warmup_ns + spec.duration_ns + spec.timeout_ns + 250 * MS;
    let now = driver.now();
    assert!(now < S + limit, "seed {seed}: the run ended at {now}");
    let interrupted = stop.load(Ordering::Relaxed);
    if spec.drain_ns.is_none() && !interrupted {
        let (in_flight, not_sent) = (result.counts.in_flight, result.counts.not_sent);
        // In a closed loop, the users of a connection that opened only after the window, or that
        // has no permission for their streams, have sent nothing.
        let allowed = if spec.mode == Mode::Saturate {
            users
        } else {
            0
        };
        assert!(
            in_flight == 0 && not_sent <= allowed,
            "seed {seed}: {:?}",
            result.counts
        );
    }
    if spec.mode == Mode::Saturate && spec.think_ns == 0 && !interrupted && !stalls {
        let planned = result.counts.planned;
        assert!(planned >= users, "seed {seed}: {planned} of {users} users");
    }
    result
}

/// Number of users in a closed loop.
fn users(plan: &LoopPlan) -> u64 {
    let origins = plan.origins_of_connections();
    let users = origins.map(|o| match plan.targets.origins[o].multiplexed {
        true => u64::from(plan.streams),
        false => 1,
    });
    users.sum()
}

/// A server that interrupts the generator at the first event at or after `at`.
pub(crate) struct InterruptAt<S> {
    pub(crate) server: S,
    /// `u64::MAX` for never.
    pub(crate) at: u64,
    pub(crate) stop: Arc<AtomicBool>,
}

impl<S> InterruptAt<S> {
    fn check(&self, now: u64) {
        if now >= self.at {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl<S: SimServer> SimServer for InterruptAt<S> {
    fn connect(&mut self, now: u64, to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        self.check(now);
        self.server.connect(now, to)
    }

    fn request(&mut self, now: u64, to: SocketAddr, request: &[u8]) -> Vec<Step> {
        self.check(now);
        self.server.request(now, to, request)
    }

    fn bytes(&mut self, now: u64, on: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        self.check(now);
        self.server.bytes(now, on, bytes)
    }
}
