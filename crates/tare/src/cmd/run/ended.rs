//! The end of a run: analysis, messages, exit code.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tare_records::layout;
use tare_records::summary::Summary;
use tare_run::experiment;
use tare_run::experiment::Outcome;

use crate::cmd::exit;
use crate::cmd::output::{Output, code_of, one_line, print_analysis, say};

/// A run that has ended, completely or not.
pub(in crate::cmd) struct EndedRun {
    pub(super) dir: PathBuf,
    /// How it can be continued.
    pub(in crate::cmd) resume: String,
    pub(super) outcome: Result<Outcome, experiment::RunError>,
}

impl EndedRun {
    /// Whether all trials of the plan are done.
    pub(in crate::cmd) fn is_complete(&self) -> bool {
        matches!(&self.outcome, Ok(outcome) if !outcome.interrupted)
    }

    pub(in crate::cmd) fn any_trials(&self) -> bool {
        let trials = self.dir.join(layout::TRIALS);
        std::fs::read_dir(&trials).is_ok_and(|mut d| d.next().is_some())
    }
}

/// Analyses the trials on disk, whether or not the run is complete, and prints the result in the
/// given format. Returns the exit code.
pub(in crate::cmd) fn analyse(run: &EndedRun, output: Option<Output>) -> anyhow::Result<u8> {
    let Some((summary, dir)) = analyse_quietly(run)? else {
        return Ok(exit::INVALID);
    };
    if let Some(output) = output {
        print_analysis(&summary, output, dir)?;
    }
    Ok(code_of(summary.grade))
}

/// Analyses the trials on disk, and returns the summary and the run directory; `None` without a trial.
pub(in crate::cmd) fn analyse_quietly(run: &EndedRun) -> anyhow::Result<Option<(Summary, &Path)>> {
    if !run.any_trials() {
        return Ok(None);
    }
    let dir = &run.dir;
    let summary = tare_report::write_derived(dir, &[]).with_context(|| {
        format!(
            "failed to analyse the trials in {}, which are complete",
            dir.display()
        )
    })?;
    Ok(Some((summary, dir)))
}

/// What a failed run left, and what to do.
fn left(run: &EndedRun) -> String {
    match run.dir.join(layout::RUN).is_file() {
        true => format!("The finished trials are saved. {}", run.resume),
        false => format!(
            "the run directory {} is missing: start a new run",
            run.dir.display()
        ),
    }
}

/// Prints why the run ended, as the last line, and returns the exit code. `place` precedes the
/// messages where several runs end at once.
pub(in crate::cmd) fn conclude(
    run: &EndedRun,
    analysed: anyhow::Result<u8>,
    place: &str,
) -> anyhow::Result<u8> {
    let resume = &run.resume;
    if let (false, Err(error)) = (run.is_complete(), &analysed) {
        say(format_args!("tare: {place}{}", one_line(error)));
    }
    match &run.outcome {
        Ok(outcome) if outcome.interrupted => {
            let (done, planned) = (outcome.done, outcome.planned);
            say(format_args!(
                "{place}Interrupted after {done} of {planned} trials. {resume}"
            ));
            Ok(exit::INTERRUPTED)
        }
        Ok(_) => analysed,
        Err(error) => {
            say(format_args!("tare: {place}{error}"));
            say(format_args!("{place}{}", left(run)));
            Ok(exit::INVALID)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_saved_only_where_the_run_directory_is() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = Outcome {
            done: 0,
            planned: 1,
            interrupted: false,
        };
        let run = EndedRun {
            dir: dir.path().to_owned(),
            resume: "Continue.".to_owned(),
            outcome: Ok(outcome),
        };
        let dir = dir.path();
        let missing = format!(
            "the run directory {} is missing: start a new run",
            dir.display()
        );
        assert_eq!(left(&run), missing);
        std::fs::write(dir.join(layout::RUN), "{}").unwrap();
        assert_eq!(left(&run), "The finished trials are saved. Continue.");
    }
}
