//! Access of the fault tests to the cluster and to a run in progress.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::kubectl::kubectl;
use rustix::process::{Pid, Signal, kill_process};
use tare_records::trial::{Event, EventKind, TrialResult};
use tare_records::verdict::Reason;

/// Time limit, longer than any phase takes on a busy machine with two cores.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(100);

/// A run of a small plan, in its own directory.
pub(crate) struct Site {
    pub(crate) dir: PathBuf,
    plan: PathBuf,
    before: Vec<String>,
}

impl Site {
    pub(crate) fn new(name: &str, meshes: &str, repeats: u32, seed: u64) -> Self {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{name}"));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).unwrap();
        let plan = home.join("plan.yaml");
        let text = format!(
            "name: faults\nenvironment: kubernetes\nkubernetes: {{generators: 2}}\n\
             workload: {{graph: emojivoto, instances: 1}}\nmeshes: {meshes}\n\
             load: {{rate: 40, arrivals: constant, connections: 4, duration: 10s, warmup: 2s}}\nrepeats: {repeats}\nreruns: 0\nseed: {seed}\n"
        );
        std::fs::write(&plan, text).unwrap();
        Self {
            dir: home.join("run"),
            plan,
            before: cluster(),
        }
    }

    /// Starts the run, or resumes it.
    pub(crate) fn tare(&self) -> Running {
        let mut command = Command::new(program());
        command.arg("run");
        if self.dir.join("run.json").exists() {
            command.arg("--resume").arg(&self.dir);
        } else {
            command.arg(&self.plan).arg("--out").arg(&self.dir);
        }
        Running(command.stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn plan_path(&self) -> &Path {
        &self.plan
    }

    /// Returns the directories of complete trials.
    pub(crate) fn trials(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.dir.join("trials")) else {
            return Vec::new();
        };
        let mut all: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
        all.retain(|p| !name(p).starts_with('.'));
        all.sort();
        all
    }

    /// Returns the directory of the current trial.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        let entries = std::fs::read_dir(self.dir.join("trials")).ok()?;
        let mut all = entries.flatten().map(|e| e.path());
        all.find(|p| name(p).starts_with(".partial-"))
    }

    /// Waits until the current trial has records of this many seconds.
    pub(crate) fn wait_for_records(&self, seconds: usize) {
        wait("records of a trial", || {
            (self.intervals() >= seconds).then_some(())
        });
    }

    fn records(&self, kind: &str) -> usize {
        let records = self.partial().map(|p| p.join("load.ndjson"));
        let text = records.and_then(|r| std::fs::read_to_string(r).ok());
        text.map_or(0, |t| t.matches(&format!("\"type\":\"{kind}\"")).count())
    }

    /// Returns how many seconds of records the current trial has, over all generators.
    pub(crate) fn intervals(&self) -> usize {
        self.records("interval")
    }

    /// Whether the current trial has the final record of its load.
    pub(crate) fn is_measured(&self) -> bool {
        self.records("final") > 0
    }

    /// Waits for the end of the run. Returns its only trial, with its events.
    pub(crate) fn only_trial(&self, mut child: Running) -> (TrialResult, Vec<Event>) {
        wait_for_end(&mut child);
        let trials = self.trials();
        assert_eq!(trials.len(), 1, "{trials:?}");
        let result: TrialResult = read(&trials[0].join("result.json"));
        (result, events(&trials[0]))
    }

    pub(crate) fn cluster_is_as_before(&self) {
        let now = cluster();
        assert_eq!(
            self.before, now,
            "objects are left on the cluster, or are missing"
        );
    }
}

pub(crate) fn events(dir: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(dir.join("events.ndjson")).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

pub(crate) fn expect_event<'a>(events: &'a [Event], kind: EventKind, word: &str) -> &'a Event {
    let found = events
        .iter()
        .find(|e| e.kind == kind && e.to_string().contains(word));
    found.unwrap_or_else(|| panic!("no event {kind:?} with `{word}`: {events:#?}"))
}

pub(crate) fn has(result: &TrialResult, reason: Reason) -> bool {
    result.verdict.reasons.iter().any(|r| r.reason == reason)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

pub(crate) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Repeats `ask` until it returns a value, and panics after the time limit.
pub(crate) fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < until, "timed out: waited for {what}");
        std::thread::sleep(POLL);
    }
}

/// A process of tare that is killed when its test ends.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls have no effect on a process that has ended.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

pub(crate) fn wait_for_end(child: &mut Running) -> Option<i32> {
    let status = wait("tare to end", || child.0.try_wait().unwrap());
    status.code()
}

/// Kills tare with SIGKILL, so that it cannot clean up.
pub(crate) fn kill(child: &mut Running) {
    let pid = Pid::from_raw(child.0.id() as i32).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    child.0.wait().unwrap();
}

/// Runs a command of the testbed that made this cluster.
pub(crate) fn testbed(arguments: &[&str]) {
    let name = std::env::var("TARE_TESTBED").expect("TARE_TESTBED must name the testbed's cluster");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/testbed");
    let mut command = Command::new(program);
    let status = command.args(["--name", &name]).args(arguments).status();
    assert!(status.unwrap().success(), "testbed {arguments:?}");
}

/// Returns the namespace, name and node of the running pods that match a selector.
pub(crate) fn pods(selector: &str) -> Vec<(String, String, String)> {
    let form = r#"jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name} {.spec.nodeName}{"\n"}{end}"#;
    let running = ["--field-selector", "status.phase=Running", "--output", form];
    let text = kubectl(&[&["get", "pods", "-A", "--selector", selector], &running[..]].concat());
    let text = text.unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ').map(str::to_owned);
        if let (Some(a), Some(b), Some(c)) = (words.next(), words.next(), words.next()) {
            found.push((a, b, c));
        }
    }
    found
}

/// Returns everything that a run could leave: cluster-wide objects, ConfigMaps, labels and taints
/// of nodes.
fn cluster() -> Vec<String> {
    let kinds = "namespaces,customresourcedefinitions,mutatingwebhookconfigurations,\
        validatingwebhookconfigurations,clusterroles,clusterrolebindings";
    let maps =
        r#"jsonpath={range .items[*]}configmap {.metadata.namespace}/{.metadata.name}{"\n"}{end}"#;
    let nodes = r#"jsonpath={range .items[*]}node {.metadata.name} {.metadata.labels} {.spec.taints}{"\n"}{end}"#;
    let questions = [
        vec!["get", kinds, "--output", "name"],
        vec!["get", "configmaps", "-A", "--output", maps],
        vec!["get", "nodes", "--output", nodes],
    ];
    let mut found: Vec<String> = Vec::new();
    for question in questions {
        let text = wait("the API server", || kubectl(&question));
        found.extend(text.lines().map(str::to_owned));
    }
    found.sort();
    assert!(found.iter().any(|l| l == "namespace/kube-system"));
    found
}

/// Returns the program of the image, a release build, if TARE_PROGRAM names it; otherwise the
/// tested one.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("TARE_PROGRAM")
        .map_or_else(|| env!("CARGO_BIN_EXE_tare").into(), PathBuf::from)
}
