//! What pods and kubelets of the simulated cluster do: their logs, summaries and ends.

use hyper::StatusCode;
use serde_json::{Value, json};
use tare_analysis::proxy_config::settings_of;
use tare_plan::load::LoadSpec;
use tare_records::probe::{
    FailureKind, ProbeAnswer, ProbeFailure, ProbeRecord, ProbeRequest, ProbeResult, ProbeSpec,
};
use tare_records::record::{Hello, LoadRecord, StreamChecksum};
use tare_records::watch::{WatchRecord, WatchSpec, Watched};
use tare_records::writer::RecordWriter;

use super::port_forward::Behind;
use super::server::{Answer, World, message, reply, role};

impl World {
    /// Returns the numbered records of a worker.
    fn records(&self, path: &str) -> Option<Vec<String>> {
        let pod = self.objects.get(path)?;
        let metadata = &pod["metadata"];
        let namespace = metadata["namespace"].as_str()?.to_owned();
        let index = metadata["annotations"]["batch.kubernetes.io/job-completion-index"].as_str();
        let role = role(pod).to_owned();
        if role == "probe" && pod["status"]["phase"] == "Failed" {
            return None;
        }
        // keep --dir DIR -- WORKER --spec FILE
        let file = pod["spec"]["containers"][0]["args"][6].as_str()?;
        let file = file.strip_prefix("/spec/")?;
        let file = file.replace("$(INDEX)", index.unwrap_or(""));
        let map = pod["spec"]["volumes"][0]["configMap"]["name"].as_str()?;
        let map = format!("/api/v1/namespaces/{namespace}/configmaps/{map}");
        let spec = self.objects[&map]["data"][&file].as_str()?;
        let lines = match role.as_str() {
            "agent" => tare_fake::agent_records(&serde_json::from_str(spec).ok()?, 0.05, 0.0),
            "probe" => {
                let containers = pod["spec"]["containers"].as_array()?;
                let in_mesh = containers.iter().any(|c| c["name"] == "istio-proxy");
                self.probe_records(&serde_json::from_str(spec).ok()?, in_mesh)
            }
            "watcher" => self.watch_records(&serde_json::from_str(spec).ok()?),
            "node-check" => self.deep.records(pod)?,
            _ => {
                let spec: LoadSpec = serde_json::from_str(spec).ok()?;
                let lines = tare_fake::load_records(&spec, self.median_ns);
                match spec.proxy_config.is_empty() {
                    true => lines,
                    false => self.with_proxy_config(lines, &spec),
                }
            }
        };
        let numbered = lines
            .iter()
            .zip(1..)
            .map(|(line, n)| format!("{n} {line}\n"));
        Some(numbered.collect())
    }

    /// Returns what the forwarded ports of a pod serve: the records that a worker keeps, or the files of a reader.
    pub(crate) fn behind(&mut self, path: &str) -> Behind {
        let is_reader = self.objects.get(path).is_some_and(|p| role(p) == "reader");
        let breaks = is_reader && self.broken_transfers > 0;
        self.broken_transfers -= usize::from(breaks);
        let forgets = self.forgets_records || is_reader;
        Behind {
            records: match forgets {
                true => Vec::new(),
                false => self.records(path).unwrap_or_default(),
            },
            files: self.volume.clone(),
            breaks,
            ahead_ns: self.objects.get(path).map_or(0, |p| self.deep.ahead_ns(p)),
        }
    }

    /// Ends a worker and returns its log.
    pub(crate) fn log(&mut self, path: &str) -> Option<String> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_orchestrator = |pod: &Value| role(pod) == "orchestrator";
        if self.objects.get(path).is_some_and(is_orchestrator) {
            return Some(self.outputs.get(name).cloned().unwrap_or_default());
        }
        let mut lines = self.records(path)?;
        if self.rotated_logs > 0 {
            self.rotated_logs -= 1;
            lines.drain(..lines.len() / 2);
        }
        let text = lines.concat();
        if let Some(word) = self.log_cut_at.take() {
            let second = text.match_indices(&word).nth(1)?.0;
            return Some(text[..second + word.len()].to_owned());
        }
        self.objects.get_mut(path)?["status"]["containerStatuses"][0]["state"] =
            json!({"terminated": {"reason": "Completed", "exitCode": 0}});
        Some(text)
    }

    /// Returns the records of a probe. Proxies serve their counters at `/metrics`; all other requests are in plain text.
    fn probe_records(&self, spec: &ProbeSpec, in_mesh: bool) -> Vec<String> {
        let mut records = RecordWriter::new(Vec::new());
        let hello = ProbeRecord::Hello(Hello::new("probe", 1));
        let results = spec.requests.iter().map(|r| self.probed(r, in_mesh).into());
        for record in std::iter::once(hello).chain(results) {
            records.write(&record).unwrap();
        }
        records.finish_lines(|checksum| ProbeRecord::Final { checksum })
    }

    /// Returns the records of a watcher: requests every 10 ms of the last second, all answered by the server that the
    /// watched service has now.
    fn watch_records(&self, spec: &WatchSpec) -> Vec<String> {
        let mut records = RecordWriter::new(Vec::new());
        let hello = WatchRecord::Hello(Hello::new("watch", 1));
        records.write(&hello).unwrap();
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let now = now.as_nanos() as u64;
        let slices = self
            .objects
            .iter()
            .find(|(p, _)| p.ends_with("/endpointslices/watched"));
        let server = slices.unwrap().1["endpoints"][0]["targetRef"]["name"].clone();
        for i in 1..100 {
            let sent_unix_ns = now - i * 10_000_000;
            let watched = Watched {
                sent_unix_ns,
                done_unix_ns: sent_unix_ns + spec.every_ns / 100,
                bytes: Some(if server == "one" { 1 } else { 2 }),
                failure: String::new(),
            };
            records.write(&WatchRecord::Watched(watched)).unwrap();
        }
        records.finish_lines(|checksum| WatchRecord::Final { checksum })
    }

    fn probed(&self, request: &ProbeRequest, in_mesh: bool) -> ProbeResult {
        let fails = |kind, found: &str| {
            let found = found.to_owned();
            Err(ProbeFailure { kind, found })
        };
        let (ip, _) = request.address.rsplit_once(':').unwrap();
        if let Some(status) = self.answer_of_gateway(ip, &request.host) {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            return Ok(ProbeAnswer {
                unix_ns: now.as_nanos() as u64,
                ..request.answer(status, "", false)
            });
        }
        let has_ip = |o: &Value| o["status"]["podIP"] == ip || o["spec"]["clusterIP"] == ip;
        let exists = self.objects.values().any(has_ip);
        if self.is_isolated || !exists {
            return fails(FailureKind::Timeout, "no connection within 4 s");
        }
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let answers = |status, body: &str| {
            Ok(ProbeAnswer {
                unix_ns: now.as_nanos() as u64,
                ..request.answer(status, body, false)
            })
        };
        match request.path.as_str() {
            "/metrics" => answers(200, &self.metrics),
            // A sidecar of the cluster's own traffic: 100 requests per second.
            "/stats/prometheus" => {
                let count = (now.as_secs_f64() * 100.0) as u64;
                answers(
                    200,
                    &format!("istio_requests_total{{reporter=\"destination\"}} {count}\n"),
                )
            }
            _ if self.refuses_plain_text && !in_mesh => {
                fails(FailureKind::Reset, "connection reset")
            }
            _ if self.policy_refuses => answers(403, "RBAC: access denied"),
            "/tare/ready" => answers(200, ""),
            _ => match &self.answer {
                Some((status, body)) => answers(*status, body),
                None => answers(404, ""),
            },
        }
    }

    /// Adds the records of the requested documents before the final record.
    fn with_proxy_config(&self, mut lines: Vec<String>, spec: &LoadSpec) -> Vec<String> {
        let last = lines.pop().unwrap();
        for name in spec.proxy_config.keys() {
            let record = match &self.proxy_config {
                Some(document) => LoadRecord::ProxyConfig(settings_of(name, document)),
                None => LoadRecord::ProxyConfigMissing {
                    name: name.clone(),
                    found: "connection refused".to_owned(),
                },
            };
            lines.push(serde_json::to_string(&record).unwrap());
        }
        let mut checksum = StreamChecksum::default();
        lines.iter().for_each(|line| checksum.line(line));
        let mut last: Value = serde_json::from_str(&last).unwrap();
        last["checksum"] = checksum.hex().into();
        lines.push(last.to_string());
        lines
    }

    /// Responds to a request for a kubelet's summary.
    pub(super) fn kubelet(&mut self, node: &str) -> Answer {
        if self.summaries_left == Some(0) {
            let found = "error trying to reach service";
            return message(StatusCode::SERVICE_UNAVAILABLE, found);
        }
        self.summaries_left = self.summaries_left.map(|left| left - 1);
        reply(StatusCode::OK, &self.summary(node))
    }

    /// Returns a kubelet's summary, in which every container has used its cores since 2020.
    pub(crate) fn summary(&self, node: &str) -> Value {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        // The values are 1 s old.
        let ns = now.as_nanos() as u64 - 1_000_000_000;
        let time = tare_analysis::formats::rfc3339(ns);
        let base_ns = 1_600_000_000_000_000_000;
        let used = |cores: f64| ((ns - base_ns) as f64 * cores) as u64;
        let on_node = self
            .objects
            .values()
            .filter(|o| o["spec"]["nodeName"] == node);
        let pods = on_node.map(|pod| {
            let statuses = pod["status"]["containerStatuses"].as_array();
            let containers = statuses.into_iter().flatten().map(|status| {
                json!({"name": status["name"], "startTime": "2020-01-01T00:00:00Z",
                    "cpu": {"time": time, "usageCoreNanoSeconds": used(self.cores)},
                    "memory": {"time": time, "workingSetBytes": 100 << 20, "rssBytes": 80 << 20}})
            });
            json!({"podRef": {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]},
                "containers": containers.collect::<Vec<_>>()})
        });
        json!({"pods": pods.collect::<Vec<_>>(),
            "node": {"nodeName": node, "cpu": {"time": time, "usageCoreNanoSeconds": used(1.0)},
                "memory": {"availableBytes": 1 << 30}}})
    }

    /// Evicts a pod as the Eviction API does: its status has the reason, and it is gone at once.
    /// Its controller creates another.
    pub(crate) fn evict(&mut self, path: &str) {
        let mut pod = self.objects[path].clone();
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
            "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}]);
        self.deleted_pods.push(pod);
        // The open watches now get a response, and the client opens new ones.
        self.watching = 0;
        self.delete(path);
    }

    /// Evicts a pod as a kubelet does whose node runs out of memory: the pod fails, and its object
    /// stays. Its controller creates another.
    pub(crate) fn evict_by_kubelet(&mut self, path: &str) {
        let pod = self.objects.get_mut(path).unwrap();
        let status = &mut pod["status"];
        status["phase"] = "Failed".into();
        status["reason"] = "Evicted".into();
        status["message"] = "The node was low on resource: memory.".into();
        for container in status["containerStatuses"].as_array_mut().unwrap() {
            container["state"] = json!({"terminated": {"reason": "Error", "exitCode": 137}});
        }
        let owner = pod["owner"].clone();
        self.pod(&owner, 0);
    }

    /// Ends a container as the kernel does at a memory limit; its kubelet starts it again.
    pub(crate) fn kill_for_memory(&mut self, path: &str, container: &str) {
        let pod = self.objects.get_mut(path).unwrap();
        let mut all = pod["status"]["containerStatuses"]
            .as_array_mut()
            .unwrap()
            .iter_mut();
        let status = all.find(|c| c["name"] == container).unwrap();
        status["lastState"] = json!({"terminated": {"reason": "OOMKilled", "exitCode": 137}});
        status["containerID"] = "containerd://again".into();
        status["restartCount"] = 1.into();
    }
}
