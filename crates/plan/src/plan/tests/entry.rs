//! Meshes with an `entry`.

use super::*;

const ROUTE: &str = "{kind: HTTPRoute, metadata: {name: '${tare.service}'}}";

/// A plan in which the mesh that is installed has this entry.
fn plan(workload: &str, entry: &str) -> Result<Plan, String> {
    let text = format!(
        "environment: kubernetes\nworkload: {workload}\nmeshes:\n- bare\n- name: ours\n  mesh: installed\n  kubernetes:\n    \
         join: {{manifests: [{ROUTE}]}}\n    entry: {{service: public-istio, port: 80, {entry}}}\n\
         load: {{rate: 100, connections: 16, duration: 1s}}\nrepeats: 1\n"
    );
    with(&text, &[]).map_err(|errors| errors.to_string())
}

#[test]
fn the_installed_mesh_has_the_entry_of_the_plan() {
    let host = "host: '${tare.service}.${tare.namespace}.test'";
    let namespace = format!("namespace: ingress, {host}");
    let plan = plan("{graph: acme-air, instances: 2}", &namespace).unwrap();
    let mesh = plan.meshes.into_iter().find(|m| m.name == "ours").unwrap();
    let entry = mesh.kubernetes.unwrap().entry.unwrap();
    assert_eq!(entry.namespace.as_deref(), Some("ingress"));
    assert_eq!((entry.service.as_str(), entry.port), ("public-istio", 80));
}

#[test]
fn the_host_must_tell_services_and_instances_apart() {
    let one = "{graph: emojivoto, instances: 2}";
    assert!(plan(one, "host: shop.test").is_ok(), "one address for each");
    for (workload, entry, parts) in [
        (
            "{graph: acme-air, instances: 1}",
            "host: shop.test",
            [
                "`ours` has an `entry`, but the load calls",
                "`${tare.service}` in `entry.host`",
            ],
        ),
        (
            one,
            "namespace: ingress, host: '${tare.service}.test'",
            [
                "2 instances have the same host",
                "`${tare.namespace}` in `entry.host`",
            ],
        ),
    ] {
        let wrong = plan(workload, entry).unwrap_err();
        assert!(parts.iter().all(|p| wrong.contains(p)), "{wrong}");
    }
}

#[test]
fn a_service_with_tcp_has_no_host() {
    let text = "{graph: {name: g, services: [{name: raw, protocol: tcp, endpoints: [{path: /}]}], \
                mixes: [{name: default, endpoints: [{name: e, service: raw, path: /}]}]}, instances: 1}";
    let wrong = plan(text, "host: '${tare.service}.test'").unwrap_err();
    assert!(
        wrong.contains("`raw`, a service with `protocol: tcp`"),
        "{wrong}"
    );
}
