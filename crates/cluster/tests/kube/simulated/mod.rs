//! A simulated cluster: its API server, what its pods answer, and its faults. The tests of the program share it.

mod deep_faults;
pub(crate) mod foreign;
pub(crate) mod gateways;
mod pods;
mod port_forward;
mod query;
pub(crate) mod rbac;
pub(crate) mod server;

use serde_json::json;
use server::Server;

/// Adds the pods and ConfigMaps of others, each with `bytes` of content.
pub(crate) fn fill(server: &Server, pods: usize, config_maps: usize, bytes: usize) {
    let mut world = server.world.lock().unwrap();
    let content = "x".repeat(bytes);
    for i in 0..pods {
        let pod = json!({"metadata": {"name": format!("p{i}"), "namespace": "default", "labels": {"app": "theirs"}},
            "spec": {"nodeName": format!("node{}", i % 500), "containers": [{"name": "c", "args": [content]}]},
            "status": {"phase": "Running"}});
        let path = format!("/api/v1/namespaces/default/pods/p{i}");
        world.objects.insert(path, pod);
    }
    for i in 0..config_maps {
        let map = json!({"metadata": {"name": format!("m{i}"), "namespace": "default"}, "data": {"file": content}});
        let path = format!("/api/v1/namespaces/default/configmaps/m{i}");
        world.objects.insert(path, map);
    }
}
