//! Checks the Service Mesh Performance files against the definition of the format, written here
//! again as names, numbers and types.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, MessageOptions,
};
use prost_reflect::{DescriptorPool, DynamicMessage};
use tare_report::export::{Export, Format, export};
use tare_report::{load_run, summarise};

type Fields = &'static [(i32, &'static str, &'static str)];

/// Message, then number, name and type of each field that tare writes. A `*` is
/// repeated, `map` is one from text to text, a capital begins another message.
const DEFINITION: &[(&str, Fields)] = &[
    (
        "PerformanceTestConfig",
        &[
            (1, "smp_version", "string"),
            (2, "id", "string"),
            (3, "name", "string"),
            (4, "labels", "map"),
            (5, "clients", "*Client"),
            (6, "duration", "string"),
        ],
    ),
    (
        "Client",
        &[
            (1, "internal", "bool"),
            (2, "load_generator", "string"),
            (3, "protocol", "Protocol"),
            (4, "connections", "int32"),
            (5, "rps", "int64"),
            (12, "additional_options", "string"),
        ],
    ),
    (
        "PerformanceTestResult",
        &[
            (1, "smp_version", "string"),
            (2, "id", "string"),
            (3, "labels", "map"),
            (4, "start_time", ".google.protobuf.Timestamp"),
            (5, "end_time", ".google.protobuf.Timestamp"),
            (6, "latencies_ms", "Latency"),
            (7, "actual_qps", "double"),
            (8, "details_uri", "string"),
            (9, "test_id", "string"),
            (10, "mesh_config_id", "string"),
            (11, "env_id", "string"),
        ],
    ),
    (
        "Latency",
        &[
            (1, "min", "double"),
            (2, "average", "double"),
            (3, "p50", "double"),
            (4, "p90", "double"),
            (5, "p99", "double"),
            (6, "max", "double"),
        ],
    ),
    (
        "ServiceMeshConfig",
        &[
            (1, "smp_version", "string"),
            (2, "id", "string"),
            (3, "labels", "map"),
            (5, "sidecar", "Sidecar"),
            (8, "mesh_control_plane", "MeshControlPlane"),
            (11, "mtls_enabled", "bool"),
            (12, "proxy_concurrency", "int32"),
            (13, "mesh_build", "string"),
            (14, "proxy_build", "string"),
            (17, "profile", "string"),
            (18, "mesh_type", "ServiceMesh"),
        ],
    ),
    (
        "Sidecar",
        &[
            (1, "count", "int32"),
            (2, "cpu_mcores", "int32"),
            (3, "mem_mb", "int32"),
            (4, "rps", "int32"),
        ],
    ),
    (
        "MeshControlPlane",
        &[
            (1, "count", "int32"),
            (2, "cpu_mcores", "int32"),
            (3, "mem_mb", "int32"),
        ],
    ),
    (
        "ServiceMesh",
        &[
            (1, "type", "Type"),
            (2, "version", "string"),
            (4, "annotations", "map"),
        ],
    ),
    (
        "EnvironmentConfig",
        &[
            (1, "smp_version", "string"),
            (2, "id", "string"),
            (3, "labels", "map"),
            (4, "kubernetes_version", "string"),
            (5, "nodes", "*Node"),
            (6, "individual_workloads", "*IndividualWorkload"),
        ],
    ),
    (
        "Node",
        &[
            (1, "type", "string"),
            (2, "cores", "int32"),
            (3, "mem_mb", "int64"),
        ],
    ),
    (
        "IndividualWorkload",
        &[
            (1, "name", "string"),
            (2, "count", "int32"),
            (3, "cpu_mcores", "int32"),
            (4, "mem_mb", "int32"),
        ],
    ),
];

/// Values of the two enumerations.
const ENUMS: &[(&str, &[(i32, &str)])] = &[
    (
        "Protocol",
        &[
            (0, "PROTOCOL_INVALID"),
            (1, "PROTOCOL_HTTP"),
            (4, "PROTOCOL_GRPC"),
        ],
    ),
    (
        "Type",
        &[
            (0, "INVALID_MESH"),
            (2, "CONSUL"),
            (3, "ISTIO"),
            (4, "KUMA"),
            (5, "LINKERD"),
            (12, "CILIUM_SERVICE_MESH"),
        ],
    ),
];

fn field(number: i32, name: &str, kind: &str, message: &str) -> FieldDescriptorProto {
    let (kind, repeated) = match kind.strip_prefix('*') {
        Some(kind) => (kind, true),
        None => (kind, kind == "map"),
    };
    let (kind, type_name) = match kind {
        "string" => (Type::String, None),
        "bool" => (Type::Bool, None),
        "double" => (Type::Double, None),
        "int32" => (Type::Int32, None),
        "int64" => (Type::Int64, None),
        "map" => (
            Type::Message,
            Some(format!(".smp.{message}.{}Entry", camel(name))),
        ),
        name if ENUMS.iter().any(|(e, _)| *e == name) => (Type::Enum, Some(format!(".smp.{name}"))),
        name if name.starts_with('.') => (Type::Message, Some(name.to_owned())),
        name => (Type::Message, Some(format!(".smp.{name}"))),
    };
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(if repeated {
            Label::Repeated
        } else {
            Label::Optional
        } as i32),
        r#type: Some(kind as i32),
        type_name,
        ..Default::default()
    }
}

fn camel(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

fn message((name, fields): &(&str, Fields)) -> DescriptorProto {
    let entry = |(_, field_name, _): &(i32, &str, &str)| DescriptorProto {
        name: Some(format!("{}Entry", camel(field_name))),
        field: vec![
            field(1, "key", "string", ""),
            field(2, "value", "string", ""),
        ],
        options: Some(MessageOptions {
            map_entry: Some(true),
            ..Default::default()
        }),
        ..Default::default()
    };
    DescriptorProto {
        name: Some((*name).to_owned()),
        field: fields
            .iter()
            .map(|(n, f, t)| field(*n, f, t, name))
            .collect(),
        nested_type: fields.iter().filter(|f| f.2 == "map").map(entry).collect(),
        ..Default::default()
    }
}

fn pool() -> DescriptorPool {
    let value = |(number, name): &(i32, &str)| EnumValueDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(*number),
        ..Default::default()
    };
    let file = FileDescriptorProto {
        name: Some("smp.proto".to_owned()),
        package: Some("smp".to_owned()),
        syntax: Some("proto3".to_owned()),
        dependency: vec!["google/protobuf/timestamp.proto".to_owned()],
        message_type: DEFINITION.iter().map(message).collect(),
        enum_type: ENUMS
            .iter()
            .map(|(name, values)| EnumDescriptorProto {
                name: Some((*name).to_owned()),
                value: values.iter().map(value).collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let mut pool = DescriptorPool::global();
    pool.add_file_descriptor_proto(file).unwrap();
    pool
}

#[test]
fn every_file_is_valid_and_both_encodings_are_equal() {
    let dir = tempfile::tempdir().unwrap();
    let meshes = [
        ("bare", "No mesh"),
        ("envoy", "Envoy"),
        ("linkerd/stock", "Linkerd"),
    ];
    support::write_run(dir.path(), &support::plan(&meshes, &[100.0], 2), |result| {
        result.started_unix_ns = 1_767_268_800_000_000_000;
        result.ended_unix_ns = 1_767_268_812_000_000_500;
    });
    let run = load_run(dir.path()).unwrap();
    let summary = summarise(&run);
    let Export::Files(files) = export(&run, &summary, Format::Smp).unwrap() else {
        panic!("one document");
    };
    let pool = pool();
    let mut seen = Vec::new();
    for (name, json) in files.iter().filter(|(n, _)| n.ends_with(".json")) {
        let message = match name.split(['-', '.']).next().unwrap() {
            "environment" => "smp.EnvironmentConfig",
            "test" => "smp.PerformanceTestConfig",
            "mesh" => "smp.ServiceMeshConfig",
            "result" => "smp.PerformanceTestResult",
            other => panic!("{other}"),
        };
        let descriptor = pool.get_message_by_name(message).unwrap();
        let mut reader = serde_json::Deserializer::from_slice(json);
        let from_json = DynamicMessage::deserialize(descriptor.clone(), &mut reader).unwrap();
        let binary = name.replace(".json", ".pb");
        let (_, bytes) = files.iter().find(|(n, _)| *n == binary).unwrap();
        let from_binary = DynamicMessage::decode(descriptor, &bytes[..]).unwrap();
        assert_eq!(from_binary.unknown_fields().count(), 0, "{name}");
        // As values: a default that is written and one that is left out are the same.
        let value = |m: &DynamicMessage| serde_json::to_value(m).unwrap();
        assert_eq!(value(&from_json), value(&from_binary), "{name}");
        seen.push(message);
        if name.starts_with("result-01") {
            let latencies = from_binary.get_field_by_name("latencies_ms").unwrap();
            let latencies = latencies.as_message().unwrap();
            let p50 = latencies
                .get_field_by_name("p50")
                .unwrap()
                .as_f64()
                .unwrap();
            assert_eq!(p50, summary.cells[1].latency[0].value_ns as f64 / 1e6);
        }
        if name.starts_with("mesh-02") {
            let kind = from_binary.get_field_by_name("mesh_type").unwrap();
            let number = kind
                .as_message()
                .unwrap()
                .get_field_by_name("type")
                .unwrap();
            assert_eq!(number.as_enum_number(), Some(5));
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 1 + 1 + 2 * 3, "{seen:?}");
}

#[test]
fn a_test_names_the_protocol_of_the_requests() {
    use tare_model::graph::ServiceProtocol;

    let asked = |front: ServiceProtocol, second: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut plan = support::plan(&[("bare", "No mesh")], &[100.0], 1);
        let graph = &mut plan.workload.graph;
        graph.services[0].protocol = front;
        graph.mixes[0].endpoints[1].service = second.to_owned();
        support::write_run(dir.path(), &plan, |_| {});
        let run = load_run(dir.path()).unwrap();
        let Export::Files(files) = export(&run, &summarise(&run), Format::Smp).unwrap() else {
            panic!("one document");
        };
        let (_, bytes) = files
            .iter()
            .find(|(name, _)| name.starts_with("test-00") && name.ends_with(".pb"))
            .unwrap();
        let test = pool()
            .get_message_by_name("smp.PerformanceTestConfig")
            .unwrap();
        let test = DynamicMessage::decode(test, &bytes[..]).unwrap();
        let clients = test.get_field_by_name("clients").unwrap();
        let client = clients.as_list().unwrap()[0].as_message().unwrap().clone();
        let field = |name| client.get_field_by_name(name).unwrap().into_owned();
        (
            field("protocol").as_enum_number().unwrap(),
            field("additional_options").as_str().unwrap().to_owned(),
        )
    };
    let http = asked(ServiceProtocol::Http, "web");
    assert_eq!(http, (1, "open loop, constant arrivals".to_owned()));
    assert_eq!(asked(ServiceProtocol::Grpc, "emoji"), (4, http.1.clone()));
    let (protocol, said) = asked(ServiceProtocol::Http, "emoji");
    assert_eq!((protocol, said), (1, http.1 + ", some requests gRPC"));
}
