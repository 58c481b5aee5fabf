//! Prints results to standard output.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Context as _;
use serde::Serialize;
use tare_model::verdict::Grade;

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
        .context("write to standard output")
}

/// Formats a document as indented JSON that ends in a newline.
pub(crate) fn json(document: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

/// Whether standard output is a terminal that shows colours.
pub(crate) fn has_colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// The exit code of a result of this grade.
pub(crate) fn code_of(grade: Grade) -> u8 {
    match grade {
        Grade::Invalid => exit::INVALID,
        Grade::Valid | Grade::Suspect => 0,
    }
}
