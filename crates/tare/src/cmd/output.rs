//! Results on standard output, messages on standard error.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use tare_plan::text::is_hidden;
use tare_records::layout;
use tare_records::summary::Summary;
use tare_records::verdict::Grade;
use tare_report::render_table;

use crate::cmd::exit;
use crate::terminal;

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

    /// The same with a text that may have styles. `text` gets whether it may.
    pub(crate) fn print_styled(
        self,
        result: &impl Serialize,
        text: impl FnOnce(bool) -> String,
    ) -> anyhow::Result<()> {
        match self {
            Self::Text => print_styled(text),
            Self::Json => print(json(result)?),
        }
    }
}

/// Prints a text of tare's own, which may have styles, and flushes it. `text` gets whether it may.
pub(crate) fn print_styled(text: impl FnOnce(bool) -> String) -> anyhow::Result<()> {
    let text = text(terminal::has_colours());
    flush(terminal::styled_out(), text.as_bytes())
}

/// Prints a text and flushes it.
pub(crate) fn print(text: impl AsRef<str>) -> anyhow::Result<()> {
    flush(terminal::out(), text.as_ref().as_bytes())
}

/// Prints a document in a file format and flushes it. On a terminal, it is text.
pub(crate) fn print_document(bytes: &[u8]) -> anyhow::Result<()> {
    match terminal::out_is_terminal() {
        true => flush(terminal::out(), bytes),
        false => flush(terminal::raw_out(), bytes),
    }
}

fn flush(mut out: impl std::io::Write, bytes: &[u8]) -> anyhow::Result<()> {
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .context("failed to write to standard output")
}

/// Prints the analysis of the run in `dir`.
pub(crate) fn print_analysis(summary: &Summary, output: Output, dir: &Path) -> anyhow::Result<()> {
    output.print_styled(summary, |colour| {
        let table = render_table(summary, colour);
        let (run, report) = (dir.display(), dir.join(layout::REPORT));
        format!("{table}\nrun:    {run}\nreport: {}\n", report.display())
    })
}

/// Formats a document as indented JSON that ends in a newline. Characters that a terminal acts on are escaped.
pub(crate) fn json(document: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(document)?;
    let mut out = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // They occur in strings only; JSON writes those beyond U+FFFF as two surrogates.
        match c != '\n' && is_hidden(c) {
            true => {
                let mut units = [0; 2];
                out.extend(
                    c.encode_utf16(&mut units)
                        .iter()
                        .map(|u| format!("\\u{u:04x}")),
                );
            }
            false => out.push(c),
        }
    }
    Ok(out + "\n")
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
    let _ = writeln!(terminal::err(), "{line}");
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
    fn json_shows_hidden_characters_escaped_and_reads_the_same() {
        let hostile = "a\x1b\u{7f}\u{9b}\u{202e}\u{e0041}\nb";
        let text = json(&serde_json::json!({ "name": hostile })).unwrap();
        assert!(
            !text.trim_end().replace('\n', "").contains(is_hidden),
            "{text}"
        );
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["name"], hostile);
    }

    #[test]
    fn a_cause_is_not_repeated() {
        let cause = || anyhow!("no such file");
        let error = cause().context("a.yaml: no such file").context("failed");
        assert_eq!(one_line(&error), "failed: a.yaml: no such file");
        assert_eq!(one_line(&cause().context("failed")), "failed: no such file");
    }
}
