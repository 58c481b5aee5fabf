//! `tare gate`.

use std::io::Write as _;
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail, ensure};
use tare_analysis::{figures, gate as rule};
use tare_plan as plan;
use tare_plan::mesh::{DataPlaneKind, Mesh, name_and_version};
use tare_plan::units::{format_duration_ns, parse_duration};
use tare_plan::{GateMeshes, Plan};
use tare_records::summary::{GateOutcome, Summary};
use tare_report::{render_gate_junit, render_gate_markdown};
use tare_stats::{CONFIDENCE, power};

use crate::cmd::exit;
use crate::cmd::output::{Output, print, print_analysis, say};
use crate::cmd::run::ended::{analyse_quietly, conclude};
use crate::cmd::run::one::RunStart;
use crate::cmd::run::{Conditions, STOPPING, begin, conduct, stop_on_signal};

/// Decide whether a new version of a mesh is slower than the one in use.
///
/// Each block runs four meshes: the reference, the candidate, the reference again and no mesh. On one machine, they run at
/// the same time, so the noise of the machine affects all of them. With a plan for a cluster, they run in turn, in random
/// order, and each one is installed anew. The gate compares four figures: p50, p99, CPU time of the proxies per request, and
/// memory of the proxies at the end of a trial. It stops early when the result is clear:
///
/// - regressed: a figure is worse by more than its margin, confirmed by further blocks; or the candidate fails
///
/// - pass: no figure is worse by more than its margin
///
/// - inconclusive: the budget is too small on this machine
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tare gate --reference envoy@1.39.3 --candidate envoy@1.40.0
  tare gate --reference envoy/mtls --candidate ./envoy      a program of your own
  tare gate --reference envoy --candidate envoy/mtls --margin p50=20% --budget 30m
  tare gate --reference envoy@1.39.3 --candidate envoy@1.40.0 my.yaml --junit gate.xml
  tare gate --reference istio@1.27.1 --candidate istio@1.27.3 cluster-quick --budget 2h

In GitHub Actions, the result is added to the summary of the step.

Exit codes: 0 pass, 1 regressed, 2 invalid usage or a missing requirement, 3 nothing could be
measured, 4 inconclusive, 130 interrupted.")]
pub(crate) struct Args {
    /// The mesh in use, such as envoy@1.39.3, envoy/mtls, or istio/minimal@1.27.1 on a cluster.
    #[arg(
        long,
        value_name = "MESH",
        required_unless_present = "resume",
        conflicts_with = "resume"
    )]
    reference: Option<String>,
    /// The mesh that may replace it, or the path of an Envoy: ./envoy.
    #[arg(
        long,
        value_name = "MESH|PATH",
        required_unless_present = "resume",
        conflicts_with = "resume"
    )]
    candidate: Option<String>,
    /// A plan file, or the name of a built-in plan: workload, load and environment. Its meshes are not used.
    #[arg(default_value = "gate", conflicts_with = "resume")]
    plan: String,
    /// How much worse a figure may be, such as p50=5%; may be repeated.
    ///
    /// Figures and defaults: p50=5%, p99=10%, cpu=3%, memory=5%.
    #[arg(long, value_name = "FIGURE=SHARE", conflicts_with = "resume")]
    margin: Vec<String>,
    /// Time limit for all blocks.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "15m",
        conflicts_with = "resume"
    )]
    budget: String,
    /// Change one setting of the plan, for example `load.rate=500`; may be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE", conflicts_with = "resume")]
    sets: Vec<String>,
    /// Run directory to create [default: runs/<time>-<plan>].
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Continue the interrupted gate in this directory.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Where to run; overrides the plan.
    #[arg(long, value_name = "local|kubernetes", conflicts_with = "resume")]
    environment: Option<String>,
    #[command(flatten)]
    cluster: crate::cmd::cluster::Flags,
    #[command(flatten)]
    conditions: Conditions,
    /// Write the result as Markdown, for a pull request.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the result as JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Format of the result on standard output.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    check_outputs(&args)?;
    let start = match &args.resume {
        Some(dir) => {
            let start = RunStart::resume(dir)?;
            ensure!(
                start.plan.gate.is_some(),
                "{} is not a gate: continue it with tare run --resume {}",
                dir.display(),
                dir.display()
            );
            start
        }
        None => new_gate(&args)?,
    };
    announce(&start.plan);
    let runtime = crate::cmd::runtime()?;
    let stop = stop_on_signal(STOPPING)?;
    let done = conduct(&runtime, start, &args.conditions, stop.asked.clone(), None)?;
    stop.children_have_ended();
    let Some(done) = done else {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    let analysed = analyse_quietly(&done);
    let written = match &analysed {
        Ok(Some((summary, dir))) => Some(write(&args, summary, dir)?),
        _ => None,
    };
    let code = analysed.map(|_| written.unwrap_or(exit::INVALID));
    Ok(ExitCode::from(conclude(&done, code, "")?))
}

/// Name of the variable with the path to which GitHub Actions adds the summary of a step.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// The file to which the summary of a step is added, in GitHub Actions.
fn step_summary() -> Option<PathBuf> {
    let path = std::env::var_os(STEP_SUMMARY).filter(|p| !p.is_empty());
    path.map(PathBuf::from)
}

/// Checks before the gate that its result can be written.
fn check_outputs(args: &Args) -> anyhow::Result<()> {
    ensure!(
        args.markdown.is_none() || args.markdown != args.junit,
        "found the same file for --markdown and --junit, expected two"
    );
    let files = [
        ("--markdown", args.markdown.clone()),
        ("--junit", args.junit.clone()),
        (STEP_SUMMARY, step_summary()),
    ];
    // The run creates its directory.
    let new = args.out.as_ref().filter(|out| !out.exists());
    let new = new.and_then(|out| absolute(out).ok());
    let is_in_new = |path: &Path| {
        let path = absolute(path).unwrap_or_default();
        new.is_some() && path.parent() == new.as_deref()
    };
    let files = files.into_iter().filter_map(|(of, path)| Some((of, path?)));
    let mut files = files.filter(|(_, path)| !is_in_new(path));
    files.try_for_each(|(of, path)| crate::cmd::writable::file(of, &path))
}

/// Says what the gate can tell, and how long it takes at most.
fn announce(plan: &Plan) {
    let Some(gate) = &plan.gate else { return };
    let looks: Vec<String> = gate.looks.iter().map(u32::to_string).collect();
    say(format_args!(
        "gate: {} against {}, at most {} blocks in about {}; decisions after {} blocks, a regression is confirmed by \
         {} more",
        gate.candidate,
        gate.reference,
        plan.repeats,
        format_duration_ns(plan.estimated_duration_ns()),
        looks.join(", "),
        gate.confirm
    ));
    let resolved = |deviation: f64| {
        let found = power::detectable(deviation, plan.repeats, CONFIDENCE)?;
        Some(
            figures::percent(found.exp_m1())
                .trim_start_matches('+')
                .to_owned(),
        )
    };
    if let [Some(quiet), Some(usual), Some(noisy)] = [0.03, 0.1, 0.2].map(resolved) {
        say(format_args!(
            "{} blocks can detect a change of about {quiet} on a quiet machine (blocks of equal meshes differ by 3 %), \
             {usual} at 10 %, {noisy} at 20 %",
            plan.repeats
        ));
    }
}

fn new_gate(args: &Args) -> anyhow::Result<RunStart> {
    let (Some(reference), Some(candidate)) = (&args.reference, &args.candidate) else {
        bail!("expected --reference and --candidate");
    };
    ensure!(
        args.cluster.contexts().len() < 2,
        "found {} --context, expected at most one: a gate runs on one cluster",
        args.cluster.contexts().len()
    );
    // The path of a program stands for the reference's mesh with this program.
    let candidate_mesh = match candidate.starts_with(['.', '/']) {
        true => {
            let (mesh, _) = name_and_version(reference);
            format!("{mesh}@{candidate}")
        }
        false => candidate.clone(),
    };
    let ignored = [
        (
            "repeats",
            "the budget determines the number of blocks: use --budget",
        ),
        ("meshes", "use --reference and --candidate"),
        (
            "baseline",
            "the baseline of a gate is its reference: use --reference",
        ),
    ];
    crate::cmd::run::plan::refuse_sets(&args.sets, &ignored)?;
    let mut sets =
        crate::cmd::run::plan::with_environment(&args.sets, args.environment.as_deref())?;
    for margin in &args.margin {
        let Some((figure, _)) = margin.split_once('=') else {
            bail!("--margin {margin}: expected a figure and a share, like p50=5%");
        };
        let set = format!("margins.{}", figure.trim());
        if let Some(given) = args
            .sets
            .iter()
            .find(|s| crate::cmd::run::plan::path_of(s) == set)
        {
            bail!("found both --margin {margin} and --set {given}, expected one of them");
        }
        sets.push(format!("margins.{margin}"));
    }
    let with = |mesh: &str| {
        let mut sets = sets.clone();
        sets.extend([format!("meshes=bare,{mesh}"), "baseline=bare".to_owned()]);
        let mut source = crate::cmd::run::plan::read(&args.plan, &sets)?;
        // While the meshes have their own names, by which the overlays of the cluster find them.
        args.cluster.apply(&mut source.plan)?;
        anyhow::Ok(source)
    };
    let source = with(reference)?;
    let other = with(&candidate_mesh)?.plan;
    let is_mesh = |m: &Mesh| m.data_plane != DataPlaneKind::None;
    let Some(mesh) = other.meshes.into_iter().find(is_mesh) else {
        bail!("found the candidate {candidate}, expected a mesh with proxies");
    };
    let budget_ns = parse_duration(&args.budget).map_err(|e| anyhow!("--budget: {e}"))?;
    let written = GateMeshes {
        reference,
        candidate,
    };
    let mut plan = plan::gate(&source.plan, mesh, written, budget_ns).map_err(|e| anyhow!(e))?;
    rule::set_looks(&mut plan).map_err(|e| anyhow!(e))?;
    // With the same arrivals in every gate, chance would favour the same side every night.
    if !sets.iter().any(|set| set.starts_with("seed=")) {
        plan.seed = tare_files::unix_ns() / 1_000_000_000;
    }
    Ok(begin(plan, source.text, args.out.clone()))
}

/// Prints and writes the result; returns the exit code.
fn write(args: &Args, summary: &Summary, dir: &Path) -> anyhow::Result<u8> {
    match args.output {
        Output::Text => print_analysis(summary, args.output, dir)?,
        Output::Json => print(crate::cmd::output::json(&summary.gate)?)?,
    }
    let markdown = render_gate_markdown(summary).unwrap_or_default();
    if let Some(path) = &args.markdown {
        std::fs::write(path, &markdown)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &args.junit {
        let xml = render_gate_junit(summary).unwrap_or_default();
        std::fs::write(path, xml).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = step_summary() {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path);
        let written = file.and_then(|mut file| file.write_all(markdown.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let outcome = summary.gate.as_ref().and_then(|g| g.outcome);
    Ok(match outcome {
        Some(GateOutcome::Pass) => 0,
        Some(GateOutcome::Regressed) => exit::MISSED,
        Some(GateOutcome::Inconclusive) | None => exit::INCONCLUSIVE,
    })
}
