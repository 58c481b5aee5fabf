//! What is made and said of a run that came to its end.

use std::path::PathBuf;

use anyhow::Context;
use tare_model::layout;
use tare_model::verdict::Grade;
use tare_run::experiment::{self, Outcome};

use crate::cmd::report::{self, Output};
use crate::cmd::{exit, say};

/// A run that came to an end, good or bad.
pub(in crate::cmd) struct Done {
    pub(super) dir: PathBuf,
    pub(super) outcome: Result<Outcome, experiment::RunError>,
}

impl Done {
    pub(in crate::cmd) fn any_trials(&self) -> bool {
        let trials = self.dir.join(layout::TRIALS);
        std::fs::read_dir(&trials).is_ok_and(|mut d| d.next().is_some())
    }
}

/// The analysis of what is on disk, whatever the end was like, printed in that form;
/// returns the exit code.
pub(in crate::cmd) fn analysed(done: &Done, output: Option<Output>) -> anyhow::Result<u8> {
    if !done.any_trials() {
        return Ok(exit::INVALID);
    }
    let dir = &done.dir;
    let summary = tare_report::write_derived(dir)
        .with_context(|| format!("the trials in {} are safe; analyse them", dir.display()))?;
    if let Some(output) = output {
        report::print(&summary, output, dir)?;
    }
    Ok(match summary.grade {
        Grade::Invalid => exit::INVALID,
        Grade::Valid | Grade::Suspect => 0,
    })
}

/// Why the run ended comes last, where it is seen, and decides the exit code.
pub(in crate::cmd) fn concluded(done: &Done, analysed: anyhow::Result<u8>) -> anyhow::Result<u8> {
    let resume = format!("Go on with: tare run --resume {}", done.dir.display());
    let ended_well = matches!(&done.outcome, Ok(outcome) if !outcome.interrupted);
    if let (false, Err(further)) = (ended_well, &analysed) {
        say(format_args!("tare: {further:#}"));
    }
    match &done.outcome {
        Ok(outcome) if outcome.interrupted => {
            let (done, planned) = (outcome.done, outcome.planned);
            say(format_args!(
                "Interrupted after {done} of {planned} trials. {resume}"
            ));
            Ok(exit::INTERRUPTED)
        }
        Ok(_) => analysed,
        Err(error) => {
            say(format_args!("tare: {error}"));
            say(format_args!(
                "The trials that were finished are safe. {resume}"
            ));
            Ok(exit::INVALID)
        }
    }
}
