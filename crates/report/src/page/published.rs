//! The run in the way of published benchmarks, and what those published: beside each
//! other, never mixed.

use tare_analysis::figures;
use tare_model::summary::published::{Bound, Published};
use tare_model::summary::{MethodFigure, Summary};

use crate::page::html::Html;
use crate::page::mesh_label;

/// Both as tables; nothing where the summary has neither.
pub(crate) fn section(page: &mut Html, summary: &Summary) {
    let named = summary.cells.iter().any(|c| !c.named.is_empty());
    if !named && summary.published.is_empty() {
        return;
    }
    page.raw("<section aria-labelledby=\"published\">\n<h2 id=\"published\">Beside published figures</h2>\n");
    page.tag(
        "p class=\"caption\"",
        "Published figures were measured by others, years ago, on other machines with other load generators. \
         They are here to be laid beside a run, and say nothing about this machine.",
    );
    if named {
        page.raw("<details><summary>This run in the way of those benchmarks</summary>\n");
        crate::page::part(page, summary, "named");
        page.raw("</details>\n");
    }
    for publication in &summary.published {
        one(page, publication);
    }
    page.raw("</section>\n");
}

/// The cells by each published method.
pub(crate) fn named(page: &mut Html, summary: &Summary) {
    let methods: Vec<(&str, &str)> = summary.cells.first().map_or(Vec::new(), |cell| {
        let words = cell.named.iter();
        words
            .map(|n| (n.method.as_str(), n.words.as_str()))
            .collect()
    });
    for (method, words) in methods {
        page.tag("p class=\"caption\"", &format!("{method}: {words}."));
        table(
            page,
            method,
            &["mesh", "load", "of", "figure", "low", "high"],
            |page| {
                for cell in &summary.cells {
                    let of = cell.named.iter().filter(|n| n.method == method);
                    for figure in of.flat_map(|n| &n.figures) {
                        page.raw("<tr><th scope=\"row\">");
                        mesh_label(page, summary, &cell.mesh);
                        page.raw("</th>").tag("td", &cell.load);
                        page.tag("td", &figure.what.replace('_', " "));
                        let words = |value: Option<f64>| {
                            value.map_or("-".to_owned(), |v| in_its_unit(figure, v))
                        };
                        page.raw("<td>")
                            .tag("b", &words(Some(figure.value)))
                            .raw("</td>");
                        page.tag("td", &words(figure.low));
                        page.tag("td", &words(figure.high)).raw("</tr>\n");
                    }
                }
            },
        );
    }
}

fn in_its_unit(figure: &MethodFigure, value: f64) -> String {
    if figure.what.ends_with("cpu") {
        format!("{} cores", figures::cores(value))
    } else if figure.what.ends_with("memory") {
        figures::bytes(value)
    } else {
        figures::duration(value)
    }
}

fn one(page: &mut Html, publication: &Published) {
    page.raw("<details class=\"elsewhere\">")
        .tag("summary", &publication.title);
    let source = publication
        .url
        .as_deref()
        .map_or(String::new(), |url| format!(" {url}"));
    let method = publication
        .method
        .as_deref()
        .map_or(String::new(), |m| format!(" Method: {m}."));
    page.tag(
        "p class=\"caption\"",
        &format!("{}.{method}{source}", publication.setting),
    );
    table(
        page,
        &publication.id,
        &["mesh", "rate", "of", "figure"],
        |page| {
            for figure in &publication.figures {
                page.raw("<tr>").tag("th scope=\"row\"", &figure.mesh);
                page.tag("td", &figure.rate_rps.map_or("-".to_owned(), figures::rate));
                page.tag("td", &figure.what.replace('_', " "));
                let bound = match figure.bound {
                    Bound::Exact => "",
                    Bound::Over => "over ",
                    Bound::Under => "under ",
                };
                let words = format!("{bound}{} {}", figure.value, figure.unit);
                page.raw("<td>").tag("b", &words).raw("</td></tr>\n");
            }
        },
    );
    page.raw("</details>\n");
}

fn table(page: &mut Html, label: &str, columns: &[&str], rows: impl FnOnce(&mut Html)) {
    page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"")
        .text(label)
        .raw("\"><table>\n<thead><tr>");
    for (i, column) in columns.iter().enumerate() {
        let class = if i == 0 { " class=\"l\"" } else { "" };
        page.tag(&format!("th scope=\"col\"{class}"), column);
    }
    page.raw("</tr></thead>\n<tbody>\n");
    rows(page);
    page.raw("</tbody></table></div>\n");
}
