//! Programs of the user in network namespaces of their own.
#![allow(
    clippy::disallowed_methods,
    reason = "notes about skipped tests pass the capture of the test harness"
)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::programs::{assert_weighed, left_behind, marked, tare};

/// A program that listens on all addresses, always on the same port.
const PROGRAM: &str = r#"
import http.server, subprocess, sys, urllib.request
fault, stock = sys.argv[1], sys.argv[2]

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(b"scales", 503 if fault == "never-ready" else 200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) != 700 or fault == "refuses-orders":
            return self.answer(b"the order has %d bytes" % len(body), 422)
        self.answer(b"ordered")

    def answer(self, body, status=200):
        forgets = fault == "forgets-stock" and self.path == "/orders"
        if stock and self.path != "/" and status == 200 and not forgets:
            body = urllib.request.urlopen(stock + "/items", timeout=5).read()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

if fault == "dies":
    sys.exit("cannot open the database")
if fault == "child":
    subprocess.Popen(["sleep", "600"], start_new_session=True)
address = ("0.0.0.0", 8081 if fault == "elsewhere" else 8080)
print("the shop opens", flush=True)
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
"#;

/// Writes a plan of two instances: `front` calls `stock`, and `stock` calls `shelf`, a server of tare. `network` is the
/// setting of the two programs.
fn write_plan(dir: &Path, fault: &str, meshes: &str, network: &str) {
    std::fs::write(dir.join("shop.py"), PROGRAM).unwrap();
    let service = |name: &str, fault: &str, next: &str| {
        format!(
            "    - name: {name}\n      protocol: http\n      command: {{run: [python3, shop.py, {fault}, '{{url:{next}}}'], {network}ready_within_s: \
             {}}}\n      endpoints:\n      - {{path: /items, calls: [{{service: {next}, path: /items}}]}}\n      - {{path: /orders, \
             calls: [{{service: {next}, path: /items}}]}}\n",
            if fault == "never-ready" { 3 } else { 60 }
        )
    };
    let (front, stock) = (
        service("front", fault, "stock"),
        service("stock", "none", "shelf"),
    );
    let plan = format!(
        "workload:\n  instances: 2\n  graph:\n    name: shop\n    services:\n{front}{stock}    - {{name: shelf, protocol: http, \
         endpoints: [{{path: /items, response_bytes: 90}}]}}\n    mixes:\n    - name: default\n      endpoints:\n      - {{name: items, \
         service: front, path: /items}}\n      - {{name: order, service: front, path: /orders, method: POST, request_bytes: \
         700}}\nmeshes: {meshes}\nrepeats: 1\nreruns: 0\nload: {{rate: 20, connections: 8, arrivals: constant, duration: 1s, warmup: \
         300ms}}\n"
    );
    std::fs::write(dir.join("plan.yaml"), plan).unwrap();
}

const OWN: &str = "network: own, port: 8080, ";

fn run(dir: &Path) -> (Output, String) {
    let output = tare(dir)
        .args(["run", "plan.yaml", "--out", "out"])
        .output()
        .unwrap();
    let trials = std::fs::read_dir(dir.join("out/trials"))
        .into_iter()
        .flatten();
    let events = trials.map(|t| std::fs::read_to_string(t.unwrap().path().join("events.ndjson")));
    (output, events.filter_map(Result::ok).collect())
}

/// The same run, started by another program with these arguments.
fn started_by(starter: &str, arguments: &[&str], dir: &Path) -> Command {
    let tare = tare(dir);
    let mut command = Command::new(starter);
    command
        .args(arguments)
        .arg(tare.get_program())
        .args(["run", "plan.yaml", "--out", "out"])
        .current_dir(dir)
        .stdin(std::process::Stdio::null());
    for (name, value) in tare.get_envs() {
        command.env(name, value.unwrap());
    }
    command
}

/// Whether network namespaces are permitted here. If not, writes that the test is skipped, which the test harness does
/// not capture.
fn permitted() -> bool {
    let unshare = Command::new("unshare").args(["--net", "true"]).output();
    let permitted = unshare.is_ok_and(|output| output.status.success());
    if !permitted {
        let words =
            b"own_network: skipped what needs the permission to create network namespaces\n";
        std::io::stderr().write_all(words).unwrap();
    }
    permitted
}

/// Names of the network devices of the machine.
fn devices() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap();
    let names = text
        .lines()
        .filter_map(|l| Some(l.split_once(':')?.0.trim().to_owned()));
    names.collect()
}

#[test]
fn programs_with_the_same_port_on_all_addresses_are_proven_and_weighed() {
    if !permitted() {
        return;
    }
    let (dir, before) = (tempfile::tempdir().unwrap(), devices());
    write_plan(dir.path(), "none", "[bare, envoy/mtls]", OWN);
    let (output, _) = run(dir.path());
    assert_weighed(dir.path(), &output, 2);
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
    assert_eq!(devices(), before);
}

#[test]
fn root_in_a_user_namespace_suffices() {
    let user = ["--map-root-user", "--net", "true"];
    let permitted = Command::new("unshare").args(user).status().unwrap();
    if !permitted.success() {
        let words = b"own_network: skipped what needs the permission to create user namespaces\n";
        std::io::stderr().write_all(words).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    write_plan(dir.path(), "none", "bare", OWN);
    let output = started_by("unshare", &["--map-root-user"], dir.path()).output();
    assert_weighed(dir.path(), &output.unwrap(), 1);
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

#[test]
fn a_program_that_fails_in_its_network_is_named_and_nothing_is_left() {
    if !permitted() {
        return;
    }
    for (fault, mesh, expected) in [
        (
            "elsewhere",
            "bare",
            "it listens on 0.0.0.0:8081; expected 10.",
        ),
        (
            "never-ready",
            "bare",
            "failed to start shop-0/front: not ready within 3 s: GET / on 10.",
        ),
        (
            "forgets-stock",
            "envoy",
            "shop-0/front POST /orders: 0 requests left the sidecar of shop-0/front, expected at least 1",
        ),
        (
            "dies",
            "bare",
            "shop-0/front: ended with exit status: 1; last lines of its log: cannot open",
        ),
        (
            "refuses-orders",
            "bare",
            "shop-0/front POST /orders: status 422: the order has 700 bytes",
        ),
        ("child", "bare", "(sleep 600) when it ended; tare killed it"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write_plan(dir.path(), fault, mesh, OWN);
        let (output, events) = run(dir.path());
        let errors = String::from_utf8_lossy(&output.stderr);
        // Either instance can be the first to fail.
        let other = expected.replace("shop-0", "shop-1");
        let is_named = events.contains(expected) || events.contains(&other);
        assert!(is_named, "{fault}: {events}{errors}");
        assert_eq!(left_behind(dir.path()), Vec::<String>::new(), "{fault}");
    }
}

/// Network namespaces of processes: of those of the test in `dir`, or of all.
fn namespaces(dir: Option<&Path>) -> BTreeSet<PathBuf> {
    let pids: Vec<u32> = match dir {
        Some(dir) => marked(dir),
        None => {
            let entries = std::fs::read_dir("/proc").unwrap().flatten();
            let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
            names.filter_map(|name| name.parse().ok()).collect()
        }
    };
    let links = pids.into_iter();
    links
        .filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok())
        .collect()
}

#[test]
fn a_run_that_is_killed_or_interrupted_leaves_no_namespace() {
    if !permitted() {
        return;
    }
    for signal in ["KILL", "INT"] {
        let (dir, before) = (tempfile::tempdir().unwrap(), devices());
        write_plan(dir.path(), "none", "envoy", OWN);
        let mut command = tare(dir.path());
        command.args(["run", "plan.yaml", "--out", "out"]);
        command.args(["--set", "load.duration=600s"]);
        let mut run = command.spawn().unwrap();
        let within = |what: &dyn Fn() -> bool| {
            let deadline = Instant::now() + Duration::from_secs(120);
            while !what() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(50));
            }
            what()
        };
        // The generator starts after everything else.
        let has_load = || {
            let mut lines = left_behind(dir.path()).into_iter();
            lines.any(|line| line.contains("tare load"))
        };
        assert!(within(&has_load), "{:?}", left_behind(dir.path()));
        let mut used = namespaces(Some(dir.path()));
        let machine = std::fs::read_link("/proc/self/ns/net").unwrap();
        used.remove(&machine);
        // That of the run, and those of two programs for each of two instances.
        assert_eq!(used.len(), 5, "{used:?}");
        let kill = Command::new("kill")
            .args(["-s", signal, &run.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        run.wait().unwrap();
        let is_gone = || {
            let is_empty = left_behind(dir.path()).is_empty();
            is_empty && namespaces(None).is_disjoint(&used)
        };
        assert!(within(&is_gone), "{signal}: {:?}", left_behind(dir.path()));
        assert_eq!(devices(), before, "{signal}");
    }
}

#[test]
fn a_program_on_all_addresses_without_a_network_of_its_own_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    write_plan(dir.path(), "none", "bare", "");
    let free = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    std::fs::write(dir.path().join("shop.py"), PROGRAM.replace("8080", &port)).unwrap();
    let (output, events) = run(dir.path());
    let remedy = "; `network: own` in its `command` permits it";
    assert!(events.contains(remedy), "{events}");
    assert_ne!(output.status.code(), Some(0));
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

#[test]
fn a_missing_permission_or_program_is_an_error_with_a_remedy_before_the_first_trial() {
    let dir = tempfile::tempdir().unwrap();
    write_plan(dir.path(), "none", "bare", OWN);
    let fails = |mut command: Command, expected: &str| {
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("`network: own` of a service"), "{errors}");
        assert!(errors.contains(expected), "{errors}");
        assert_eq!(output.status.code(), Some(2), "{errors}");
    };
    // Root without capabilities, or a user that has none.
    let process = std::fs::metadata("/proc/self").unwrap();
    let without: &[&str] = match process.uid() {
        0 => &["--bounding-set=-all", "--inh-caps=-all"],
        _ => &[],
    };
    let command = started_by("setpriv", without, dir.path());
    fails(command, "run tare as root");
    if permitted() {
        // The program of the plan is there, `ip` is not.
        let python = dir.path().join("python3");
        std::fs::write(&python, "").unwrap();
        std::fs::set_permissions(&python, PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = tare(dir.path());
        command
            .args(["run", "plan.yaml", "--out", "out"])
            .env("PATH", dir.path());
        fails(command, "install iproute2");
    }
}
