//! What is wrong with a file, and how it is shown.

use std::fmt;

use super::place::Place;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What was found: a fragment in lower case.
    pub found: String,
    /// What was expected there; may be empty.
    pub expected: String,
    /// What to do, or the name that was probably meant.
    pub help: Option<String>,
}

/// What was read: a file, or an argument of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    name: String,
    text: String,
    is_argument: bool,
}

/// Everything that is wrong, with the sources that it points into. Its `Display`
/// shows each problem with its line and a caret under the place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    sources: Vec<Source>,
    list: Vec<Problem>,
}

/// More than these are counted, not shown.
const SHOWN_MAX: usize = 20;
/// Longer source lines are cut around the place.
const LINE_CHARS_MAX: usize = 100;
/// Longer fragments of what was found are cut.
const FRAGMENT_CHARS_MAX: usize = 60;

impl Problems {
    pub(super) fn add_file(&mut self, name: &str, text: &str) -> usize {
        self.add_source(name, text, false)
    }

    pub(super) fn add_argument(&mut self, text: &str) -> usize {
        self.add_source("command line", text, true)
    }

    fn add_source(&mut self, name: &str, text: &str, is_argument: bool) -> usize {
        self.sources.push(Source {
            name: name.to_owned(),
            text: text.to_owned(),
            is_argument,
        });
        self.sources.len() - 1
    }

    pub(super) fn push(&mut self, problem: Problem) {
        self.list.push(problem);
    }

    pub(super) fn sort(&mut self) {
        self.list
            .sort_by_key(|p| (p.place.source, p.place.line, p.place.column));
    }

    /// The problems, in the order of their places.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// Name of the source that `place` lies in.
    #[must_use]
    pub fn source_name(&self, place: Place) -> &str {
        self.sources.get(place.source).map_or("?", |s| &s.name)
    }

    fn render(&self, problem: &Problem, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", problem.found)?;
        let place = problem.place;
        let Some(source) = self.sources.get(place.source) else {
            return Ok(());
        };
        let number = if source.is_argument {
            String::new()
        } else {
            place.line.to_string()
        };
        let gutter = " ".repeat(number.len());
        if source.is_argument {
            writeln!(f, "{gutter}--> {}", source.name)?;
        } else {
            writeln!(
                f,
                "{gutter}--> {}:{}:{}",
                source.name, place.line, place.column
            )?;
        }
        let line = source.text.lines().nth(place.line.saturating_sub(1));
        let (text, column, width) = clip(line.unwrap_or(""), place.column, place.width);
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {text}")?;
        let label = if problem.expected.is_empty() {
            String::new()
        } else {
            format!(" expected {}", problem.expected)
        };
        writeln!(
            f,
            "{gutter} | {}{}{label}",
            " ".repeat(column),
            "^".repeat(width)
        )?;
        if let Some(help) = &problem.help {
            writeln!(f, "{gutter} = help: {help}")?;
        }
        Ok(())
    }
}

/// The part of a line around a place: its text, the place's offset in it, and the
/// length of the caret, at least 1.
fn clip(line: &str, column: usize, width: usize) -> (String, usize, usize) {
    let chars: Vec<char> = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
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

/// A short form of `text` for a message, in backquotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(FRAGMENT_CHARS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(FRAGMENT_CHARS_MAX).is_some() {
        short.push_str("...");
    }
    format!("`{short}`")
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

    fn at(column: usize, width: usize) -> Place {
        Place {
            source: 0,
            line: 2,
            column,
            width,
        }
    }

    #[test]
    fn a_problem_shows_its_line_and_a_caret() {
        let mut problems = Problems::default();
        problems.add_file("a.yaml", "one: 1\ntwo: x\n");
        problems.push(Problem {
            place: at(6, 1),
            found: "`x` is no number".to_owned(),
            expected: "a whole number".to_owned(),
            help: Some("write 2".to_owned()),
        });
        assert_eq!(
            problems.to_string(),
            "error: `x` is no number\n --> a.yaml:2:6\n  |\n2 | two: x\n  |      ^ expected a whole number\n  = help: write 2\n"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
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
        problems.add_file("a.yaml", "x\ny");
        for _ in 0..SHOWN_MAX + 3 {
            problems.push(Problem {
                place: at(1, 1),
                found: "no".into(),
                expected: String::new(),
                help: None,
            });
        }
        assert!(problems.to_string().ends_with("and 3 more\n"));
    }
}
