//! The run summarised by the methods of published benchmarks, and the published figures: side by
//! side, never mixed.

use tare_records::summary::Summary;
use tare_records::summary::published::Published;

use super::html::Html;
use super::parts::{caption, open_section, table};
use crate::tables;

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
        for load in &summary.setup.loads {
            for by_method in tables::by_method(summary, &load.name, method) {
                table(page, &by_method);
            }
        }
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
    table(page, &tables::publication(publication));
    page.raw("</details>\n");
}
