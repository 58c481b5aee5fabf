//! The run summarised by the methods of published benchmarks, and the published figures: side by
//! side, never mixed.

use tare_analysis::figures;
use tare_records::summary::Summary;
use tare_records::summary::published::Published;

use super::html::Html;
use super::parts::{caption, close_table, open_row, open_section, open_table};

/// Appends both as tables, or nothing if the summary has neither.
pub(super) fn section(page: &mut Html, summary: &Summary) {
    let named = summary.cells.iter().any(|c| !c.named.is_empty());
    if !named && summary.published.is_empty() {
        return;
    }
    open_section(page, "published", "Published figures");
    caption(
        page,
        "Measured by others, years ago, on other machines with other load generators. They are shown for comparison \
         and do not apply to this machine.",
    );
    if named {
        page.raw(
            "<details><summary>This run, summarised by the methods of those benchmarks</summary>\n",
        );
        by_method(page, summary);
        page.raw("</details>\n");
    }
    for published in &summary.published {
        publication(page, published);
    }
    page.raw("</section>\n");
}

fn by_method(page: &mut Html, summary: &Summary) {
    let methods: Vec<(&str, &str)> = summary.cells.first().map_or(Vec::new(), |cell| {
        let words = cell.named.iter();
        words
            .map(|n| (n.method.as_str(), n.words.as_str()))
            .collect()
    });
    for (method, words) in methods {
        caption(page, &format!("{method}: {words}."));
        let columns = ["mesh", "load", "figure", "value", "low", "high"];
        open_table(page, method, None, &columns);
        for cell in &summary.cells {
            let of = cell.named.iter().filter(|n| n.method == method);
            for figure in of.flat_map(|n| &n.figures) {
                open_row(page, summary, &cell.mesh);
                page.tag("td", &cell.load);
                page.tag("td", figure.what.label());
                let unit = figure.what.unit();
                let words = |value: Option<f64>| {
                    value.map_or("-".to_owned(), |v| figures::in_unit(v, unit))
                };
                page.raw("<td>")
                    .tag("b", &words(Some(figure.value)))
                    .raw("</td>");
                page.tag("td", &words(figure.low));
                page.tag("td", &words(figure.high)).raw("</tr>\n");
            }
        }
        close_table(page);
    }
}

fn publication(page: &mut Html, publication: &Published) {
    page.raw("<details class=\"publication\">")
        .tag("summary", &publication.title);
    let source = publication
        .url
        .as_deref()
        .map_or(String::new(), |url| format!(" {url}"));
    let method = publication
        .method
        .as_deref()
        .map_or(String::new(), |m| format!(" Method: {m}."));
    caption(page, &format!("{}.{method}{source}", publication.setting));
    open_table(
        page,
        &publication.id,
        None,
        &["mesh", "rate", "figure", "value"],
    );
    for figure in &publication.figures {
        page.raw("<tr>").tag("th scope=\"row\"", &figure.mesh);
        page.tag("td", &figure.rate_rps.map_or("-".to_owned(), figures::rate));
        page.tag("td", &figure.what.replace('_', " "));
        let bound = figure.bound.words();
        let words = format!("{bound}{} {}", figure.value, figure.unit);
        page.raw("<td>").tag("b", &words).raw("</td></tr>\n");
    }
    close_table(page);
    page.raw("</details>\n");
}
