//! Several clients in turn on one server, round after round. What is compared is
//! the ratio within a round: the host gives this machine more or less of itself
//! for tens of seconds at a time, and two neighbours share what they get.

use crate::tools::PerRequest;
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

/// Runs all contenders `rounds` times, forwards and backwards in turn, and prints
/// what each costs and the ratios.
pub fn contest(title: &str, rounds: usize, contenders: &mut [Contender<'_>], ratios: &[Ratio]) {
    println!("\n{title}");
    let mut seen: Vec<Vec<PerRequest>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for i in order {
            let used = (contenders[i].run)();
            seen[i].push(used);
        }
    }
    for (contender, rounds) in contenders.iter().zip(&seen) {
        let us: Vec<f64> = rounds.iter().map(|p| p.us).collect();
        let low = us.iter().copied().fold(f64::INFINITY, f64::min);
        let high = us.iter().copied().fold(0.0, f64::max);
        let counts: Option<Vec<f64>> = rounds.iter().map(|p| p.instructions).collect();
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
        let of_rounds = |value: &dyn Fn(&PerRequest) -> Option<f64>| -> Option<Vec<f64>> {
            let pairs = seen[of].iter().zip(&seen[to]);
            pairs.map(|(a, b)| Some(value(a)? / value(b)?)).collect()
        };
        let cpu = of_rounds(&|p| Some(p.us)).map_or_else(String::new, |r| interval(&r));
        let counted = of_rounds(&|p| p.instructions).map_or_else(String::new, |r| {
            format!(", in instructions {}", interval(&r))
        });
        println!(
            "  {} / {} = {cpu}{counted}; {}",
            ratio.of, ratio.to, ratio.asked
        );
    }
}

/// The median of per-round ratios, and its 95 % interval.
fn interval(ratios: &[f64]) -> String {
    match median_interval(ratios, 0.95) {
        Some((low, median, high)) => format!("{median:.3} ({low:.3} to {high:.3})"),
        None => format!("{:.3}", median(ratios)),
    }
}
