//! `tare search`: the highest rate that meets objectives.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use tare_analysis::slo::{Slo, SloError};
use tare_model::SCHEMA_VERSION;
use tare_model::load::{LoadSpec, Mode};
use tare_model::search::{Ended, Limit, SearchResult, SearchStep, StepOutcome};
use tare_model::units::{parse_duration, parse_rate};
use tare_stats::search::{Progress, RateSearch};

use super::{exit, load};

mod flags;
mod step;
mod text;

/// No rate has more steps than this: beyond it, the budget is wrong.
const STEPS_MAX: usize = 10_000;
/// Where a search begins that was not told the lowest rate.
const START_RPS: f64 = 100.0;
/// What holds unless an objective says otherwise: a server that refuses fast is not fast.
const UNASKED: [&str; 2] = ["errors<1%", "achieved>99%"];

/// Find the highest rate that meets objectives, with an interval, from short open-loop steps.
///
/// The rate doubles until an objective is missed; then each step is where its outcome says most, until the interval is
/// narrow enough. Says when the generator, not the target, was the limit. Exit code 1: not even the lowest rate meets
/// them; 3: no limit was found.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// What has to be met: p99<20ms (p50 to p99.999, max, mean), errors<0.1%, achieved>99%; may be repeated. Unless said otherwise, errors<1% and achieved>99% hold as well.
    #[arg(long, required = true, value_name = "OBJECTIVE", value_parser = objective)]
    slo: Vec<Slo>,
    /// Lowest rate worth trying; the search begins there [default: begin at 100, go down to 1].
    #[arg(long, value_parser = parse_rate)]
    min_rate: Option<f64>,
    /// Highest rate worth trying.
    #[arg(long, value_parser = parse_rate, default_value = "1M")]
    max_rate: f64,
    /// Length of a step; up to ten times that where the objective's percentile needs more requests.
    #[arg(long, value_parser = parse_duration, default_value = "2s")]
    step_duration: u64,
    /// Steps near the limit, or at an end of the range, at least.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    repeats: u8,
    /// How narrow the 95 % interval has to be, relative to its lower end, as `5%`.
    #[arg(long, default_value = "5%", value_parser = tolerance)]
    tolerance: f64,
    /// The search ends after so long with what it knows then.
    #[arg(long, value_parser = parse_duration, default_value = "5m")]
    budget: u64,
    /// Between two steps; four times as long when requests were left unanswered.
    #[arg(long, value_parser = parse_duration, default_value = "300ms")]
    pause: u64,
    #[command(flatten)]
    load: flags::OfLoad,
}

fn objective(text: &str) -> Result<Slo, SloError> {
    Slo::parse(text)
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::parse::<f64>);
    match number {
        Some(Ok(percent)) if (1.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a percentage from 1% to 100%".to_owned()),
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (min_rps, start_rps) = match args.min_rate {
        Some(rate) => (rate, rate),
        None => (1.0, START_RPS.min(args.max_rate)),
    };
    if !(min_rps > 0.0 && min_rps * 1.01 < args.max_rate) {
        bail!(
            "found rates from {min_rps} to {}, expected a --min-rate above 0 and a --max-rate above that",
            args.max_rate
        );
    }
    let json = load::is_json(&args.load.0);
    let samples = args.slo.iter().map(Slo::samples_needed).max();
    let plan = Plan {
        slos: with_unasked(args.slo)?,
        samples: samples.unwrap_or(0),
        tolerance: args.tolerance,
        repeats: usize::from(args.repeats),
        step_ns: args.step_duration.max(1),
        budget: Duration::from_nanos(args.budget),
        pause: Duration::from_nanos(args.pause),
    };
    let mut base = load::spec_of_step(args.load.0, start_rps, plan.step_ns)?;
    step::prepare(&mut base, &plan);
    let stop = load::stop_flag()?;
    let result = search(
        &plan,
        base,
        RateSearch::new(min_rps, args.max_rate, start_rps),
        &stop,
        &mut |number, step| super::say(text::line(number, step)),
    )?;
    let mut out = io::stdout().lock();
    match json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&result)?)?,
        false => out.write_all(text::page(&result).as_bytes())?,
    }
    out.flush()?;
    Ok(match (result.ended, result.limit) {
        (Ended::Interrupted, _) => ExitCode::from(exit::INTERRUPTED),
        (_, Limit::MinRate) => ExitCode::from(exit::MISSED),
        (_, Limit::Unknown) => ExitCode::from(exit::INVALID),
        _ => ExitCode::SUCCESS,
    })
}

fn with_unasked(mut slos: Vec<Slo>) -> anyhow::Result<Vec<Slo>> {
    for text in UNASKED {
        let slo = Slo::parse(text)?;
        let said = slos.iter().any(|s| {
            (s.is_of_errors() && slo.is_of_errors()) || (s.is_of_rate() && slo.is_of_rate())
        });
        if !said {
            slos.push(slo);
        }
    }
    Ok(slos)
}

/// What the flags say about the search itself.
struct Plan {
    slos: Vec<Slo>,
    /// Requests that a step needs for the objectives that were asked for.
    samples: u64,
    tolerance: f64,
    repeats: usize,
    step_ns: u64,
    budget: Duration,
    pause: Duration,
}

fn search(
    plan: &Plan,
    mut spec: LoadSpec,
    mut rates: RateSearch,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(usize, &SearchStep),
) -> anyhow::Result<SearchResult> {
    let begun = Instant::now();
    let mut steps: Vec<SearchStep> = Vec::new();
    let mut progress = Progress::Searching;
    let mut ended = Ended::Certain;
    while progress == Progress::Searching {
        let rate_rps = match step::unsettled(&steps) {
            Some(rate_rps) => rate_rps,
            None => rates.next_rps(),
        };
        step::set(&mut spec, rate_rps, plan);
        let takes = Duration::from_nanos(spec.warmup_ns + spec.duration_ns);
        if begun.elapsed() + takes > plan.budget || steps.len() >= STEPS_MAX {
            ended = Ended::Budget;
            break;
        }
        let result = tare_load::run(&spec, stop, false, &mut |_| {})?;
        if stop.load(Ordering::Relaxed) || result.interrupted {
            ended = Ended::Interrupted;
            break;
        }
        let left_over = result.counts.in_flight + result.counts.not_sent > 0;
        let step = step::judge(&result, rate_rps, &plan.slos)?;
        // Held up once, the generator has said nothing about the target: the same again.
        if step.outcome != StepOutcome::Generator || step::is_again(&step, steps.last()) {
            rates.record(rate_rps, step::is_met(&step));
        }
        observe(steps.len() + 1, &step);
        steps.push(step);
        spec.seed = spec.seed.wrapping_add(1);
        progress = rates.progress(plan.tolerance, plan.repeats);
        std::thread::sleep(if left_over {
            plan.pause * 4
        } else {
            plan.pause
        });
    }
    let limit = step::limit(&steps, progress, &rates);
    let found = match limit {
        Limit::MinRate | Limit::Unknown => None,
        _ => Some(step::within_tried(rates.estimate(), &steps)),
    };
    Ok(SearchResult {
        schema_version: SCHEMA_VERSION,
        tare_version: env!("CARGO_PKG_VERSION").to_owned(),
        objectives: plan.slos.iter().map(Slo::to_string).collect(),
        found,
        unseen_share: unseen_share(plan, &steps),
        limit,
        ended,
        steps,
    })
}

/// Of the strictest objective, in the steps that were missed: those near the limit.
fn unseen_share(plan: &Plan, steps: &[SearchStep]) -> Option<f64> {
    let missed = steps.iter().filter(|s| !step::is_met(s));
    let shortest_ns = missed.map(|s| s.duration_ns).min()?;
    let shares = plan.slos.iter().filter_map(|s| s.unseen_share(shortest_ns));
    shares.min_by(f64::total_cmp)
}

/// The rate of an open loop, with everything else left as it is.
fn set_rate(mode: &mut Mode, to: f64) {
    if let Mode::Open { rate_rps, .. } = mode {
        *rate_rps = to;
    }
}
