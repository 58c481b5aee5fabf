//! Distributions for intervals and significance tests.

/// Natural logarithm of the gamma function for `x > 0`, to about 1e-13.
///
/// Source: Stirling's series (Abramowitz and Stegun 6.1.41) after shifting the
/// argument above 10 with the recurrence 6.1.15.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below += x.ln();
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below
}

/// Derivative of the logarithm of the gamma function for `x > 0`, to about 1e-10.
///
/// Source: Abramowitz and Stegun 6.3.18, after shifting the argument above 10 with the recurrence 6.3.5.
pub fn digamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below += 1.0 / x;
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    x.ln() - 0.5 / x - r * (1.0 / 12.0 - r * (1.0 / 120.0 - r / 252.0)) - below
}

/// Second derivative of the logarithm of the gamma function for `x > 0`, to about 1e-10.
///
/// Source: Abramowitz and Stegun 6.4.12, after shifting the argument above 10 with the recurrence 6.4.6.
pub fn trigamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let series = 1.0 / 6.0 - r * (1.0 / 30.0 - r * (1.0 / 42.0 - r / 30.0));
    (1.0 + 0.5 / x + r * series) / x + below
}

/// Regularised incomplete beta function `I_x(a, b)`.
///
/// Source: the continued fraction DLMF 8.17.22, evaluated by Lentz's method as
/// modified by Thompson and Barnett (1986).
pub fn beta_share(a: f64, b: f64, x: f64) -> f64 {
    share(a, b, x, &Gammas::of(a, b))
}

/// The part of [`beta_share`] that depends on `a` and `b` only. A root search computes it once,
/// because it is most of the cost.
struct Gammas {
    ln_a: f64,
    ln_b: f64,
    ln_both: f64,
}

impl Gammas {
    fn of(a: f64, b: f64) -> Self {
        Self {
            ln_a: ln_gamma(a),
            ln_b: ln_gamma(b),
            ln_both: ln_gamma(a + b),
        }
    }
}

fn share(a: f64, b: f64, x: f64, gammas: &Gammas) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let Gammas {
        ln_a,
        ln_b,
        ln_both,
    } = gammas;
    // The fraction converges fast below the mean; above it, symmetry is used.
    if x > (a + 1.0) / (a + b + 2.0) {
        let swapped = Gammas {
            ln_a: *ln_b,
            ln_b: *ln_a,
            ln_both: *ln_both,
        };
        return 1.0 - share(b, a, 1.0 - x, &swapped);
    }
    let front = (ln_both - ln_a - ln_b + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    let safe = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let (mut c, mut d) = (1.0, 1.0 / safe(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..5_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / safe(1.0 + term * d);
            c = safe(1.0 + term / c);
            step = d * c;
            fraction *= step;
        }
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (front * fraction).clamp(0.0, 1.0)
}

/// Share of Student's t distribution with `freedom` degrees of freedom (may be a fraction) that
/// is farther from 0 than `t`: the two-sided p-value.
///
/// Source: Abramowitz and Stegun 26.7.1 with 26.5.27.
#[must_use]
pub fn t_beyond(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom <= 0.0 {
        return 1.0;
    }
    beyond(t, freedom, &Gammas::of(freedom / 2.0, 0.5))
}

fn beyond(t: f64, freedom: f64, gammas: &Gammas) -> f64 {
    share(freedom / 2.0, 0.5, freedom / (freedom + t * t), gammas)
}

/// Two-sided quantile of Student's t distribution: the share `both_sides` of the distribution is
/// farther from 0 than the returned `t`. At most 2^30.
///
/// Uses Newton's method on the tail, whose slope is twice the density (Abramowitz and Stegun
/// 26.7.2), and bisection where a step would leave the bounds.
#[must_use]
pub fn t_quantile(both_sides: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, (1u64 << 30) as f64);
    // The degrees of freedom are 0 or invalid.
    if freedom.is_nan() || freedom <= 0.0 {
        return high;
    }
    let gammas = Gammas::of(freedom / 2.0, 0.5);
    let slope_at_0 = (gammas.ln_both - gammas.ln_a - gammas.ln_b).exp() / freedom.sqrt();
    let mut t = 2.0_f64;
    for _ in 0..100 {
        let over = beyond(t, freedom, &gammas) - both_sides;
        if over > 0.0 {
            low = t;
        } else {
            high = t;
        }
        let density = slope_at_0 * (1.0 + t * t / freedom).powf(-(freedom + 1.0) / 2.0);
        let newton = t + over / (2.0 * density);
        let next = if newton > low && newton < high {
            newton
        } else if high > 4.0 * low.max(1.0) {
            // Bounds of different magnitudes are bisected by their logarithms.
            2.0 * low.max(0.5)
        } else {
            f64::midpoint(low, high)
        };
        if (next - t).abs() <= 1e-14 * t {
            return next;
        }
        t = next;
    }
    t
}

/// Share of the standard normal distribution that is below `z`.
///
/// Source: Abramowitz and Stegun 26.2.11 (series) and 26.2.14 (continued fraction).
#[must_use]
pub fn normal_below(z: f64) -> f64 {
    let x = z.abs();
    let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    let upper = if x < 4.0 {
        let (mut term, mut sum, mut k) = (x, x, 1.0);
        while term > 1e-17 * sum {
            k += 2.0;
            term *= x * x / k;
            sum += term;
        }
        0.5 - density * sum
    } else {
        let fraction = (1..60).rev().fold(x, |f, k| x + f64::from(k) / f);
        density / fraction
    };
    if z > 0.0 { 1.0 - upper } else { upper }
}

/// Quantile `p` of the standard normal distribution.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if normal_below(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Probability that at most `k` of `n` trials succeed, each with probability `p`.
#[must_use]
pub fn binomial_at_most(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    beta_share((n - k) as f64, k as f64 + 1.0, 1.0 - p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }

    #[test]
    fn the_derivatives_of_the_gamma_function_match_the_published_values() {
        // DLMF 5.4.12, 5.4.13 and 5.15.2: digamma(1) is minus Euler's constant, trigamma(1) is pi^2 / 6.
        close(digamma(1.0), -0.577_215_664_9);
        close(digamma(0.5), -1.963_510_026);
        close(digamma(20.0) - digamma(19.0), 1.0 / 19.0);
        close(trigamma(1.0), std::f64::consts::PI.powi(2) / 6.0);
        close(trigamma(0.5), std::f64::consts::PI.powi(2) / 2.0);
        close(trigamma(12.0) - trigamma(13.0), 1.0 / 144.0);
    }

    #[test]
    fn distributions_match_the_published_tables() {
        close(normal_below(1.959_964), 0.975);
        close(normal_below(-1.0), 0.158_655_3);
        close(normal_below(4.5), 0.999_996_602_3);
        close(normal_quantile(0.9), 1.281_551_6);
        close(t_beyond(2.262_157_2, 9.0), 0.05);
        close(t_beyond(12.706_204_7, 1.0), 0.05);
        close(t_quantile(0.05, 2.0), 4.302_652_7);
        close(t_quantile(0.10, 30.0), 1.697_260_9);
        // A fraction of degrees of freedom, as in Welch's test.
        let between = t_quantile(0.05, 4.5);
        assert!(t_quantile(0.05, 5.0) < between && between < t_quantile(0.05, 4.0));
    }

    #[test]
    fn binomials_by_hand() {
        close(binomial_at_most(0, 10, 0.5), 1.0 / 1024.0);
        close(binomial_at_most(1, 10, 0.5), 11.0 / 1024.0);
        close(binomial_at_most(8, 10, 0.5), 1013.0 / 1024.0);
        close(binomial_at_most(10, 10, 0.3), 1.0);
        // Wilks: with 299 values the largest is above p99 in 95 % of samples.
        assert!(binomial_at_most(298, 299, 0.99) >= 0.95);
        assert!(binomial_at_most(297, 298, 0.99) < 0.95);
    }
}
