//! Results on standard output, messages on standard error.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use tare_model::layout;
use tare_model::summary::Summary;
use tare_model::verdict::Grade;
use tare_report::render_table;

use super::exit;

/// Format of a result on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Text with tables.
    Text,
    /// The complete result as one JSON document.
    Json,
}

impl Output {
    /// Prints a result in this format.
    pub(crate) fn print(
        self,
        result: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        match self {
            Self::Text => print(text()),
            Self::Json => print(json(result)?),
        }
    }
}

/// Prints a text and flushes it.
pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_ref())
        .and_then(|()| out.flush())
        .context("failed to write to standard output")
}

/// Prints the analysis of the run in `dir`.
pub(crate) fn print_analysis(summary: &Summary, output: Output, dir: &Path) -> anyhow::Result<()> {
    output.print(summary, || {
        let table = render_table(summary, has_colours());
        let (run, report) = (dir.display(), dir.join(layout::REPORT));
        format!("{table}\nrun:    {run}\nreport: {}\n", report.display())
    })
}

/// Formats a document as indented JSON that ends in a newline.
pub(crate) fn json(document: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

/// Whether standard output is a terminal that shows colours.
pub(crate) fn has_colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Returns the exit code of a result of this grade.
pub(crate) fn code_of(grade: Grade) -> u8 {
    match grade {
        Grade::Invalid => exit::INVALID,
        Grade::Valid | Grade::Suspect => 0,
    }
}

/// Writes a line to standard error. A closed standard error is not a failure.
pub(crate) fn say(line: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Formats an error and its causes in one line. A cause that the line already contains is left out.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line += ": ";
            line += &cause;
        }
    }
    line
}

/// Whether the reader of standard output closed it, which is not a failure.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_cause_is_not_repeated() {
        let cause = || anyhow!("no such file");
        let error = cause().context("a.yaml: no such file").context("failed");
        assert_eq!(one_line(&error), "failed: a.yaml: no such file");
        assert_eq!(one_line(&cause().context("failed")), "failed: no such file");
    }
}
