//! Several clients in turn on one server, round after round. What is compared is
//! the ratio within a round: the host gives this machine more or less of itself
//! for tens of seconds at a time, and two neighbours share what they get. How far it
//! has the cores apart is looked at before and after each measurement: ratios depend on
//! it, and are told apart by it. So are rounds of which the host took no more than the
//! count's own step.

use crate::host::{UNDISTURBED_MS, disturbance, stolen_ms};
use crate::tools::PerRequest;
use tare_analysis::cores;
use tare_load::core_to_core_ns;
use tare_stats::order::{median, median_interval};

/// One client: its name, and a measurement that takes a few seconds.
pub struct Contender<'a> {
    pub name: &'static str,
    pub run: Box<dyn FnMut() -> PerRequest + 'a>,
}

/// A ratio to print, and what is asked of it.
pub struct Ratio {
    pub of: &'static str,
    pub to: &'static str,
    pub asked: &'static str,
}

/// One measurement.
struct Seen {
    used: PerRequest,
    /// How far the cores were apart before and after it, in nanoseconds, as far as a look
    /// found both free.
    cores: [Option<f64>; 2],
    /// What the host took of it, in milliseconds.
    stolen_ms: f64,
}

/// Where the host had the cores.
#[derive(Clone, Copy, PartialEq)]
enum Cores {
    Near,
    Far,
    /// Moved in between, or not known.
    Other,
}

/// The distance between near and far; `None` where the cores stayed. A look in twenty may be
/// anything.
fn boundary(seen: &[Vec<Seen>]) -> Option<f64> {
    let looks = seen.iter().flatten().flat_map(|s| s.cores).flatten();
    let mut all: Vec<f64> = looks.collect();
    all.sort_by(f64::total_cmp);
    let spare = all.len() / 20;
    let (near, far) = (*all.get(spare)?, *all.get(all.len() - 1 - spare)?);
    cores::moved(near, far).then(|| (near * far).sqrt())
}

impl Seen {
    fn at(&self, boundary: f64) -> Cores {
        match self.cores.map(|look| look.map(|ns| ns < boundary)) {
            [Some(true), Some(true)] => Cores::Near,
            [Some(false), Some(false)] => Cores::Far,
            _ => Cores::Other,
        }
    }
}

/// Runs all contenders `rounds` times, forwards and backwards in turn, and prints
/// what each costs and the ratios.
pub fn contest(title: &str, rounds: usize, contenders: &mut [Contender<'_>], ratios: &[Ratio]) {
    println!("\n{title}");
    let mut seen: Vec<Vec<Seen>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for i in order {
            let before = core_to_core_ns();
            let stolen_before_ms = stolen_ms();
            let used = (contenders[i].run)();
            seen[i].push(Seen {
                used,
                stolen_ms: stolen_ms() - stolen_before_ms,
                cores: [before, core_to_core_ns()],
            });
        }
    }
    let boundary = boundary(&seen);
    if let Some(ns) = boundary {
        let count = |state| {
            let all = seen.iter().flatten();
            all.filter(|s| s.at(ns) == state).count()
        };
        println!(
            "  cores less than {ns:.0} ns apart in {} measurements, farther in {}, moved or not known in {}",
            count(Cores::Near),
            count(Cores::Far),
            count(Cores::Other)
        );
    }
    let stolen: Vec<f64> = seen.iter().flatten().map(|s| s.stolen_ms).collect();
    println!("  {}", disturbance(&stolen));
    let is_disturbed = stolen.iter().any(|ms| *ms > UNDISTURBED_MS);
    for (contender, rounds) in contenders.iter().zip(&seen) {
        let us: Vec<f64> = rounds.iter().map(|s| s.used.us).collect();
        let low = us.iter().copied().fold(f64::INFINITY, f64::min);
        let high = us.iter().copied().fold(0.0, f64::max);
        let counts: Option<Vec<f64>> = rounds.iter().map(|s| s.used.instructions).collect();
        let counted = counts.map_or_else(String::new, |c| {
            format!("  {:>7.0} instructions", median(&c))
        });
        let name = contender.name;
        println!(
            "  {name:<22} {:>7.2} us ({low:.2} to {high:.2}){counted}",
            median(&us)
        );
    }
    let place = |name: &str| contenders.iter().position(|c| c.name == name);
    for ratio in ratios {
        let (Some(of), Some(to)) = (place(ratio.of), place(ratio.to)) else {
            continue;
        };
        let rounds = || seen[of].iter().zip(&seen[to]);
        let us = |(a, b): (&Seen, &Seen)| a.used.us / b.used.us;
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
            ratio.asked
        );
        let apart = |name: &str, taken: &dyn Fn(&Seen) -> bool| {
            let ratios: Vec<f64> = rounds()
                .filter(|(a, b)| taken(a) && taken(b))
                .map(us)
                .collect();
            if !ratios.is_empty() {
                let rounds = ratios.len();
                println!("    {name}: {} of {rounds} rounds", interval(&ratios));
            }
        };
        if let Some(boundary) = boundary {
            apart("cores near", &|s| s.at(boundary) == Cores::Near);
            apart("cores far", &|s| s.at(boundary) == Cores::Far);
        }
        if is_disturbed {
            apart("undisturbed", &|s| s.stolen_ms <= UNDISTURBED_MS);
        }
    }
}

/// The median of per-round ratios, and its 95 % interval.
fn interval(ratios: &[f64]) -> String {
    match median_interval(ratios, 0.95) {
        Some((low, median, high)) => format!("{median:.3} ({low:.3} to {high:.3})"),
        None => format!("{:.3}", median(ratios)),
    }
}
