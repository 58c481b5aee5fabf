//! The control plane under loads with churn.

use tare_records::summary::Summary;

use super::header::with_bold_figures;
use super::html::Html;
use super::parts::{caption, close_table, figure, mesh_label, open_section, open_table, plain};
use crate::churn_words::{self, COLUMNS};

/// Appends a sentence about each mesh to the first screen.
pub(super) fn first_screen(page: &mut Html, summary: &Summary) {
    let answers = churn_words::answers(summary);
    if answers.is_empty() {
        return;
    }
    page.raw("<ul class=\"answers churn\">\n");
    for answer in answers {
        page.raw("<li><p>");
        with_bold_figures(page, &answer);
        page.raw("</p></li>\n");
    }
    page.raw("</ul>\n");
}

/// Appends the section; nothing for a plan without churn.
pub(super) fn section(page: &mut Html, summary: &Summary) {
    let cells = churn_words::cells(summary);
    if cells.is_empty() {
        return;
    }
    open_section(page, "control-plane", "Control plane");
    caption(page, churn_words::CHURN);
    let mut columns = vec!["mesh", "load"];
    columns.extend(COLUMNS);
    columns.push("counted by the control plane");
    open_table(page, "Control plane", None, &columns);
    for (cell, churn) in cells {
        page.raw("<tr><th scope=\"row\">");
        mesh_label(page, summary, &cell.mesh);
        page.raw("</th>");
        plain(page, &churn_words::heading(churn));
        for (value, ends) in churn_words::row(cell, churn) {
            figure(page, &value, ends.as_deref());
        }
        page.raw("<td class=\"l\" style=\"min-width:14rem\">");
        page.tag(
            "small style=\"white-space:normal\"",
            &churn_words::metrics(churn),
        );
        page.raw("</td></tr>\n");
    }
    close_table(page);
    page.raw("</section>\n");
}
