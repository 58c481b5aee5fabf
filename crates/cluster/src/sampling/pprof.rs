//! Profiles of control planes in Go, from their own endpoints (net/http/pprof). Istio's control plane serves them without
//! credentials on the pod's loopback only, so the requests go through a forwarded port, as those of `kubectl
//! port-forward`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_analysis::formats::pprof;
use tare_plan::mesh::PprofEndpoint;
use tare_records::layout;
use tare_records::stacks::{Frame, ProcessStacks, SampledStack};
use tare_records::worker::Plane;

use crate::api::ApiClient;
use crate::api::kinds::POD;
use crate::objects::Pod;
use tare_files::unix_ns;
use tare_run::http as probe;
use tare_run::http::Limits;

/// Longest wait for a response, after the time of the profile.
const RESPONSE_WITHIN: Duration = Duration::from_secs(10);
/// Largest profile, in bytes.
const BODY_BYTES_MAX: usize = 32 << 20;

/// What the endpoints served.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PprofStacks {
    /// The stacks of each pod, with the pod's title as its name.
    pub(crate) processes: Vec<ProcessStacks>,
    /// Why stacks are missing: fragments without full stops.
    pub(crate) limits: Vec<String>,
}

/// The window of a profile and the CPU time between two of its samples, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) start_unix_ns: u64,
    pub(crate) window_ns: u64,
    pub(crate) period_ns: u64,
}

/// Fetches the CPU profile of the window from the pods of each endpoint, and after it the heap. Writes both below
/// `dir`, as the endpoints sent them.
pub(crate) async fn fetch(
    api: &ApiClient,
    endpoints: &[PprofEndpoint],
    timing: Timing,
    dir: &Path,
) -> PprofStacks {
    let mut found = PprofStacks::default();
    let to_window = timing.start_unix_ns.saturating_sub(unix_ns());
    tokio::time::sleep(Duration::from_nanos(to_window)).await;
    let dir = dir.join(layout::PPROF);
    let mut of_pods = Vec::new();
    for endpoint in endpoints {
        match api
            .list::<Pod>(POD, Some(&endpoint.namespace), &endpoint.selector)
            .await
        {
            Ok(pods) => of_pods.extend(pods.into_iter().map(|pod| (endpoint, pod))),
            Err(error) => found
                .limits
                .push(format!("no profile of the control plane: {error}")),
        }
    }
    let profiles = of_pods.iter().map(|(endpoint, pod)| {
        let dir = &dir;
        async move { (pod.title(), of_pod(api, endpoint, pod, timing, dir).await) }
    });
    for (title, result) in futures_util::future::join_all(profiles).await {
        match result {
            Ok(stacks) => found
                .processes
                .push(process(title, stacks, timing.period_ns)),
            Err(found_there) => {
                let limit = format!("no functions of {title}: {found_there}");
                found.limits.push(limit);
            }
        }
    }
    found
}

async fn of_pod(
    api: &ApiClient,
    endpoint: &PprofEndpoint,
    pod: &Pod,
    timing: Timing,
    dir: &Path,
) -> Result<Vec<(Vec<Frame>, u64)>, String> {
    let window = Duration::from_nanos(timing.window_ns);
    let seconds = window.as_secs().max(1);
    let of = async |path: String, within: Duration| {
        let port = endpoint.port;
        let stream = api
            .port_forward((pod.namespace(), pod.name()), port)
            .await?;
        let limits = Limits {
            within,
            body_bytes_max: BODY_BYTES_MAX,
        };
        let path = format!("{}/{path}", endpoint.path());
        let authority = format!("localhost:{port}");
        let response = probe::get(stream, &authority, &path, limits).await;
        match response.map_err(|e| format!("port {port}, {path}: {e}"))? {
            response if response.status == 200 => Ok(response.body.to_vec()),
            response => Err(format!("port {port}, {path}: status {}", response.status)),
        }
    };
    let cpu = of(
        format!("profile?seconds={seconds}"),
        window + RESPONSE_WITHIN,
    )
    .await?;
    let stacks = pprof::decode(&cpu)?;
    let file = |kind: &str| dir.join(format!("{}-{kind}.pb.gz", pod.name()));
    write(&file("cpu"), &cpu).await?;
    let heap = of("heap".to_owned(), RESPONSE_WITHIN).await?;
    write(&file("heap"), &heap).await?;
    Ok(stacks)
}

async fn write(path: &PathBuf, bytes: &[u8]) -> Result<(), String> {
    let written = async {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        std::fs::write(path, bytes)
    };
    written
        .await
        .map_err(|e| format!("write {}: {e}", path.display()))
}

/// Converts the CPU time of each stack to samples of the period that the other planes have.
fn process(name: String, stacks: Vec<(Vec<Frame>, u64)>, period_ns: u64) -> ProcessStacks {
    let mut indices: BTreeMap<Frame, u32> = BTreeMap::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut samples: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
    for (stack, ns) in stacks {
        let stack = stack.into_iter().map(|frame| {
            *indices.entry(frame).or_insert_with_key(|frame| {
                frames.push(frame.clone());
                frames.len() as u32 - 1
            })
        });
        *samples.entry(stack.collect()).or_default() += ns;
    }
    let period_ns = period_ns.max(1);
    let sampled = |(frames, ns): (Vec<u32>, u64)| SampledStack {
        frames,
        samples: (ns + period_ns / 2) / period_ns,
    };
    ProcessStacks {
        name,
        plane: Plane::ControlPlane,
        frames,
        stacks: samples.into_iter().map(sampled).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str) -> Frame {
        Frame {
            function: Some(function.to_owned()),
            module: Some("istiod".to_owned()),
        }
    }

    #[test]
    fn cpu_time_becomes_samples_of_the_common_period() {
        let stack = |names: &[&str]| names.iter().map(|n| frame(n)).collect::<Vec<_>>();
        let stacks = vec![
            (stack(&["main", "push"]), 10_000_000),
            (stack(&["main", "push"]), 20_000_000),
            (stack(&["main"]), 400_000),
        ];
        let found = process("istio-system/istiod".to_owned(), stacks, 1_000_000);
        assert_eq!(found.frames, stack(&["main", "push"]));
        let samples: Vec<_> = found
            .stacks
            .iter()
            .map(|s| (&*s.frames, s.samples))
            .collect();
        assert_eq!(samples, [(&[0][..], 0), (&[0, 1][..], 30)]);
    }
}
