//! `tare compare`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use tare_analysis::compare::across::{compare, different_workloads};
use tare_analysis::compare::threshold::{Threshold, responses_needed};
use tare_records::summary::comparison::{ComparedCell, Comparison, JudgedBy, ThresholdResult};
use tare_report::{
    LoadedRun, load_run, render_comparison, render_comparison_markdown, render_comparison_page,
    summarise,
};

use crate::cmd::exit;
use crate::cmd::input::one_of;
use crate::cmd::output::{json, print, print_styled};

/// Compare two runs: two versions of a mesh, two clusters, two days.
///
/// Compares every mesh under every load that both runs have: each figure of the later run divided by
/// that of the earlier one, with an interval. Two runs share no blocks, so changes of the machine
/// between them are in these figures, too, and a change needs more blocks to be resolved than a
/// difference within one run.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tare compare runs/before runs/after
  tare compare runs/before runs/after --fail-above 'p99:+5%' --fail-above 'memory:+20MB'
  tare compare runs/before runs/after --output html > changes.html
  tare compare runs/before runs/after --output markdown >> \"$GITHUB_STEP_SUMMARY\"

Figures for --fail-above, each with a limit in percent:
  p50, p90, p99, p99.9, p99.99  latency; the limit may also be a duration
  ratio_p50, ratio_p99          latency divided by that of the baseline in the same run, which
                                depends least on the machine
  cpu, proxy_cpu, machine_cpu, node_cpu
                                CPU time per request; the limit may also be a duration
  memory                        of the proxies; the limit may also be a size
  instructions, cycles          of applications and proxies per request, where the machine has
                                hardware counters

Exit codes: 0 success, 1 a threshold is exceeded, 2 usage error, different workloads or nothing in
common, 3 a threshold could not be checked.")]
pub(crate) struct Args {
    /// Run directory of the reference.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Run directory that is compared with the reference.
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Exit with 1 if a figure of any mesh and load rises by more than this limit, such as `p99:+5%`.
    #[arg(long, value_name = "FIGURE:+LIMIT")]
    fail_above: Vec<Threshold>,
    /// Which value of the change is compared with the limit: `bound`, the lower end of its interval,
    /// which noise rarely raises above the limit, or `estimate`, regardless of its interval.
    #[arg(long, value_parser = one_of::<JudgedBy>(&["bound", "estimate"]), default_value = "bound")]
    fail_by: JudgedBy,
    /// Compare the runs although their workloads or loads differ: applications, mixes, rates,
    /// connections. A difference can then come from any of them, not only from the meshes.
    #[arg(long)]
    allow_different_workload: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// A table.
    Text,
    /// The complete comparison as one JSON document.
    Json,
    /// A Markdown table for a pull request.
    Markdown,
    /// A page: a picture of what changed, the differences of the setup, and the table.
    Html,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (before, after) = (load(&args.before)?, load(&args.after)?);
    let comparison = compare(
        &before.side(),
        &after.side(),
        &args.fail_above,
        args.fail_by,
    );
    if comparison.cells.iter().all(|c| c.changes.is_empty()) {
        bail!(
            "nothing to compare: the runs have no {}; {} has {}; {} has {}",
            lacking(&comparison.cells),
            args.before.display(),
            usable(&before),
            args.after.display(),
            usable(&after)
        );
    }
    let different = different_workloads(&before.side(), &after.side());
    if !args.allow_different_workload && !different.is_empty() {
        bail!(
            "the runs have different workloads, so their figures would not show a difference of the meshes: {}; compare \
             runs of the same workload and load, or add --allow-different-workload to compare everything together",
            different.join("; ")
        );
    }
    all_found(&args.fail_above, &comparison)?;
    match args.output {
        Output::Json => print(json(&comparison)?)?,
        Output::Markdown => print(render_comparison_markdown(&comparison))?,
        Output::Html => print(render_comparison_page(&comparison))?,
        Output::Text => print_styled(|colour| render_comparison(&comparison, colour))?,
    }
    let any = |result| comparison.thresholds.iter().any(|j| j.result == result);
    Ok(if any(ThresholdResult::Exceeded) {
        ExitCode::from(exit::MISSED)
    } else if any(ThresholdResult::NotChecked) {
        ExitCode::from(exit::INVALID)
    } else {
        ExitCode::SUCCESS
    })
}

/// What two runs lack, none of whose figures can be compared.
fn lacking(cells: &[ComparedCell]) -> &'static str {
    let both = |c: &ComparedCell| c.trials_before > 0 && c.trials_after > 0;
    match cells.iter().any(both) {
        true => "figure in common",
        false => "mesh with usable trials under the same load",
    }
}

/// The meshes and loads of a run that have usable trials.
fn usable(run: &LoadedRun) -> String {
    let summary = summarise(run);
    let cells = summary.cells.iter().filter(|c| !c.trials_used.is_empty());
    let names: Vec<String> = cells.map(|c| format!("{} at {}", c.mesh, c.load)).collect();
    match names.is_empty() {
        true => "no usable trial".to_owned(),
        false => names.join(", "),
    }
}

/// Refuses a threshold of a figure that neither run has: it would never be exceeded.
fn all_found(thresholds: &[Threshold], comparison: &Comparison) -> anyhow::Result<()> {
    let without_trials = |c: &ComparedCell| c.trials_before == 0 || c.trials_after == 0;
    if comparison.cells.iter().any(without_trials) {
        return Ok(());
    }
    for threshold in thresholds {
        let mut changes = comparison.cells.iter().flat_map(|c| &c.changes);
        if !changes.any(|c| c.ratio.what == threshold.figure()) {
            let needed = responses_needed(threshold.figure());
            let needed = needed.map_or(String::new(), |needed| format!("; {needed}"));
            bail!(
                "--fail-above {}: neither run has this figure{needed}",
                threshold.text()
            );
        }
    }
    Ok(())
}

fn load(dir: &Path) -> anyhow::Result<LoadedRun> {
    let run = load_run(dir)?;
    for note in &run.notes {
        crate::cmd::output::say(format_args!("tare: {}: {note}", dir.display()));
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_runs_lack_agrees_with_their_trials() {
        let cell = |trials_before, trials_after| ComparedCell {
            mesh: "bare".to_owned(),
            load: "1rps".to_owned(),
            trials_before,
            trials_after,
            changes: Vec::new(),
        };
        let usable = "mesh with usable trials under the same load";
        assert_eq!(lacking(&[cell(3, 0), cell(0, 3)]), usable);
        assert_eq!(lacking(&[cell(3, 0), cell(1, 3)]), "figure in common");
    }
}
