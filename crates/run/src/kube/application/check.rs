//! Rules of an application's objects, and the changes that every instance needs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tare_model::graph::{Application, ServiceGraph};

use super::fronts::target;
use super::instance::{containers_mut, template};
use super::{text, title};

/// Kinds that are refused, and why.
const REFUSED: [(&str, &str); 15] = [
    ("Job", "beside a sidecar it may never end"),
    ("CronJob", "it would run at any time of a measurement"),
    (
        "Pod",
        "expected a Deployment, StatefulSet, DaemonSet or ReplicaSet",
    ),
    (
        "ReplicationController",
        "expected a Deployment, StatefulSet, DaemonSet or ReplicaSet",
    ),
    ("HorizontalPodAutoscaler", SCALES),
    ("VerticalPodAutoscaler", SCALES),
    ("ScaledObject", SCALES),
    ("Ingress", ROUTES),
    ("Gateway", ROUTES),
    ("HTTPRoute", ROUTES),
    ("GRPCRoute", ROUTES),
    ("TLSRoute", ROUTES),
    ("TCPRoute", ROUTES),
    ("Route", ROUTES),
    ("IngressRoute", ROUTES),
];
const SCALES: &str = "it would change the pods during a measurement";
const ROUTES: &str = "it could send requests of others to the instances";

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
pub(super) fn check(objects: &[Value], graph: &ServiceGraph) -> Result<(), String> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for object in objects {
        let why = REFUSED.iter().find(|(kind, _)| object["kind"] == *kind);
        problems.extend(why.map(|(_, why)| format!("{} is refused: {why}", title(object))));
        if !seen.insert((super::kind(object), title(object))) {
            let name = title(object);
            problems.push(format!(
                "{name} is in it twice, expected it once: each instance has one namespace"
            ));
        }
        if template(object).is_some() && object["spec"]["replicas"] == 0 {
            problems.push(format!(
                "{} has 0 replicas, expected at least 1",
                title(object)
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
mod tests {
    use super::*;
    use serde_json::json;

    fn graph(application: Value) -> ServiceGraph {
        serde_json::from_value(json!({"name": "shop", "application": application,
            "services": [{"name": "web", "protocol": "http", "port": 80, "endpoints": [{"path": "/"}]}],
            "mixes": [{"name": "default", "endpoints": [{"name": "home", "service": "web", "path": "/"}]}]}))
        .unwrap()
    }

    fn shop() -> Vec<Value> {
        vec![
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
                    "metadata": {"labels": {"app": "web", "sidecar.istio.io/inject": "false"},
                        "annotations": {"linkerd.io/inject": "enabled", "config.linkerd.io/skip-outbound-ports": "25"}},
                    "spec": {"initContainers": [{"name": "i", "image": "registry:5000/init"}],
                        "containers": [{"name": "web", "image": "docker.io/acme/web:v1"}]}}}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                "spec": {"type": "LoadBalancer", "selector": {"app": "web"},
                    "ports": [{"port": 80, "targetPort": 8080, "nodePort": 30080}]}}),
        ]
    }

    fn checked(objects: &[Value]) -> Result<(), String> {
        check(objects, &graph(json!({"manifests": ["k8s"]})))
    }

    #[test]
    fn objects_that_cannot_be_measured_are_refused_by_name() {
        assert_eq!(checked(&shop()), Ok(()));
        let mut objects = shop();
        for kind in ["Job", "Ingress", "HorizontalPodAutoscaler"] {
            objects.push(json!({"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "x"}}));
        }
        let error = checked(&objects).unwrap_err();
        for part in [
            "Job/x is refused",
            "Ingress/x is refused",
            "HorizontalPodAutoscaler/x",
            "`exclude`",
        ] {
            assert!(error.contains(part), "{error}");
        }
        let exclude = json!({"manifests": ["k8s"], "exclude": ["Job/x", "Ingress/x", "HorizontalPodAutoscaler/x"]});
        let application = graph(exclude).application.unwrap();
        assert_eq!(
            checked(&included(objects.clone(), &application).unwrap()),
            Ok(())
        );
        let error = included(shop(), &application).unwrap_err();
        assert!(
            error.contains("\"Job/x\", which is none of its objects: Deployment/web, Service/web"),
            "{error}"
        );
        let mut twice = shop();
        twice.push(twice[0].clone());
        assert!(
            checked(&twice)
                .unwrap_err()
                .contains("Deployment/web is in it twice")
        );
        let mut none = shop();
        none[0]["spec"]["replicas"] = 0.into();
        assert!(checked(&none).unwrap_err().contains("0 replicas"));
        assert!(
            checked(&shop()[1..])
                .unwrap_err()
                .contains("found no Deployment")
        );
    }

    #[test]
    fn an_entry_point_is_a_service_with_a_port_a_cluster_ip_and_a_selector() {
        let with = |pointer: &str, value: Value| {
            let mut objects = shop();
            *objects[1].pointer_mut(pointer).unwrap() = value;
            checked(&objects).unwrap_err()
        };
        let error = with("/spec/ports/0/port", json!(81));
        assert!(
            error.contains("no Service `web` with port 80") && error.contains("web (port 81)"),
            "{error}"
        );
        assert!(with("/metadata/name", json!("front")).contains("no Service `web`"));
        assert!(with("/spec/selector", json!({})).contains("no selector"));
        let mut headless = shop();
        headless[1]["spec"]["clusterIP"] = "None".into();
        assert!(checked(&headless).unwrap_err().contains("headless"));
    }

    #[test]
    fn the_mesh_of_the_trial_decides_and_services_stay_in_the_cluster() {
        let images = json!({"manifests": ["k8s"], "images": {
            "docker.io/acme/web:v1": "local/web:1", "registry:5000/init": "local/init:1"}});
        let mut objects = shop();
        let changes = change(&mut objects, &graph(images).application.unwrap()).unwrap();
        let changes: Vec<String> = changes
            .iter()
            .map(|(name, found)| format!("{name}: {found}"))
            .collect();
        assert_eq!(
            changes,
            [
                "Deployment/web: label sidecar.istio.io/inject: false removed, because the mesh of the trial decides",
                "Deployment/web: annotation linkerd.io/inject: enabled removed, because the mesh of the trial decides",
                "Deployment/web: image docker.io/acme/web:v1 replaced by local/web:1",
                "Deployment/web: image registry:5000/init replaced by local/init:1",
                "Service/web: type LoadBalancer replaced by ClusterIP",
                "Service/web: nodePort removed",
            ]
        );
        let template = &objects[0]["spec"]["template"];
        assert_eq!(template["metadata"]["labels"], json!({"app": "web"}));
        let kept = "config.linkerd.io/skip-outbound-ports";
        assert_eq!(template["metadata"]["annotations"], json!({kept: "25"}));
        assert_eq!(template["spec"]["containers"][0]["image"], "local/web:1");
        assert_eq!(objects[1]["spec"]["type"], "ClusterIP");
        let unknown = json!({"manifests": ["k8s"], "images": {"acme/web": "x"}});
        let error = change(&mut shop(), &graph(unknown).application.unwrap()).unwrap_err();
        assert!(
            error.contains("\"acme/web\", which is none of its images: docker.io/acme/web:v1"),
            "{error}"
        );
    }

    #[test]
    fn the_name_of_an_image_has_no_tag_and_no_digest() {
        for (image, name) in [
            ("web", "web"),
            ("web:v1", "web"),
            ("registry:5000/web", "registry:5000/web"),
            ("registry:5000/web:v1@sha256:ab", "registry:5000/web"),
        ] {
            assert_eq!(without_tag(image), name);
        }
    }
}
