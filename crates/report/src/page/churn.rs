//! The control plane under loads with churn.

use tare_records::summary::Summary;

use super::header::with_bold_figures;
use super::html::Html;
use super::parts::{caption, open_section, table};
use crate::{churn_words, tables};

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
    let churn = tables::churn(summary);
    if churn.rows.is_empty() {
        return;
    }
    open_section(page, "control-plane", "Control plane");
    caption(page, churn_words::CHURN);
    table(page, &churn);
    page.raw("</section>\n");
}
