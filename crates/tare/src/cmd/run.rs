//! `tare run`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tare_model::layout::{self, RunManifest};
use tare_model::plan::{EnvironmentKind, Plan};
use tare_model::trial::order;
use tare_model::verdict::Grade;
use tare_run::environment::Environment;
use tare_run::experiment::{self, Outcome};
use tare_run::fake::Fake;
use tare_run::local::{Local, LocalOptions};
use tare_run::store::RunDir;
use tokio::sync::watch;

use super::exit;
use super::report::Output;
use crate::progress::Display;

/// Run a plan: every mesh under every load, in blocks, and say what each costs.
///
/// Without a plan it runs the built-in `quick`: Emojivoto without a mesh, behind
/// Envoy sidecars, and behind Envoy sidecars with mutual TLS, on this machine, in
/// about two minutes. It ends in a table, and in a run directory with the page
/// `report.html`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tare run                                  the built-in plan `quick`
  tare run --list                           what plans there are
  tare run quick --set load.rate=500        with another rate
  tare plan show quick > my.yaml            a plan to start from
  tare run my.yaml --out results/first
  tare run --resume results/first           go on after Ctrl-C or a crash

Exit codes: 0 good, 2 wrong usage or something missing, 3 a mesh has no valid trial,
130 interrupted.")]
pub(crate) struct Args {
    /// A plan file, or the name of a built-in plan.
    #[arg(default_value = "quick", conflicts_with = "resume")]
    plan: String,
    /// Change one setting of the plan, as `load.rate=500` or `repeats=5`.
    #[arg(long = "set", value_name = "PATH=VALUE", conflicts_with = "resume")]
    sets: Vec<String>,
    /// Run directory to make; by default runs/<time>-<plan>.
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Go on with a run that was interrupted.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// List the built-in plans.
    #[arg(long)]
    list: bool,
    /// Install nothing: Envoy must be on PATH, in TARE_ENVOY or in the cache.
    #[arg(long)]
    offline: bool,
    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        super::plan::list(&mut std::io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    // One thread: children end with the thread that started them, and a quiet
    // orchestrator is a good neighbour.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let stop = runtime.block_on(async { stop_on_signal() })?;
    let (begun, plan) = match &args.resume {
        Some(dir) => {
            let run = RunDir::resume(dir)?;
            let plan = run.manifest().plan.clone();
            (Begun::Again(Box::new(run)), plan)
        }
        None => {
            let source = super::plan::read(&args.plan, &args.sets)?;
            (
                Begun::New {
                    out: args.out,
                    text: source.text,
                },
                source.plan,
            )
        }
    };
    let kind = plan.environment;
    let done = match kind {
        EnvironmentKind::Local => {
            let local = Local::new(LocalOptions {
                offline: args.offline,
            })?;
            runtime.block_on(go(local, begun, &plan, stop))?
        }
        EnvironmentKind::Fake => runtime.block_on(go(Fake::default(), begun, &plan, stop))?,
    };
    conclude(&done, args.output)
}

enum Begun {
    New { out: Option<PathBuf>, text: String },
    Again(Box<RunDir>),
}

struct Done {
    dir: PathBuf,
    outcome: Result<Outcome, experiment::RunError>,
}

/// Prepares, runs, and leaves nothing behind.
async fn go<E: Environment>(
    mut environment: E,
    begun: Begun,
    plan: &Plan,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<Done> {
    let mut display = Display::new(plan, &order(plan));
    let prepared = environment
        .prepare(plan, &mut |line| display.say(line))
        .await;
    let done = async {
        let fingerprint = prepared?;
        let run = match begun {
            Begun::Again(run) => {
                display.say(&format!("going on with {}", run.path().display()));
                *run
            }
            Begun::New { out, text } => {
                let started = now_unix_ns();
                let id = format!("{}-{}", timestamp(started / 1_000_000_000), plan.name);
                let dir = out.unwrap_or_else(|| Path::new("runs").join(&id));
                let manifest = RunManifest {
                    schema_version: tare_model::SCHEMA_VERSION,
                    id,
                    tare_version: env!("CARGO_PKG_VERSION").to_owned(),
                    tare_build: if cfg!(debug_assertions) {
                        "debug"
                    } else {
                        "release"
                    }
                    .to_owned(),
                    started_unix_ns: started,
                    plan: plan.clone(),
                    command: std::env::args().collect(),
                    fingerprint,
                };
                RunDir::create(&dir, manifest, &text)?
            }
        };
        let outcome = experiment::run(&mut environment, &run, &mut display, stop).await;
        anyhow::Ok(Done {
            dir: run.path().to_owned(),
            outcome,
        })
    }
    .await;
    display.finish();
    for event in environment.close().await {
        super::say(format_args!("tare: {}: {}", event.kind, event.message));
    }
    done
}

/// The analysis of what is on disk, whatever the end was like.
fn conclude(done: &Done, output: Output) -> anyhow::Result<ExitCode> {
    let trials = done.dir.join(layout::TRIALS);
    let any = std::fs::read_dir(&trials).is_ok_and(|mut d| d.next().is_some());
    let mut code = ExitCode::from(exit::INVALID);
    if any {
        let summary = tare_report::write_derived(&done.dir).with_context(|| {
            format!(
                "the trials in {} are safe; analyse them",
                done.dir.display()
            )
        })?;
        super::report::print(&summary, output, &done.dir)?;
        if summary.grade != Grade::Invalid {
            code = ExitCode::SUCCESS;
        }
    }
    let outcome = match &done.outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            super::say(format_args!("tare: {error}"));
            super::say(format_args!(
                "What was finished is safe. Go on with: tare run --resume {}",
                done.dir.display()
            ));
            return Ok(ExitCode::from(exit::INVALID));
        }
    };
    if outcome.interrupted {
        super::say(format_args!(
            "Interrupted after {} of {} trials. Go on with: tare run --resume {}",
            outcome.done,
            outcome.planned,
            done.dir.display()
        ));
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    Ok(code)
}

/// True from the first Ctrl-C or SIGTERM on; the second ends the process at once
/// (its children end with it).
fn stop_on_signal() -> anyhow::Result<watch::Receiver<bool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = watch::channel(false);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        for count in 1u32.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if count > 1 {
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
            let _ = writeln!(
                std::io::stderr(),
                "\nEnding the trial under way; Ctrl-C again to end at once."
            );
            let _ = sender.send(true);
        }
    });
    Ok(receiver)
}

fn now_unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64)
}

/// `20260131-235959`, in UTC.
///
/// Source: Hinnant, "chrono-compatible low-level date algorithms", civil_from_days.
fn timestamp(unix_s: u64) -> String {
    let (days, s) = (unix_s / 86_400, unix_s % 86_400);
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}{month:02}{day:02}-{:02}{:02}{:02}",
        s / 3600,
        s / 60 % 60,
        s % 60
    )
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn timestamps_are_utc() {
        assert_eq!(timestamp(0), "19700101-000000");
        assert_eq!(timestamp(951_827_696), "20000229-123456");
        assert_eq!(timestamp(1_798_761_599), "20261231-235959");
    }
}
