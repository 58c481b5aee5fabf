//! `tare run`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;
use signal_hook::iterator::Signals;
use tare_cluster::Kubernetes;
use tare_local::{Local, LocalSettings};
use tare_plan::trial::order;
use tare_plan::{EnvironmentKind, Plan};
use tare_run::store::RunDir;
use tokio::sync::watch;

use crate::cmd::cluster::clusters::Clusters;
use crate::cmd::exit;
use crate::cmd::output::Output;
use crate::progress::Display;

pub(super) mod compare;
mod detach;
pub(super) mod ended;
pub(super) mod export;
pub(super) mod mde;
pub(super) mod one;
mod place;
pub(super) mod plan;
pub(super) mod report;
pub(super) mod turn;

use ended::{analyse, conclude};
use one::{RunStart, go};
use place::idle_cores;
use turn::Taken;

/// Run a plan: measure every mesh under every load, in blocks, and report what each mesh costs.
///
/// Without a plan, `tare run` runs the built-in plan `quick` on this machine, in about four minutes:
/// the example application Emojivoto without a mesh, with Envoy sidecars, and with Envoy sidecars
/// and mutual TLS. It prints a table and writes a run directory with the page `report.html`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tare run                                  run the built-in plan `quick`
  tare run --list                           list the built-in plans
  tare run quick --set load.rate=500        change the rate
  tare plan show quick > my.yaml            copy a plan to start from
  tare run my.yaml --out results/first      choose the run directory
  tare run my.yaml --web                    watch the run in a browser
  tare run my.yaml --profile                also show in which code the CPU time is spent
  tare run --resume results/first           continue after Ctrl-C or a crash
  tare run --extend results/sweep --vary response_bytes=512KiB,1MiB
                                            add levels to a finished sweep
  tare run cluster-quick --context a --context b    run on two clusters at once
  tare run cluster-quick --detach --volume 5Gi      run on the cluster, without this machine

Exit codes: 0 success, 2 invalid usage or a missing requirement, 3 a mesh has no valid trial,
130 interrupted.")]
pub(crate) struct Args {
    /// A plan file, or the name of a built-in plan.
    #[arg(default_value = "quick", conflicts_with_all = ["resume", "extend"])]
    plan: String,
    /// Change one setting of the plan, for example `load.rate=500` or `repeats=5`; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE", conflicts_with_all = ["resume", "extend"])]
    sets: Vec<String>,
    /// Run directory to create [default: runs/<time>-<plan>].
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resume", "extend"])]
    out: Option<PathBuf>,
    /// Continue the interrupted run in this directory.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Add levels to the finished sweep in this directory: as many blocks as its plan had, each with the
    /// anchor and the new levels.
    #[arg(long, value_name = "DIR", conflicts_with = "resume", requires = "vary")]
    extend: Option<PathBuf>,
    /// The new levels of one factor, for example `response_bytes=512KiB,1MiB`.
    #[arg(long, value_name = "FACTOR=LEVELS", requires = "extend")]
    vary: Option<String>,
    /// List the built-in plans.
    #[arg(long)]
    list: bool,
    /// Where to run; overrides the plan.
    #[arg(long, value_name = "local|kubernetes", conflicts_with_all = ["resume", "extend"])]
    environment: Option<String>,
    /// After the measured trials, run each mesh once more under each load and sample on which code its CPU
    /// time is spent: flame graphs, pprof files and a table by group. These extra trials are in no figure
    /// and no verdict. Not possible with several clusters.
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    cluster: crate::cmd::cluster::Flags,
    #[command(flatten)]
    conditions: Conditions,
    #[command(flatten)]
    detach: detach::Detach,
    /// Serve the report page on 127.0.0.1 during the run [default port: any free one]. A browser on
    /// this machine takes CPU time from the trials.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    web: Option<u16>,
    /// Format of the result on standard output.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        crate::cmd::run::plan::list()?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.detach.detach {
        return detach::run(&args);
    }
    // One thread: children end with the thread that started them, and the orchestrator disturbs
    // the measurement least.
    let runtime = crate::cmd::runtime()?;
    let stop = stop_on_signal(STOPPING)?;
    if let Some(clusters) = several(&args)? {
        ensure!(!args.profile, "--profile works on one cluster at a time");
        let ended = runtime.block_on(clusters.run(stop.asked.clone()));
        stop.children_have_ended();
        return clusters.conclude(&ended, args.output);
    }
    let web = args.web.map(listen).transpose()?;
    let existing = match (&args.resume, &args.extend, &args.vary) {
        (Some(dir), ..) => Some(RunStart::resume(dir)?),
        (None, Some(dir), Some(vary)) => Some(RunStart::extend(dir, vary)?),
        _ => None,
    };
    let mut start = match existing {
        Some(start) => start,
        None => new_run(&args)?,
    };
    start.profile = args.profile;
    let done = conduct(&runtime, start, &args.conditions, stop.asked.clone(), web)?;
    stop.children_have_ended();
    match done {
        Some(done) => {
            let analysed = analyse(&done, Some(args.output));
            Ok(ExitCode::from(conclude(&done, analysed, "")?))
        }
        None => Ok(ExitCode::from(exit::INTERRUPTED)),
    }
}

/// The conditions of a run.
#[derive(clap::Args, Default)]
pub(super) struct Conditions {
    /// Do not install anything: Envoy must be on PATH, in TARE_ENVOY or in the cache.
    #[arg(long)]
    offline: bool,
    /// Local environment: let idle cores sleep. By default, if it runs as root, tare keeps all
    /// cores awake during the run, because waking a core can take milliseconds on a virtual
    /// machine, which is not a cost of the mesh.
    #[arg(long)]
    let_cores_sleep: bool,
    #[command(flatten)]
    turn: turn::Concurrency,
}

impl Conditions {
    /// Rejects `--let-cores-sleep` on Kubernetes, where it would have no effect.
    fn check(&self, environment: EnvironmentKind) -> anyhow::Result<()> {
        ensure!(
            !self.let_cores_sleep || environment != EnvironmentKind::Kubernetes,
            "--let-cores-sleep works in the local environment only: tare does not change how the cores of a cluster idle"
        );
        Ok(())
    }
}

/// Runs the plan of `start` in its environment. Returns `None` if it was stopped before the run directory
/// was created.
pub(super) fn conduct(
    runtime: &tokio::runtime::Runtime,
    mut start: RunStart,
    how: &Conditions,
    asked: watch::Receiver<bool>,
    web: Option<TcpListener>,
) -> anyhow::Result<Option<ended::EndedRun>> {
    how.check(start.plan.environment)?;
    crate::cmd::run::plan::check_requirements(&start.plan)?;
    if start.resumed.is_none() {
        RunDir::check_new(&start.dir)?;
        crate::cmd::writable::directory("--out", &start.dir)?;
    }
    let display = Display::new(&start.plan, &order(&start.plan));
    match start.plan.environment {
        EnvironmentKind::Local => {
            let taken = how.turn.take(&start.dir, asked.clone());
            let _turn = match runtime.block_on(taken)? {
                Taken::Turn(turn) => Some(turn),
                Taken::Shared(note) => {
                    start.note = Some(note);
                    None
                }
                Taken::Interrupted => return Ok(None),
            };
            let began = start.resumed.as_ref().map(|r| &r.manifest().fingerprint);
            let (_awake, idle) = idle_cores(how.let_cores_sleep, began);
            let local = Local::new(LocalSettings::from_env(how.offline, Some(idle))?)?;
            runtime.block_on(go(local, start, asked, web, display))
        }
        EnvironmentKind::Kubernetes => {
            let cluster = Kubernetes::new(start.id.clone());
            runtime.block_on(go(cluster, start, asked, web, display))
        }
        EnvironmentKind::Fake => {
            bail!("this run was made in virtual time by tare's own tests: it cannot be resumed")
        }
    }
}

fn listen(port: u16) -> anyhow::Result<TcpListener> {
    crate::web::listen(port).with_context(|| {
        format!(
            "failed to listen on port {port} of 127.0.0.1 (choose another port, or --web without a port for any free one)"
        )
    })
}

/// Returns the plan of the command line, and its text.
fn planned(args: &Args) -> anyhow::Result<(Plan, String)> {
    let sets = crate::cmd::run::plan::with_environment(&args.sets, args.environment.as_deref())?;
    let mut source = crate::cmd::run::plan::read(&args.plan, &sets)?;
    args.cluster.apply(&mut source.plan)?;
    args.conditions.check(source.plan.environment)?;
    Ok((source.plan, source.text))
}

/// Returns the new or resumed run on several clusters; `None` for a single run.
fn several(args: &Args) -> anyhow::Result<Option<Clusters>> {
    let one_page = "--web shows a single cluster: give one --context";
    if let Some(dir) = &args.resume {
        let clusters = Clusters::open(dir)?;
        ensure!(clusters.is_none() || args.web.is_none(), one_page);
        if clusters.is_some() {
            args.conditions.check(EnvironmentKind::Kubernetes)?;
        }
        return Ok(clusters);
    }
    if let Some(dir) = &args.extend {
        ensure!(
            Clusters::open(dir)?.is_none(),
            "{} is a run on several clusters: only a run on one machine or cluster can be extended",
            dir.display()
        );
        return Ok(None);
    }
    let contexts = args.cluster.contexts();
    if contexts.len() < 2 {
        return Ok(None);
    }
    ensure!(args.web.is_none(), one_page);
    Ok(Some(Clusters::begin(new_run(args)?, contexts)?))
}

/// Returns a new run of the plan on the command line.
fn new_run(args: &Args) -> anyhow::Result<RunStart> {
    let (plan, text) = planned(args)?;
    Ok(begin(plan, text, args.out.clone()))
}

/// Returns a new run of `plan`, which was written as `text`, in `dir` or a directory named by the time.
pub(super) fn begin(plan: Plan, text: String, dir: Option<PathBuf>) -> RunStart {
    let started_unix_ns = tare_files::unix_ns();
    let at = timestamp(started_unix_ns / 1_000_000_000);
    let id = format!("{at}-{}", plan.name);
    RunStart {
        dir: dir.unwrap_or_else(|| Path::new("runs").join(&id)),
        id,
        started_unix_ns,
        plan,
        text,
        resumed: None,
        added: None,
        note: None,
        profile: false,
    }
}

/// Flags that Ctrl-C, SIGTERM and SIGHUP set.
pub(super) struct Stop {
    /// True from the first signal on.
    pub(super) asked: watch::Receiver<bool>,
    /// Once this is set, the next signal ends the process at once.
    at_once: Arc<AtomicBool>,
}

impl Stop {
    /// All child processes have ended: from here on, a signal ends the process at once.
    pub(super) fn children_have_ended(&self) {
        self.at_once.store(true, Ordering::SeqCst);
    }
}

/// What a signal does during a run.
pub(super) const STOPPING: &str = "Stopping the current trial and cleaning up";

/// Returns flags that Ctrl-C, SIGTERM and SIGHUP set. The first signal prints `message`, and the second one ends the
/// process, except a further SIGHUP.
pub(super) fn stop_on_signal(message: &'static str) -> anyhow::Result<Stop> {
    let (sender, asked) = watch::channel(false);
    let at_once = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new(tare_workload::signals::stopping())?;
    let last = Arc::clone(&at_once);
    std::thread::spawn(move || {
        let mut stopping = false;
        for signal in signals.forever() {
            let ended = last.load(Ordering::SeqCst);
            // Of a closed terminal, the kernel sends it and the shell once more.
            if stopping && !ended && signal == Signal::HUP.as_raw() {
                continue;
            }
            if stopping || ended {
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
            stopping = true;
            crate::cmd::output::say(format_args!(
                "\n{message}; press Ctrl-C again to exit at once."
            ));
            let _ = sender.send(true);
        }
    });
    Ok(Stop { asked, at_once })
}

/// Formats a time as `20260131-235959`, in UTC.
fn timestamp(unix_s: u64) -> String {
    let written = tare_analysis::formats::rfc3339(unix_s * 1_000_000_000);
    written[..19].replace(['-', ':'], "").replace('T', "-")
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
