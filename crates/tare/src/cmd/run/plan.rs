//! `tare plan`: shows, lists and checks plans; also finds the plan of `tare run`.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Subcommand;
use tare_analysis::figures;
use tare_plan as plan;
use tare_plan::units::{format_duration_ns, format_rate};
use tare_plan::{Design, Load, LoadKind, Plan, Sweep, TEXT_BYTES_MAX};
use tare_run::requirements;
use tare_run::requirements::Places;

use crate::cmd::output::{Output, json, print};

/// Show and check plans.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print a built-in plan as YAML, to start from.
    Show {
        /// Name of a built-in plan; `tare plan list` prints them.
        name: String,
    },
    /// List the built-in plans.
    List,
    /// Print the JSON Schema of plan files, for editors.
    Schema,
    Mde(crate::cmd::run::mde::Args),
    /// Check a plan without running anything. With --cluster, also list what a run would do to the cluster and its
    /// nodes; this only reads.
    Check {
        /// Plan file, `-` for standard input, or the name of a built-in plan.
        plan: String,
        /// List every action of a run on the cluster: files, privileges, labels and taints of nodes, namespaces, objects
        /// outside of namespaces. FILE has the settings of the cluster, as for `tare run` [default: the file in
        /// TARE_CLUSTER].
        #[arg(long, value_name = "FILE")]
        cluster: Option<Option<PathBuf>>,
        /// With --cluster: context of the kubeconfig. Repeat it to check several clusters.
        #[arg(long, requires = "cluster")]
        context: Vec<String>,
        /// Change one setting of the plan, for example `load.rate=500` or `meshes=bare,envoy`; may be repeated.
        #[arg(long = "set", value_name = "PATH=VALUE")]
        sets: Vec<String>,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
}

/// A valid plan and its text.
pub(crate) struct Source {
    /// The resolved plan.
    pub(crate) plan: Plan,
    /// The text as written, without the changes of `--set`.
    pub(crate) text: String,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Show { name } => print(builtin(&name)?.text)?,
        Action::List => list()?,
        Action::Mde(args) => print(crate::cmd::run::mde::text(&args)?)?,
        Action::Schema => print(json(&plan::schema())?)?,
        Action::Check {
            plan,
            cluster,
            context,
            sets,
            output,
        } => {
            let Some(file) = cluster else {
                let plan = read(&plan, &sets)?.plan;
                check_requirements(&plan)?;
                output.print(&plan, || summary(&plan))?;
                return Ok(ExitCode::SUCCESS);
            };
            let flags = crate::cmd::cluster::Flags::new(context, file);
            return crate::cmd::cluster::plan_cluster::run(&plan, &sets, &flags, output);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the built-in plans, one a line.
pub(crate) fn list() -> anyhow::Result<()> {
    let plans = plan::builtins();
    let width = plans.iter().map(|p| p.name.len()).max().unwrap_or(0);
    let line = |p: &plan::BuiltinPlan| format!("{:width$}  {}\n", p.name, p.description);
    print(plans.iter().map(line).collect::<String>())
}

/// Whether the name of a plan or graph is always a file: it contains a path separator, or ends in `.yaml` or `.yml`.
/// Any other name is first looked up among the built-in ones.
pub(in crate::cmd) fn is_path(name: &str) -> bool {
    let has_extension = |e: &OsStr| e == "yaml" || e == "yml";
    name.contains(std::path::is_separator) || Path::new(name).extension().is_some_and(has_extension)
}

/// Finds, reads and resolves a plan.
pub(crate) fn read(name: &str, sets: &[String]) -> anyhow::Result<Source> {
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let path = Path::new(name);
    let text = if name == "-" {
        tare_files::all_text(io::stdin().lock(), TEXT_BYTES_MAX as u64)
            .context("cannot read the plan from standard input")?
    } else if is_path(name) || (plan::builtin(name).is_none() && path.is_file()) {
        read_file(path).with_context(|| format!("cannot read the plan {name}"))?
    } else {
        builtin(name)?.text.to_owned()
    };
    let source = if name == "-" { "<stdin>" } else { name };
    let read = |relative: &str| read_relative(folder, relative);
    let plan = plan::resolve(source, &text, sets, &read)
        .map_err(|errors| anyhow::anyhow!("invalid plan\n\n{errors}"))?;
    Ok(Source { plan, text })
}

/// Checks that the programs and files of the user that a plan needs exist.
pub(crate) fn check_requirements(plan: &Plan) -> anyhow::Result<()> {
    let missing = requirements::missing(plan, &Places::of_this_process());
    if !missing.is_empty() {
        bail!("the plan {} cannot run: {}", plan.name, missing.join("\n"));
    }
    Ok(())
}

/// The path of the setting that `--set` changes.
pub(crate) fn path_of(set: &str) -> &str {
    set.split_once('=').map_or(set, |(path, _)| path).trim()
}

/// Refuses changes of settings that a command determines itself: `ignored` are the keys of the plan, and what to do
/// instead.
pub(crate) fn refuse_sets(sets: &[String], ignored: &[(&str, &str)]) -> anyhow::Result<()> {
    for set in sets {
        let key = path_of(set).split(['.', '[']).next().unwrap_or_default();
        if let Some((_, remedy)) = ignored.iter().find(|(of, _)| *of == key.trim()) {
            bail!("--set {set} has no effect here; {remedy}");
        }
    }
    Ok(())
}

/// The changes of a plan with the environment that an option of the command names.
pub(crate) fn with_environment(
    sets: &[String],
    environment: Option<&str>,
) -> anyhow::Result<Vec<String>> {
    let mut all = sets.to_vec();
    if let Some(environment) = environment {
        let remedy = "--environment determines it: leave out one of them";
        refuse_sets(sets, &[("environment", remedy)])?;
        all.push(format!("environment={environment}"));
    }
    Ok(all)
}

fn builtin(name: &str) -> anyhow::Result<&'static plan::BuiltinPlan> {
    if let Some(found) = plan::builtin(name) {
        return Ok(found);
    }
    let names: Vec<&str> = plan::builtins().iter().map(|plan| plan.name).collect();
    let names = names.join(", ");
    let path = Path::new(name);
    if path.is_dir() {
        bail!("{name} is a directory: expected a plan file or a built-in plan ({names})");
    }
    if path.is_file() {
        bail!("{name} is a file: expected the name of a built-in plan ({names})");
    }
    let hint = plan::nearest_builtin(name)
        .map(|n| format!("; did you mean `{n}`?"))
        .unwrap_or_default();
    bail!(
        "unknown plan `{name}`: found neither a file nor a built-in plan of this name (built-in plans: {names}){hint}"
    )
}

fn read_relative(folder: &Path, relative: &str) -> Result<String, String> {
    let path: PathBuf = folder.join(relative);
    read_file(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn read_file(path: &Path) -> io::Result<String> {
    tare_files::read_text(path, TEXT_BYTES_MAX as u64)
}

/// Formats the factors of a sweep.
fn varied(text: &mut String, plan: &Plan, sweep: &Sweep) {
    for factor in &sweep.factors {
        let labels: Vec<&str> = factor.levels.iter().map(|l| l.label.as_str()).collect();
        let _ = writeln!(
            text,
            "  varies    {}: {}",
            factor.kind.title(),
            labels.join(", ")
        );
    }
    let design = match sweep.design {
        Design::OneAtATime if sweep.factors.len() > 1 => "one factor at a time",
        Design::OneAtATime => "one factor",
        Design::Full => "all combinations",
    };
    let (loads, meshes) = (plan.loads.len(), plan.meshes.len());
    let _ = writeln!(
        text,
        "  sweep     {design}: {loads} loads x {meshes} meshes"
    );
}

fn load_words(load: &Load) -> String {
    let window = format_duration_ns(load.duration_ns);
    let connections = load.connections;
    let rate = match &load.kind {
        LoadKind::Open { rate_rps } => format_rate(*rate_rps),
        LoadKind::Closed { .. } => format!("closed loop of {}", load.users()),
        LoadKind::Capacity(search) => {
            return format!(
                "highest rate with {}, steps of {window} for at most {}, {connections} connections",
                search.objectives.join(", "),
                format_duration_ns(search.budget_ns),
            );
        }
        LoadKind::Overload(overload) => {
            return format!(
                "{} for {}, in {window} with the time before and after it",
                overload.words(),
                format_duration_ns(overload.overload_ns),
            );
        }
    };
    let warmup = format_duration_ns(load.warmup_ns);
    format!("{rate} for {window} after {warmup}, {connections} connections")
}

/// Formats what a plan will do.
pub(crate) fn summary(plan: &Plan) -> String {
    let mut text = String::new();
    let names = |list: Vec<&str>| list.join(", ");
    let meshes = names(plan.meshes.iter().map(|m| m.name.as_str()).collect());
    let workload = &plan.workload;
    let _ = writeln!(text, "ok: {}", plan.name);
    let _ = writeln!(
        text,
        "  workload  {} x {}, mix {}",
        workload.graph.name, workload.instances, workload.mix
    );
    let _ = writeln!(text, "  meshes    {meshes} (baseline {})", plan.baseline);
    // The loads of a sweep differ from the first in their levels only.
    let loads = plan.sweep.as_ref().map_or(plan.loads.len(), |_| 1);
    for load in &plan.loads[..loads] {
        let _ = writeln!(text, "  load      {}: {}", load.name, load_words(load));
    }
    if let Some(sweep) = &plan.sweep {
        varied(&mut text, plan, sweep);
    }
    let blocks = match plan.repeats {
        1 => "1 block".to_owned(),
        n => format!("{n} blocks"),
    };
    let blocks = match &plan.until {
        Some(until) => format!("at least {} and at most {blocks}", until.min),
        None => blocks,
    };
    let _ = writeln!(
        text,
        "  trials    {} in {blocks}, {}, about {}",
        plan.trial_count(),
        plan.pairing.words(),
        format_duration_ns(plan.estimated_duration_ns())
    );
    if let Some(until) = &plan.until {
        let targets = until.targets.iter().map(|t| {
            format!(
                "{} within {}",
                t.what,
                figures::percent(t.half_width).trim_start_matches('+')
            )
        });
        let answers = until
            .resolved
            .then(|| "all questions are resolved".to_owned());
        let all = targets
            .map(|t| t + ", for every mesh and load")
            .chain(answers);
        let all = all.collect::<Vec<_>>().join(" and ");
        let budget = until.budget_ns.map_or(String::new(), |ns| {
            format!(", in at most {}", format_duration_ns(ns))
        });
        let _ = writeln!(text, "  until     {all}{budget}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_the_command_determines_is_refused() {
        let sets = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let refused = |all: &[&str]| {
            let ignored = [("repeats", "use --budget")];
            refuse_sets(&sets(all), &ignored).map_err(|e| e.to_string())
        };
        for set in [
            "repeats=12",
            " repeats = 12",
            "repeats.max=12",
            "repeats[0]=1",
            "repeats",
        ] {
            let expected = format!("--set {set} has no effect here; use --budget");
            assert_eq!(refused(&["seed=1", set]), Err(expected));
        }
        assert_eq!(refused(&["load.repeats=1", "repeat=1", "seed=1"]), Ok(()));
        assert!(with_environment(&sets(&["environment=local"]), Some("kubernetes")).is_err());
        assert_eq!(
            with_environment(&sets(&["seed=1"]), Some("local")).unwrap(),
            ["seed=1", "environment=local"]
        );
    }
}
