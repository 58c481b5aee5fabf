//! A table as lines of text, as wide as a terminal.

use tare_records::summary::Outcome;
use tare_records::verdict::Grade;

use super::{Cell, Column, Narrow, Table};
use crate::terminal::output::{DIM, GREEN, Output, PLAIN, RED, WIDTH, YELLOW};
use crate::text::{fit, printable, wrap};

/// Whether intervals stand below their values, whether heads have several lines, and the space between two columns: from
/// the best to the narrowest.
const LAYOUTS: [(bool, bool, usize); 5] = [
    (false, false, 2),
    (false, true, 2),
    (false, true, 1),
    (true, false, 2),
    (true, true, 2),
];
/// Most characters of a name.
const NAME_MAX: usize = 32;
/// Characters that are left of the first column if a table is too wide.
const FIRST_MIN: usize = 12;

/// A cell in words.
#[derive(Default)]
struct Words {
    value: String,
    /// The interval; empty without one.
    interval: String,
    code: &'static str,
}

/// A column in words, with its rows.
struct Drawn<'a> {
    column: &'a Column,
    head: Vec<String>,
    cells: Vec<Words>,
    width: usize,
}

/// Writes the heads and the rows. If the table is too wide, its heads have several lines, and its intervals stand below
/// their values; if that is not enough, each row is a list.
pub(crate) fn write(out: &mut Output, table: &Table) {
    for (below, narrow_heads, gap) in LAYOUTS {
        let columns = drawn(table, below, narrow_heads);
        if width(&columns, gap) <= WIDTH {
            return rows(out, table, &columns, gap);
        }
    }
    let mut columns = drawn(table, true, true);
    let more = width(&columns, 1).saturating_sub(WIDTH);
    match columns.first_mut() {
        Some(first) if first.width >= more + FIRST_MIN => {
            first.width -= more;
            for cell in &mut first.cells {
                cell.value = fit(&cell.value, first.width);
            }
            rows(out, table, &columns, 1);
        }
        _ => lists(out, table),
    }
}

fn width(columns: &[Drawn<'_>], gap: usize) -> usize {
    let widths: usize = columns.iter().map(|c| c.width).sum();
    widths + gap * columns.len().saturating_sub(1)
}

fn count(text: &str) -> usize {
    text.chars().count()
}

/// The columns of the lines; `below` moves the intervals to a line of their own.
fn drawn(table: &Table, below: bool, narrow_heads: bool) -> Vec<Drawn<'_>> {
    let mut all: Vec<Drawn<'_>> = Vec::new();
    let is_shown = |c: &Column| c.narrow != Narrow::Nothing && !c.notes;
    for (i, column) in table.shown().filter(|(_, c)| is_shown(c)) {
        let mut cells: Vec<Words> = table.rows.iter().map(|r| words(&r[i], column)).collect();
        if !below {
            for cell in &mut cells {
                if !cell.interval.is_empty() {
                    cell.value += &format!(" ({})", std::mem::take(&mut cell.interval));
                }
            }
        }
        let widest = |of: fn(&Words) -> usize| cells.iter().map(of).max().unwrap_or(0);
        let values = widest(|c| count(&c.value));
        // An interval reaches into the column before it, if that has none.
        let room = match all.last() {
            Some(before) if before.cells.iter().all(|c| c.interval.is_empty()) => before.width + 1,
            _ => 0,
        };
        let intervals = widest(|c| count(&c.interval)).saturating_sub(room);
        let content = values.max(intervals);
        let head = printable(&column.head());
        let head = match narrow_heads {
            true => {
                let word = head.split_whitespace().map(count).max().unwrap_or(0);
                wrap(&head, content.max(word), "", "")
            }
            false => vec![head],
        };
        let head_width = head.iter().map(|line| count(line)).max().unwrap_or(0);
        all.push(Drawn {
            column,
            head,
            cells,
            width: content.max(head_width),
        });
    }
    all
}

fn rows(out: &mut Output, table: &Table, columns: &[Drawn<'_>], gap: usize) {
    let space = " ".repeat(gap);
    let lines = columns.iter().map(|c| c.head.len()).max().unwrap_or(0);
    for line in 0..lines {
        // The last lines of all heads are beside each other.
        let heads = columns.iter().map(|c| {
            let at = (line + c.head.len()).checked_sub(lines);
            at.map_or("", |at| &c.head[at])
        });
        let text: Vec<String> = heads.zip(columns).map(|(h, c)| padded(h, c)).collect();
        out.painted(DIM, &text.join(&space));
    }
    for (row, cells) in table.rows.iter().enumerate() {
        let values = columns.iter().map(|c| {
            let cell = &c.cells[row];
            let text = padded(&cell.value, c);
            let start = text.len() - text.trim_start().len();
            let words = text.trim();
            // Only the words have a colour, not the space beside them.
            let after = &text[start + words.len()..];
            format!("{}{}{after}", &text[..start], out.paint(cell.code, words))
        });
        let values: Vec<String> = values.collect();
        out.line(&values.join(&space));
        intervals(out, columns, row, gap);
        notes(out, table, cells);
    }
}

/// The line of intervals below a row, each with its end below that of its value.
fn intervals(out: &mut Output, columns: &[Drawn<'_>], row: usize, gap: usize) {
    let (mut line, mut end) = (String::new(), 0);
    for column in columns {
        end += column.width;
        let interval = &column.cells[row].interval;
        if !interval.is_empty() {
            let space = end - count(&line);
            line += &format!("{interval:>space$}");
        }
        end += gap;
    }
    if !line.is_empty() {
        out.painted(DIM, &line);
    }
}

/// The long words of a row, in lines below it.
fn notes(out: &mut Output, table: &Table, cells: &[Cell]) {
    let notes = table.shown().filter(|(_, c)| c.notes);
    for (i, column) in notes {
        if let Cell::Text(text) = &cells[i] {
            let code = if column.warns { YELLOW } else { DIM };
            out.wrapped(code, &format!("{}: {text}", column.head()), "  ", "    ");
        }
    }
}

fn padded(text: &str, column: &Drawn<'_>) -> String {
    let width = column.width;
    match column.column.left {
        true => format!("{text:<width$}"),
        false => format!("{text:>width$}"),
    }
}

/// Each row as a list: its words, then a line for each figure.
fn lists(out: &mut Output, table: &Table) {
    let figures: Vec<(usize, &Column)> = table.shown().filter(|(_, c)| !c.left).collect();
    let heads = figures.iter().map(|(_, c)| count(&c.head()));
    let width = heads.max().unwrap_or(0) + 2;
    for row in &table.rows {
        let texts = table.shown().filter(|(_, c)| c.left && !c.notes);
        let texts = texts.map(|(i, c)| words(&row[i], c).value);
        out.wrapped(DIM, &texts.collect::<Vec<_>>().join(", "), "", "  ");
        for (i, column) in &figures {
            if matches!(row[*i], Cell::Absent(_)) {
                continue;
            }
            let Words {
                value, interval, ..
            } = words(&row[*i], column);
            let interval = match interval.is_empty() {
                true => interval,
                false => format!(" ({interval})"),
            };
            let head = printable(&column.head());
            out.line(&format!("  {head:<width$}{value}{interval}"));
        }
        notes(out, table, row);
    }
}

fn words(cell: &Cell, column: &Column) -> Words {
    let mut interval = None;
    let (value, code) = match cell {
        Cell::Absent(_) => ("-".to_owned(), PLAIN),
        Cell::Text(text) => (printable(text), PLAIN),
        Cell::Name(name) => {
            let base = if name.is_base { " (base)" } else { "" };
            (fit(&name.text, NAME_MAX) + base, PLAIN)
        }
        Cell::Number(number) => (column.scale.number(*number), PLAIN),
        Cell::Value(value) => {
            let shown = column.scale.shown(value, true);
            interval = shown.interval;
            let code = match value.mark.sign() {
                "" => PLAIN,
                _ => DIM,
            };
            (format!("{}{}", value.mark.sign(), shown.value), code)
        }
        Cell::Outcome(outcome, words) => match (outcome, *words) {
            (Outcome::Different, "lower") => ("lower".to_owned(), GREEN),
            (Outcome::Different, words) => (words.to_owned(), RED),
            (Outcome::Same, _) => ("=".to_owned(), DIM),
            (Outcome::NotResolved, _) => ("?".to_owned(), DIM),
        },
        Cell::Verdict(grade, words) => {
            let code = match grade {
                Grade::Valid => GREEN,
                Grade::Suspect => YELLOW,
                Grade::Invalid => RED,
            };
            ((*words).to_owned(), code)
        }
        Cell::Links(files) => {
            let names = files.iter().map(|(_, name)| name.as_str());
            (printable(&names.collect::<Vec<_>>().join(", ")), PLAIN)
        }
    };
    let interval = interval.filter(|_| column.narrow == Narrow::Whole);
    Words {
        value,
        interval: interval.unwrap_or_default(),
        code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::sample;
    use crate::table::{Scale, TOO_FEW};

    fn written(table: &Table) -> String {
        let mut out = Output::new(false);
        write(&mut out, table);
        out.text
    }

    #[test]
    fn columns_are_aligned_and_notes_are_below_their_row() {
        let expected = [
            "                                                               CPU per",
            "                                                              request,",
            "over bare                     p50, ms                    p99        µs  failed",
            "<bare> (base)  0.464 (0.457 to 0.467)  ? 1.00 (0.90 to 1.10)      92.0   1,234",
            "envoy                               -      x2.0 (1.8 to 2.2)      92.0   1,234",
            "  limit: CPU in 3 of 3 trials",
        ];
        assert_eq!(written(&sample()).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn intervals_of_a_wide_table_are_below_and_reach_into_the_column_before() {
        let column = |label: &str| Column::number(label, Scale::Cores);
        let mut columns = vec![Column::text("mesh")];
        columns.extend(["a", "b", "c", "d", "e"].map(column));
        let value = || Cell::value(0.4, Some(0.3), Some(0.5));
        let absent = Cell::Absent(TOO_FEW);
        let row = vec![Cell::name("m"), value(), absent, value(), value(), value()];
        let text = written(&Table::new("", columns, [row]));
        let expected = [
            "mesh   a, cores  b, cores  c, cores        d, cores        e, cores",
            "m         0.400         -     0.400           0.400           0.400",
            " 0.300 to 0.500      0.300 to 0.500  0.300 to 0.500  0.300 to 0.500",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_table_with_many_columns_becomes_lists() {
        let columns = (0..9).map(|i| Column::number(format!("figure-number-{i}"), Scale::Count));
        let columns: Vec<Column> = [Column::text("mesh")].into_iter().chain(columns).collect();
        let cells = (0..9).map(|i| match i {
            3 => Cell::Absent(""),
            i => Cell::count(i * 1_000),
        });
        let row = [Cell::name("envoy")].into_iter().chain(cells).collect();
        let text = written(&Table::new("", columns, [row]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 9, "{text}");
        assert_eq!(lines[0], "envoy");
        assert_eq!(lines[3], "  figure-number-2  2,000");
        assert_eq!(lines[4], "  figure-number-4  4,000");
    }
}
