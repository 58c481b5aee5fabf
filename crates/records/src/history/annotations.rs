//! The annotations of a history, as people write them.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::Deserializer;

use super::{Annotation, HistoryEntry};
use tare_plan::source::{Field, Line, Problems, scalar};
use tare_plan::text::{nearest, quoted};

/// Longest note, in bytes.
const NOTE_BYTES_MAX: usize = 4_000;

/// Annotations with the lines of their names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Annotations {
    /// In the order of the file.
    pub list: Vec<Annotation>,
    /// The lines of build, variant and figure of each.
    lines: Vec<[usize; 3]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "an annotation")]
#[derive(Default)]
struct AnnotationFile {
    build: Field<Line>,
    variant: Field<Line>,
    what: Field<Line>,
    note: Field<Note>,
    accepted: Field<bool>,
    muted_until: Field<Date>,
}

/// A text in one or more lines.
struct Note(String);

impl<'de> Deserialize<'de> for Note {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "a text", |text| match text.len() {
            0..=NOTE_BYTES_MAX => Ok(Self(text.trim().to_owned())),
            len => Err(format!(
                "found {len} bytes of text, expected at most {NOTE_BYTES_MAX} bytes"
            )),
        })
    }
}

/// A date, such as `2026-12-31`. Dates in this form have the order of their texts.
struct Date(String);

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(
            deserializer,
            "a date, such as `2026-12-31`",
            |text| match is_date(text) {
                true => Ok(Self(text.to_owned())),
                false => Err(format!(
                    "found {}, expected a date, such as `2026-12-31`",
                    quoted(text)
                )),
            },
        )
    }
}

fn is_date(text: &str) -> bool {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        let all = digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|_| all)
    };
    let shape = text.len() == 10 && text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    shape && (1..=days).contains(&day)
}

impl Annotations {
    /// Reads the text of a file of this name.
    ///
    /// # Errors
    /// The problems of the file, each with its location.
    pub fn read(name: &str, text: &str) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let Some(node) = problems.read_file(name, text) else {
            return problems.check(None);
        };
        if node.is_null() {
            return problems.check(Some(Self::default()));
        }
        let items: Option<Vec<Field<AnnotationFile>>> = problems.decode(&node);
        let mut read = Self::default();
        for item in items.into_iter().flatten() {
            let Field::Given(item) = item else {
                continue;
            };
            let missing = [
                (item.value.build.is_absent(), "build"),
                (item.value.note.is_absent(), "note"),
            ];
            for (_, key) in missing.into_iter().filter(|(absent, _)| *absent) {
                problems
                    .add(item.location, format!("an annotation without `{key}`"))
                    .expected("`build` and `note`");
            }
            read.add(item.value, item.location.line);
        }
        problems.check(Some(read))
    }

    fn add(&mut self, file: AnnotationFile, line: usize) {
        let places = [&file.build, &file.variant, &file.what].map(Field::location);
        let annotation = || {
            let name = |field: Field<Line>| Some(field.optional()?.map(|line| line.0));
            Some(Annotation {
                build: name(file.build)??,
                variant: name(file.variant)?,
                what: name(file.what)?,
                note: file.note.optional()??.0,
                accepted: file.accepted.or(false)?,
                muted_until: file.muted_until.optional()?.map(|date| date.0),
            })
        };
        if let Some(annotation) = annotation() {
            self.list.push(annotation);
            self.lines.push(places.map(|p| p.map_or(line, |p| p.line)));
        }
    }

    /// Names that are in none of the entries, each with the file and line: such an annotation concerns nothing.
    #[must_use]
    pub fn unknown_names(&self, name: &str, entries: &[HistoryEntry]) -> Vec<String> {
        let variants = || entries.iter().flat_map(|e| &e.variants);
        let figures = variants().flat_map(|v| &v.figures);
        let known: [(&str, BTreeSet<&str>); 3] = [
            ("build", entries.iter().map(|e| e.build.as_str()).collect()),
            ("variant", variants().map(|v| v.name.as_str()).collect()),
            ("figure", figures.map(|f| f.what.id()).collect()),
        ];
        let mut notes = Vec::new();
        for (annotation, lines) in self.list.iter().zip(&self.lines) {
            let written = [
                Some(&annotation.build),
                annotation.variant.as_ref(),
                annotation.what.as_ref(),
            ];
            for ((written, line), (kind, known)) in written.into_iter().zip(lines).zip(&known) {
                let Some(written) = written.filter(|w| !known.contains(w.as_str())) else {
                    continue;
                };
                let near = nearest(written, known.iter().copied());
                let help = near.map_or(String::new(), |n| format!("; did you mean {}?", quoted(n)));
                notes.push(format!(
                    "{name}:{line}: found the {kind} {}, expected one of the history{help}",
                    quoted(written)
                ));
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Annotations, String> {
        Annotations::read("annotations.yaml", text).map_err(|e| e.to_string())
    }

    #[test]
    fn names_are_texts_also_if_they_seem_to_be_numbers() {
        let text = "# known\n- {build: 1.22, note: a}\n- build: 2026\n  what: p50\n  note: >\n    two\n    lines\n  \
                    muted_until: 2026-12-31\n";
        let all = read(text).unwrap().list;
        let builds: Vec<_> = all.iter().map(|a| a.build.as_str()).collect();
        assert_eq!(builds, ["1.22", "2026"]);
        assert_eq!(all[1].muted_until.as_deref(), Some("2026-12-31"));
        assert_eq!(all[1].note, "two lines");
        for empty in ["", "# nothing yet\n", "[]"] {
            assert_eq!(read(empty).unwrap().list, []);
        }
    }

    #[test]
    fn a_date_is_a_day_of_the_calendar() {
        for date in ["2026-12-31", "2028-02-29", "2000-02-29"] {
            assert!(is_date(date), "{date}");
        }
        for other in [
            "31.01.2020",
            "Dec 2025",
            "2026-9-1",
            "2026-09-31",
            "2026-02-29",
            "2100-02-29",
            "2026-00-10",
            "2026-13-10",
            "2026-12-31T00:00",
            "+026-12-31",
            "2026/12/31",
            "２026-12-1",
            "",
        ] {
            assert!(!is_date(other), "{other}");
            let text = format!(
                "- {{build: a, note: b}}\n- {{build: a, note: b, muted_until: '{other}'}}\n"
            );
            let error = read(&text).unwrap_err();
            let place = error.contains("annotations.yaml:2:") && error.contains("a date, such as");
            assert!(place, "{error}");
        }
    }

    #[test]
    fn an_error_has_its_line() {
        for (text, words) in [
            ("\n- {note: a}\n", "an annotation without `build`"),
            ("\n- {build: a}\n", "an annotation without `note`"),
            (
                "\n- {build: a, note: b, acepted: true}\n",
                "did you mean `accepted`?",
            ),
            (
                "\n- {build: a, note: b, accepted: perhaps}\n",
                "`true` or `false`",
            ),
            ("\n- {build: [a], note: b}\n", "found a list"),
            ("\nbuild: a\n", "expected a list"),
        ] {
            let error = read(text).unwrap_err();
            let place = error.contains("annotations.yaml:2:");
            assert!(place && error.contains(words), "{text}: {error}");
        }
    }
}
