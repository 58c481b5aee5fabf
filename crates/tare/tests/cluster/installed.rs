//! The mesh `installed` on a real cluster, with the plan of docs/kubernetes.md: Istio of somebody else, with a pod of
//! theirs. A run beside it changes nothing of theirs, and their proxies get no configuration of it. `tare observe`, with
//! the rights that it prints, reads the sidecars during the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use tare_records::observation::{Observation, Part, Usage};
use tare_records::worker::Plane;

use crate::account::Account;
use crate::judged::{exit_code, judged};
use crate::kubectl::kubectl;
use crate::weighed::weighed;
use crate::{cluster, program, start_plan, testbed};

/// Namespace of the pod, and of a Service, of somebody else.
const SHOP: &str = "shop";
/// Least number of configurations of their proxy that are read in each trial.
const DUMPS: usize = 3;

/// Istio of somebody else, with a pod in it. Dropping it removes both.
struct Istio;

impl Istio {
    fn install(scratch: &Path) -> Self {
        let installed = Self;
        assert!(testbed(&["istio"]));
        let metadata = json!({"name": SHOP, "namespace": SHOP});
        let objects = [
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": SHOP, "labels": {"istio-injection": "enabled"}}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
                "spec": {"selector": {"app": SHOP}, "ports": [{"name": "http", "port": 8080}]}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                "spec": {"selector": {"matchLabels": {"app": SHOP}}, "template": {
                    "metadata": {"labels": {"app": SHOP}},
                    "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": SHOP, "image": "localhost/tare/pause:testbed"}]}}}}),
        ];
        let file = scratch.join("cluster-shop.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&file, list.to_string()).unwrap();
        assert!(kubectl(&["apply", "--filename", file.to_str().unwrap()]).is_some());
        let rollout = ["rollout", "status", "--namespace", SHOP, "--timeout=120s"];
        let rollout = kubectl(&[&rollout[..], &["deployment/shop"]].concat());
        assert!(rollout.is_some(), "the pod of the shop is not ready");
        // istiod completes its webhooks some time after it is ready.
        let policies = "jsonpath={.items[*].webhooks[*].failurePolicy}";
        let policies = [
            "get",
            "validatingwebhookconfigurations",
            "--output",
            policies,
        ];
        let are_complete = || kubectl(&policies).is_some_and(|text| !text.contains("Ignore"));
        let mut tries = (0..120).inspect(|_| std::thread::sleep(Duration::from_millis(500)));
        assert!(tries.any(|_| are_complete()), "{:?}", kubectl(&policies));
        installed
    }
}

impl Drop for Istio {
    fn drop(&mut self) {
        let _ = kubectl(&["delete", "namespace", "--ignore-not-found", SHOP]);
        testbed(&["istio-remove"]);
    }
}

/// Everything of Istio and of the shop that a run could change.
fn of_others() -> Vec<String> {
    let kinds = [
        (
            "namespaces",
            "{.metadata.uid} {.metadata.labels} {.metadata.annotations}",
        ),
        ("deployments", "{.metadata.uid} {.metadata.generation}"),
        (
            "services",
            "{.metadata.uid} {.spec} {.metadata.annotations}",
        ),
        ("configmaps", "{.metadata.uid} {.data}"),
        (
            "pods",
            "{.metadata.uid} {.status.containerStatuses[*].restartCount}",
        ),
        (
            "mutatingwebhookconfigurations",
            "{.metadata.uid} {.metadata.generation}",
        ),
        (
            "validatingwebhookconfigurations",
            "{.metadata.uid} {.metadata.generation}",
        ),
        (
            "customresourcedefinitions",
            "{.metadata.uid} {.metadata.generation}",
        ),
    ];
    let read = |(kind, fields): (&str, &str)| {
        let name = "{.metadata.namespace}/{.metadata.name}";
        let output =
            format!("jsonpath={{range .items[*]}}{kind} {name} {fields}{{\"\\n\"}}{{end}}");
        let text = kubectl(&["get", kind, "--all-namespaces", "--output", &output]);
        let text = text.expect("kubectl must reach the cluster");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut found: Vec<String> = kinds.into_iter().flat_map(read).collect();
    found.sort();
    for kind in ["pods shop/shop-", "pods istio-system/istiod-"] {
        assert!(found.iter().any(|l| l.starts_with(kind)), "{found:#?}");
    }
    found
}

/// Writes the plan of docs/kubernetes.md for the mesh that is installed.
fn plan_of_documents(scratch: &Path) -> PathBuf {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes.md");
    let text = std::fs::read_to_string(documents).unwrap();
    let (_, section) = text
        .split_once("\n## The mesh that is installed\n")
        .unwrap();
    let (_, plan) = section.split_once("```yaml\n").unwrap();
    let (plan, _) = plan.split_once("```").unwrap();
    let file = scratch.join("cluster-installed.yaml");
    std::fs::write(&file, plan).unwrap();
    file
}

/// Returns the configuration of a sidecar.
fn configuration(namespace: &str, pod: &str) -> Option<String> {
    let exec = [
        "exec",
        "--namespace",
        namespace,
        pod,
        "--container",
        "istio-proxy",
        "--",
    ];
    kubectl(&[&exec[..], &["pilot-agent", "request", "GET", "config_dump"]].concat())
}

/// What was read while the run had Services.
#[derive(Default)]
struct Read {
    /// Number of configurations of the shop's proxy, by trial.
    of_shop: BTreeMap<String, usize>,
    /// Those that name a Service of the run.
    with_services_of_run: Vec<String>,
    /// Those without the Service of the shop, which is visible everywhere.
    without_control: usize,
    /// Whether the proxy of a generator knew the Services that it calls.
    generator_knows: Option<bool>,
    observed: Option<Output>,
}

/// Returns the namespaces of the instances that have Services, without the number of the instance: one for each trial.
fn trials_with_services() -> Vec<String> {
    let output = r#"jsonpath={range .items[*]}{.metadata.namespace}{"\n"}{end}"#;
    let services = [
        "get",
        "services",
        "--all-namespaces",
        "--selector",
        "tare.run/trial",
    ];
    let found = kubectl(&[&services[..], &["--output", output]].concat()).unwrap_or_default();
    let mut found: Vec<String> = found
        .lines()
        .map(|n| n.trim_end_matches("-0").to_owned())
        .collect();
    found.dedup();
    found
}

/// Returns the namespace and the name of a generator's pod that runs and has a sidecar.
fn generator() -> Option<(String, String)> {
    let output = r#"jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name} {.spec['containers','initContainers'][*].name}{"\n"}{end}"#;
    let pods = [
        "get",
        "pods",
        "--all-namespaces",
        "--selector",
        "tare.run/role=generator",
    ];
    let running = [
        "--field-selector",
        "status.phase=Running",
        "--output",
        output,
    ];
    let pods = kubectl(&[&pods[..], &running].concat())?;
    let pod = pods.lines().find(|pod| pod.contains("istio-proxy"))?;
    let mut words = pod.split(' ').map(str::to_owned);
    words.next().zip(words.next())
}

/// Reads proxies until the run ends, and observes the mesh when its generator runs.
fn read_during(run: &mut Child, shop: &str, observer: &Account) -> Read {
    let mut read = Read::default();
    while run.try_wait().unwrap().is_none() {
        let before = trials_with_services();
        let shop = configuration(SHOP, shop).expect("the proxy of the shop must answer");
        let after = trials_with_services();
        for trial in before.into_iter().filter(|t| after.contains(t)) {
            *read.of_shop.entry(trial).or_default() += 1;
            read.without_control += usize::from(!shop.contains("||shop.shop.svc"));
            if let Some(at) = shop.find(".tare-") {
                let part = shop[at.saturating_sub(60)..].chars().take(150).collect();
                read.with_services_of_run.push(part);
            }
        }
        if read.observed.is_none()
            && let Some((namespace, pod)) = generator()
        {
            let of_instance = format!(".{}-0.svc", namespace.trim_end_matches("-load"));
            let dump = configuration(&namespace, &pod);
            read.generator_knows = dump.map(|dump| dump.contains(&of_instance));
            read.observed = Some(observe(observer));
        }
        std::thread::sleep(Duration::from_secs(2));
    }
    read
}

fn observe(observer: &Account) -> Output {
    let mut observe = Command::new(program());
    observe.env("TARE_KUBECONFIG", observer.kubeconfig());
    observe.args([
        "observe",
        "--requests",
        "--duration",
        "30s",
        "--output",
        "json",
    ]);
    observe.output().unwrap()
}

/// Returns what a user wrote, from the audit log of the API server: verb, resource, and namespace or name.
fn writes(user: &str) -> Vec<String> {
    let kubeconfig = std::env::var("KUBECONFIG").expect("KUBECONFIG must name that of the testbed");
    let log = std::fs::read_to_string(Path::new(&kubeconfig).with_file_name("audit.log")).unwrap();
    // Only its lines are parsed: the log is long.
    let lines = log.lines().filter(|line| line.contains(user));
    let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_user = events.filter(|event| event["user"]["username"] == user);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let write = |event: Value| {
        let object = &event["objectRef"];
        let place = match object["namespace"].as_str() {
            Some(namespace) => namespace.to_owned(),
            None => text(&object["name"]),
        };
        format!(
            "{} {} {place}",
            text(&event["verb"]),
            text(&object["resource"])
        )
    };
    of_user.map(write).collect()
}

/// Whether a write concerns only the observation's own namespaces, or asks for the user's own rights.
fn is_of_observation(write: &str) -> bool {
    let mut words = write.split(' ').skip(1);
    let (resource, place) = (words.next().unwrap(), words.next().unwrap());
    place.starts_with("tare-") || resource == "selfsubjectaccessreviews"
}

/// Checks what was observed, and that nothing of others was written for it.
fn assert_observed(output: &Output, writes: &[String]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(
        writes.iter().any(|w| w.starts_with("patch pods tare-")),
        "{writes:#?}"
    );
    let foreign = writes.iter().filter(|w| !is_of_observation(w));
    assert_eq!(foreign.collect::<Vec<_>>(), Vec::<&String>::new());
    let observed: Observation = serde_json::from_slice(&output.stdout).unwrap();
    let usage = |part: Part| -> &Usage {
        let found = observed.parts.iter().find(|p| p.part == part);
        &found.unwrap_or_else(|| panic!("{observed:#?}")).total
    };
    for part in [Part::Sidecars, Part::ControlPlane, Part::Applications] {
        let usage = usage(part);
        assert!(usage.pods > 0 && usage.memory_bytes > 0.0, "{observed:#?}");
    }
    assert!(usage(Part::Sidecars).cpu_cores.value > 0.0, "{observed:#?}");
    let requests = usage(Part::Sidecars).requests.as_ref();
    let requests = requests.unwrap_or_else(|| panic!("{observed:#?}"));
    assert!(requests.per_second.value > 0.0, "{observed:#?}");
    assert!(requests.cpu_cores_per_krps.is_some(), "{observed:#?}");
}

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn the_mesh_of_somebody_else_is_weighed_and_observed_and_stays_as_it_was() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-installed");
    let istio = Istio::install(tmp);
    let pods = [
        "get",
        "pods",
        "--namespace",
        SHOP,
        "--output",
        "jsonpath={.items[*].metadata.name}",
    ];
    let shop = kubectl(&pods).unwrap();
    let observer = Account::observer(&program(), &tmp.join("cluster-observer"));
    let (before, theirs) = (cluster(), of_others());
    let sets = [
        "workload={graph: emojivoto, instances: 1}",
        "kubernetes.generators=1",
        "kubernetes.generator_node=reserved",
        "repeats=1",
        "reruns=0",
        "load={rate: 60, connections: 8, duration: 50s, warmup: 1s}",
    ];
    let mut run = start_plan(plan_of_documents(tmp).to_str().unwrap(), &dir, &sets)
        .spawn()
        .unwrap();
    let read = read_during(&mut run, &shop, &observer);
    let ended = run.wait().unwrap();
    let writes = writes(&observer.user());
    let after = (cluster(), of_others());
    drop(observer);
    drop(istio);

    assert_eq!(before, after.0, "the cluster differs from before the run");
    assert_eq!(
        theirs, after.1,
        "Istio or the shop differ from before the run"
    );
    assert_eq!(read.of_shop.len(), 2, "{:?}", read.of_shop);
    assert!(
        read.of_shop.values().all(|n| *n >= DUMPS),
        "{:?}",
        read.of_shop
    );
    assert_eq!(read.with_services_of_run, Vec::<String>::new());
    assert_eq!(read.without_control, 0);
    assert_eq!(read.generator_knows, Some(true));
    assert_observed(
        &read.observed.expect("the run ended before it was observed"),
        &writes,
    );
    let summary = judged(&dir);
    assert_eq!(ended.code(), Some(exit_code(summary.grade)));
    weighed(&summary, &["bare", "ours"]);
    assert_eq!((summary.trials_done, summary.trials_planned), (2, 2));
    for trial in &summary.trials {
        assert!(trial.proofs.iter().all(|p| p.holds), "{trial:#?}");
        let claim = match trial.mesh.as_str() {
            "bare" => "no pod has a proxy",
            _ => "the proxies of the called services counted every request",
        };
        assert!(trial.proofs.iter().any(|p| p.claim == claim), "{trial:#?}");
    }
    let ours = summary.cells.iter().find(|c| c.mesh == "ours").unwrap();
    if !ours.trials_used.is_empty() {
        let istiod = &ours.planes[&Plane::ControlPlane];
        assert!(
            istiod.cpu_cores.value > 0.0 && istiod.memory_bytes.value > 0.0,
            "{istiod:?}"
        );
    }
}
