use super::*;
use crate::objects::names::Names;
use tare_plan::graph::ServiceGraph;

fn rendered(objects: Value) -> Rendered {
    let graph: ServiceGraph = serde_json::from_value(json!({"name": "shop",
        "application": {"manifests": ["k8s"]},
        "services": [{"name": "web", "protocol": "http", "port": 80, "endpoints": [{"path": "/"}]}],
        "mixes": [{"name": "default", "endpoints": [{"name": "home", "service": "web", "path": "/"}]}]}))
    .unwrap();
    let objects = crate::application::Objects {
        objects: objects.as_array().unwrap().clone(),
        ..Default::default()
    };
    Rendered::new(objects, graph.application.as_ref().unwrap(), &graph).unwrap()
}

fn shop() -> Value {
    json!([
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme", "labels": {"istio-injection": "enabled"}}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "acme"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "w", MANAGED: "Helm"}}, "template": {
                "metadata": {"labels": {"app": "w", MANAGED: "Helm"}},
                "spec": {"terminationGracePeriodSeconds": 600, "containers": [{"name": "web", "image": "web:v1",
                    "env": [{"name": "DB", "value": "db.acme:5432"}]}, {"name": "log", "image": "log:v1"}]}}}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "acme"},
            "spec": {"selector": {"app": "w"}, "ports": [{"port": 80}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "acme"},
            "spec": {"selector": {"app": "db"}, "ports": [{"port": 5432}]}},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "acme"},
            "spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "db", "image": "db:v1"}]}}}}
    ])
}

fn deployed(
    rendered: &Rendered,
    settings: &KubernetesSettings,
    join: Option<&Join>,
) -> [Vec<Value>; 2] {
    rendered.of_instance(Instance {
        names: &Names::new("tare", "run").trial(3),
        settings,
        join,
        namespace: "tare-t-0",
        name: "shop-0",
        placement: PodPlacement {
            nodes: &["a".to_owned(), "b".to_owned()],
            instance: 0,
        },
    })
}

#[test]
fn all_objects_of_an_instance_are_in_its_namespace_and_have_its_labels() {
    let rendered = rendered(shop());
    let titles = [
        "Deployment/web",
        "Service/web",
        "Service/db",
        "StatefulSet/db",
    ];
    assert_eq!(rendered.titles(), titles, "the Namespace is left out");
    let value = "${tare.namespaces}".to_owned();
    let settings = KubernetesSettings {
        service_annotations: [("acme.example/seen-in".to_owned(), value)].into(),
        ..KubernetesSettings::default()
    };
    let [first, then] = deployed(&rendered, &settings, None);
    assert!(first.iter().all(|o| o["kind"] == "Service") && then.len() == 2);
    for service in &first {
        let found = &service["metadata"]["annotations"]["acme.example/seen-in"];
        let load = Names::new("tare", "run").trial(3).load();
        assert_eq!(*found, format!("tare-t-0,{load}"));
    }
    for object in first.iter().chain(&then) {
        assert_eq!(object["metadata"]["namespace"], "tare-t-0");
        assert_eq!(object["metadata"]["labels"][MANAGED], "tare");
        assert_eq!(object["metadata"]["labels"]["tare.run/trial"], "003");
    }
    let template = &then[0]["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    assert_eq!(labels[MANAGED], "Helm", "its selector has this label");
    assert_eq!(
        (&labels[ROLE], &labels[INSTANCE]),
        (&json!("application"), &json!("shop-0"))
    );
    assert_eq!(
        (&labels[SERVICE_LABEL], &labels[REPLICAS]),
        (&json!("web"), &json!("2"))
    );
    assert_eq!(
        template["metadata"]["annotations"][OWN_CONTAINERS],
        "web,log"
    );
    let spec = &template["spec"];
    assert_eq!(spec["containers"][0]["env"][0]["value"], "db.tare-t-0:5432");
    assert_eq!(spec["terminationGracePeriodSeconds"], GRACE_S);
    assert_eq!(
        spec["topologySpreadConstraints"][0]["topologyKey"],
        "kubernetes.io/hostname"
    );
    let placed = &then[1]["spec"]["template"]["spec"];
    assert_eq!(placed["nodeSelector"], json!({"disk": "ssd"}));
    assert!(placed["topologySpreadConstraints"].is_null());
}

#[test]
fn pods_of_an_application_join_the_mesh_and_get_the_pull_secrets() {
    let settings = KubernetesSettings {
        image_pull_secrets: vec!["pull".into()],
        ..KubernetesSettings::default()
    };
    let mut join = Join::default();
    join.pod_labels.insert("istio.io/rev".into(), "x".into());
    join.pod_annotations
        .insert("linkerd.io/inject".into(), "enabled".into());
    let [_, then] = deployed(&rendered(shop()), &settings, Some(&join));
    for object in then {
        let template = &object["spec"]["template"];
        assert_eq!(template["metadata"]["labels"]["istio.io/rev"], "x");
        assert_eq!(
            template["metadata"]["annotations"]["linkerd.io/inject"],
            "enabled"
        );
        assert_eq!(
            template["spec"]["imagePullSecrets"],
            json!([{"name": "pull"}])
        );
    }
}

/// The pod specification of the Deployment, with `value` at `key`.
fn spec_with(key: &str, value: Value, settings: &KubernetesSettings) -> Value {
    let mut objects = shop();
    objects[1]["spec"]["template"]["spec"][key] = value;
    let [_, mut then] = deployed(&rendered(objects), settings, None);
    then[0]["spec"]["template"]["spec"].take()
}

#[test]
fn node_labels_of_the_plan_hold_for_all_pods() {
    let settings = KubernetesSettings {
        node_labels: [("pool".to_owned(), "tare".to_owned())].into(),
        ..KubernetesSettings::default()
    };
    let linux = json!({"pool": "tare", "kubernetes.io/os": "linux"});
    let anti_affinity = json!({"podAntiAffinity": {"x": 1}});
    for (key, value, selector, is_spread) in [
        (
            "nodeSelector",
            json!({"disk": "ssd"}),
            json!({"disk": "ssd", "pool": "tare"}),
            false,
        ),
        (
            "nodeSelector",
            json!({"pool": "other"}),
            json!({"pool": "tare"}),
            false,
        ),
        ("affinity", anti_affinity, json!({"pool": "tare"}), false),
        ("nodeSelector", json!({}), linux.clone(), true),
        ("affinity", json!({}), linux, true),
    ] {
        let spec = spec_with(key, value, &settings);
        assert_eq!(spec["nodeSelector"], selector, "{key}");
        let spread = spec["topologySpreadConstraints"].is_array();
        assert_eq!(spread, is_spread, "{key}: {spec}");
    }
}

#[test]
fn pods_of_an_application_get_the_settings_of_pods_but_keep_their_own_labels() {
    let settings = KubernetesSettings {
        pod: serde_json::from_value(json!({"labels": {"team": "load", "tier": "plan"},
            "annotations": {"karpenter.sh/do-not-disrupt": "false"}, "priority_class": "high",
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "resources": {"application": {"limits": {"cpu": 1}}}}))
        .unwrap(),
        ..KubernetesSettings::default()
    };
    let mut objects = shop();
    let template = &mut objects[1]["spec"]["template"];
    template["metadata"]["labels"]["tier"] = "own".into();
    let stay = "cluster-autoscaler.kubernetes.io/safe-to-evict";
    template["metadata"]["annotations"] =
        json!({stay: "true", "karpenter.sh/do-not-disrupt": "true"});
    template["spec"]["tolerations"] = json!([{"key": "gpu"}]);
    let [_, then] = deployed(&rendered(objects), &settings, None);
    let (web, db) = (&then[0]["spec"]["template"], &then[1]["spec"]["template"]);
    let labels = &web["metadata"]["labels"];
    assert_eq!(
        (&labels["team"], &labels["tier"]),
        (&json!("load"), &json!("own"))
    );
    let annotations = &web["metadata"]["annotations"];
    assert_eq!(annotations[stay], "true", "the application sets it");
    assert_eq!(
        annotations["karpenter.sh/do-not-disrupt"], "false",
        "the plan sets it"
    );
    assert_eq!(
        db["metadata"]["annotations"][stay], "false",
        "nothing sets it"
    );
    let own = json!([{"key": "gpu"}, {"key": "dedicated", "operator": "Exists"}]);
    assert_eq!(web["spec"]["tolerations"], own);
    assert_eq!(web["spec"]["priorityClassName"], "high");
    assert!(web["spec"]["containers"][0]["resources"].is_null());
}

#[test]
fn a_pull_secret_of_the_application_and_of_the_plan_is_there_once() {
    let settings = KubernetesSettings {
        image_pull_secrets: vec!["pull".into(), "more".into()],
        ..KubernetesSettings::default()
    };
    let own = json!([{"name": "own"}, {"name": "pull"}]);
    assert_eq!(
        spec_with("imagePullSecrets", own, &settings)["imagePullSecrets"],
        json!([{"name": "own"}, {"name": "pull"}, {"name": "more"}])
    );
}

#[test]
fn the_digest_is_the_same_when_a_chart_generates_its_secrets_anew() {
    let of = |password: &str, checksum: &str, image: &str| {
        let mut objects = shop();
        let template = &mut objects[1]["spec"]["template"];
        template["metadata"]["annotations"] = json!({"checksum/secret": checksum, "b": "c"});
        template["spec"]["containers"][0]["image"] = image.into();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
            "data": {"password": password}, "stringData": {"other": password}});
        objects.as_array_mut().unwrap().push(secret);
        let rendered = rendered(objects);
        let deployed = rendered.objects.iter().find(|o| o["kind"] == "Secret");
        assert_eq!(deployed.unwrap()["data"]["password"], password);
        rendered.digest
    };
    let first = of("MTIz", "1", "web:v1");
    assert_eq!(first, of("NDU2", "2", "web:v1"));
    assert_ne!(first, of("MTIz", "1", "web:v2"));
}

#[test]
fn the_number_of_pods_of_a_daemon_set_is_in_its_status() {
    let set = |status: Value| {
        expected_pods(
            &json!({"kind": "DaemonSet", "metadata": {"generation": 2}, "status": status}),
        )
    };
    assert_eq!(
        set(json!({"observedGeneration": 2, "desiredNumberScheduled": 3})),
        Some(3)
    );
    assert_eq!(
        set(json!({"observedGeneration": 1, "desiredNumberScheduled": 3})),
        None
    );
    assert_eq!(set(json!({})), None);
    assert_eq!(
        expected_pods(&json!({"kind": "Deployment", "spec": {"replicas": 4}})),
        Some(4)
    );
    assert_eq!(
        expected_pods(&json!({"kind": "StatefulSet", "spec": {}})),
        Some(1)
    );
}

#[test]
fn a_long_name_is_cut_to_a_valid_label() {
    let name = format!("{}.-b", "a".repeat(61));
    assert_eq!(label(&name), "a".repeat(61));
    assert_eq!(label("web"), "web");
}

/// The pointers to all parts of a value.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (k.replace('/', "~1"), v)).collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (key, part) in parts {
        pointers(part, &format!("{at}/{key}"), all);
    }
}

#[test]
fn objects_of_any_shape_are_deployed_or_refused_without_a_panic() {
    let mut objects = shop();
    let more = [
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p", "annotations": {"a": "b"}},
            "spec": {"ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "acme"},
                "matchExpressions": [{"key": "kubernetes.io/metadata.name", "values": ["acme"]}]}}]}]}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b", "uid": "1"},
            "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"namespace": "acme"}]}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "YWNtZQ=="}}),
    ];
    objects.as_array_mut().unwrap().extend(more);
    let graph: ServiceGraph = serde_json::from_value(json!({"name": "shop",
        "application": {"manifests": ["k8s"], "images": {"web": "x"}},
        "services": [{"name": "web", "protocol": "http", "port": 80, "endpoints": [{"path": "/"}]}],
        "mixes": [{"name": "default", "endpoints": [{"name": "home", "service": "web", "path": "/"}]}]}))
    .unwrap();
    let application = graph.application.as_ref().unwrap();
    let settings = KubernetesSettings {
        node_labels: [("pool".to_owned(), "tare".to_owned())].into(),
        image_pull_secrets: vec!["pull".into()],
        ..KubernetesSettings::default()
    };
    let mut all = Vec::new();
    pointers(&objects, "", &mut all);
    let (mut accepted, mut refused) = (0, 0);
    for pointer in all.iter().filter(|p| p.matches('/').count() > 1) {
        for shape in [
            json!(null),
            json!(1),
            json!("acme"),
            json!([]),
            json!([1, {}]),
            json!({"a": [1]}),
        ] {
            let mut changed = objects.clone();
            *changed.pointer_mut(pointer).unwrap() = shape;
            let mut found = crate::application::Objects::default();
            let read = found.add("k8s/a.yaml", changed.as_array().unwrap().clone());
            let rendered = read.and_then(|()| Rendered::new(found, application, &graph));
            match rendered {
                Ok(rendered) => {
                    deployed(&rendered, &settings, Some(&Join::default()));
                    accepted += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(
        accepted > 100 && refused > 100,
        "{accepted} accepted, {refused} refused"
    );
}
