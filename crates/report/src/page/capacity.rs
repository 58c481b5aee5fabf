//! Pages of plans whose loads have no rate: the capacity of each mesh, or the throughput of closed loops.

use tare_plan::load::{Measure, Objective};
use tare_plan::mesh::Mesh;
use tare_plan::{Figure, Load};
use tare_records::search::{SearchStep, StepOutcome};
use tare_records::summary::{Cell, Summary};
use tare_stats::wire::LatencySummary;

use super::axis::Axis;
use super::details::{Details, TrialSearch};
use super::html::Html;
use super::lanes::{self, Lane, Lanes};
use super::overload;
use super::parts::{caption, open_section, table};
use super::plot::{self, Guide, Plot, Point, Series};
use crate::table::{Mark, Scale};
use crate::{tables, words};

/// Whether the page is of a plan whose loads have no rate.
pub(super) fn is_of(summary: &Summary) -> bool {
    let loads = &summary.setup.loads;
    !loads.is_empty() && !loads.iter().any(Load::is_open)
}

/// Appends a picture of the capacities, and one table for each load: the answer in figures.
pub(super) fn tables(page: &mut Html, summary: &Summary, details: Option<&Details>) {
    capacities(page, summary, details.map_or(&[], |d| &d.searches));
    overload::pictures(page, summary, details.map_or(&[], |d| &d.series));
    let overloads = tables::overloads(summary);
    for overload in &overloads {
        table(page, overload);
    }
    if !overloads.is_empty() {
        caption(page, words::OVERLOAD);
    }
    for load in summary
        .setup
        .loads
        .iter()
        .filter(|l| l.overload().is_none())
    {
        table(page, &tables::without_rate(summary, load));
        let cells = summary.cells.iter().filter(|c| c.load == load.name);
        let cells: Vec<&Cell> = cells.collect();
        caption(page, &words::without_rate(load, &cells));
    }
}

/// The capacity of each mesh as a bar, if the plan searches for it.
fn capacities(page: &mut Html, summary: &Summary, searches: &[TrialSearch]) {
    for load in summary
        .setup
        .loads
        .iter()
        .filter(|l| l.capacity().is_some())
    {
        let lane = |cell: &Cell| {
            let rate = cell.capacity.as_ref()?.rate_rps.as_ref()?;
            let name = words::mesh_label(summary, &cell.mesh);
            Some(Lane::new(name, rate, Mark::Nothing).bar_from(0.0))
        };
        let cells = summary.cells.iter().filter(|c| c.load == load.name);
        let picture = Lanes {
            lanes: cells.filter_map(lane).collect(),
            origin: 0.0,
            scale: Scale::Rps,
        };
        if picture.lanes.len() > 1 {
            page.raw("<h3>Highest rate that meets the objectives, in requests per second</h3>\n");
            lanes::write(page, &picture);
        }
        let of_load = searches.iter().filter(|s| s.load == load.name);
        steps(page, summary, load, &of_load.collect::<Vec<_>>());
    }
}

/// The latency of each step of the searches over its rate, with the objective.
fn steps(page: &mut Html, summary: &Summary, load: &Load, searches: &[&TrialSearch]) {
    let objectives = load.capacity().and_then(|c| c.parsed().ok());
    let objectives = objectives.unwrap_or_default();
    let known = |o: &&Objective| latency(&LatencySummary::default(), o.measure()).is_some();
    let objective = objectives.iter().find(known);
    let (name, measure) = objective.map_or((Figure::P99.id(), Measure::Quantile(0.99)), |o| {
        (o.name(), o.measure())
    });
    let of = |step: &SearchStep| {
        let figure = latency(&step.latency_ns, measure).filter(|_| step.latency_ns.count > 0);
        // What the generator itself limited says nothing about a mesh.
        figure.filter(|_| step.outcome != StepOutcome::Generator)
    };
    let of_mesh = |mesh: &Mesh| {
        let own = searches.iter().filter(|s| s.mesh == mesh.name);
        let points = own.flat_map(|s| &s.steps).filter_map(|step| {
            Some(Point {
                x: step.rate_rps,
                y: of(step)?,
                interval: None,
                is_open: step.outcome == StepOutcome::Missed,
            })
        });
        let mut points: Vec<Point> = points.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Series {
            name: words::mesh_label(summary, &mesh.name).to_owned(),
            colour: words::colour_of(summary, &mesh.name),
            is_joined: false,
            points,
        }
    };
    let steps = || {
        searches
            .iter()
            .flat_map(|s| &s.steps)
            .filter(|s| of(s).is_some())
    };
    let bound = objective.map(Objective::bound);
    let text = objective.map(ToString::to_string);
    let picture = Plot {
        x: (
            "requests per second in a step of a search",
            Axis::log(steps().map(|s| s.rate_rps)),
            Scale::Rps,
        ),
        y: (
            &format!("{name} of the step, ms; hollow: it missed an objective"),
            Axis::log(steps().filter_map(of).chain(bound)),
            Scale::Ms,
        ),
        guide: bound
            .zip(text.as_deref())
            .map(|(bound, text)| Guide::Level(bound, text)),
        series: summary.setup.meshes.iter().map(of_mesh).collect(),
    };
    plot::write(page, &picture);
}

/// The latency that an objective bounds, in nanoseconds. `None` if it bounds no latency, or a quantile that the summary
/// lacks.
fn latency(of: &LatencySummary, measure: Measure) -> Option<f64> {
    let stored = [
        (0.5, of.p50),
        (0.75, of.p75),
        (0.9, of.p90),
        (0.95, of.p95),
        (0.99, of.p99),
        (0.999, of.p99_9),
    ];
    match measure {
        Measure::Quantile(q) => {
            let mut stored = stored.into_iter();
            stored
                .find(|(known, _)| (known - q).abs() < 1e-9)
                .map(|(_, ns)| ns as f64)
        }
        Measure::Max => Some(of.max as f64),
        Measure::Mean => Some(of.mean),
        Measure::Errors | Measure::Achieved => None,
    }
}

/// Appends the section with CPU and memory.
pub(super) fn resources(page: &mut Html, summary: &Summary) {
    open_section(page, "cpu", "CPU and memory");
    super::tables::resources(page, summary);
    page.raw("</section>\n");
}
