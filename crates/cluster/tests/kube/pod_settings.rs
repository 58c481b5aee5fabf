//! Settings of pods and namespaces, and clusters with IPv6.

use serde_json::{Value, json};
use tare_plan::PodSettings;
use tare_records::worker::WorkloadSpec;
use tare_run::environment::{Deployed as _, Environment as _, Phase, WorkerSpec};

use super::server::Server;
use super::{INJECTED, agent_spec, deploy, folder, lines_of, load, plan, prepared, set};

const LEVEL: &str = "pod-security.kubernetes.io/enforce";

fn settings() -> PodSettings {
    let settings = json!({
        "tolerations": [{"key": "dedicated", "value": "load", "effect": "NoSchedule"}],
        "labels": {"team": "load", "istio.io/rev": "plan"},
        "annotations": {"karpenter.sh/do-not-disrupt": "false", "acme.example/owner": "me"},
        "priority_class": "high",
        "resources": {
            "application": {"requests": {"cpu": "100m"}},
            "generator": {"requests": {"cpu": 1}, "limits": {"memory": "256Mi"}},
            "agent": {"limits": {"cpu": "500m"}}}});
    serde_json::from_value(settings).unwrap()
}

/// Returns the objects whose path contains `word`.
fn objects(server: &Server, word: &str) -> Vec<Value> {
    let paths = server.paths(word);
    let world = server.world.lock().unwrap();
    paths.iter().map(|p| world.objects[p].clone()).collect()
}

fn assert_set(pod: &Value, resources: &Value) {
    let metadata = &pod["metadata"];
    assert_eq!(metadata["labels"]["team"], "load");
    let annotations = &metadata["annotations"];
    assert_eq!(annotations["acme.example/owner"], "me");
    assert_eq!(annotations["karpenter.sh/do-not-disrupt"], "false");
    let autoscaler = "cluster-autoscaler.kubernetes.io/safe-to-evict";
    assert_eq!(annotations[autoscaler], "false", "not in the plan");
    let spec = &pod["spec"];
    assert_eq!(spec["priorityClassName"], "high");
    assert_eq!(&spec["containers"][0]["resources"], resources);
    let user = &spec["containers"][0]["securityContext"]["runAsUser"];
    let is_agent = spec["hostPID"] == true;
    assert_eq!(user.is_null(), !is_agent, "the user is that of the image");
}

#[tokio::test]
async fn every_pod_of_a_trial_has_the_settings_of_the_plan() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| {
        k.pod = settings();
        k.namespace_labels = [(LEVEL.to_owned(), "baseline".to_owned())].into();
    });
    let mesh = plan.meshes.iter_mut().find(|m| m.name == "there").unwrap();
    let join = &mut mesh.kubernetes.as_mut().unwrap().join;
    join.pod_labels.insert("istio.io/rev".into(), "mesh".into());
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let deployed = deploy(&mut cluster, &plan, "there", dir.path()).await;
    let mut deployment = deployed.unwrap();
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let spec = WorkerSpec::Agent(agent_spec(&deployment, 0, 1000));
    for spec in [WorkerSpec::Generator(Box::new(load())), spec] {
        let worker = cluster.start(&mut deployment, spec, dir.path()).await;
        assert!(
            lines_of(worker.unwrap())
                .await
                .last()
                .unwrap()
                .contains("final")
        );
    }

    let toleration = json!({"key": "dedicated", "value": "load", "effect": "NoSchedule"});
    let deployments = objects(&server, "/deployments/");
    assert_eq!(deployments.len(), 3);
    for object in deployments {
        let pod = &object["spec"]["template"];
        assert_set(pod, &json!({"requests": {"cpu": "100m"}}));
        assert_eq!(pod["metadata"]["labels"]["istio.io/rev"], "mesh");
        assert_eq!(pod["spec"]["tolerations"], json!([toleration]));
        assert_eq!(
            pod["spec"]["nodeSelector"],
            json!({"kubernetes.io/os": "linux"})
        );
    }
    let job = &objects(&server, "/jobs/")[0]["spec"]["template"];
    assert_set(
        job,
        &json!({"requests": {"cpu": "1"}, "limits": {"memory": "256Mi"}}),
    );
    let tolerations = job["spec"]["tolerations"].as_array().unwrap();
    assert_eq!((tolerations.len(), &tolerations[0]), (2, &toleration));
    assert_eq!(tolerations[1]["key"], "tare.run/generator");
    let agents = objects(&server, "-agents/pods/");
    assert!(!agents.is_empty());
    for agent in agents {
        assert_set(&agent, &json!({"limits": {"cpu": "500m"}}));
        assert_eq!(
            agent["spec"]["tolerations"],
            json!([{"operator": "Exists"}])
        );
    }

    let namespaces = objects(&server, "/api/v1/namespaces/tare-");
    let levels: Vec<String> = namespaces
        .iter()
        .filter(|o| {
            o["kind"] == "Namespace" && o["metadata"]["labels"]["tare.run/trial"].is_string()
        })
        .map(|o| o["metadata"]["labels"][LEVEL].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        levels,
        ["baseline", "privileged", "baseline"],
        "instance, agents, load"
    );
    cluster.teardown(deployment).await;
    cluster.close().await;
}

/// The Services of `bare` have the annotations as well: a mesh that is on the cluster already reads all Services.
#[tokio::test]
async fn services_have_the_annotations_of_the_plan_with_the_namespaces_that_use_them() {
    const EXPORT_TO: &str = "networking.istio.io/exportTo";
    let server = Server::start(3).await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| {
        let value = "${tare.namespaces}".to_owned();
        k.service_annotations = [(EXPORT_TO.to_owned(), value)].into();
    });
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    for mesh in ["bare", "there"] {
        let deployment = deploy(&mut cluster, &plan, mesh, dir.path()).await.unwrap();
        let services = objects(&server, "/services/");
        assert_eq!(services.len(), 3);
        for service in services {
            let own = service["metadata"]["namespace"].as_str().unwrap();
            let (trial, _) = own.rsplit_once('-').unwrap();
            let found = &service["metadata"]["annotations"][EXPORT_TO];
            assert_eq!(*found, format!("{own},{trial}-load"), "{mesh}");
        }
        cluster.teardown(deployment).await;
    }
    cluster.close().await;
}

#[tokio::test]
async fn on_a_cluster_with_ipv6_servers_listen_on_it_and_addresses_have_brackets() {
    let server = Server::start(3).await;
    server.world.lock().unwrap().ipv6 = true;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let deployed = deploy(&mut cluster, &plan, "bare", dir.path()).await;
    let deployment = deployed.unwrap();
    let with_brackets =
        |address: &str| address.starts_with("[fd00::") && address.ends_with("]:8080");
    for target in deployment.targets().values() {
        assert!(with_brackets(&target.connect), "{target:?}");
    }
    let maps = objects(&server, "/configmaps/spec");
    let files = maps[0]["data"].as_object().unwrap().values();
    let specs: Vec<WorkloadSpec> = files
        .map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap())
        .collect();
    assert!(specs.iter().all(|s| s.listen == "[::]:8080"), "{specs:?}");
    let mut upstreams = specs.iter().flat_map(|s| s.upstreams.values());
    assert!(upstreams.clone().count() > 0);
    assert!(upstreams.all(|u| with_brackets(&u.connect)), "{specs:?}");
    cluster.teardown(deployment).await;
    cluster.close().await;
}
