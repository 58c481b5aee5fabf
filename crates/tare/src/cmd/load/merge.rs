//! `tare merge`: merges the results of many generators into one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tare_analysis::formats::About;
use tare_analysis::streams::merge::{self, Part};
use tare_plan::units::format_duration_ns;
use tare_records::load::merge::{Merged, MergedGenerator};

use crate::cmd::input::read_text;
use crate::cmd::load::save::{Format, Saves, Target};
use crate::cmd::load::text;
use crate::cmd::output::{Output, code_of};

/// Merge the results of several generators into one: add the counts and compute percentiles of the
/// sum.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Results (`tare load --output json`), records (`tare load --spec`) or interval logs (.hlog), in any order.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Merge although shards are missing; the verdict states it.
    #[arg(long)]
    allow_missing: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Write the latencies of all generators by second as one HdrHistogram interval log.
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Also write the merged result in another format: csv, json, openmetrics, hgrm, hlog or fortio; may be repeated.
    #[arg(long, value_name = "FORMAT=FILE")]
    save: Vec<Target>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let parts: Vec<Part> = args
        .files
        .iter()
        .map(|path| read(path))
        .collect::<anyhow::Result<_>>()?;
    let mut targets = args.save;
    targets.extend(args.hlog.map(|path| Target {
        format: Format::Hlog,
        path,
    }));
    let log = match targets.iter().any(|t| t.format == Format::Hlog) {
        true => Some(merge::interval_log(&parts)?),
        false => None,
    };
    let merged = merge::merge(parts, args.allow_missing)?;
    save(targets, log.as_deref(), &merged)?;
    args.output.print(&merged, || page(&merged))?;
    Ok(ExitCode::from(code_of(merged.verdict.grade)))
}

fn read(path: &Path) -> anyhow::Result<Part> {
    Ok(Part::read(&path.display().to_string(), &read_text(path)?)?)
}

fn save(targets: Vec<Target>, log: Option<&str>, merged: &Merged) -> anyhow::Result<()> {
    let Some(result) = &merged.result else {
        // Interval logs have latencies only, which is enough for these two formats.
        for target in targets {
            let text = match (target.format, log) {
                (Format::Hlog, Some(log)) => log.to_owned(),
                (Format::Hgrm, _) => tare_analysis::formats::hgrm(
                    &tare_stats::Histogram::from_wire(&merged.latency)?,
                ),
                _ => bail!(
                    "failed to write {}: interval logs have latencies only; this format needs the results or \
                     records of every generator",
                    target.path.display()
                ),
            };
            std::fs::write(&target.path, text)
                .with_context(|| format!("failed to write {}", target.path.display()))?;
        }
        return Ok(());
    };
    let mut saves = Saves::open(targets)?;
    saves.log(log.unwrap_or_default())?;
    let about = About {
        label: format!("tare merge of {} generators", merged.generators.len()),
        ..About::default()
    };
    saves.finish(&about, result)
}

/// Returns the merged result as text.
fn page(m: &Merged) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    write(&mut out, m).ok();
    out
}

fn write(out: &mut String, m: &Merged) -> std::fmt::Result {
    use std::fmt::Write as _;
    writeln!(
        out,
        "generators: {}, merged; window {}; all started within {}",
        m.generators.len(),
        format_duration_ns(m.window_ns),
        format_duration_ns(m.start_skew_ns)
    )?;
    writeln!(out)?;
    match &m.result {
        Some(result) => text::accounts(out, result)?,
        None => {
            writeln!(out, "{}", text::heads())?;
            writeln!(out, "{}\n", text::row("latency", &m.latency_ns))?;
        }
    }
    writeln!(
        out,
        "{:<10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}  generator",
        "shard", "start", "ok", "p50", "p90", "p99", "max"
    )?;
    for g in &m.generators {
        generator(out, g)?;
    }
    writeln!(out)?;
    text::findings(out, &m.verdict)
}

fn generator(out: &mut String, g: &MergedGenerator) -> std::fmt::Result {
    use std::fmt::Write as _;
    let shard = match g.shard {
        Some(s) if s.count > 1 => format!("{} of {}", s.index, s.count),
        _ => "-".to_owned(),
    };
    let s = &g.latency_ns;
    write!(
        out,
        "{shard:<10}{:>10}",
        format!("+{}", format_duration_ns(g.start_skew_ns))
    )?;
    write!(out, "{:>10}", s.count)?;
    for ns in [s.p50, s.p90, s.p99, s.max] {
        let words = match s.count {
            0 => "-".to_owned(),
            _ => format_duration_ns(ns),
        };
        write!(out, "{words:>10}")?;
    }
    let apart = if g.deviations.is_empty() {
        ""
    } else {
        "  differs from the others"
    };
    writeln!(out, "  {}{apart}", g.source)
}
