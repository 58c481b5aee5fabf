//! The second level of the bootstrap: draws blocks of seconds within runs. A block keeps the
//! requests of a second and consecutive seconds together, because they are correlated. The
//! result separates the uncertainty that longer trials reduce from the part that only more
//! blocks reduce.
//!
//! Sources: Künsch, "The jackknife and the bootstrap for general stationary
//! observations" (1989), for drawing blocks; Hall, Horowitz and Jing, "On blocking
//! rules for the bootstrap with dependent data", Biometrika 82 (1995), for a length of
//! the order of the cube root; Davison and Hinkley (1997), section 3.8, for the levels.

use tare_model::rng::Rng;

use crate::pool::Pool;

/// Number of resamples of the second level.
const DRAWN: usize = 200;

/// Fewest blocks of seconds in a run.
const BLOCKS_MIN: usize = 3;

/// The latencies of one second of a trial: values in nanoseconds in ascending order, with counts.
pub type Second = Vec<(u64, u64)>;

/// Several runs, divided into blocks of seconds.
#[derive(Debug)]
pub struct Within {
    pool: Pool,
    /// Number of pool columns of each run.
    blocks: Vec<usize>,
}

impl Within {
    /// Divides `runs` into blocks. `None` if a run has too few seconds.
    #[must_use]
    pub fn new(runs: &[&[Second]]) -> Option<Self> {
        let mut columns = Vec::new();
        let mut blocks = Vec::new();
        for seconds in runs {
            let length = (seconds.len() as f64).cbrt().ceil().max(1.0) as usize;
            let before = columns.len();
            columns.extend(seconds.chunks(length).map(merged));
            blocks.push(columns.len() - before);
        }
        if blocks.is_empty() || blocks.iter().any(|n| *n < BLOCKS_MIN) {
            return None;
        }
        let columns: Vec<&[(u64, u64)]> = columns.iter().map(Vec::as_slice).collect();
        Some(Self {
            pool: Pool::of_columns(&columns),
            blocks,
        })
    }

    /// Variance of the logarithm of the pooled quantile `q` due to the seconds within the
    /// runs only, and its degrees of freedom.
    #[must_use]
    pub fn variance(&self, q: f64, seed: u64) -> (f64, f64) {
        let cut = self.pool.cut(q);
        let mut rng = Rng::stream(seed, q.to_bits());
        let columns: usize = self.blocks.iter().sum();
        let mut weights = vec![0; columns];
        let values: Vec<f64> = (0..DRAWN)
            .map(|_| {
                weights.fill(0);
                let mut first = 0;
                for blocks in &self.blocks {
                    for _ in 0..*blocks {
                        weights[first + rng.below(*blocks as u64) as usize] += 1;
                    }
                    first += blocks;
                }
                (cut.quantile(&weights).max(1) as f64).ln()
            })
            .collect();
        let mean = values.iter().sum::<f64>() / DRAWN as f64;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (DRAWN - 1) as f64;
        let freedom: usize = self.blocks.iter().map(|n| n - 1).sum();
        (variance * columns as f64 / freedom as f64, freedom as f64)
    }
}

/// The sum of `second` and `more`, both in ascending order.
pub fn sum(second: &[(u64, u64)], more: impl Iterator<Item = (u64, u64)>) -> Second {
    let mut more = more.peekable();
    let mut sum = Second::with_capacity(second.len() + more.size_hint().0);
    for &(value, n) in second {
        while let Some(before) = more.next_if(|(v, _)| *v < value) {
            sum.push(before);
        }
        let same = more.next_if(|(v, _)| *v == value);
        sum.push((value, n + same.map_or(0, |b| b.1)));
    }
    sum.extend(more);
    sum
}

/// Merges several seconds into one column.
fn merged(seconds: &[Second]) -> Second {
    let add = |all: Second, second: &Second| sum(&all, second.iter().copied());
    seconds.iter().fold(Second::new(), add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist::Histogram;

    fn normal(rng: &mut Rng) -> f64 {
        let radius = (2.0 * rng.exponential()).sqrt();
        radius * (std::f64::consts::TAU * rng.next_f64()).cos()
    }

    /// A run of `seconds` seconds with 100 responses each. Every `stay` seconds share a random
    /// factor; the standard deviation of its logarithm is `wander`.
    fn run(seconds: usize, wander: f64, stay: usize, rng: &mut Rng) -> Vec<Second> {
        let mut level = 0.0;
        (0..seconds)
            .map(|i| {
                if i % stay == 0 {
                    level = wander * normal(rng);
                }
                let mut h = Histogram::new();
                for _ in 0..100 {
                    h.record((1e6 * (0.3 * normal(rng) + level).exp()) as u64);
                }
                h.iter().collect()
            })
            .collect()
    }

    #[test]
    fn correlated_seconds_count_as_fewer() {
        let mut rng = Rng::new(5);
        let mut of = |wander, stay| {
            let runs: Vec<Vec<Second>> = (0..4).map(|_| run(60, wander, stay, &mut rng)).collect();
            let runs: Vec<&[Second]> = runs.iter().map(Vec::as_slice).collect();
            Within::new(&runs).unwrap().variance(0.5, 1).0
        };
        // The median of 24,000 independent values: variance pi/2 * 0.3^2 / n.
        let independent = of(0.0, 1);
        let expected = std::f64::consts::FRAC_PI_2 * 0.09 / 24_000.0;
        assert!(
            (0.6..1.7).contains(&(independent / expected)),
            "{independent} {expected}"
        );
        // 240 levels of 1 second each, or 60 levels of 4 seconds each.
        let (each, staying) = (of(0.1, 1), of(0.1, 4));
        let by_second = 0.01 / 240.0;
        assert!(
            (0.6..1.8).contains(&(each / by_second)),
            "{each} {by_second}"
        );
        assert!(staying > 2.0 * each, "{staying} {each}");
    }

    #[test]
    fn too_few_seconds_give_no_result() {
        let mut rng = Rng::new(1);
        let short = run(2, 0.0, 1, &mut rng);
        assert!(Within::new(&[&short]).is_none());
        assert!(Within::new(&[]).is_none());
        let merged = merged(&[vec![(1, 1), (3, 2)], vec![(2, 5), (3, 1)]]);
        assert_eq!(merged, [(1, 1), (2, 5), (3, 3)]);
    }
}
