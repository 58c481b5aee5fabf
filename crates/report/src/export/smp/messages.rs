//! The messages with the names and numbers of the public definition (smp v0.0.1). Only fields that
//! tare fills are here.

use std::collections::BTreeMap;

use prost::Message;
use serde::Serialize;
use tare_analysis::formats::rfc3339;

/// The load.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct PerformanceTestConfig {
    #[prost(string, tag = "1")]
    pub(super) smp_version: String,
    #[prost(string, tag = "2")]
    pub(super) id: String,
    #[prost(string, tag = "3")]
    pub(super) name: String,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(super) labels: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) clients: Vec<Client>,
    #[prost(string, tag = "6")]
    pub(super) duration: String,
}

/// One generator.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Client {
    #[prost(bool, tag = "1")]
    pub(super) internal: bool,
    #[prost(string, tag = "2")]
    pub(super) load_generator: String,
    #[prost(enumeration = "Protocol", tag = "3")]
    pub(super) protocol: i32,
    #[prost(int32, tag = "4")]
    pub(super) connections: i32,
    #[prost(int64, tag = "5")]
    pub(super) rps: i64,
    #[prost(string, tag = "12")]
    pub(super) additional_options: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Protocol {
    Invalid = 0,
    Http = 1,
    Grpc = 4,
}

/// The result.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct PerformanceTestResult {
    #[prost(string, tag = "1")]
    pub(super) smp_version: String,
    #[prost(string, tag = "2")]
    pub(super) id: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) labels: BTreeMap<String, String>,
    #[prost(message, optional, tag = "4")]
    pub(super) start_time: Option<Timestamp>,
    #[prost(message, optional, tag = "5")]
    pub(super) end_time: Option<Timestamp>,
    #[prost(message, optional, tag = "6")]
    pub(super) latencies_ms: Option<Latency>,
    #[prost(double, tag = "7")]
    pub(super) actual_qps: f64,
    #[prost(string, tag = "9")]
    pub(super) test_id: String,
    #[prost(string, tag = "10")]
    pub(super) mesh_config_id: String,
    #[prost(string, tag = "11")]
    pub(super) env_id: String,
}

/// Latency in milliseconds, from the intended instant.
#[derive(Clone, Copy, PartialEq, Message, Serialize)]
pub(super) struct Latency {
    #[prost(double, tag = "1")]
    pub(super) min: f64,
    #[prost(double, tag = "2")]
    pub(super) average: f64,
    #[prost(double, tag = "3")]
    pub(super) p50: f64,
    #[prost(double, tag = "4")]
    pub(super) p90: f64,
    #[prost(double, tag = "5")]
    pub(super) p99: f64,
    #[prost(double, tag = "6")]
    pub(super) max: f64,
}

/// `google.protobuf.Timestamp`, a string in JSON.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

impl Timestamp {
    pub(super) fn new(unix_ns: u64) -> Self {
        Self {
            seconds: (unix_ns / 1_000_000_000) as i64,
            nanos: (unix_ns % 1_000_000_000) as i32,
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unix_ns = self.seconds as u64 * 1_000_000_000 + self.nanos as u64;
        serializer.collect_str(&rfc3339(unix_ns))
    }
}

/// The mesh and its resources.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct ServiceMeshConfig {
    #[prost(string, tag = "1")]
    pub(super) smp_version: String,
    #[prost(string, tag = "2")]
    pub(super) id: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) labels: BTreeMap<String, String>,
    #[prost(message, optional, tag = "5")]
    pub(super) sidecar: Option<Proxies>,
    #[prost(message, optional, tag = "8")]
    pub(super) mesh_control_plane: Option<ControlPlane>,
    #[prost(bool, tag = "11")]
    pub(super) mtls_enabled: bool,
    #[prost(int32, tag = "12")]
    pub(super) proxy_concurrency: i32,
    #[prost(string, tag = "14")]
    pub(super) proxy_build: String,
    #[prost(string, tag = "17")]
    pub(super) profile: String,
    #[prost(message, optional, tag = "18")]
    pub(super) mesh_type: Option<MeshType>,
}

#[derive(Clone, Copy, PartialEq, Message, Serialize)]
pub(super) struct Proxies {
    #[prost(int32, tag = "1")]
    pub(super) count: i32,
    #[prost(int32, tag = "2")]
    pub(super) cpu_mcores: i32,
    #[prost(int32, tag = "3")]
    pub(super) mem_mb: i32,
    #[prost(int32, tag = "4")]
    pub(super) rps: i32,
}

#[derive(Clone, Copy, PartialEq, Message, Serialize)]
pub(super) struct ControlPlane {
    #[prost(int32, tag = "1")]
    pub(super) count: i32,
    #[prost(int32, tag = "2")]
    pub(super) cpu_mcores: i32,
    #[prost(int32, tag = "3")]
    pub(super) mem_mb: i32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct MeshType {
    #[prost(int32, tag = "1")]
    pub(super) r#type: i32,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(super) annotations: BTreeMap<String, String>,
}

/// The environment.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct EnvironmentConfig {
    #[prost(string, tag = "1")]
    pub(super) smp_version: String,
    #[prost(string, tag = "2")]
    pub(super) id: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(super) labels: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) nodes: Vec<Node>,
    #[prost(message, repeated, tag = "6")]
    pub(super) individual_workloads: Vec<IndividualWorkload>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Node {
    #[prost(string, tag = "1")]
    pub(super) r#type: String,
    #[prost(int32, tag = "2")]
    pub(super) cores: i32,
    #[prost(int64, tag = "3")]
    pub(super) mem_mb: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct IndividualWorkload {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) count: i32,
}
