//! The worker behind `tare node-check`: one record about the node that it runs on, for `tare doctor --deep`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_plan::SCHEMA_VERSION;
use tare_records::node_check::{NodeCheckRecord, NodeCheckSpec, NodeReport};
use tare_records::record::Hello;
use tare_records::writer::RecordWriter;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use tare_files::unix_ns;

/// Why a check of a node failed.
#[derive(Debug, thiserror::Error)]
pub enum NodeCheckError {
    /// The specification has the schema version of another version of tare.
    #[error("node check specification has schema version {found}, expected {SCHEMA_VERSION}")]
    SchemaVersion {
        /// Its schema version.
        found: u32,
    },
    /// A write failed.
    #[error("failed to write records: {0}")]
    Io(#[from] io::Error),
}

/// What the environment of a pod states.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// Host and port of the API server's Service. Kubernetes sets them in every pod.
    pub api_server: Option<(String, String)>,
    /// Where the control groups of the node are mounted.
    pub cgroup_root: Option<PathBuf>,
}

impl Place {
    /// Reads KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and TARE_CGROUP_ROOT.
    #[must_use]
    pub fn from_env() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let host = text("KUBERNETES_SERVICE_HOST");
        Self {
            api_server: host.zip(text("KUBERNETES_SERVICE_PORT")),
            cgroup_root: text("TARE_CGROUP_ROOT").map(PathBuf::from),
        }
    }
}

/// Checks the node and writes the records to `out`.
///
/// # Errors
/// When the specification is from another version, or `out` fails. What a check finds is in the record.
pub async fn run(
    spec: &NodeCheckSpec,
    place: &Place,
    out: &mut impl Write,
) -> Result<(), NodeCheckError> {
    if spec.schema_version != SCHEMA_VERSION {
        return Err(NodeCheckError::SchemaVersion {
            found: spec.schema_version,
        });
    }
    let mut records = RecordWriter::new(out);
    let hello = Hello::new("node-check", std::process::id());
    records.write(&NodeCheckRecord::Hello(hello))?;
    let within = Duration::from_nanos(spec.timeout_ns);
    let uname = rustix::system::uname();
    let mut report = NodeReport {
        architecture: uname.machine().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        ..NodeReport::default()
    };
    report.dns_failure = resolve(&spec.name, within).await.err();
    match &place.api_server {
        Some((host, port)) => {
            // An IPv6 address needs brackets.
            report.api_server = match host.contains(':') {
                true => format!("[{host}]:{port}"),
                false => format!("{host}:{port}"),
            };
            report.api_server_failure = connect(&report.api_server, within).await.err();
        }
        None => {
            let found = "the pod lacks the variable KUBERNETES_SERVICE_HOST";
            report.api_server_failure = Some(found.to_owned());
        }
    }
    if spec.cgroups {
        report.cgroups_failure = cgroups(place.cgroup_root.as_deref()).err();
    }
    report.unix_ns = unix_ns();
    records.write(&NodeCheckRecord::Node(report))?;
    records.finish(|checksum| NodeCheckRecord::Final { checksum })?;
    Ok(())
}

async fn resolve(name: &str, within: Duration) -> Result<(), String> {
    match timeout(within, lookup_host((name, 0))).await {
        Ok(Ok(mut addresses)) => match addresses.next() {
            Some(_) => Ok(()),
            None => Err("no address".to_owned()),
        },
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", within.as_secs_f64())),
    }
}

async fn connect(address: &str, within: Duration) -> Result<(), String> {
    match timeout(within, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", within.as_secs_f64())),
    }
}

/// Reads the root of the hierarchy, of version 2 or 1, as the agent does.
fn cgroups(root: Option<&Path>) -> Result<(), String> {
    let root = root.ok_or("the variable TARE_CGROUP_ROOT is not set")?;
    let failed = |e: io::Error| format!("{}: {e}", root.display());
    let mut has_files = false;
    for entry in std::fs::read_dir(root).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        has_files |= ["cgroup.controllers", "cpuacct", "cpu,cpuacct"]
            .iter()
            .any(|known| name == *known);
    }
    match has_files {
        true => Ok(()),
        false => Err(format!("{} has no control groups", root.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::node_check::read;

    async fn checked(place: &Place) -> NodeReport {
        let spec = NodeCheckSpec {
            schema_version: SCHEMA_VERSION,
            name: "127.0.0.1".into(),
            timeout_ns: 60_000_000_000,
            cgroups: true,
        };
        let mut out = Vec::new();
        run(&spec, place, &mut out).await.unwrap();
        read(&tare_records::writer::lines(&out)).unwrap()
    }

    #[tokio::test]
    async fn a_node_without_faults_has_no_failures() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port().to_string();
        let groups = tempfile::tempdir().unwrap();
        std::fs::write(groups.path().join("cgroup.controllers"), "cpu\n").unwrap();
        let place = Place {
            api_server: Some(("127.0.0.1".into(), port.clone())),
            cgroup_root: Some(groups.path().to_owned()),
        };
        let before = unix_ns();
        let report = checked(&place).await;
        assert!((before..=unix_ns()).contains(&report.unix_ns));
        assert_eq!(report.api_server, format!("127.0.0.1:{port}"));
        let failures = [
            &report.api_server_failure,
            &report.dns_failure,
            &report.cgroups_failure,
        ];
        assert_eq!(failures, [&None, &None, &None]);
        assert!(!report.architecture.is_empty() && !report.kernel.is_empty());
    }

    #[tokio::test]
    async fn each_failure_is_in_the_report() {
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = closed.local_addr().unwrap().port().to_string();
        drop(closed);
        let empty = tempfile::tempdir().unwrap();
        let report = checked(&Place {
            api_server: Some(("127.0.0.1".into(), port)),
            cgroup_root: Some(empty.path().to_owned()),
        })
        .await;
        let refused = report.api_server_failure.unwrap();
        assert!(refused.starts_with("Connection refused"), "{refused}");
        let groups = report.cgroups_failure.unwrap();
        assert!(groups.ends_with("has no control groups"), "{groups}");
        let report = checked(&Place::default()).await;
        assert!(report.api_server_failure.is_some() && report.cgroups_failure.is_some());
    }

    #[tokio::test]
    async fn the_specification_of_another_version_is_refused() {
        let spec = NodeCheckSpec {
            schema_version: 99,
            name: String::new(),
            timeout_ns: 0,
            cgroups: false,
        };
        let error = run(&spec, &Place::default(), &mut Vec::new()).await;
        let expected =
            format!("node check specification has schema version 99, expected {SCHEMA_VERSION}");
        assert_eq!(error.unwrap_err().to_string(), expected);
    }
}
