//! Faults of the simulated cluster that only `tare doctor --deep` finds.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde_json::{Value, json};
use tare_records::node_check::{NodeCheckRecord, NodeReport};
use tare_records::record::Hello;
use tare_records::writer::RecordWriter;

/// Faults by node, and of admission.
#[derive(Debug, Default)]
pub(crate) struct DeepFaults {
    /// How far the clock of a node is ahead, in nanoseconds.
    pub(crate) ahead_ns: BTreeMap<String, i64>,
    /// State of the container of a pod on a node, which does not start.
    pub(crate) states: BTreeMap<String, Value>,
    /// What the pod on a node reports as a failure: a key of [`NodeReport`], and the failure.
    pub(crate) failures: BTreeMap<String, (&'static str, &'static str)>,
    /// Address of all pods; empty for that of a usual network.
    pub(crate) pod_ip: String,
    /// Refusals of dry runs: a part of the object, the status and the message.
    pub(crate) refusals: Vec<(&'static str, u16, &'static str)>,
    /// Objects of all dry runs.
    pub(crate) tried: Vec<Value>,
}

fn node(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

impl DeepFaults {
    /// State of a container that does not start.
    pub(crate) fn state(&self, pod: &Value) -> Option<Value> {
        self.states.get(node(pod)).cloned()
    }

    pub(crate) fn pod_ip(&self) -> &str {
        match self.pod_ip.as_str() {
            "" => "10.244.1.7",
            ip => ip,
        }
    }

    pub(crate) fn ahead_ns(&self, pod: &Value) -> i64 {
        self.ahead_ns.get(node(pod)).copied().unwrap_or(0)
    }

    /// Why admission refuses the object of a dry run.
    pub(crate) fn refusal(&mut self, object: &Value) -> Option<(StatusCode, String)> {
        self.tried.push(object.clone());
        let text = object.to_string();
        let refusal = self.refusals.iter().find(|(part, ..)| text.contains(part));
        refusal.map(|(_, status, why)| {
            let name = object["metadata"]["name"].as_str().unwrap();
            let why = why.replace("NAME", name);
            (StatusCode::from_u16(*status).unwrap(), why)
        })
    }

    /// Returns the records of the check of a node; `None` if the container has not started.
    pub(crate) fn records(&self, pod: &Value) -> Option<Vec<String>> {
        if self.state(pod).is_some() {
            return None;
        }
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let mut report = json!(NodeReport {
            unix_ns: (now.as_nanos() as i64 + self.ahead_ns(pod)) as u64,
            architecture: "x86_64".into(),
            kernel: "6.1".into(),
            api_server: "10.96.0.1:443".into(),
            ..NodeReport::default()
        });
        if let Some((key, found)) = self.failures.get(node(pod)) {
            report[key] = (*found).into();
        }
        let report = serde_json::from_value(report).unwrap();
        let mut records = RecordWriter::new(Vec::new());
        let hello = NodeCheckRecord::Hello(Hello::new("node-check", 1));
        for record in [hello, NodeCheckRecord::Node(report)] {
            records.write(&record).unwrap();
        }
        Some(records.finish_lines(|checksum| NodeCheckRecord::Final { checksum }))
    }
}
