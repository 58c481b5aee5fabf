//! `tare search`: finds the highest rate that meets objectives.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use tare_analysis::search::{Goal, SearchLoop};
use tare_load::verdict::unreachable;
use tare_plan::SCHEMA_VERSION;
use tare_plan::load::Objective;
use tare_plan::load::search::{SearchLimits, SearchSetting, lowest_and_first_rps};
use tare_plan::units::{format_rate, parse_duration, parse_rate};
use tare_records::search::{SearchEnd, SearchLimit, SearchResult, SearchStep};

use crate::cmd::exit;
use crate::cmd::load;

mod flags;
mod text;

/// Find the highest rate that meets objectives, with an interval, from short open-loop steps.
///
/// The rate doubles until an objective is missed. Each further step runs at the rate that is most
/// informative, until the interval is narrow enough. The result states what limits the rate: the
/// target, the generator, or --max-rate. Exit code 1: even the lowest rate misses an objective, or
/// no step had a response; 3: no limit was found, or every request fails from some step on.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Objective to meet: p99<20ms (p50 to p99.999, max, mean), errors<0.1% or achieved>99%; may be repeated. errors<1% and achieved>99% apply unless you give others.
    #[arg(long, required = true, value_name = "OBJECTIVE", value_parser = objective)]
    slo: Vec<Objective>,
    /// Lowest rate to try; the search starts there [default: start at 100, lowest 1].
    #[arg(long, value_parser = parse_rate)]
    min_rate: Option<f64>,
    /// Highest rate to try.
    #[arg(long, value_parser = parse_rate, default_value = "1M")]
    max_rate: f64,
    /// Duration of a step. A step is up to ten times longer if the percentile of an objective needs more requests.
    #[arg(long, value_parser = parse_duration, default_value = "2s")]
    step_duration: u64,
    /// Minimum number of steps near the highest rate found, or at --min-rate or --max-rate if the
    /// limit is beyond it.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    repeats: u8,
    /// Width of the 95 % interval at which the search stops, relative to its lower end.
    #[arg(long, default_value = "5%", value_parser = tolerance)]
    tolerance: f64,
    /// Time budget; when it is used up, the search reports its best estimate.
    #[arg(long, value_parser = parse_duration, default_value = "5m")]
    budget: u64,
    /// Pause between two steps; four times as long after a step that left requests without a response.
    #[arg(long, value_parser = parse_duration, default_value = "300ms")]
    pause: u64,
    #[command(flatten)]
    load: flags::OfLoad,
}

fn objective(text: &str) -> Result<Objective, String> {
    Objective::parse(text)
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::parse::<f64>);
    match number {
        Some(Ok(percent)) if (1.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a percentage from 1% to 100%".to_owned()),
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (min_rps, start_rps) = lowest_and_first_rps(args.min_rate, args.max_rate);
    if !(min_rps > 0.0 && min_rps * 1.01 < args.max_rate) {
        bail!(
            "found rates from {min_rps} to {}: expected --min-rate above 0, and --max-rate above --min-rate",
            args.max_rate
        );
    }
    let output = args.load.0.output;
    let samples = args.slo.iter().map(Objective::samples_needed).max();
    let samples = samples.unwrap_or(0);
    let limits = SearchLimits {
        min_rps,
        start_rps,
        max_rps: args.max_rate,
        samples,
        step_ns: args.step_duration,
        budget_ns: args.budget,
    };
    if let Err((setting, found)) = limits.check() {
        let option = match setting {
            SearchSetting::Step => "--step-duration",
            SearchSetting::Budget => "--budget",
        };
        bail!("{option}: {found}");
    }
    let goal = Goal {
        samples,
        objectives: Objective::with_defaults(args.slo),
        min_rps,
        max_rps: args.max_rate,
        start_rps,
        tolerance: args.tolerance,
        repeats: usize::from(args.repeats),
        step_ns: args.step_duration,
    };
    let objectives = goal.objectives.iter().map(Objective::to_string).collect();
    let spec = load::spec_of_step(args.load.0, start_rps, goal.step_ns)?;
    let stop = load::stop_flag()?;
    let mut search_loop = SearchLoop::new(goal, spec, args.budget, args.pause);
    run_steps(&mut search_loop, &stop, &mut |number, step| {
        crate::cmd::output::say(text::line(number, step));
    })?;
    let result = SearchResult {
        schema_version: SCHEMA_VERSION,
        tare_version: env!("CARGO_PKG_VERSION").to_owned(),
        objectives,
        found: search_loop.found(),
        unseen_share: search_loop.search().unseen_share(),
        limit: search_loop.limit(),
        ended: search_loop.end(),
        failure: search_loop.failure().map(str::to_owned),
        steps: search_loop.search().steps().to_vec(),
    };
    output.print(&result, || text::page(&result))?;
    Ok(match (result.ended, result.limit) {
        (SearchEnd::Interrupted, _) => ExitCode::from(exit::INTERRUPTED),
        (SearchEnd::Failed, _) if !search_loop.answered() => ExitCode::from(exit::MISSED),
        (_, SearchLimit::MinRate) => ExitCode::from(exit::MISSED),
        (_, SearchLimit::Unknown) => ExitCode::from(exit::INVALID),
        _ => ExitCode::SUCCESS,
    })
}

/// Runs the steps, and shows each.
fn run_steps(
    search_loop: &mut SearchLoop,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(usize, &SearchStep),
) -> anyhow::Result<()> {
    let begun = Instant::now();
    while let Some((spec, rate_rps)) = search_loop.next(begun.elapsed().as_nanos() as u64) {
        let result = tare_load::run(spec, stop, false, &mut |_| {})?;
        if stop.load(Ordering::Relaxed) || result.interrupted {
            search_loop.interrupt();
            break;
        }
        let number = search_loop.search().steps().len() + 1;
        if let (1, Some(why)) = (number, unreachable(&result)) {
            bail!(
                "no request succeeded at {}: {why}; start the server, or correct the URL",
                format_rate(rate_rps)
            );
        }
        let step = search_loop.judge(&result)?;
        observe(number, &step);
        let pause_ns = search_loop.add(step, &result);
        std::thread::sleep(Duration::from_nanos(pause_ns));
    }
    Ok(())
}
