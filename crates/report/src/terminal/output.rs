//! Lines of text under construction.

use crate::text::wrap;

/// Longest line, in characters.
pub(crate) const WIDTH: usize = 80;

/// Codes of the terminal's colours and weights.
pub(crate) const BOLD: &str = "1";
pub(crate) const DIM: &str = "2";
pub(crate) const RED: &str = "31";
pub(crate) const GREEN: &str = "32";
pub(crate) const YELLOW: &str = "33";
pub(crate) const PLAIN: &str = "0";

/// Text under construction.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) text: String,
    /// Whether the terminal shows colours.
    pub(crate) colour: bool,
}

impl Output {
    pub(crate) fn new(colour: bool) -> Self {
        Self {
            text: String::new(),
            colour,
        }
    }

    /// Adds a line without trailing spaces.
    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Adds a line in this colour.
    pub(crate) fn painted(&mut self, code: &str, line: &str) {
        let line = self.paint(code, line.trim_end());
        self.line(&line);
    }

    /// Adds `text` in lines of at most [`WIDTH`]; `first` and `further` begin the lines.
    pub(crate) fn wrapped(&mut self, code: &str, text: &str, first: &str, further: &str) {
        for line in wrap(text, WIDTH, first, further) {
            self.painted(code, &line);
        }
    }

    /// Returns `text` in this colour, if the terminal shows colours.
    pub(crate) fn paint(&self, code: &str, text: &str) -> String {
        if self.colour && code != PLAIN {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
