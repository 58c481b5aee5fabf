//! Pictures of overloads: what each mesh answered of what was offered, and second by second.

use std::collections::BTreeMap;

use tare_plan::mesh::Mesh;
use tare_plan::{CapacityOf, Load};
use tare_records::summary::{Summary, TrialStatus};

use super::axis::Axis;
use super::html::Html;
use super::plot::{self, Guide, Plot, Point, Series};
use super::series::TrialSeries;
use crate::table::Scale;
use crate::words::{self, MeshOverload};

/// Appends the pictures; nothing for a plan without an overload.
pub(super) fn pictures(page: &mut Html, summary: &Summary, series: &[TrialSeries]) {
    goodputs(page, summary);
    seconds(page, summary, series);
}

/// What each mesh answered in time, over what was offered to it in an overload.
fn goodputs(page: &mut Html, summary: &Summary) {
    let kinds = words::overloads(summary);
    let has_one_kind = kinds.len() == 1;
    for (heading, all) in kinds {
        let of_mesh = |mesh: &Mesh| {
            let own = all.iter().filter(|(name, _)| *name == mesh.name);
            let point = |(_, overload): &MeshOverload<'_>| {
                let goodput = overload.goodput_rps.as_ref()?;
                Some(Point {
                    x: overload.rate_rps,
                    y: goodput.value,
                    // No more is answered than was offered.
                    interval: goodput
                        .low
                        .zip(goodput.high)
                        .map(|(low, high)| (low.max(0.0), high.min(overload.rate_rps))),
                    is_open: false,
                })
            };
            Series {
                name: words::mesh_label(summary, &mesh.name).to_owned(),
                colour: words::colour_of(summary, &mesh.name),
                is_joined: true,
                points: own.filter_map(point).collect(),
            }
        };
        let axis = || Axis::from_zero(all.iter().map(|(_, o)| o.rate_rps));
        let picture = Plot {
            x: ("offered, requests per second", axis(), Scale::Rps),
            y: ("answered in time, requests per second", axis(), Scale::Rps),
            guide: Some(Guide::Diagonal("all answered")),
            series: summary.setup.meshes.iter().map(of_mesh).collect(),
        };
        let title = match has_one_kind {
            true => "Answered of what was offered".to_owned(),
            false => format!("Answered of what was offered. {heading}"),
        };
        page.tag("h3", &title).raw("\n");
        plot::write(page, &picture);
    }
}

/// What each mesh answered in each second of the largest overload, of the baseline's capacity if the plan has that: it is the same
/// for all meshes.
fn seconds(page: &mut Html, summary: &Summary, series: &[TrialSeries]) {
    let overloads = summary
        .setup
        .loads
        .iter()
        .filter_map(|load| Some((load, load.overload()?)));
    let largest = overloads.max_by_key(|(_, o)| (o.of == CapacityOf::Baseline, o.percent));
    let Some((load, overload)) = largest else {
        return;
    };
    let of_mesh = |mesh: &Mesh| Series {
        name: words::mesh_label(summary, &mesh.name).to_owned(),
        colour: words::colour_of(summary, &mesh.name),
        is_joined: true,
        points: answered(summary, load, &mesh.name, series),
    };
    let all: Vec<Series> = summary.setup.meshes.iter().map(of_mesh).collect();
    let points = || all.iter().flat_map(|s| &s.points);
    if points().next().is_none() {
        return;
    }
    let phases = overload.phases(load.duration_ns);
    let (begin, end) = (
        f64::from(phases.overload.start),
        f64::from(phases.overload.end),
    );
    let picture = Plot {
        x: (
            "seconds in which the requests were due",
            Axis::from_zero(points().map(|p| p.x).chain([end])),
            Scale::Count,
        ),
        y: (
            "answered in time, requests per second",
            Axis::from_zero(points().map(|p| p.y)),
            Scale::Rps,
        ),
        guide: Some(Guide::Span(begin, end, "overload")),
        series: all,
    };
    let title = format!(
        "Before, during and after an overload of {}",
        overload.words()
    );
    page.tag("h3", &title).raw("\n");
    plot::write(page, &picture);
}

/// Responses in time by the second in which their requests were due: means over the trials that are used.
fn answered(summary: &Summary, load: &Load, mesh: &str, series: &[TrialSeries]) -> Vec<Point> {
    let trials = summary.trials.iter();
    let used =
        trials.filter(|t| t.status == TrialStatus::Used && t.mesh == mesh && t.load == load.name);
    let mut by_second: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for of_trial in used.filter_map(|t| series.iter().find(|s| s.index == t.index)) {
        for (at, column) in (0..).zip(&of_trial.columns) {
            let rate = column.ok as f64 / f64::from(of_trial.step_s);
            by_second
                .entry(at * of_trial.step_s)
                .or_default()
                .push(rate);
        }
    }
    let mean = |(second, rates): (u32, Vec<f64>)| Point {
        // In the middle of its second.
        x: f64::from(second) + 0.5,
        y: rates.iter().sum::<f64>() / rates.len() as f64,
        interval: None,
        is_open: false,
    };
    by_second.into_iter().map(mean).collect()
}
