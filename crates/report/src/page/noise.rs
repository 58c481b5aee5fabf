//! What else the machine did: the CPU of other programs in each trial, in the order in which they ran. It shows at a
//! glance why a block ran again.

use tare_analysis::figures::significant;
use tare_records::summary::{Summary, TrialRow, TrialStatus};
use tare_records::verdict::Grade;

use super::html::Html;
use super::parts::caption;

/// Height of a column at all cores, in pixels.
const HEIGHT: f64 = 40.0;
/// Height of the line between two blocks, below the columns.
const BELOW: f64 = 6.0;
/// Most trials that have a column each.
const TRIALS_MAX: usize = 1_000;

/// What ran beside a trial, in cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Beside {
    /// `TrialSpec::index`.
    pub(super) index: u32,
    /// Cores of the machine.
    pub(super) cores: u32,
    /// Other programs, and the hypervisor.
    pub(super) others: f64,
}

/// A trial in the strip.
struct Column {
    block: u32,
    is_red: bool,
    beside: Beside,
}

/// Appends the strip of a run; nothing without two sampled trials.
pub(super) fn strip(page: &mut Html, summary: &Summary, beside: &[Beside]) {
    let column = |trial: &TrialRow| {
        let beside = beside.iter().find(|b| b.index == trial.index)?;
        let left_out = matches!(trial.status, TrialStatus::RunAgain | TrialStatus::LeftOut);
        Some(Column {
            block: trial.block,
            is_red: left_out || trial.verdict.grade == Grade::Invalid,
            beside: *beside,
        })
    };
    let columns: Vec<Column> = summary.trials.iter().filter_map(column).collect();
    if (2..=TRIALS_MAX).contains(&columns.len()) {
        draw(page, &columns);
    }
}

fn draw(page: &mut Html, columns: &[Column]) {
    let words = words(columns);
    page.raw(&format!(
        "<svg class=\"noise\" width=\"100%\" height=\"{}\" role=\"img\" aria-label=\"",
        HEIGHT + BELOW
    ));
    page.text(&words)
        .raw("\" xmlns=\"http://www.w3.org/2000/svg\">");
    let width = 100.0 / columns.len() as f64;
    for (i, column) in columns.iter().enumerate() {
        let Beside { cores, others, .. } = column.beside;
        let share = (others / f64::from(cores.max(1))).clamp(0.0, 1.0);
        let height = (share * HEIGHT).max(0.5);
        let colour = match column.is_red {
            true => "var(--invalid)",
            false => "var(--quiet)",
        };
        page.raw(&format!(
            "<rect x=\"{:.2}%\" width=\"{:.2}%\" y=\"{:.1}\" height=\"{height:.1}\" style=\"fill:{colour}\"/>",
            width * (i as f64 + 0.1),
            width * 0.8,
            HEIGHT - height,
        ));
        if i > 0 && columns[i - 1].block != column.block {
            let (at, end) = (width * i as f64, HEIGHT + BELOW);
            edge(page, (at, HEIGHT), (at, end));
        }
    }
    edge(page, (0.0, HEIGHT), (100.0, HEIGHT));
    page.raw("</svg>\n");
    caption(page, &words);
}

/// What the strip shows.
fn words(columns: &[Column]) -> String {
    let mut others: Vec<f64> = columns.iter().map(|c| c.beside.others).collect();
    others.sort_by(f64::total_cmp);
    let most = columns.iter().map(|c| c.beside);
    let most = most.max_by(|a, b| a.others.total_cmp(&b.others));
    let most = match most.filter(|most| most.others > 0.0) {
        None => "none".to_owned(),
        Some(most) => format!(
            "{} in the median, {} of {} in trial {}",
            significant(others[others.len() / 2]),
            significant(most.others),
            most.cores,
            most.index
        ),
    };
    let red = columns.iter().filter(|c| c.is_red).count();
    let red = match red {
        0 => String::new(),
        n => format!(" Red: {n} that are invalid or in a block that was left out or run again."),
    };
    format!(
        "All trials in order, with the cores that other programs and the hypervisor used meanwhile: {most}.{red}"
    )
}

fn edge(page: &mut Html, from: (f64, f64), to: (f64, f64)) {
    page.raw(&format!(
        "<line x1=\"{:.2}%\" y1=\"{}\" x2=\"{:.2}%\" y2=\"{}\" style=\"stroke:var(--edge)\"/>",
        from.0, from.1, to.0, to.1
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_beside_other_programs_stands_out() {
        let column = |index, block, others, is_red| Column {
            block,
            is_red,
            beside: Beside {
                index,
                cores: 2,
                others,
            },
        };
        let mut page = Html::default();
        let columns = [
            column(0, 0, 0.01, false),
            column(1, 1, 1.5, true),
            column(2, 1, 0.02, false),
        ];
        draw(&mut page, &columns);
        let html = page.0;
        let said = "0.0200 in the median, 1.50 of 2 in trial 1. Red: 1 that are invalid";
        assert!(html.contains(said), "{html}");
        assert_eq!(html.matches("fill:var(--invalid)").count(), 1);
        assert!(
            html.contains("height=\"30.0\""),
            "1.5 of 2 cores of 40 pixels: {html}"
        );
        // Between the blocks, and below the columns.
        assert_eq!(html.matches("<line").count(), 2);
        assert!(!words(&columns[..1]).contains("Red"));
        assert!(words(&[column(0, 0, 0.0, false)]).ends_with("meanwhile: none."));
    }
}
