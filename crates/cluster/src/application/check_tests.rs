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
    let mut files = Files::default();
    files.add("k8s/a.yaml", objects);
    check(objects, &files, &graph(json!({"manifests": ["k8s"]})))
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
        "k8s/a.yaml: Job/x is refused",
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
