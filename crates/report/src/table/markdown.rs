//! A table in Markdown.

use std::fmt::Write as _;

use tare_records::summary::Outcome;

use super::{Cell, Column, Table};
use crate::text::printable;

/// Returns the heads and the rows.
pub(crate) fn written(table: &Table) -> String {
    let columns: Vec<(usize, &Column)> = table.shown().collect();
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let heads = columns.iter().map(|(_, c)| escaped(&c.head()));
    let mut out = line(heads.collect()) + "\n|";
    for (_, column) in &columns {
        out += if column.left { "---|" } else { "--:|" };
    }
    for row in &table.rows {
        let cells = columns.iter().map(|(i, c)| words(&row[*i], c));
        let _ = write!(out, "\n{}", line(cells.collect()));
    }
    out + "\n"
}

fn words(cell: &Cell, column: &Column) -> String {
    match cell {
        Cell::Absent(_) => "-".to_owned(),
        Cell::Text(text) => escaped(text),
        Cell::Name(name) => escaped(&name.text),
        Cell::Number(number) => column.scale.number(*number),
        Cell::Value(value) => {
            let sign = value.mark.sign();
            format!("{sign}{}", column.scale.shown(value, false))
        }
        Cell::Outcome(Outcome::Different, words) => format!("**{words}**"),
        Cell::Outcome(_, words) | Cell::Verdict(_, words) => (*words).to_owned(),
        Cell::Links(files) => {
            let names = files.iter().map(|(_, name)| escaped(name));
            names.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Escapes text from anywhere so that it has no meaning in Markdown or HTML.
pub(crate) fn escaped(text: &str) -> String {
    printable(text)
        .chars()
        .flat_map(|c| {
            let special = c.is_ascii_punctuation()
                && !matches!(c, ',' | '.' | ':' | '/' | '%' | '-' | '+' | '(' | ')');
            special.then_some('\\').into_iter().chain([c])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::sample;

    #[test]
    fn a_table_has_all_columns_and_escaped_text() {
        let text = written(&sample());
        let expected = "\
| over bare | p50, ms | p99 | CPU per request, µs | proxy memory, MiB | failed | limit |
|---|--:|--:|--:|--:|--:|---|
| \\<bare\\> | 0.464 (0.457 to 0.467) | ? x1.00 (0.90 to 1.10) | 92.0 (90.0 to 94.0) | 1.00 | 1,234 | - |
| envoy | - | x2.0 (1.8 to 2.2) | 92.0 (90.0 to 94.0) | 1.00 | 1,234 | CPU in 3 of 3 trials |
";
        assert_eq!(text, expected);
    }
}
