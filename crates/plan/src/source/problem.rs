//! Problems of a file, and how they are shown.

use std::fmt;

use super::location::Location;
use crate::text::{nearest, one_of};

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problem {
    /// Where.
    pub location: Location,
    /// What was found: a fragment in lower case.
    pub found: String,
    /// What was expected there; may be empty.
    pub expected: String,
    /// What to do, or a suggestion of the intended name.
    pub help: Option<String>,
}

impl Problem {
    /// A problem that is only what was found.
    pub(crate) fn of(found: impl Into<String>) -> Self {
        Self::new(found, "")
    }

    /// A problem whose place is not known yet.
    pub(crate) fn new(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            found: found.into(),
            expected: expected.into(),
            ..Self::default()
        }
    }

    /// Puts the part of a file before what was found there: `in `exec``.
    pub(crate) fn within(mut self, part: &str) -> Self {
        self.found = format!("{part}: {}", self.found);
        self
    }

    /// From a message of the form `FOUND, expected EXPECTED; HELP`, whose last two parts may be
    /// absent.
    pub(crate) fn from_message(message: &str) -> Self {
        let (found, rest) = message.split_once(", expected ").unwrap_or((message, ""));
        let (expected, help) = match rest.split_once("; ") {
            Some((expected, help)) => (expected, Some(help.to_owned())),
            None => (rest, None),
        };
        Self {
            found: found.to_owned(),
            expected: expected.to_owned(),
            help,
            ..Self::default()
        }
    }

    /// Adds what was expected.
    pub fn expected(&mut self, expected: impl Into<String>) -> &mut Self {
        self.expected = expected.into();
        self
    }

    /// Adds what to do.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    /// Expects one of `names`, and suggests the nearest to `name`.
    pub(crate) fn one_of<'c>(
        &mut self,
        name: &str,
        names: impl IntoIterator<Item = &'c str> + Clone,
    ) -> &mut Self {
        self.expected = one_of(names.clone());
        self.help = nearest(name, names).map(|n| format!("did you mean `{n}`?"));
        self
    }
}

/// `FOUND, expected EXPECTED; HELP`, without the place.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)?;
        if !self.expected.is_empty() {
            write!(f, ", expected {}", self.expected)?;
        }
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

impl std::error::Error for Problem {}

/// What was read: a file with its name, or an argument of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    file: Option<String>,
    text: String,
}

/// All problems, with the sources that they refer to. `Display` shows each problem with its line
/// and a caret under the location.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    sources: Vec<Source>,
    list: Vec<Problem>,
}

/// Most problems that are shown. Further ones are only counted.
const SHOWN_MAX: usize = 20;
/// Longest part of a source line that is shown, in characters, around the location.
const LINE_CHARS_MAX: usize = 100;

impl Problems {
    /// Adds a file, or an argument of the command line, and returns its number.
    pub(super) fn add_source(&mut self, file: Option<&str>, text: &str) -> usize {
        self.sources.push(Source {
            file: file.map(str::to_owned),
            text: text.to_owned(),
        });
        self.sources.len() - 1
    }

    pub(super) fn is_argument(&self, source: usize) -> bool {
        self.sources.get(source).is_some_and(|s| s.file.is_none())
    }

    pub(super) fn push(&mut self, problem: Problem) {
        self.list.push(problem);
    }

    /// Adds a problem; the caller completes it.
    pub fn add(&mut self, location: Location, found: impl Into<String>) -> &mut Problem {
        let at = self.list.len();
        self.list.push(Problem {
            location,
            found: found.into(),
            ..Problem::default()
        });
        &mut self.list[at]
    }

    /// Adds a problem without a place of its own.
    pub(crate) fn add_at(&mut self, location: Location, problem: Problem) -> &mut Problem {
        let added = self.add(location, "");
        *added = Problem {
            location,
            ..problem
        };
        added
    }

    /// Adds the problem of a message of the form `FOUND, expected EXPECTED; HELP`.
    pub(crate) fn add_message(&mut self, location: Location, message: &str) -> &mut Problem {
        self.add_at(location, Problem::from_message(message))
    }

    /// Returns `complete` if there are no problems, and the sorted problems otherwise.
    pub fn check<T>(mut self, complete: Option<T>) -> Result<T, Self> {
        match complete {
            Some(value) if self.list.is_empty() => Ok(value),
            _ => {
                self.list
                    .sort_by_key(|p| (p.location.source, p.location.line, p.location.column));
                Err(self)
            }
        }
    }

    /// The problems, in the order of their locations.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    fn render(&self, problem: &Problem, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", problem.found)?;
        let location = problem.location;
        let Some(source) = self.sources.get(location.source) else {
            return Ok(());
        };
        let Location { line, column, .. } = location;
        let (number, name) = match &source.file {
            Some(file) => (line.to_string(), format!("{file}:{line}:{column}")),
            None => (String::new(), "command line".to_owned()),
        };
        let gutter = " ".repeat(number.len());
        let text = source.text.lines().nth(line.saturating_sub(1));
        let (text, column, width) = clip(text.unwrap_or(""), column, location.width);
        writeln!(f, "{gutter}--> {name}\n{gutter} |\n{number} | {text}")?;
        write!(f, "{gutter} | {}{}", " ".repeat(column), "^".repeat(width))?;
        match problem.expected.as_str() {
            "" => writeln!(f)?,
            expected => writeln!(f, " expected {expected}")?,
        }
        if let Some(help) = &problem.help {
            writeln!(f, "{gutter} = help: {help}")?;
        }
        Ok(())
    }
}

/// The part of a line around a location: its text, the location's offset in it, and the
/// length of the caret, at least 1.
fn clip(line: &str, column: usize, width: usize) -> (String, usize, usize) {
    let chars: Vec<char> = line
        .chars()
        .map(|c| if crate::text::is_hidden(c) { ' ' } else { c })
        .collect();
    let at = column.saturating_sub(1).min(chars.len());
    let start = if chars.len() > LINE_CHARS_MAX {
        at.saturating_sub(LINE_CHARS_MAX / 2)
    } else {
        0
    };
    let end = (start + LINE_CHARS_MAX).min(chars.len());
    let mut text = String::new();
    let mut column = at - start;
    if start > 0 {
        text.push_str("... ");
        column += 4;
    }
    text.extend(&chars[start..end]);
    if end < chars.len() {
        text.push_str(" ...");
    }
    let width = width.clamp(1, (end - at).max(1));
    (text.trim_end().to_owned(), column, width)
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().take(SHOWN_MAX).enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            self.render(problem, f)?;
        }
        if self.list.len() > SHOWN_MAX {
            writeln!(f, "\nand {} more", self.list.len() - SHOWN_MAX)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(column: usize, width: usize) -> Location {
        Location {
            source: 0,
            line: 2,
            column,
            width,
        }
    }

    #[test]
    fn a_problem_shows_its_line_and_a_caret() {
        let mut problems = Problems::default();
        problems.add_source(Some("a.yaml"), "one: 1\ntwo: x\n");
        problems.push(Problem {
            location: at(6, 1),
            found: "found `x`".to_owned(),
            expected: "a whole number".to_owned(),
            help: Some("write 2".to_owned()),
        });
        assert_eq!(
            problems.to_string(),
            "error: found `x`\n --> a.yaml:2:6\n  |\n2 | two: x\n  |      ^ expected a whole number\n  = help: write 2\n"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_location() {
        let line = "a".repeat(500) + "X" + &"b".repeat(500);
        let (text, column, width) = clip(&line, 501, 1);
        assert_eq!(text.chars().nth(column), Some('X'));
        assert_eq!(width, 1);
        assert!(text.len() < 120, "{}", text.len());
        assert_eq!(clip("", 9, 9), (String::new(), 0, 1));
    }

    #[test]
    fn many_problems_are_counted() {
        let mut problems = Problems::default();
        problems.add_source(Some("a.yaml"), "x\ny");
        for _ in 0..SHOWN_MAX + 3 {
            problems.push(Problem {
                location: at(1, 1),
                found: "found `x`".into(),
                expected: String::new(),
                help: None,
            });
        }
        assert!(problems.to_string().ends_with("and 3 more\n"));
    }
}
