//! `tare patrol`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, ensure};
use serde_json::json;
use tare_analysis::formats::rfc3339;
use tare_analysis::history::{PlanNames, entry};
use tare_model::layout::{self, Fingerprint};
use tare_model::plan::Plan;
use tare_model::record::StreamChecksum;
use tare_model::summary::Summary;
use tare_report::HistoryDir;

use super::exit;
use super::output::{code_of, say};
use super::run::ended::{analyse_quietly, conclude};
use super::run::one::RunStart;
use super::run::{Conditions, begin, conduct, stop_on_signal, turn};

/// Weigh a build of a mesh, and add what it costs to a history.
///
/// Runs the plans, one after the other, and writes one entry: for each mesh the maximum throughput, latency and CPU as
/// ratios to the baseline in the same blocks, and memory. `tare history` shows the history and finds where it
/// changes. A patrol that was interrupted, even killed, continues when it is started again in the same way.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tare patrol --history history                           the built-in plan `patrol`
  tare patrol --history history --set 'meshes=bare,envoy@1.39.3,envoy/mtls@1.39.3'
  tare patrol capacity patrol --history history --build \"$GITHUB_SHA\"
  tare history history

Exit codes: 0 success, 2 invalid usage or a missing requirement, 3 a mesh has no valid trial, so that nothing is added,
130 interrupted.")]
pub(crate) struct Args {
    /// Plan files or names of built-in plans. Their meshes are those of one build, with the same baseline.
    #[arg(default_value = "patrol")]
    plans: Vec<String>,
    /// Directory of the history; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    history: PathBuf,
    /// Name of the build [default: the versions of the meshes].
    #[arg(long, value_name = "NAME")]
    build: Option<String>,
    /// Change one setting of every plan, for example `repeats=10`; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Directory for the runs.
    #[arg(long, value_name = "DIR", default_value = "runs/patrol")]
    runs: PathBuf,
    /// Weigh a build again that the history has already, and add another entry.
    #[arg(long)]
    again: bool,
    /// Do not install anything: Envoy must be on PATH, in TARE_ENVOY or in the cache.
    #[arg(long)]
    offline: bool,
    /// Let idle cores sleep; see `tare run`.
    #[arg(long)]
    let_cores_sleep: bool,
    #[command(flatten)]
    turn: turn::Concurrency,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let read = args.plans.iter().map(|p| super::plan::read(p, &args.sets));
    let plans = read.collect::<anyhow::Result<Vec<_>>>()?;
    let build = match &args.build {
        Some(build) => build.clone(),
        None => versions(plans.iter().map(|p| &p.plan)),
    };
    let plan = plans
        .iter()
        .map(|p| p.plan.name.as_str())
        .collect::<Vec<_>>()
        .join("+");
    let key = plan_key(plans.iter().map(|p| &p.plan));
    let known = match HistoryDir::read(&args.history) {
        Ok(history) => history.entries,
        Err(tare_report::HistoryError::NoHistory(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let same = known
        .iter()
        .filter(|e| e.build == build && e.plan_key == key)
        .count();
    if same > 0 && !args.again {
        say(format_args!(
            "{} has the build {build} of the plan {plan} already; --again weighs it once more",
            args.history.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = super::runtime()?;
    let stop = stop_on_signal()?;
    let mut summaries: Vec<Summary> = Vec::new();
    let mut runs = Vec::new();
    for source in plans {
        // The same place whenever this build is weighed for this entry, so that an interrupted patrol continues.
        let number = if same > 0 {
            format!("-{}", same + 1)
        } else {
            String::new()
        };
        let dir = args
            .runs
            .join(clean(&format!("{}-{build}{number}", source.plan.name)));
        let done = match finished(&dir)? {
            Some(summary) => Some(summary),
            None => {
                let start = match dir.join(layout::RUN).is_file() {
                    true => RunStart::resume(&dir)?,
                    false => begin(source.plan, source.text, Some(dir.clone())),
                };
                let how = Conditions {
                    offline: args.offline,
                    let_cores_sleep: args.let_cores_sleep,
                    turn: &args.turn,
                };
                let Some(ended) = conduct(&runtime, start, &how, stop.asked.clone(), None)? else {
                    return Ok(ExitCode::from(exit::INTERRUPTED));
                };
                let analysed = analyse_quietly(&ended);
                let summary = analysed
                    .as_ref()
                    .ok()
                    .and_then(|a| Some(a.as_ref()?.0.clone()));
                let code = analysed.map(|a| a.map_or(exit::INVALID, |(s, _)| code_of(s.grade)));
                let code = conclude(&ended, code, "")?;
                if code != 0 {
                    say(format_args!(
                        "nothing is added to {}",
                        args.history.display()
                    ));
                    return Ok(ExitCode::from(code));
                }
                summary
            }
        };
        summaries.extend(done);
        runs.push(dir.display().to_string());
    }
    stop.children_have_ended();
    add(
        args,
        &summaries,
        PlanNames {
            id: String::new(),
            host_key: String::new(),
            plan,
            plan_key: key,
            build: Some(build),
            runs,
        },
    )
}

fn add(args: &Args, summaries: &[Summary], names: PlanNames) -> anyhow::Result<ExitCode> {
    let first = summaries
        .first()
        .context("found no run, expected one for each plan")?;
    let build = names.build.clone().unwrap_or_default();
    let at = rfc3339(first.started_unix_ns);
    let names = PlanNames {
        id: clean(&format!(
            "{}-{build}-{}",
            names.plan,
            at.split('.').next().unwrap_or(&at)
        )),
        host_key: host_key(&first.fingerprint),
        ..names
    };
    let summaries: Vec<&Summary> = summaries.iter().collect();
    let entry = entry(&summaries, names).map_err(|e| anyhow!(e))?;
    let entry = entry.context("found no run, expected one for each plan")?;
    let path = HistoryDir::add(&args.history, &entry)?;
    say(format_args!("added {}", path.display()));
    super::history::show(&args.history, Some(&entry.id))?;
    Ok(ExitCode::SUCCESS)
}

/// The summary of a finished run in this directory; `None` if it is absent or unfinished.
fn finished(dir: &Path) -> anyhow::Result<Option<Summary>> {
    if !dir.join(layout::RUN).is_file() {
        return Ok(None);
    }
    let run = tare_run::store::RunDir::resume(dir)?;
    if tare_run::experiment::missing(&run) > 0 {
        return Ok(None);
    }
    drop(run);
    let summary = tare_report::write_derived(dir, &[])?;
    ensure!(
        code_of(summary.grade) == 0,
        "the run {} is finished and invalid; remove it to weigh this build again",
        dir.display()
    );
    Ok(Some(summary))
}

/// The versions of the meshes, such as `1.39.3`.
fn versions<'a>(plans: impl Iterator<Item = &'a Plan>) -> String {
    let meshes = plans.flat_map(|p| &p.meshes);
    let versions = meshes.filter_map(|m| Some(m.settings.envoy.as_ref()?.to_string()));
    let versions: std::collections::BTreeSet<String> = versions.collect();
    match versions.is_empty() {
        true => "default".to_owned(),
        false => versions.into_iter().collect::<Vec<_>>().join(", "),
    }
}

/// A digest of what the measurement depends on, but for versions and the number of blocks.
fn plan_key<'a>(plans: impl Iterator<Item = &'a Plan>) -> String {
    let mut digest = StreamChecksum::default();
    for plan in plans {
        let without_version = |name: &str| name.split('@').next().unwrap_or(name).to_owned();
        let meshes = plan.meshes.iter().map(|m| without_version(&m.name));
        let identity = json!({
            "workload": plan.workload, "loads": plan.loads, "environment": plan.environment, "at_once": plan.at_once,
            "meshes": meshes.collect::<Vec<_>>(), "baseline": without_version(&plan.baseline),
        });
        digest.line(&identity.to_string());
    }
    digest.hex()
}

fn host_key(fingerprint: &Fingerprint) -> String {
    let mut digest = StreamChecksum::default();
    let f = fingerprint;
    digest.line(
        &json!([
            f.kernel,
            f.cpu_model,
            f.cores,
            f.clocksource,
            f.governor,
            f.virtualised
        ])
        .to_string(),
    );
    digest.hex()
}

/// A name for a file.
fn clean(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.chars()
        .map(|c| if keep(c) { c } else { '-' })
        .collect()
}
