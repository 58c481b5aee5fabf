//! Rules of an application's objects, and the changes that every instance needs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tare_plan::graph::{Application, ServiceGraph};

use super::files::Files;
use super::fronts::target;
use super::instance::{containers_mut, template};
use super::{refusal, text, title};

/// Labels and annotations that decide whether a pod is in a mesh. Those of the plan's meshes replace them.
const INJECTION: [&str; 9] = [
    "sidecar.istio.io/inject",
    "istio.io/rev",
    "istio.io/dataplane-mode",
    "istio.io/use-waypoint",
    "linkerd.io/inject",
    "kuma.io/sidecar-injection",
    "consul.hashicorp.com/connect-inject",
    "openservicemesh.io/sidecar-injection",
    "appmesh.k8s.aws/sidecarInjectorWebhook",
];

/// Returns the objects without those of `exclude`.
pub(super) fn included(
    objects: Vec<Value>,
    application: &Application,
) -> Result<Vec<Value>, String> {
    let titles: BTreeSet<String> = objects.iter().map(title).collect();
    if let Some(unknown) = application.exclude.iter().find(|e| !titles.contains(*e)) {
        let all: Vec<String> = titles.into_iter().collect();
        return Err(format!(
            "`exclude` has {unknown:?}, which is none of its objects: {}",
            all.join(", ")
        ));
    }
    let mut objects = objects;
    objects.retain(|o| !application.exclude.contains(&title(o)));
    Ok(objects)
}

/// Joins problems of objects that may be left out.
pub(super) fn excludable(problems: &[String]) -> String {
    format!(
        "{}; add what it can do without to `exclude`, as KIND/NAME",
        problems.join("; ")
    )
}

/// Refuses objects that cannot be deployed, and entry points that do not exist.
pub(super) fn check(objects: &[Value], files: &Files, graph: &ServiceGraph) -> Result<(), String> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for object in objects {
        let why = refusal::reason(object);
        problems.extend(why.map(|why| format!("{} is refused: {why}", files.place(object))));
        if !seen.insert((super::kind(object), title(object))) {
            let name = files.place(object);
            problems.push(format!(
                "{name} is in it twice, expected it once: each instance has one namespace"
            ));
        }
        if template(object).is_some() && object["spec"]["replicas"] == 0 {
            problems.push(format!(
                "{} has 0 replicas, expected at least 1",
                files.place(object)
            ));
        }
    }
    if !problems.is_empty() {
        return Err(excludable(&problems));
    }
    if !objects.iter().any(|o| template(o).is_some()) {
        return Err(
            "found no Deployment, StatefulSet, DaemonSet or ReplicaSet, expected at least one"
                .to_owned(),
        );
    }
    graph.services.iter().try_for_each(|entry| {
        let port = entry.port.unwrap_or_default();
        entry_point(objects, &entry.name, port)
    })
}

fn entry_point(objects: &[Value], name: &str, port: u16) -> Result<(), String> {
    let services = || objects.iter().filter(|o| o["kind"] == "Service");
    let found = services().find(|s| text(s, "/metadata/name") == name);
    let Some(service) = found.filter(|s| target(s, port).is_some()) else {
        let ports = |s: &Value| {
            let ports = s["spec"]["ports"].as_array().into_iter().flatten();
            ports
                .map(|p| p["port"].to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let all = services().map(|s| format!("{} (port {})", text(s, "/metadata/name"), ports(s)));
        let all = all.collect::<Vec<_>>().join(", ");
        return Err(format!(
            "found no Service `{name}` with port {port}, which is an entry point of the graph; its Services: {all}"
        ));
    };
    if service["spec"]["clusterIP"] == "None" {
        return Err(format!(
            "Service/{name} is headless, expected a cluster IP for an entry point"
        ));
    }
    let selector = service["spec"]["selector"].as_object();
    match selector.is_some_and(|s| !s.is_empty()) {
        true => Ok(()),
        false => Err(format!(
            "Service/{name} has no selector, expected one for an entry point"
        )),
    }
}

/// Replaces images, and removes what would put a pod into a mesh or open a service to the outside. Returns the changes:
/// the object, and what changed.
pub(super) fn change(
    objects: &mut [Value],
    application: &Application,
) -> Result<Vec<(String, String)>, String> {
    let mut changes = Vec::new();
    let mut unused: BTreeMap<&String, &String> = application.images.iter().collect();
    let mut found_images = BTreeSet::new();
    for object in objects {
        let title = title(object);
        let mut add = |change: String| changes.push((title.clone(), change));
        if let Some(metadata) = object.get_mut("metadata") {
            without_injection(metadata).into_iter().for_each(&mut add);
        }
        if object["kind"] == "Service" {
            service(&mut object["spec"]).into_iter().for_each(&mut add);
        }
        let Some(template) = object
            .pointer_mut("/spec/template")
            .filter(|t| t.is_object())
        else {
            continue;
        };
        if let Some(metadata) = template.get_mut("metadata") {
            without_injection(metadata).into_iter().for_each(&mut add);
        }
        for container in containers_mut(template) {
            let image = text(container, "/image").to_owned();
            let new = [image.as_str(), without_tag(&image)]
                .into_iter()
                .find_map(|name| {
                    let (key, new) = application.images.get_key_value(name)?;
                    unused.remove(key);
                    Some(new)
                });
            if let Some(new) = new {
                container["image"] = new.as_str().into();
                add(format!("image {image} replaced by {new}"));
            }
            found_images.insert(image);
        }
    }
    match unused.keys().next() {
        None => Ok(changes),
        Some(unknown) => {
            let all: Vec<String> = found_images.into_iter().collect();
            Err(format!(
                "`images` has {unknown:?}, which is none of its images: {}",
                all.join(", ")
            ))
        }
    }
}

/// The name of an image without its tag and digest.
fn without_tag(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or(image);
    let path = name.rfind('/').map_or(0, |slash| slash + 1);
    name[path..]
        .find(':')
        .map_or(name, |colon| &name[..path + colon])
}

/// Removes the labels and annotations that decide about injection. Returns what was removed.
fn without_injection(metadata: &mut Value) -> Vec<String> {
    let mut changes = Vec::new();
    for (part, word) in [("labels", "label"), ("annotations", "annotation")] {
        let Some(map) = metadata.get_mut(part).and_then(Value::as_object_mut) else {
            continue;
        };
        for key in INJECTION {
            if let Some(value) = map.remove(key) {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                changes.push(format!(
                    "{word} {key}: {value} removed, because the mesh of the trial decides"
                ));
            }
        }
    }
    changes
}

/// Makes a service reachable in the cluster only.
fn service(spec: &mut Value) -> Vec<String> {
    let mut changes = Vec::new();
    let outside = matches!(text(spec, "/type"), "LoadBalancer" | "NodePort");
    let Some(fields) = spec.as_object_mut() else {
        return changes;
    };
    if outside && let Some(found) = fields.insert("type".to_owned(), "ClusterIP".into()) {
        let found = found.as_str().unwrap_or_default();
        changes.push(format!("type {found} replaced by ClusterIP"));
    }
    let is_headless = fields.get("clusterIP").is_some_and(|ip| ip == "None");
    let mut remove = |fields: &mut Map<String, Value>, key: &str| {
        if fields.remove(key).is_some() {
            changes.push(format!("{key} removed"));
        }
    };
    if !is_headless {
        remove(fields, "clusterIP");
        remove(fields, "clusterIPs");
    }
    for key in [
        "externalIPs",
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "loadBalancerIP",
        "loadBalancerClass",
        "loadBalancerSourceRanges",
        "allocateLoadBalancerNodePorts",
    ] {
        remove(fields, key);
    }
    let ports = fields.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        remove(port, "nodePort");
    }
    changes
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
