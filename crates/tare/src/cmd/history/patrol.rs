//! `tare patrol`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::json;
use tare_analysis::formats::rfc3339;
use tare_analysis::history::{EntryNames, entry};
use tare_plan::Plan;
use tare_plan::SCHEMA_VERSION;
use tare_plan::mesh::name_and_version;
use tare_records::history::HistoryEntry;
use tare_records::layout;
use tare_records::layout::Fingerprint;
use tare_records::record::StreamChecksum;
use tare_records::summary::Summary;
use tare_report::{HistoryDir, HistoryError};
use tare_run::experiment;
use tare_run::store::{RunDir, StoreError};

use crate::cmd::exit;
use crate::cmd::output::{code_of, say};
use crate::cmd::run::ended::{analyse_quietly, conclude};
use crate::cmd::run::one::RunStart;
use crate::cmd::run::plan::Source;
use crate::cmd::run::{Conditions, STOPPING, Stop, begin, conduct, stop_on_signal};

/// Weigh a build of a mesh, and add an entry to its history.
///
/// Runs the plans, one after the other. The entry contains for each mesh the maximum throughput, latency and CPU
/// time, as ratios to the baseline of the same blocks, and memory. `tare history` shows the history and detects
/// changes. An interrupted or killed patrol continues when the same command runs again. After an invalid run, the same
/// command starts anew.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tare patrol --history history                           the built-in plan `patrol`
  tare patrol --history history --set 'meshes=bare,envoy@1.39.3,envoy/mtls@1.39.3'
  tare patrol capacity patrol --history history --build \"$GITHUB_SHA\"
  tare patrol --history history --run-url 'https://ci.example/reports/{run}/report.html'
  tare history history

Exit codes: 0 success, 2 invalid usage or a missing requirement, 3 a mesh has no valid trial, and no
entry is added, 130 interrupted.")]
pub(crate) struct Args {
    /// Plan files or names of built-in plans, with the same baseline and one version of each mesh.
    #[arg(default_value = "patrol")]
    plans: Vec<String>,
    /// Directory of the history; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    history: PathBuf,
    /// Name of the build [default: the versions of the meshes].
    #[arg(long, value_name = "NAME", value_parser = build)]
    build: Option<String>,
    /// Change one setting of every plan, for example `repeats=10`; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Directory for the runs.
    #[arg(long, value_name = "DIR", default_value = "runs/patrol")]
    runs: PathBuf,
    /// Address where the report of a run will be; `{run}` is replaced by the name of its directory. The page of the
    /// history links to it [default: the entry has the path of the run directory].
    #[arg(long, value_name = "URL", value_parser = address)]
    run_url: Option<String>,
    /// Weigh a build that the history or the directory of runs already has, for example on another host, and add
    /// another entry.
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    conditions: Conditions,
}

/// The part of `--run-url` that is replaced.
const RUN: &str = "{run}";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let read = args
        .plans
        .iter()
        .map(|p| crate::cmd::run::plan::read(p, &args.sets));
    let sources = read.collect::<anyhow::Result<Vec<_>>>()?;
    let plans: Vec<&Plan> = sources.iter().map(|s| &s.plan).collect();
    check(&plans)?;
    plans
        .iter()
        .try_for_each(|plan| crate::cmd::run::plan::check_requirements(plan))?;
    ensure!(
        plans.len() == 1 || args.run_url.as_ref().is_none_or(|url| url.contains(RUN)),
        "found no {RUN} in --run-url, expected it, because {} plans have several runs",
        plans.len()
    );
    let build = match &args.build {
        Some(build) => build.clone(),
        None => versions(&plans),
    };
    let names: Vec<&str> = plans.iter().map(|p| p.name.as_str()).collect();
    let (plan, plan_key) = (names.join("+"), plan_key(&plans));
    let known = match HistoryDir::read(&args.history) {
        Ok(history) => history.entries,
        Err(HistoryError::NoHistory(_)) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let is_same = |e: &&HistoryEntry| e.build == build && e.plan_key == plan_key;
    let same = known.iter().filter(is_same).count();
    if same > 0 && !args.again {
        say(format_args!(
            "{} already has the build {build} of the plan {plan}; use --again to weigh it once more",
            args.history.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    crate::cmd::writable::directory("--history", &HistoryDir::folder(&args.history))?;
    crate::cmd::writable::directory("--runs", &args.runs)?;
    let runtime = crate::cmd::runtime()?;
    let stop = stop_on_signal(STOPPING)?;
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let name = |plan: &str, number: usize| match number {
        1 => args.runs.join(format!("{plan}-{build}")),
        _ => args.runs.join(format!("{plan}-{build}-{number}")),
    };
    let dirs_of = |number| names.iter().map(|plan| name(plan, number)).collect();
    let places = first_usable(same + 1, args.again, &plans, dirs_of)?;
    let runs = places.iter();
    let runs: Vec<String> = runs
        .map(|(dir, _)| run_name(args.run_url.as_deref(), dir))
        .collect();
    let names = |started_unix_ns: u64, host_key: String| {
        let at = rfc3339(started_unix_ns);
        let at = at.split('.').next().unwrap_or(&at).replace(':', "-");
        EntryNames {
            id: format!("{plan}-{build}-{at}"),
            host_key,
            plan: plan.clone(),
            plan_key: plan_key.clone(),
            build: build.clone(),
            runs: runs.clone(),
        }
    };
    check_names(names(tare_files::unix_ns(), String::new()), &plans)?;
    let mut summaries = Vec::new();
    for (source, (dir, state)) in sources.into_iter().zip(places) {
        match weigh(args, source, dir, state, &runtime, &stop)? {
            Ok(summary) => summaries.push(summary),
            Err(code) => {
                say(format_args!(
                    "no entry is added to {}",
                    args.history.display()
                ));
                return Ok(ExitCode::from(code));
            }
        }
    }
    stop.children_have_ended();
    let Some(first) = summaries.first() else {
        bail!("found no plan, expected at least one");
    };
    let names = names(first.started_unix_ns, host_key(&first.fingerprint));
    let entry = entry(&summaries, names).context("found no run, expected one for each plan")?;
    let path = HistoryDir::add(&args.history, &entry)?;
    say(format_args!("added {}", path.display()));
    crate::cmd::history::show_changes(&args.history, &entry.id)?;
    Ok(ExitCode::SUCCESS)
}

/// The directories of the first patrol from number `from` on that is not used up, one for each plan, with their states.
/// An interrupted patrol continues in its directories. One disturbed run does not prevent the next.
fn first_usable(
    from: usize,
    again: bool,
    plans: &[&Plan],
    dirs_of: impl Fn(usize) -> Vec<PathBuf>,
) -> anyhow::Result<Vec<(PathBuf, State)>> {
    for number in from.. {
        let places = dirs_of(number).into_iter().zip(plans);
        let places = places.map(|(dir, plan)| state(&dir, plan).map(|state| (dir, state)));
        let places = places.collect::<anyhow::Result<Vec<_>>>()?;
        let used = places.iter().find_map(|(dir, state)| match state {
            State::UsedUp(why) => Some((why, dir)),
            State::Absent | State::Unfinished(_) | State::Finished(_) => None,
        });
        if let Some((why, dir)) = used {
            say(format_args!(
                "{}: {why}; this patrol starts anew",
                dir.display()
            ));
        } else if !(again && places.iter().all(|(_, s)| matches!(s, State::Finished(_)))) {
            return Ok(places);
        }
    }
    bail!("found no free number for the directories of the runs")
}

/// The state of a run that a patrol made, or did not make yet.
enum State {
    Absent,
    Unfinished(Box<RunStart>),
    Finished(Box<Summary>),
    /// A patrol cannot use it any more, and why.
    UsedUp(String),
}

fn state(dir: &Path, plan: &Plan) -> anyhow::Result<State> {
    let used_up = |why: &str| Ok(State::UsedUp(why.to_owned()));
    if !dir.join(layout::RUN).is_file() {
        return match RunDir::check_new(dir) {
            Ok(()) => Ok(State::Absent),
            // Its start was cut off.
            Err(StoreError::NotEmpty { .. }) => used_up("it contains no run"),
            Err(error) => Err(error.into()),
        };
    }
    let start = match RunStart::resume(dir) {
        Ok(start) => start,
        Err(error) => {
            return match error.downcast_ref() {
                Some(StoreError::Damaged { .. }) => used_up("run.json is damaged"),
                Some(StoreError::Schema { .. }) => used_up("made by another version of tare"),
                _ => Err(error),
            };
        }
    };
    if start.plan != *plan {
        return used_up("a run of another plan");
    }
    if start.resumed.as_ref().map_or(0, experiment::missing) > 0 {
        return Ok(State::Unfinished(Box::new(start)));
    }
    drop(start);
    let summary = tare_report::write_derived(dir, &[])?;
    Ok(match code_of(summary.grade) {
        0 => State::Finished(Box::new(summary)),
        _ => State::UsedUp("the run is finished and invalid".to_owned()),
    })
}

/// Runs a plan in `dir`, or continues there. Returns the exit code instead if it is interrupted, or if a mesh has
/// no valid trial.
fn weigh(
    args: &Args,
    source: Source,
    dir: PathBuf,
    state: State,
    runtime: &tokio::runtime::Runtime,
    stop: &Stop,
) -> anyhow::Result<Result<Summary, u8>> {
    let start = match state {
        State::Finished(summary) => return Ok(Ok(*summary)),
        State::Absent => begin(source.plan, source.text, Some(dir)),
        State::Unfinished(start) => *start,
        State::UsedUp(why) => bail!("{}: {why}", dir.display()),
    };
    let Some(mut ended) = conduct(runtime, start, &args.conditions, stop.asked.clone(), None)?
    else {
        return Ok(Err(exit::INTERRUPTED));
    };
    "Continue with the same command.".clone_into(&mut ended.resume);
    let (summary, code) = match analyse_quietly(&ended) {
        Ok(Some((summary, _))) => (Some(summary), Ok(0)),
        Ok(None) => (None, Ok(exit::INVALID)),
        Err(error) => (None, Err(error)),
    };
    let code = code.map(|code| summary.as_ref().map_or(code, |s| code_of(s.grade)));
    let code = conclude(&ended, code, "")?;
    Ok(summary.filter(|_| code == 0).ok_or(code))
}

/// Checks that the plans weigh one build, divide by the same baseline, and have different loads.
fn check(plans: &[&Plan]) -> anyhow::Result<()> {
    let mut baseline = None;
    let (mut names, mut loads) = (BTreeSet::new(), BTreeMap::new());
    for plan in plans {
        ensure!(
            names.insert(&plan.name),
            "found two plans named {}, expected different names: the directories of the runs have them",
            plan.name
        );
        for load in &plan.loads {
            if let Some(other) = loads.insert(&load.name, &plan.name) {
                bail!(
                    "found the load {} in the plans {other} and {}, expected different names: an entry has each figure \
                     of a mesh under a load once; add `name: ...` to one of the loads",
                    load.name,
                    plan.name
                );
            }
        }
        let own = name_and_version(&plan.baseline).0;
        let first = *baseline.get_or_insert(own);
        ensure!(
            own == first,
            "found the baseline {own} in the plan {}, expected {first} as in the first plan",
            plan.name
        );
        let mut seen = BTreeSet::new();
        for mesh in &plan.meshes {
            let (name, _) = name_and_version(&mesh.name);
            ensure!(
                seen.insert(name),
                "found two versions of {name} in the plan {}, expected one: an entry is about one build; `tare gate` \
                 compares two",
                plan.name
            );
        }
    }
    Ok(())
}

/// Checks that the history accepts an entry with these names, whose results are not known yet.
fn check_names(names: EntryNames, plans: &[&Plan]) -> anyhow::Result<()> {
    let anchor = plans.first().map(|plan| name_and_version(&plan.baseline).0);
    let entry = HistoryEntry {
        schema_version: SCHEMA_VERSION,
        id: names.id,
        at_unix_ns: 0,
        build: names.build,
        plan: names.plan,
        plan_key: names.plan_key,
        host: String::new(),
        host_key: names.host_key,
        anchor: anchor.unwrap_or_default().to_owned(),
        versions: BTreeMap::new(),
        runs: names.runs,
        variants: Vec::new(),
    };
    let checked = entry.check().map_err(|found| anyhow!(found));
    checked.context("the entry of this patrol would be invalid")
}

/// The versions of the meshes, such as `1.39.3`, as a name for files.
fn versions(plans: &[&Plan]) -> String {
    let meshes = plans.iter().flat_map(|p| &p.meshes);
    let versions = meshes.filter_map(|m| name_and_version(&m.name).1);
    let versions: BTreeSet<&str> = versions.collect();
    let named = versions.into_iter().collect::<Vec<_>>().join("_");
    match named.is_empty() {
        true => "default".to_owned(),
        false => named.replace(|c| !fits(c), "-"),
    }
}

/// Whether a name of a build may have this character, which becomes part of the names of files.
fn fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+')
}

fn build(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.len() <= 100 && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 100 letters, digits, `.`, `_`, `-`, `+`".to_owned()),
    }
}

/// What an entry stores of a run: the address of its report, or the path of its directory.
fn run_name(url: Option<&str>, dir: &Path) -> String {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    url.map_or_else(|| dir.display().to_string(), |url| url.replace(RUN, &name))
}

fn address(text: &str) -> Result<String, String> {
    let is_address = ["https://", "http://"]
        .iter()
        .any(|scheme| text.starts_with(scheme));
    match is_address && !text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        true => Ok(text.to_owned()),
        false => Err("expected an address that begins with https:// or http://".to_owned()),
    }
}

/// A digest of the plans without versions and without the number of blocks.
fn plan_key(plans: &[&Plan]) -> String {
    let mut digest = StreamChecksum::default();
    for plan in plans {
        let meshes = plan.meshes.iter().map(|m| name_and_version(&m.name).0);
        let identity = json!({
            "workload": plan.workload, "loads": plan.loads, "environment": plan.environment, "pairing": plan.pairing,
            "meshes": meshes.collect::<Vec<_>>(), "baseline": name_and_version(&plan.baseline).0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stores_the_addresses_of_reports_or_the_paths_of_runs() {
        let dir = Path::new("runs/patrol/patrol-1.40.0");
        let url = "https://ci.example/{run}/report.html";
        assert_eq!(
            run_name(Some(url), dir),
            "https://ci.example/patrol-1.40.0/report.html"
        );
        assert_eq!(run_name(None, dir), "runs/patrol/patrol-1.40.0");
    }
}
