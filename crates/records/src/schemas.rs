//! The JSON Schemas of every document that tare writes or reads.

use serde_json::{Value, json};

use crate::load::merge;
use crate::search;
use crate::summary::clusters;
use crate::{
    actions, calls, capacity, history, layout, observation, overload, record, summary, trial,
    worker,
};
use tare_plan as plan;
use tare_plan::{SCHEMA_VERSION, load};

/// Names of all schemas, in alphabetical order, each with what it describes.
pub const NAMES: [(&str, &str); 20] = [
    ("agent-record", "a line that an agent writes: agent.ndjson"),
    (
        "calls",
        "calls.json: the latencies of the calls between services",
    ),
    (
        "capacities",
        "capacities.json: the capacities that overloads are a share of",
    ),
    (
        "capacity-step",
        "a line of steps.ndjson: a step of a search for the capacity",
    ),
    (
        "cluster-actions",
        "the result of `tare plan check --cluster --output json`: a list of these",
    ),
    ("clusters", "clusters.json: the runs of several clusters"),
    (
        "clusters-comparison",
        "comparison.json: the comparison of several clusters",
    ),
    ("event", "a line of events.ndjson"),
    ("history-entry", "an entry of a history of `tare patrol`"),
    ("load", "the result of `tare load --output json`"),
    (
        "load-record",
        "a line that `tare load --spec` writes: load.ndjson",
    ),
    ("load-spec", "what `tare load --spec` reads"),
    ("merge", "the result of `tare merge --output json`"),
    ("observation", "the result of `tare observe --output json`"),
    ("plan", "a plan file"),
    ("run", "run.json"),
    ("search", "the result of `tare search --output json`"),
    ("summary", "summary.json, and `tare export --format json`"),
    ("trial", "result.json of a trial"),
    ("workload-spec", "what `tare workload --spec` reads"),
];

/// The schema called `name`; `None` for an unknown name.
#[must_use]
pub fn of(name: &str) -> Option<Value> {
    let mut schema = match name {
        "plan" => return Some(plan::schema()),
        "agent-record" => schemars::schema_for!(record::AgentRecord),
        "calls" => schemars::schema_for!(calls::TrialCalls),
        "capacities" => schemars::schema_for!(overload::FoundCapacities),
        "capacity-step" => schemars::schema_for!(capacity::CapacityStep),
        "cluster-actions" => schemars::schema_for!(actions::ClusterActions),
        "clusters" => schemars::schema_for!(clusters::ClustersManifest),
        "clusters-comparison" => schemars::schema_for!(clusters::ClustersComparison),
        "event" => schemars::schema_for!(trial::Event),
        "history-entry" => schemars::schema_for!(history::HistoryEntry),
        "load" => schemars::schema_for!(crate::load::LoadResult),
        "load-record" => schemars::schema_for!(record::LoadRecord),
        "load-spec" => schemars::schema_for!(load::LoadSpec),
        "merge" => schemars::schema_for!(merge::Merged),
        "observation" => schemars::schema_for!(observation::Observation),
        "run" => schemars::schema_for!(layout::RunManifest),
        "search" => schemars::schema_for!(search::SearchResult),
        "summary" => schemars::schema_for!(summary::Summary),
        "trial" => schemars::schema_for!(trial::TrialResult),
        "workload-spec" => schemars::schema_for!(worker::WorkloadSpec),
        _ => return None,
    };
    let version = json!(format!("schema_version {SCHEMA_VERSION}"));
    schema.insert("$comment".to_owned(), version);
    Some(schema.to_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_schema_of_an_object_with_fields() {
        assert!(NAMES.is_sorted());
        for (name, _) in NAMES {
            let schema = of(name).unwrap();
            let described = ["properties", "oneOf", "anyOf"]
                .iter()
                .any(|key| schema.get(*key).is_some());
            assert!(described, "{name}: {schema}");
        }
        assert_eq!(of("nothing"), None);
    }
}
