//! Progress of a run: a live line on a terminal, and a plain line per trial everywhere. Everything
//! goes to standard error, so that standard output holds only the result.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tare_plan::Plan;
use tare_plan::text::printable;
use tare_plan::trial::TrialSpec;
use tare_plan::units::{format_optional_ns, format_rate};
use tare_records::capacity::Capacity;
use tare_records::record::Progress;
use tare_records::trial::{EventKind, TrialResult};
use tare_run::experiment::{Observer, Update};

/// Estimated time for deployment, proofs and tear-down, before the first trial has ended.
const OVERHEAD_GUESS: Duration = Duration::from_secs(2);

pub(crate) struct Display {
    bar: ProgressBar,
    /// Prefix of every line, if several runs are in progress at the same time.
    prefix: String,
    repeats: u32,
    /// Trials that are deployed at the same time.
    at_once: u32,
    /// By load, a trial's part of the time in which the trials that are deployed with it are loaded.
    own_times: HashMap<String, Duration>,
    number: u32,
    planned: u32,
    left: Vec<Duration>,
    overhead: Duration,
    trial_started: Instant,
    trial_own: Duration,
    label: String,
    stage: &'static str,
    /// The step of a search for the capacity.
    step: String,
    load: String,
    cores: String,
}

impl Display {
    pub(crate) fn new(plan: &Plan, order: &[TrialSpec]) -> Self {
        // A live line and a log on the same terminal overwrite each other.
        let logging = tracing::level_filters::LevelFilter::current()
            != tracing::level_filters::LevelFilter::OFF;
        let target = if logging {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(order.len() as u64), target);
        Self::with(bar, String::new(), plan, order)
    }

    /// Creates one of several displays, which their names distinguish.
    pub(crate) fn named(
        plan: &Plan,
        order: &[TrialSpec],
        bars: &MultiProgress,
        name: &str,
    ) -> Self {
        let bar = bars.add(ProgressBar::new(order.len() as u64));
        Self::with(bar, format!("{name}: "), plan, order)
    }

    fn with(bar: ProgressBar, prefix: String, plan: &Plan, order: &[TrialSpec]) -> Self {
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        if crate::terminal::err_is_terminal() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let groups = plan.block_groups();
        let own_times = groups.iter().flat_map(|blocks| {
            let own = |load| Duration::from_nanos(plan.trial_time_ns(load, blocks));
            let loads = blocks.loads.iter();
            loads.map(move |load| (load.name.clone(), own(load)))
        });
        let own_times: HashMap<String, Duration> = own_times.collect();
        let own_time = |t: &TrialSpec| own_times.get(&t.load.name).copied().unwrap_or_default();
        Self {
            bar,
            prefix,
            repeats: plan.repeats,
            at_once: groups.first().map_or(1, |b| plan.trials_together(b)),
            number: 0,
            planned: order.len() as u32,
            // In reverse order, so that finished trials are removed from the end.
            left: order.iter().rev().map(own_time).collect(),
            own_times,
            overhead: OVERHEAD_GUESS,
            trial_started: Instant::now(),
            trial_own: Duration::ZERO,
            label: String::new(),
            stage: "",
            step: String::new(),
            load: String::new(),
            cores: String::new(),
        }
    }

    fn own_time(&self, trial: &TrialSpec) -> Duration {
        self.own_times
            .get(&trial.load.name)
            .copied()
            .unwrap_or_default()
    }

    /// Prints a line that stays.
    pub(crate) fn say(&self, line: &str) {
        let prefix = &self.prefix;
        self.bar
            .suspend(|| crate::cmd::output::say(format_args!("{prefix}{line}")));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The time until the end of the run, estimated, such as `2m05s left`.
    pub(crate) fn time_left(&self) -> String {
        let ahead: Duration = self.left.iter().map(|own| *own + self.overhead).sum();
        let passed = self
            .trial_started
            .elapsed()
            .min((self.trial_own + self.overhead) * self.at_once);
        let s = ahead.saturating_sub(passed).as_secs();
        if s >= 60 {
            format!("{}m{:02}s left", s / 60, s % 60)
        } else {
            format!("{s}s left")
        }
    }

    fn draw(&self) {
        let parts = [
            self.label.as_str(),
            self.stage,
            &self.step,
            &self.load,
            &self.cores,
        ];
        let text: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        let line = format!("{}{} | {}", self.prefix, text.join(" | "), self.time_left());
        self.bar.set_message(printable(&line));
    }

    /// Adds the trials of a block that is run again, which begins with `trial`.
    fn plan(&mut self, trial: &TrialSpec, planned: u32) {
        let more = planned.saturating_sub(self.planned) as usize;
        let own = self.own_time(trial);
        self.left.extend(std::iter::repeat_n(own, more));
        self.planned = planned;
    }

    fn started(&mut self, trial: &TrialSpec, done: u32) {
        self.left.truncate((self.planned - done) as usize);
        self.number = done + 1;
        // Trials that run at the same time begin with the first of them.
        if self.at_once == 1 || self.trial_own.is_zero() {
            self.trial_started = Instant::now();
        }
        self.trial_own = self.own_time(trial);
        let place = match trial.profile {
            true => "profile trial".to_owned(),
            false => format!(
                "block {}/{} trial {}/{}",
                trial.block + 1,
                self.repeats,
                self.number,
                self.planned
            ),
        };
        self.label = format!("{place} {} {}", trial.mesh.name, trial.load.name);
        self.step.clear();
        self.load.clear();
        self.cores.clear();
    }

    fn progress(&mut self, progress: &Progress) {
        self.load = format!(
            "{:.0} rps p50 {} p99 {}",
            progress.rate_rps,
            format_optional_ns(progress.p50_ns),
            format_optional_ns(progress.p99_ns)
        );
        if progress.errors > 0 {
            self.load += &format!(" {} errors", progress.errors);
        }
    }

    fn done(&mut self, result: &TrialResult) {
        let took = self.trial_started.elapsed() / self.at_once;
        let took = took.saturating_sub(self.own_time(&result.trial));
        // The mean of the last trial and the estimate so far follows a change within a few trials.
        self.overhead = (self.overhead + took) / 2;
        self.left.pop();
        self.trial_own = Duration::ZERO;
        if self.at_once == 1 {
            self.trial_started = Instant::now();
        }
        if self.at_once > 1 {
            self.number = self.planned - self.left.len() as u32;
        }
        let width = self.planned.to_string().len();
        let place = match result.trial.profile {
            true => "profile trial".to_owned(),
            false => format!(
                "[{:>width$}/{}] block {}",
                self.number,
                self.planned,
                result.trial.block + 1
            ),
        };
        let (mesh, load) = (&result.trial.mesh.name, &result.trial.load.name);
        let mut line = format!("{place} {mesh:<12} {load:<8}");
        if let Some(capacity) = &result.capacity {
            line += &format!(" {}", capacity_words(capacity));
        } else if let Some(load) = result.counted() {
            let latency = &load.latency_ns;
            let answered = |ns| format_optional_ns((latency.count > 0).then_some(ns));
            line += &format!(
                " {:>6.1} rps p50 {:>8} p99 {:>8}",
                result.achieved_rps().unwrap_or_default(),
                answered(latency.p50),
                answered(latency.p99)
            );
        }
        line += &format!(" {}, {}", result.verdict.grade.word(), self.time_left());
        self.say(&line);
        for finding in &result.verdict.reasons {
            self.say(&format!(
                "{:width$}   {}: {}",
                "",
                finding.grade.word(),
                finding.found,
                width = 2 * width
            ));
        }
    }
}

/// `2,340 rps (2,300 to 2,400 rps) in 21 steps, limit: machine`.
fn capacity_words(capacity: &Capacity) -> String {
    let rate = capacity.found.map_or("no rate found".to_owned(), |e| {
        format!(
            "{} ({} to {})",
            format_rate(e.rate_rps),
            format_rate(e.low_rps),
            format_rate(e.high_rps)
        )
    });
    let (steps, limit) = (capacity.steps, capacity.limit.words());
    format!("{rate} in {steps} steps, limit: {limit},")
}

impl Observer for Display {
    fn update(&mut self, update: Update<'_>) {
        match update {
            Update::Started {
                trial,
                done,
                planned,
            } => {
                self.plan(trial, planned);
                self.started(trial, done);
            }
            Update::Stage(stage) => self.stage = stage.words(),
            Update::Step { number, rate_rps } => {
                self.step = format!("step {number} at {}", format_rate(rate_rps));
                self.load.clear();
            }
            Update::Progress(progress) => self.progress(progress),
            Update::DataPlaneCores(cores) => self.cores = format!("data plane {cores:.2} cores"),
            Update::Event(event) => {
                let shown = [
                    EventKind::NarrowEnough,
                    EventKind::BlockRunAgain,
                    EventKind::CapacitiesFound,
                    EventKind::GateDecided,
                ];
                if shown.contains(&event.kind) {
                    self.say(&event.to_string());
                }
            }
            Update::Looked { blocks, found } => {
                self.say(&format!("after {blocks} blocks: {found}"))
            }
            Update::Done(result) => self.done(result),
        }
        self.draw();
    }
}
