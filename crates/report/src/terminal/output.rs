//! Lines of text under construction.

use tare_records::summary::Estimate;

use crate::text::wrap;

/// Longest line, in characters.
pub(super) const WIDTH: usize = 80;

/// Width of the column of mesh names.
pub(super) const NAME: usize = 15;

/// Codes of the terminal's colours and weights.
pub(super) const BOLD: &str = "1";
pub(super) const DIM: &str = "2";
pub(super) const RED: &str = "31";
pub(super) const GREEN: &str = "32";
pub(super) const YELLOW: &str = "33";
pub(super) const PLAIN: &str = "0";

/// Text under construction.
#[derive(Default)]
pub(super) struct Output {
    pub(super) text: String,
    /// Whether the terminal shows colours.
    pub(super) colour: bool,
}

impl Output {
    pub(super) fn new(colour: bool) -> Self {
        Self {
            text: String::new(),
            colour,
        }
    }

    /// Adds a line without trailing spaces.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Adds a line in this colour.
    pub(super) fn painted(&mut self, code: &str, line: &str) {
        let line = self.paint(code, line.trim_end());
        self.line(&line);
    }

    /// Adds `text` in lines of at most [`WIDTH`]; `first` and `further` begin the lines.
    pub(super) fn wrapped(&mut self, code: &str, text: &str, first: &str, further: &str) {
        for line in wrap(text, WIDTH, first, further) {
            self.painted(code, &line);
        }
    }

    /// Returns `text` in this colour, if the terminal shows colours.
    pub(super) fn paint(&self, code: &str, text: &str) -> String {
        if self.colour && code != PLAIN {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// An estimate with its interval, such as `0.402 (0.376 to 0.428)`.
pub(super) fn estimate(e: &Estimate, words: impl Fn(f64) -> String) -> String {
    let value = words(e.value);
    match e.low.zip(e.high) {
        Some((low, high)) => format!("{value} ({} to {})", words(low), words(high)),
        None => value,
    }
}
