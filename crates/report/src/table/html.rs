//! A table on a page.

use tare_records::verdict::Grade;

use super::{Bar, Cell, Column, Table, Value};
use crate::page::html::{Html, escape};

/// Appends the table with its heading as its caption. It scrolls if it is too wide.
pub(crate) fn write(page: &mut Html, table: &Table) {
    write_rows(page, table, "table", |_| String::new(), |_, _, _| ());
}

/// Appends the table, which begins with the tag `open`. Each row, by its position, has these attributes and what `below`
/// appends below it, which gets the number of columns as well.
pub(crate) fn write_rows(
    page: &mut Html,
    table: &Table,
    open: &str,
    attributes: impl Fn(usize) -> String,
    below: impl Fn(&mut Html, usize, usize),
) {
    let columns: Vec<(usize, &Column)> = table.shown().collect();
    head(page, table, open, &columns);
    for (n, row) in table.rows.iter().enumerate() {
        page.raw(&format!("<tr{}>", attributes(n)));
        for (at, (i, column)) in columns.iter().enumerate() {
            // Words head their row. A number, such as that of a trial, does not: it is read as one of the cells.
            match at == 0 && column.left {
                true => {
                    page.raw("<th scope=\"row\">");
                    content(page, &row[*i], column);
                    page.raw("</th>");
                }
                false => cell(page, &row[*i], column, table.stacks),
            }
        }
        page.raw("</tr>\n");
        below(page, n, columns.len());
    }
    page.raw("</tbody></table></div>\n");
}

fn head(page: &mut Html, table: &Table, open: &str, columns: &[(usize, &Column)]) {
    let label = match table.heading.as_str() {
        "" => columns.first().map_or_else(String::new, |(_, c)| c.head()),
        heading => heading.to_owned(),
    };
    page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"")
        .text(&label)
        .raw(&format!("\"><{open}>\n"));
    if !table.heading.is_empty() {
        page.tag("caption", &table.heading).raw("\n");
    }
    page.raw("<thead><tr>");
    for (_, column) in columns {
        let class = if column.left { " class=\"l\"" } else { "" };
        page.tag(&format!("th scope=\"col\"{class}"), &column.head());
    }
    page.raw("</tr></thead>\n<tbody>\n");
}

fn cell(page: &mut Html, cell: &Cell, column: &Column, stacks: bool) {
    page.raw("<td");
    match cell {
        Cell::Absent(why) if !why.is_empty() => {
            page.raw(" title=\"").text(why).raw("\"");
        }
        Cell::Value(value) if value.mark.is_open() => {
            page.raw(" class=\"open\"");
        }
        _ if column.notes => {
            page.raw(" class=\"l\" style=\"min-width:14rem\"");
        }
        _ if column.left => {
            page.raw(" class=\"l\"");
        }
        _ => {}
    }
    if stacks {
        page.raw(" data-label=\"").text(&column.head()).raw("\"");
    }
    page.raw(">");
    content(page, cell, column);
    page.raw("</td>");
}

fn content(page: &mut Html, cell: &Cell, column: &Column) {
    match cell {
        Cell::Absent(_) => page.raw("-"),
        Cell::Text(text) => page.text(text),
        Cell::Number(number) => page.text(&column.scale.number(*number)),
        Cell::Value(v) => value(page, v, column),
        Cell::Outcome(_, words) => page.text(words),
        Cell::Verdict(grade, words) => badge(page, *grade, words),
        Cell::Links(files) => {
            for (i, (path, name)) in files.iter().enumerate() {
                page.raw(if i > 0 { ", " } else { "" });
                link(page, path, name);
            }
            page
        }
        Cell::Name(name) => {
            let text = match name.title.as_str() {
                "" => &name.text,
                title => title,
            };
            match name.colour {
                Some(colour) => {
                    page.tag(&format!("span class=\"mesh mesh-{colour}\""), text);
                }
                None => {
                    page.text(text);
                }
            }
            if !name.title.is_empty() {
                page.tag("small", &name.text);
            }
            match name.grade {
                Some(grade) => badge(page.raw(" "), grade, grade.word()),
                None => page,
            }
        }
    };
}

/// A figure with its interval and what else is known below it.
fn value<'a>(page: &'a mut Html, v: &Value, column: &Column) -> &'a mut Html {
    let shown = column.scale.shown(v, false);
    page.tag("b", &shown.value);
    let note = Some(v.note.clone()).filter(|note| !note.is_empty());
    for below in shown.interval.into_iter().chain(note) {
        page.raw(" ").tag("small", &below);
    }
    if let Some(bar) = v.bar {
        page.raw(&drawn(bar));
    }
    page
}

/// The lengths are a decoration of the figure above.
fn drawn(bar: Bar) -> String {
    let Bar { colour, length, of } = bar;
    let percent = |length: f64| (length * 100.0).clamp(0.0, 100.0);
    let inner = |length| {
        format!(
            "<div class=\"bar mesh-{colour}\" aria-hidden=\"true\" style=\"background:var(--c);height:.45rem;\
             border-radius:2px;width:{:.1}%\"></div>",
            percent(length)
        )
    };
    match of {
        None => inner(length),
        Some(of) => format!(
            "<div aria-hidden=\"true\" style=\"width:{:.1}%;border-radius:2px;\
             background:color-mix(in srgb, currentColor 22%, transparent)\">{}</div>",
            percent(of),
            inner(length / of)
        ),
    }
}

/// Appends a grade as a badge, which shows its word and not only its colour.
pub(crate) fn badge<'a>(page: &'a mut Html, grade: Grade, words: &str) -> &'a mut Html {
    page.tag(&format!("span class=\"badge {}\"", grade.word()), words)
}

/// Appends a link to a file of the run directory.
pub(crate) fn link<'a>(page: &'a mut Html, path: &str, words: &str) -> &'a mut Html {
    page.tag(&format!("a href=\"{}\"", escape(path)), words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::sample;

    #[test]
    fn a_table_has_a_caption_escaped_text_and_intervals_below() {
        let mut page = Html::default();
        write(&mut page, &sample());
        for part in [
            "aria-label=\"400 rps\"><table>\n<caption>400 rps</caption>",
            "<th scope=\"col\" class=\"l\">over bare</th><th scope=\"col\">p50, ms</th>",
            "<th scope=\"row\"><span class=\"mesh mesh-1\">&lt;bare&gt;</span></th>",
            "<td><b>0.464</b> <small>0.457 to 0.467</small></td>",
            "<td class=\"open\"><b>x1.00</b> <small>0.90 to 1.10</small> \
             <small>not resolved</small></td>",
            "<td title=\"too few responses\">-</td>",
            "<td>1,234</td><td class=\"l\" style=\"min-width:14rem\">CPU in 3 of 3 trials</td></tr>",
        ] {
            assert!(page.0.contains(part), "no `{part}` in {}", page.0);
        }
    }
}
