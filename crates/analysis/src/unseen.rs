//! Proxies whose work is done by processes that are not sampled.

use tare_records::load::LoadResult;
use tare_records::trial::Resources;
use tare_records::verdict::{Finding, Grade, Reason};
use tare_records::worker::Plane;

/// A trial is invalid if the processes of the data plane used less CPU time than this for each
/// request, in nanoseconds.
const UNSEEN_NS_MIN: f64 = 100.0;
/// Fewer requests are not judged by that.
const UNSEEN_REQUESTS_MIN: u64 = 10;

/// A finding for proxies that used almost no CPU time while they carried the load: then processes
/// that are not sampled have done their work. A proxy needs several microseconds for each request,
/// for its system calls alone.
pub(crate) fn finding(resources: &Resources, load: &LoadResult) -> Option<Finding> {
    let plane = resources.planes.get(&Plane::DataPlane)?;
    let requests = load.service_time_ns.count;
    let used_ns = plane.cpu_cores * resources.window_ns as f64;
    if requests < UNSEEN_REQUESTS_MIN || used_ns >= UNSEEN_NS_MIN * requests as f64 {
        return None;
    }
    let found = format!(
        "the processes of the data plane used {:.3} ms of CPU for {requests} requests: other processes have carried them",
        used_ns / 1e6
    );
    Some(Finding {
        remedy: "Start the proxies so that all their processes run below the started one: not by a service manager, \
                 a container runtime or a server that runs already."
            .to_owned(),
        ..Finding::new(Grade::Invalid, Reason::Incomplete, found)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tare_records::trial::{MachineUse, PlaneUse};

    use super::*;
    use crate::streams::merge::tests::nothing_sent;

    /// A data plane with this CPU time in a window of 1 s, in which it carried so many requests.
    fn carried(requests: u64, used_ns: f64) -> Option<Finding> {
        let plane = PlaneUse {
            processes: 2,
            cpu_cores: used_ns / 1e9,
            cpu_cores_max: 0.0,
            run_queue_delay_ns: None,
            counters: None,
            memory_mean_bytes: 0.0,
            memory_max_bytes: 0,
            memory_first_bytes: None,
            memory_last_bytes: None,
            rss_mean_bytes: None,
        };
        let resources = Resources {
            window_ns: 1_000_000_000,
            processes: Vec::new(),
            planes: BTreeMap::from([(Plane::DataPlane, plane)]),
            machine: MachineUse::default(),
            sampling_cores: 0.0,
            kubelet_age_ns_max: None,
            whole_window_cores: None,
        };
        let mut load = nothing_sent();
        load.service_time_ns.count = requests;
        finding(&resources, &load)
    }

    #[test]
    fn a_data_plane_without_cpu_time_has_not_carried_the_load() {
        let idle = carried(1_000, 0.0).unwrap();
        assert_eq!(
            (idle.grade, idle.reason, idle.found.as_str()),
            (
                Grade::Invalid,
                Reason::Incomplete,
                "the processes of the data plane used 0.000 ms of CPU for 1000 requests: other processes have carried them"
            )
        );
        assert!(carried(1_000, 99_000.0).is_some());
        assert_eq!(carried(1_000, 100_000.0), None);
        assert_eq!(carried(9, 0.0), None, "too few requests");
    }
}
