//! Proxies and programs of the user that consist of several processes: all of them are weighed, proven and ended.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tare_records::trial::TrialResult;
use tare_records::worker::Plane;

use crate::judged;

use crate::programs::{assert_weighed, in_dir, left_behind, tare};

/// A proxy whose master only starts workers and waits for them. The second worker is in a session of its own.
const PROXY: &str = r"
import os, signal, socket, sys, threading
def address(text):
    host, port = text.rsplit(':', 1)
    return host, int(port)
listener = socket.create_server(address(sys.argv[1]), backlog=64)

def forward(source, target):
    while data := source.recv(65536):
        sum(range(20000))
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)

def work():
    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection(address(sys.argv[2]))
        except OSError:
            client.close()
            continue
        for stream in (client, server):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=forward, args=(client, server), daemon=True).start()
        threading.Thread(target=forward, args=(server, client), daemon=True).start()

for place in range(2):
    if os.fork() == 0:
        if place == 1:
            os.setsid()
        work()
while True:
    os.wait()
";

const PLAN: &str = "
workload: {graph: chain-2, instances: 1}
mesh_files: [proxy.yaml]
meshes: [proxy, proxy/behind-a-script]
load: {rate: 40, connections: 8, arrivals: constant, duration: 1s, warmup: 300ms, timeout: 60s}
repeats: 1
reruns: 0
";

fn write_proxies(dir: &Path) {
    std::fs::write(dir.join("proxy.py"), PROXY).unwrap();
    // Without `exec`, the shell stays between.
    let script = "#!/bin/sh\npython3 proxy.py \"$1\" \"$2\"\necho ended\n";
    std::fs::write(dir.join("proxy.sh"), script).unwrap();
    let python = "import shutil; print(shutil.which('python3'))";
    let python = Command::new("python3")
        .args(["-c", python])
        .output()
        .unwrap();
    let python = String::from_utf8(python.stdout).unwrap();
    let mesh = format!(
        "name: proxy
data_plane: proxy
proxy: {{command: ['{}', proxy.py, '{{listen}}', '{{upstream}}']}}
variants:
  behind-a-script: {{proxy: {{command: [/bin/sh, proxy.sh, '{{listen}}', '{{upstream}}']}}}}
",
        python.trim()
    );
    std::fs::write(dir.join("proxy.yaml"), mesh).unwrap();
    std::fs::write(dir.join("plan.yaml"), PLAN).unwrap();
}

fn results(dir: &Path) -> Vec<TrialResult> {
    let trials = std::fs::read_dir(dir.join("out/trials")).unwrap();
    let files = trials.map(|t| t.unwrap().path().join("result.json"));
    files.map(|file| judged::read(&file)).collect()
}

/// The reasons that concern the sampled processes.
fn reasons(result: &TrialResult) -> Vec<String> {
    let reasons = result.verdict.reasons.iter().map(|r| r.found.clone());
    let words = ["sampled", "vanished", "CPU of", "data plane"];
    reasons
        .filter(|r| words.iter().any(|w| r.contains(w)))
        .collect()
}

#[test]
fn a_proxy_is_all_of_its_processes() {
    let dir = tempfile::tempdir().unwrap();
    write_proxies(dir.path());
    let output = tare(dir.path())
        .args(["run", "plan.yaml", "--out", "out"])
        .output();
    assert_weighed(dir.path(), &output.unwrap(), 2);
    for result in results(dir.path()) {
        assert_eq!(reasons(&result), Vec::<String>::new());
        let plane = &result.resources.unwrap().planes[&Plane::DataPlane];
        // Both directions of 40 requests, at two proxies, take more than 0.1 ms each.
        assert!(plane.cpu_cores > 160.0 * 0.0001 / 2.0, "{plane:?}");
        assert_eq!(plane.processes, 2);
        // Three interpreters each; the memory that they share counts once.
        assert!(plane.memory_mean_bytes > 10e6, "{plane:?}");
    }
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

fn within(what: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !what() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    what()
}

/// Starts a long run, and waits for its generator, which starts after everything else.
fn start_long_run(dir: &Path) -> Child {
    // Below nohup, these tests and all that they start ignore SIGHUP.
    let mut command = in_dir(Command::new("env"), dir);
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_tare")]);
    command.args(["run", "plan.yaml", "--out", "out"]);
    command
        .args(["--set", "load.duration=600s"])
        .stderr(Stdio::piped());
    let run = command.spawn().unwrap();
    let has_load = || {
        left_behind(dir)
            .iter()
            .any(|line| line.contains("tare load"))
    };
    assert!(within(has_load), "{:?}", left_behind(dir));
    run
}

fn signal(name: &str, pid: u32) {
    let kill = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
    assert!(kill.unwrap().success());
}

#[test]
fn a_closed_terminal_ends_the_run_and_all_processes() {
    let dir = tempfile::tempdir().unwrap();
    write_proxies(dir.path());
    let mut run = start_long_run(dir.path());
    // The kernel sends it and the shell, shortly after one another.
    signal("HUP", run.id());
    std::thread::sleep(Duration::from_millis(20));
    signal("HUP", run.id());
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
    let partial = std::fs::read_dir(dir.path().join("out/trials")).unwrap();
    assert_eq!(partial.count(), 0);
}

#[test]
fn sigkill_leaves_no_process_and_a_resumed_run_removes_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    write_proxies(dir.path());
    let mut run = start_long_run(dir.path());
    signal("KILL", run.id());
    run.wait().unwrap();
    let is_empty = || left_behind(dir.path()).is_empty();
    assert!(within(is_empty), "{:?}", left_behind(dir.path()));

    let said = dir.path().join("said.txt");
    let mut resumed = tare(dir.path());
    resumed.env("TMPDIR", dir.path());
    resumed.args(["run", "--resume", "out"]);
    let mut resumed = resumed
        .stderr(std::fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let text = || std::fs::read_to_string(&said).unwrap();
    let is_said = || {
        let words = ", an unfinished trial";
        text()
            .lines()
            .any(|l| l.starts_with("removed ") && l.ends_with(words))
    };
    let is_said = within(is_said);
    signal("TERM", resumed.id());
    resumed.wait().unwrap();
    assert!(is_said, "{}", text());
    assert!(within(is_empty), "{:?}", left_behind(dir.path()));
}

/// A program of the user with a zombie, a child that ends during the load, one that ends soon after the start, and an
/// output of 30 MB.
const PROGRAM: &str = r#"
import http.server, subprocess, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
sys.stdout.write(("x" * 99 + "\n") * 300_000)
sys.stdout.flush()
time.sleep(1)  # what is written while a log is shortened may be lost
print("the last line", flush=True)
zombie = subprocess.Popen(["true"])
helper = subprocess.Popen(["sleep", "0.7"])
host, port = sys.argv[1:]
http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"#;

#[test]
fn processes_of_a_program_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("shop.py"), PROGRAM).unwrap();
    let plan = "
workload:
  instances: 1
  graph:
    name: shop
    services:
    - name: front
      protocol: http
      command: {run: [sh, -c, 'true & sleep 1 & exec python3 shop.py {host} {port}']}
      endpoints: [{path: /}]
    mixes: [{name: default, endpoints: [{name: home, service: front, path: /}]}]
meshes: bare
repeats: 2
reruns: 0
load: {rate: 40, connections: 4, arrivals: constant, duration: 1s, warmup: 300ms, timeout: 60s}
";
    std::fs::write(dir.path().join("plan.yaml"), plan).unwrap();
    let output = tare(dir.path())
        .args(["run", "plan.yaml", "--out", "out"])
        .output();
    assert_weighed(dir.path(), &output.unwrap(), 2);
    for result in results(dir.path()) {
        assert_eq!(reasons(&result), Vec::<String>::new());
        let plane = &result.resources.unwrap().planes[&Plane::Application];
        assert_eq!(plane.processes, 1);
        assert!(plane.cpu_cores > 0.0);
    }
    for trial in std::fs::read_dir(dir.path().join("out/trials")).unwrap() {
        let log = std::fs::read(trial.unwrap().path().join("logs/shop-0-front.log")).unwrap();
        assert!(log.len() <= 16 << 20, "{} bytes", log.len());
        assert!(log.starts_with(b"tare: removed "));
        let end = String::from_utf8_lossy(&log[log.len() - (64 << 10)..]);
        assert!(end.contains("the last line\n"), "{end}");
    }
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}
