//! A simulated API server that keeps its objects in memory. The actions of controllers, the
//! scheduler and kubelets take effect at once.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::deep_faults::DeepFaults;
use super::foreign::Numbers;
use super::gateways::Gateways;
use super::port_forward::forward;
use super::query::{containers, decoded, discovery, is_list, selected, wrong_type};
use super::rbac::{Right, Roles};

/// The media type with which a client asks for a list of metadata.
const METADATA: &[u8] = b"application/json;as=PartialObjectMetadataList";

/// The simulated cluster and its faults.
#[derive(Default)]
pub(crate) struct World {
    /// Objects by path.
    pub(crate) objects: BTreeMap<String, Value>,
    /// Number of requests with a response.
    pub(crate) requests: usize,
    /// Bytes in the bodies of these responses.
    pub(crate) bytes: usize,
    /// The next pods, of this number, are created without the sidecar that their namespace
    /// requires.
    pub(crate) uninjected_pods: usize,
    /// The next requests, of this number, fail with 503, as while a server restarts.
    pub(crate) unavailable_answers: usize,
    /// Whether pods never become ready.
    pub(crate) never_ready: bool,
    /// Whether containers of the user's application end as soon as they start.
    pub(crate) crashes: bool,
    /// Whether the ports of applications reset the connections of probes.
    pub(crate) refuses_plain_text: bool,
    /// Whether a policy of the application refuses requests of other namespaces.
    pub(crate) policy_refuses: bool,
    /// Whether probes reach no pod, as behind a network policy.
    pub(crate) is_isolated: bool,
    /// The next probes, of this number, are evicted before they start.
    pub(crate) evicted_probes: usize,
    /// Whether admission adds a sidecar to probes.
    pub(crate) injects_probes: bool,
    /// The answer of the user's application to every request: status and body.
    pub(crate) answer: Option<(u16, String)>,
    /// Output of every container of the user's application.
    pub(crate) output: String,
    /// Rights of the caller; `None` for all rights.
    pub(crate) roles: Option<Roles>,
    /// Rights that were used.
    pub(crate) used: BTreeSet<String>,
    /// Whether admission rejects pods with access to the host's processes and paths.
    pub(crate) rejects_host_access: bool,
    /// Whether agents are admitted but do not run.
    pub(crate) agents_do_not_run: bool,
    /// Cores that each container uses, in the kubelets' summaries.
    pub(crate) cores: f64,
    /// Number of requests to which kubelets still respond; `None` for all.
    pub(crate) summaries_left: Option<u32>,
    /// Median latency in the records of generators.
    pub(crate) median_ns: f64,
    /// Whether requests for logs get no response, except those of probes.
    pub(crate) logs_hang: bool,
    /// Last state of the pods that were deleted, for watches.
    pub(crate) deleted_pods: Vec<Value>,
    /// Whether Services get addresses of IPv6.
    pub(crate) ipv6: bool,
    /// Number of open watches.
    pub(crate) watching: usize,
    /// Configuration of a generator's sidecar; `None` if the sidecar does not respond.
    pub(crate) proxy_config: Option<Value>,
    /// Counters of every proxy, as Prometheus text.
    pub(crate) metrics: String,
    /// The first log is cut off within the second occurrence of this text.
    pub(crate) log_cut_at: Option<String>,
    /// The next logs, of this number, begin in the middle of the records, as after a rotation.
    pub(crate) rotated_logs: usize,
    /// Whether workers still keep the records that a log has lost.
    pub(crate) forgets_records: bool,
    /// What the cluster does with Gateways.
    pub(crate) gateways: Gateways,
    /// Faults that only the deep checks find.
    pub(crate) deep: DeepFaults,
    /// Logs of the pods of a detached run, by the name of the pod.
    pub(crate) outputs: BTreeMap<String, String>,
    /// The run directory on the volume of a detached run.
    pub(crate) volume: PathBuf,
    /// The next transfers, of this number, break in the middle.
    pub(crate) broken_transfers: usize,
    pub(crate) foreign: Option<Numbers>,
    /// The answer to every request.
    pub(crate) answer_of_all: Option<Value>,
    version: u64,
}

pub(crate) struct Server {
    pub(crate) world: Arc<Mutex<World>>,
    address: SocketAddr,
    dir: tempfile::TempDir,
}

impl Server {
    /// Starts a server with this number of nodes.
    pub(crate) async fn start(nodes: usize) -> Self {
        let mut world = World {
            median_ns: 1e6,
            ..World::default()
        };
        for i in 0..nodes {
            let node = json!({"metadata": {"name": format!("node{i}"), "labels": {"kubernetes.io/hostname": format!("node{i}")}},
                "spec": {}, "status": {"capacity": {"cpu": "4", "memory": "8388608Ki"},
                "nodeInfo": {"bootID": format!("boot{i}"), "kernelVersion": "6.1"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
            world.put(&format!("/api/v1/nodes/node{i}"), node);
        }
        for name in ["default", "kube-system"] {
            let path = format!("/api/v1/namespaces/{name}");
            world.put(&path, json!({"metadata": {"name": name}}));
        }
        let world = Arc::new(Mutex::new(world));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&world);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let world = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&world), request));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades();
                tokio::spawn(connection);
            }
        });
        let dir = tempfile::tempdir().unwrap();
        Self {
            world,
            address,
            dir,
        }
    }

    /// Returns the URL of the server for a kubeconfig.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes a kubeconfig for the server and returns its path.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        let path = self.dir.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: sim\ncontexts:\n- name: sim\n  context: {{cluster: sim, user: sim}}\n\
             clusters:\n- name: sim\n  cluster: {{server: '{}'}}\nusers:\n- name: sim\n  user: {{token: not-a-secret}}\n",
            self.url()
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns the paths of objects that contain a word.
    pub(crate) fn paths(&self, word: &str) -> Vec<String> {
        let world = self.world.lock().unwrap();
        world
            .objects
            .keys()
            .filter(|p| p.contains(word))
            .cloned()
            .collect()
    }
}

impl World {
    pub(crate) fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    pub(super) fn apply(&mut self, path: &str, mut object: Value) -> Value {
        if path.contains("/services/") {
            let (high, low) = (self.version / 250, self.version % 250);
            let address = match self.ipv6 {
                true => format!("fd00::{high:x}:{low:x}"),
                false => format!("10.0.{high}.{low}"),
            };
            object["spec"]["clusterIP"] = address.into();
        }
        let object = self.put(path, object);
        match object["kind"].as_str() {
            Some("Pod") => {
                self.agent(path);
                return self.objects[path].clone();
            }
            Some("Deployment" | "StatefulSet" | "Job") => {
                let spec = &object["spec"];
                let count = spec["replicas"].as_u64().or(spec["completions"].as_u64());
                (0..count.unwrap_or(1)).for_each(|index| self.pod(&object, index));
            }
            Some("Gateway") if self.gateways == Gateways::Controlled => {
                let metadata = &object["metadata"];
                let text = |key: &str| metadata[key].as_str().unwrap();
                self.gateway(text("namespace"), text("name"));
            }
            _ => {}
        }
        object
    }

    /// Starts a pod that is bound to its node, as a kubelet does.
    fn agent(&mut self, path: &str) {
        let state = match self.agents_do_not_run && role(&self.objects[path]) == "agent" {
            true => {
                json!({"waiting": {"reason": "CreateContainerError", "message": "no such path"}})
            }
            false => json!({"running": {}}),
        };
        let state = self.deep.state(&self.objects[path]).unwrap_or(state);
        let namespace = path.split("/pods/").next().unwrap_or_default();
        let joins = self.objects[namespace]["metadata"]["labels"]["istio-injection"] == "enabled";
        let ip = format!("10.2.{}.{}", self.version / 250, self.version % 250);
        let pod = self.objects.get_mut(path).unwrap();
        if ["server", "watcher"].contains(&role(pod)) {
            let mut statuses = vec![
                json!({"name": "tare", "containerID": format!("containerd://{ip}"), "state": state}),
            ];
            if joins {
                pod["spec"]["containers"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"name": "istio-proxy"}));
                let id = format!("containerd://{ip}-proxy");
                statuses.push(
                    json!({"name": "istio-proxy", "containerID": id, "state": {"running": {}}}),
                );
            }
            pod["status"] = json!({"phase": "Running", "podIP": ip, "containerStatuses": statuses,
                "conditions": [{"type": "Ready", "status": "True"}]});
            return;
        }
        if (self.injects_probes || joins) && role(pod) == "probe" {
            let containers = pod["spec"]["containers"].as_array_mut().unwrap();
            containers.push(json!({"name": "istio-proxy"}));
        }
        if self.evicted_probes > 0 && role(pod) == "probe" {
            self.evicted_probes -= 1;
            pod["status"] = json!({"phase": "Failed", "reason": "Evicted"});
            return;
        }
        pod["status"] = json!({"phase": "Pending", "containerStatuses": [
            {"name": "tare", "containerID": "containerd://agent", "state": state}]});
        if role(pod) == "node-check" {
            pod["status"]["podIP"] = self.deep.pod_ip().into();
        }
    }

    /// Returns why a request is refused, and records the right that it uses.
    fn refusal(&mut self, parts: &Parts, path: &str, body: &[u8]) -> Option<String> {
        let mut right = Right::of(&parts.method, path)?;
        if watches(parts) {
            right = right.as_verb("watch");
        }
        let mut rights = vec![right.clone()];
        // A server-side apply of an object that does not exist creates it.
        if right.verb == "patch" && !self.objects.contains_key(path) {
            rights.push(right.as_verb("create"));
        }
        if path.ends_with("/portforward") {
            rights.push(right.as_verb("create"));
        }
        for right in rights {
            self.used.insert(right.to_string());
            if self
                .roles
                .as_ref()
                .is_some_and(|roles| !roles.allow(&right))
            {
                return Some(format!("forbidden: cannot {right}"));
            }
        }
        let wants_host = || {
            let pod: Value = serde_json::from_slice(body).unwrap_or_default();
            pod["spec"]["hostPID"] == true
        };
        (self.rejects_host_access && right.verb == "patch" && wants_host())
            .then(|| "violates PodSecurity \"restricted:latest\"".to_owned())
    }

    /// Creates and starts the pod of a template, as a controller, the scheduler and a kubelet do.
    pub(crate) fn pod(&mut self, owner: &Value, index: u64) {
        let namespace = owner["metadata"]["namespace"].as_str().unwrap().to_owned();
        let template = &owner["spec"]["template"];
        self.version += 1;
        let name = format!(
            "{}-{}",
            owner["metadata"]["name"].as_str().unwrap(),
            self.version
        );
        let mut metadata = template["metadata"].clone();
        metadata["name"] = name.as_str().into();
        metadata["namespace"] = namespace.as_str().into();
        metadata["annotations"]["batch.kubernetes.io/job-completion-index"] =
            index.to_string().into();
        metadata["labels"]["batch.kubernetes.io/job-name"] = owner["metadata"]["name"].clone();
        let mut spec = template["spec"].clone();
        spec["nodeName"] = "node1".into();
        let space = &self.objects[&format!("/api/v1/namespaces/{namespace}")];
        let own: Vec<String> = containers(&spec);
        let mut containers: Vec<&str> = own.iter().map(String::as_str).collect();
        let refuses = template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false";
        if space["metadata"]["labels"]["istio-injection"] == "enabled" && !refuses {
            if self.uninjected_pods > 0 {
                self.uninjected_pods -= 1;
            } else {
                containers.push("istio-proxy");
                spec["containers"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"name": "istio-proxy"}));
            }
        }
        let status = |c: &&str| {
            json!({"name": c, "ready": true, "state": {"running": {}}, "image": c, "imageID": "sha256:0",
                "containerID": format!("containerd://{name}-{c}")})
        };
        let status = |c: &&str| match self.crashes && *c != "istio-proxy" {
            true => json!({"name": c, "ready": false, "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                "lastState": {"terminated": {"reason": "Error", "exitCode": 3}}}),
            false => status(c),
        };
        let ready = if self.never_ready || self.crashes {
            "False"
        } else {
            "True"
        };
        let ip = format!("10.1.{}.{}", self.version / 250, self.version % 250);
        let status = json!({"phase": "Running", "podIP": ip, "containerStatuses": containers.iter().map(status).collect::<Vec<_>>(),
            "conditions": [{"type": "Ready", "status": ready, "reason": "Stuck", "message": "cannot pull the image"}]});
        let mut pod = json!({"metadata": metadata, "spec": spec, "status": status});
        pod["owner"] = owner.clone();
        self.put(&format!("/api/v1/namespaces/{namespace}/pods/{name}"), pod);
    }

    pub(crate) fn delete(&mut self, path: &str) -> bool {
        let Some(object) = self.objects.remove(path) else {
            return false;
        };
        if let Some(namespace) = path
            .strip_prefix("/api/v1/namespaces/")
            .filter(|n| !n.contains('/'))
        {
            let inside = format!("/namespaces/{namespace}/");
            self.objects.retain(|p, _| !p.contains(&inside));
        }
        if path.contains("/pods/") && object["owner"]["kind"] == "Deployment" {
            self.pod(&object["owner"], 0);
        }
        true
    }

    fn list(&self, path: &str, selector: &str) -> Vec<Value> {
        let (root, plural) = path.rsplit_once('/').unwrap();
        let mine = |p: &String| {
            let Some((parent, _)) = p.rsplit_once('/') else {
                return false;
            };
            let Some((above, kind)) = parent.rsplit_once('/') else {
                return false;
            };
            kind == plural && (above == root || above.starts_with(&format!("{root}/namespaces/")))
        };
        let found = self.objects.iter().filter(|(p, _)| mine(p)).map(|(_, o)| o);
        found.filter(|o| selected(o, selector)).cloned().collect()
    }
}

/// The role of a pod of tare.
pub(crate) fn role(pod: &Value) -> &str {
    let role = pod["metadata"]["labels"]["tare.run/role"].as_str();
    role.unwrap_or_default()
}

pub(super) type Answer = Response<Full<Bytes>>;

fn watches(parts: &Parts) -> bool {
    parts.uri.query().is_some_and(|q| q.contains("watch=true"))
}

/// Responds to a watch with the next pods that are deleted, and then ends it, which a server may do
/// at any time.
async fn watch(world: &Mutex<World>, selector: &str) -> Answer {
    let before = {
        let mut world = world.lock().unwrap();
        world.watching += 1;
        world.deleted_pods.len()
    };
    loop {
        {
            let world = world.lock().unwrap();
            let deleted = world.deleted_pods[before..]
                .iter()
                .filter(|p| selected(p, selector));
            let line = |pod: &Value| json!({"type": "DELETED", "object": pod}).to_string() + "\n";
            let lines: String = deleted.map(line).collect();
            if !lines.is_empty() {
                return Response::new(Full::new(Bytes::from(lines)));
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

pub(super) fn reply(status: StatusCode, body: &Value) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response
}

pub(super) fn message(status: StatusCode, message: &str) -> Answer {
    reply(status, &json!({"message": message}))
}

fn or_not_found(object: Option<&Value>) -> Answer {
    let status =
        json!({"kind": "Status", "status": "Failure", "message": "not found", "code": 404});
    match object {
        Some(object) => reply(StatusCode::OK, object),
        None => reply(StatusCode::NOT_FOUND, &status),
    }
}

async fn answer(
    world: Arc<Mutex<World>>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    if let Some(pod) = parts.uri.path().strip_suffix("/portforward") {
        let mut locked = world.lock().unwrap();
        if let Some(why) = locked.refusal(&parts, parts.uri.path(), &[]) {
            return Ok(message(StatusCode::FORBIDDEN, &why));
        }
        let behind = locked.behind(pod);
        return Ok(forward(Request::from_parts(parts, body), behind));
    }
    let body = body
        .collect()
        .await
        .map(|b| b.to_bytes())
        .unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or("");
    let selector = query
        .split('&')
        .find_map(|q| q.strip_prefix("labelSelector="));
    let selector = decoded(selector.unwrap_or(""));
    let hangs = |pod: &str| {
        let world = world.lock().unwrap();
        world.logs_hang && world.objects.get(pod).is_none_or(|p| role(p) != "probe")
    };
    if path.strip_suffix("/log").is_some_and(hangs) {
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    }
    if watches(&parts) {
        let refusal = world.lock().unwrap().refusal(&parts, &path, &body);
        return Ok(match refusal {
            Some(why) => message(StatusCode::FORBIDDEN, &why),
            None => watch(&world, &selector).await,
        });
    }
    let answer = {
        let mut world = world.lock().unwrap();
        let mut answer = world.answer(&parts, &path, &selector, &body);
        if let Some(value) = &world.answer_of_all {
            answer = reply(StatusCode::OK, value);
        }
        world.bytes += answer.size_hint().exact().unwrap() as usize;
        if world.foreign.is_none() {
            return Ok(answer);
        }
        answer
    };
    let status = answer.status();
    let bytes = answer.into_body().collect().await?.to_bytes();
    let Ok(mut value) = serde_json::from_slice(&bytes) else {
        return Ok(Response::new(Full::new(bytes)));
    };
    if let Some(numbers) = &mut world.lock().unwrap().foreign {
        numbers.change(&mut value);
    }
    Ok(reply(status, &value))
}

/// Responses to requests.
impl World {
    fn answer(&mut self, parts: &Parts, path: &str, selector: &str, body: &[u8]) -> Answer {
        self.requests += 1;
        if self.unavailable_answers > 0 {
            self.unavailable_answers -= 1;
            return message(StatusCode::SERVICE_UNAVAILABLE, "starting");
        }
        if let Some(why) = self.refusal(parts, path, body) {
            return message(StatusCode::FORBIDDEN, &why);
        }
        let unknown = self.gateways == Gateways::Unknown && path.contains("/gateway.networking");
        if let Some(found) = discovery(path).filter(|_| !unknown) {
            return reply(StatusCode::OK, &found);
        }
        if let Some(pod) = path.strip_suffix("/log") {
            let annotation =
                |pod: &Value| pod["metadata"]["annotations"]["tare.run/containers"].is_string();
            if self.objects.get(pod).is_some_and(annotation) {
                return Response::new(Full::new(Bytes::from(self.output.clone())));
            }
            return match self.log(pod) {
                Some(text) => Response::new(Full::new(Bytes::from(text))),
                None => or_not_found(None),
            };
        }
        if let Some(node) = path.strip_suffix("/proxy/stats/summary") {
            return self.kubelet(node.rsplit('/').next().unwrap());
        }
        if path == "/version" {
            return reply(StatusCode::OK, &json!({"gitVersion": "v1.36.0-simulated"}));
        }
        match parts.method {
            Method::GET if is_list(path) && !self.objects.contains_key(path) => {
                let mut items = self.list(path, selector);
                let accept = &parts.headers.get("accept");
                if accept.is_some_and(|a| a.as_bytes().starts_with(METADATA)) {
                    let of = |o: &mut Value| *o = json!({"metadata": o["metadata"]});
                    items.iter_mut().for_each(of);
                }
                reply(StatusCode::OK, &json!({"items": items}))
            }
            Method::GET => or_not_found(self.objects.get(path)),
            Method::POST => self.create(path, body),
            // The namespace, which was deleted before, has taken its objects with it.
            Method::DELETE if is_list(path) && !self.objects.contains_key(path) => {
                reply(StatusCode::OK, &json!({"items": []}))
            }
            Method::DELETE => match self.delete(path) {
                true => reply(StatusCode::OK, &json!({"status": "Success"})),
                false => or_not_found(None),
            },
            Method::PATCH => self.patch(parts, path, body),
            _ => or_not_found(None),
        }
    }

    fn create(&mut self, path: &str, body: &[u8]) -> Answer {
        if path.ends_with("/selfsubjectaccessreviews") {
            return reply(StatusCode::CREATED, &json!({"status": {"allowed": true}}));
        }
        let object: Value = serde_json::from_slice(body).unwrap();
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        match self.objects.contains_key(&path) {
            true => message(StatusCode::CONFLICT, "already exists"),
            false => reply(StatusCode::CREATED, &self.put(&path, object)),
        }
    }

    fn patch(&mut self, parts: &Parts, path: &str, body: &[u8]) -> Answer {
        let patch: Value = serde_json::from_slice(body).unwrap();
        if parts.uri.query().is_some_and(|q| q.contains("dryRun=All")) {
            return match self.deep.refusal(&patch) {
                Some((status, why)) => message(status, &why),
                None => reply(StatusCode::OK, &patch),
            };
        }
        let merge = parts.headers["content-type"] == "application/merge-patch+json";
        let object = if merge {
            let mut object = self.objects[path].clone();
            tare_plan::mesh::merge(&mut object, &patch);
            self.put(path, object)
        } else {
            if let Some(why) = wrong_type(&patch) {
                return message(StatusCode::BAD_REQUEST, &why);
            }
            self.apply(path, patch)
        };
        reply(StatusCode::OK, &object)
    }
}
