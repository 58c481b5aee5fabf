//! Standard output and standard error. Much of the text that tare prints comes from outside: names in run directories
//! and histories, logs of programs, answers of servers. A terminal acts on some characters instead of showing them, so
//! all text passes through [`Shown`], which escapes these. Only this file opens the two streams (`clippy.toml`).
#![expect(
    clippy::disallowed_methods,
    reason = "the one place that opens the two streams"
)]

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, StderrLock, Stdout, StdoutLock, Write};

use tare_plan::text::{is_hidden, printable};

/// Writes text to `W` with hidden characters escaped, except line ends and tabs.
#[derive(Debug)]
pub(crate) struct Shown<W> {
    to: W,
    /// Whether the styles of tare's own tables pass.
    styles: bool,
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.to.write_all(shown(&text, self.styles).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns `text` as it is printed.
fn shown(text: &str, styles: bool) -> Cow<'_, str> {
    let passes = |c: char| c == '\n' || c == '\t' || !is_hidden(c);
    if text.chars().all(passes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c| !passes(c)) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let style = if styles { style_length(rest) } else { 0 };
        let (hidden, after) = match rest.chars().next() {
            Some(c) if style == 0 => rest.split_at(c.len_utf8()),
            _ => rest.split_at(style),
        };
        match style {
            0 => out.push_str(&printable(hidden)),
            _ => out.push_str(hidden),
        }
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The styles that tare writes. Others, such as hidden text, come from outside.
const STYLES: [&str; 6] = [
    "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m",
];

/// Length in bytes of the style at the start of `text`, or 0.
fn style_length(text: &str) -> usize {
    let style = STYLES.iter().find(|style| text.starts_with(**style));
    style.map_or(0, |style| style.len())
}

/// Standard output for text.
pub(crate) fn out() -> Shown<StdoutLock<'static>> {
    Shown {
        to: io::stdout().lock(),
        styles: false,
    }
}

/// Standard output for tare's own tables, which have styles on a terminal.
pub(crate) fn styled_out() -> Shown<StdoutLock<'static>> {
    Shown {
        styles: has_colours(),
        ..out()
    }
}

/// Standard error for text.
pub(crate) fn err() -> Shown<StderrLock<'static>> {
    Shown {
        to: io::stderr().lock(),
        styles: false,
    }
}

/// Standard output for what another program reads: records of workers, documents in a file format.
pub(crate) fn raw_out() -> Stdout {
    io::stdout()
}

/// Whether standard output is a terminal.
pub(crate) fn out_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn err_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether standard output is a terminal that shows colours.
pub(crate) fn has_colours() -> bool {
    out_is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Replaces the current line of standard error by `line`, which does not end. A closed standard error is not a failure.
pub(crate) fn rewrite_line(line: &str) {
    let mut err = io::stderr().lock();
    let _ = write!(err, "\r\x1b[K{}", printable(line)).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_only_own_styles_pass() {
        let hostile = "a\x1b]0;title\x07b\x1b[2Jc\r\u{202e}d\u{9b}31m\te\n";
        let escaped = "a\\u{1b}]0;title\\u{7}b\\u{1b}[2Jc\\u{d}\\u{202e}d\\u{9b}31m\te\n";
        assert_eq!(shown(hostile, false), escaped);
        assert_eq!(shown(hostile, true), escaped);
        let table = "\x1b[1mmesh\x1b[0m \x1b[mx\x1b[8m\x1b[7m\x1b[123m\x1b[1;31m\x1b[";
        assert_eq!(
            shown(table, true),
            "\x1b[1mmesh\x1b[0m \\u{1b}[mx\\u{1b}[8m\\u{1b}[7m\\u{1b}[123m\\u{1b}[1;31m\\u{1b}["
        );
        assert!(!shown(table, false).contains('\x1b'));
        assert!(matches!(shown("Größe\t1 µs\n", false), Cow::Borrowed(_)));
    }

    #[test]
    fn text_in_any_pieces_is_written_the_same() {
        let mut whole = Shown {
            to: Vec::new(),
            styles: false,
        };
        let (first, second) = ("x\x1b", "µ\u{202e}");
        writeln!(whole, "{first} {second}").unwrap();
        assert_eq!(whole.to, b"x\\u{1b} \xc2\xb5\\u{202e}\n");
    }
}
