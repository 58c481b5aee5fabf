//! Compares several clients on one server, in interleaved rounds.
//!
//! The compared figure is the ratio within a round, because the CPU time that the host grants
//! changes over tens of seconds and affects neighbouring measurements alike. Ratios also depend
//! on the core-to-core latency. It is measured before and after each measurement; if it
//! changes, the ratios are also printed for near and for far cores. The ratios of undisturbed
//! rounds, in which the stolen time grew by at most one step of its counter, are also printed
//! separately.

use crate::host::{UNDISTURBED_MS, disturbance, stolen_ms};
use crate::tools::PerRequest;
use tare_analysis::cores;
use tare_load::core_to_core_ns;
use tare_stats::order::{median, median_interval};

/// One client: its name, and a measurement of a few seconds.
pub struct Contender<'a> {
    pub name: &'static str,
    pub run: Box<dyn FnMut() -> PerRequest + 'a>,
}

/// A ratio to print, with its requirement or meaning.
pub struct Ratio {
    pub of: &'static str,
    pub to: &'static str,
    pub note: &'static str,
}

/// One measurement.
struct Measurement {
    used: PerRequest,
    /// Core-to-core latency before and after the measurement, in nanoseconds; `None` when the
    /// cores were busy.
    cores: [Option<f64>; 2],
    /// Time stolen by the host, in milliseconds.
    stolen_ms: f64,
}

/// Where the host has placed the two cores.
#[derive(Clone, Copy, PartialEq)]
enum Cores {
    Near,
    Far,
    /// The placement changed during the measurement, or is unknown.
    Other,
}

/// The latency in nanoseconds that separates near from far cores; `None` if the cores did not
/// move. Ignores the lowest and the highest 5 % of the latencies.
fn boundary(measured: &[Vec<Measurement>]) -> Option<f64> {
    let latencies = measured.iter().flatten().flat_map(|m| m.cores).flatten();
    let mut all: Vec<f64> = latencies.collect();
    all.sort_by(f64::total_cmp);
    let ignored = all.len() / 20;
    let (near, far) = (*all.get(ignored)?, *all.get(all.len() - 1 - ignored)?);
    cores::moved(near, far).then(|| (near * far).sqrt())
}

impl Measurement {
    fn at(&self, boundary: f64) -> Cores {
        match self.cores.map(|latency| latency.map(|ns| ns < boundary)) {
            [Some(true), Some(true)] => Cores::Near,
            [Some(false), Some(false)] => Cores::Far,
            _ => Cores::Other,
        }
    }
}

/// Runs all contenders `rounds` times, every second round in reverse order, and prints the
/// cost of each and the ratios.
pub fn contest(title: &str, rounds: usize, contenders: &mut [Contender<'_>], ratios: &[Ratio]) {
    println!("\n{title}");
    let mut measured: Vec<Vec<Measurement>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for i in order {
            let before = core_to_core_ns();
            let stolen_before_ms = stolen_ms();
            let used = (contenders[i].run)();
            measured[i].push(Measurement {
                used,
                stolen_ms: stolen_ms() - stolen_before_ms,
                cores: [before, core_to_core_ns()],
            });
        }
    }
    let boundary = boundary(&measured);
    if let Some(ns) = boundary {
        let count = |state| {
            let all = measured.iter().flatten();
            all.filter(|m| m.at(ns) == state).count()
        };
        println!(
            "  core-to-core latency below {ns:.0} ns in {} measurements, above in {}, changed or unknown in {}",
            count(Cores::Near),
            count(Cores::Far),
            count(Cores::Other)
        );
    }
    let stolen: Vec<f64> = measured.iter().flatten().map(|m| m.stolen_ms).collect();
    println!("  {}", disturbance(&stolen));
    let is_disturbed = stolen.iter().any(|ms| *ms > UNDISTURBED_MS);
    for (contender, rounds) in contenders.iter().zip(&measured) {
        let us: Vec<f64> = rounds.iter().map(|m| m.used.us).collect();
        let low = us.iter().copied().fold(f64::INFINITY, f64::min);
        let high = us.iter().copied().fold(0.0, f64::max);
        let counts: Option<Vec<f64>> = rounds.iter().map(|m| m.used.instructions).collect();
        let counted = counts.map_or_else(String::new, |c| {
            format!("  {:>7.0} instructions", median(&c))
        });
        let name = contender.name;
        println!(
            "  {name:<22} {:>7.2} us ({low:.2} to {high:.2}){counted}",
            median(&us)
        );
    }
    let index = |name: &str| contenders.iter().position(|c| c.name == name);
    for ratio in ratios {
        let (Some(of), Some(to)) = (index(ratio.of), index(ratio.to)) else {
            continue;
        };
        let rounds = || measured[of].iter().zip(&measured[to]);
        let us = |(a, b): (&Measurement, &Measurement)| a.used.us / b.used.us;
        let cpu: Vec<f64> = rounds().map(us).collect();
        let counted: Option<Vec<f64>> = rounds()
            .map(|(a, b)| Some(a.used.instructions? / b.used.instructions?))
            .collect();
        println!(
            "  {} / {} = {}{}; {}",
            ratio.of,
            ratio.to,
            interval(&cpu),
            counted.map_or_else(String::new, |r| format!(
                ", in instructions {}",
                interval(&r)
            )),
            ratio.note
        );
        let subset = |name: &str, includes: &dyn Fn(&Measurement) -> bool| {
            let ratios: Vec<f64> = rounds()
                .filter(|(a, b)| includes(a) && includes(b))
                .map(us)
                .collect();
            if !ratios.is_empty() {
                let rounds = ratios.len();
                println!("    {name}: {} in {rounds} rounds", interval(&ratios));
            }
        };
        if let Some(boundary) = boundary {
            subset("cores near", &|m| m.at(boundary) == Cores::Near);
            subset("cores far", &|m| m.at(boundary) == Cores::Far);
        }
        if is_disturbed {
            subset("undisturbed", &|m| m.stolen_ms <= UNDISTURBED_MS);
        }
    }
}

/// The median of the ratios per round with its 95 % interval.
fn interval(ratios: &[f64]) -> String {
    match median_interval(ratios, 0.95) {
        Some((low, median, high)) => format!("{median:.3} ({low:.3} to {high:.3})"),
        None => format!("{:.3}", median(ratios)),
    }
}
