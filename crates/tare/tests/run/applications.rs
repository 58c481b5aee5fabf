//! Applications under load: the graphs of industry applications, generated ones, and programs of the user.
#![allow(
    clippy::disallowed_methods,
    reason = "notes about skipped tests pass the capture of the test harness"
)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

mod datastores;

use crate::own_network;
use crate::programs::{assert_weighed, left_behind, tare};

/// Runs a plan with this workload in `dir`.
fn run(dir: &Path, workload: &str) -> Output {
    let plan = format!(
        "workload: {workload}\nmeshes: [bare, envoy/mtls]\nrepeats: 1\nreruns: 0\nload: {{rate: 40, \
         connections: 8, arrivals: constant, duration: 1s, warmup: 300ms}}\n"
    );
    std::fs::write(dir.join("plan.yaml"), plan).unwrap();
    tare(dir)
        .args(["run", "plan.yaml", "--out", "out"])
        .output()
        .unwrap()
}

#[test]
fn industry_applications_are_proven_and_weighed() {
    for workload in [
        "acme-air",
        "{graph: acme-air, mix: sessions}",
        "online-banking",
        "healthcare-bff",
        "hotel-reservation",
        "social-network",
        "{graph: {generate: {services: 12, depth: 4, protocol: grpc, seed: 3}}}",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = run(dir.path(), workload);
        assert_weighed(dir.path(), &output, 2);
    }
}

/// Shortens a plan to trials of a second.
const SHORT: [&str; 8] = [
    "--set",
    "repeats=1",
    "--set",
    "reruns=0",
    "--set",
    "load.duration=1s",
    "--set",
    "load.warmup=300ms",
];

#[test]
fn datastores_are_in_the_mesh_or_outside_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = tare(dir.path());
    command.args(["run", "datastore", "--out", "out", "--set", "load.rate=40"]);
    let output = command.args(SHORT).output().unwrap();
    assert_weighed(dir.path(), &output, 4);
    for trial in std::fs::read_dir(dir.path().join("out/trials")).unwrap() {
        let trial = trial.unwrap().path();
        let name = trial.to_string_lossy().into_owned();
        let config = |pod: &str| {
            std::fs::read_to_string(trial.join(format!("config/acme-air-0-{pod}.json")))
        };
        let calls = config("booking")
            .unwrap_or_default()
            .contains("outbound.booking-db.acme-air-0");
        let (meshed, outside) = (
            name.contains("store-meshed"),
            name.contains("store-outside"),
        );
        let expected = (meshed || outside, meshed);
        assert_eq!((calls, config("booking-db").is_ok()), expected, "{name}");
    }
}

/// A service of a shop with the standard library of Python, and with one of several faults.
const PROGRAM: &str = r#"
import http.server, os, socket, subprocess, sys, urllib.request
fault, host, port, stock = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, body = 200, b"scales"
        if self.path == "/ready" and fault == "never-ready":
            status = 503
        if self.path == "/items":
            if fault == "errors":
                status, body = 500, b"the database is broken"
            elif stock:
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
if fault == "past-proxy":
    a, b, c, d = host.split(".")
    stock = f"http://{a}.{b}.{c}.{int(d) + 1}:{port}"
if fault == "fixed-port":
    fixed = socket.create_server(("127.0.0.1", 17099), reuse_port=True)
if fault == "elsewhere":
    port += 1
if fault == "all-addresses":
    host = "0.0.0.0"
print("the shop opens", flush=True)
http.server.ThreadingHTTPServer((host, port), Handler).serve_forever()
"#;

/// Runs the shop with this fault in `front`, in a run directory below `dir`. Returns its output and its events.
fn run_with(dir: &Path, fault: &str, mesh: &str, instances: u32) -> (Output, String) {
    std::fs::write(dir.join("shop.py"), PROGRAM).unwrap();
    let service = |name: &str, fault: &str, stock: &str, calls: &str| {
        format!(
            "{{name: {name}, protocol: http, command: {{run: [python3, shop.py, {fault}, '{{host}}', '{{port}}', \
             '{stock}'], ready: /ready, ready_within_s: {}}}, endpoints: [{{path: /items, calls: [{calls}]}}]}}",
            if fault == "never-ready" { 3 } else { 60 }
        )
    };
    let front = service(
        "front",
        fault,
        "{url:stock}",
        "{service: stock, path: /items}",
    );
    let stock = service("stock", "none", "", "");
    let plan = format!(
        "workload:\n  instances: {instances}\n  graph:\n    name: shop\n    services: [{front}, {stock}]\n    mixes: \
         [{{name: default, endpoints: [{{name: items, service: front, path: /items}}]}}]\nmeshes: {mesh}\nrepeats: \
         1\nreruns: 0\nload: {{rate: 20, connections: 8, arrivals: constant, duration: 1s, warmup: 300ms}}\n"
    );
    std::fs::write(dir.join("plan.yaml"), plan).unwrap();
    let mut command = match fault {
        // Elsewhere it would answer for the programs of other tests.
        "all-addresses" => own_network::started_by("sh", &["-c", LOOPBACK_UP, "sh"], dir),
        _ => {
            let mut command = tare(dir);
            command.args(["run", "plan.yaml", "--out", "out"]);
            command
        }
    };
    let output = command.output().unwrap();
    let trials = std::fs::read_dir(dir.join("out/trials"))
        .into_iter()
        .flatten();
    let events = trials.map(|t| std::fs::read_to_string(t.unwrap().path().join("events.ndjson")));
    let events = events.filter_map(Result::ok).collect();
    (output, events)
}

#[test]
fn a_program_of_the_user_that_fails_is_named_with_the_reason_and_nothing_is_left() {
    for (fault, mesh, instances, expected) in [
        (
            "never-ready",
            "bare",
            1,
            "failed to start shop-0/front: not ready within 3 s: GET /ready on 127.",
        ),
        (
            "errors",
            "bare",
            1,
            "shop-0/front GET /items: status 500: the database is broken",
        ),
        (
            "dies",
            "bare",
            1,
            "shop-0/front: ended with exit status: 1; last lines of its log: cannot open",
        ),
        ("elsewhere", "bare", 1, ":15081; expected only 127."),
        (
            "fixed-port",
            "bare",
            2,
            "it listens on 127.0.0.1:17099 as well, which another instance of it cannot",
        ),
        (
            "past-proxy",
            "envoy",
            1,
            "0 requests left the sidecar of shop-0/front, expected at least 1",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (output, events) = run_with(dir.path(), fault, mesh, instances);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(events.contains(expected), "{fault}: {events}{errors}");
        assert_ne!(output.status.code(), Some(0), "{fault}: {errors}");
        assert_eq!(left_behind(dir.path()), Vec::<String>::new(), "{fault}");
    }
}

/// Starts its arguments in a network of their own, with a loopback device.
const LOOPBACK_UP: &str = "exec unshare --net sh -c 'ip link set lo up && exec \"$@\"' sh \"$@\"";

/// One of the two programs listens first. The other cannot.
#[test]
fn a_program_that_listens_on_all_addresses_is_named() {
    if !own_network::permitted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (output, events) = run_with(dir.path(), "all-addresses", "bare", 1);
    let named = [
        "failed to start shop-0/front: it listens on all addresses (0.0.0.0:15080)",
        "; shop-0-front listens on all addresses (0.0.0.0:15080)",
        "failed to start shop-0/front: ended with exit status: 1; last lines of its log: ",
    ];
    assert!(named.iter().any(|text| events.contains(text)), "{events}");
    assert_ne!(output.status.code(), Some(0));
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

#[test]
fn a_program_of_the_user_is_proven_and_weighed_and_its_children_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (output, events) = run_with(dir.path(), "child", "[bare, envoy/mtls]", 2);
    assert_weighed(dir.path(), &output, 2);
    assert!(
        events.contains("(sleep 600) when it ended; tare killed it"),
        "{events}"
    );
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

#[test]
fn the_example_with_a_datastore_runs() {
    let valkey = "command -v valkey-server || command -v redis-server";
    if has(&["sh", "-c", valkey], "Valkey or Redis") {
        run_example("store.yaml", "true");
    }
}

/// Copies the example `shop`, prepares it, and runs a plan of it, shortened.
fn run_example(plan: &str, prepare: &str) {
    let dir = tempfile::tempdir().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shop/.");
    let shell = |text: &str| {
        let output = Command::new("sh")
            .args(["-c", text])
            .current_dir(&dir)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{text}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    shell(&format!("cp -r {example} ."));
    shell(prepare);
    let mut command = tare(dir.path());
    let output = command
        .args([
            "run",
            plan,
            "--out",
            "out",
            "--set",
            "meshes=bare,envoy/mtls",
        ])
        .args(SHORT)
        .output()
        .unwrap();
    assert_weighed(dir.path(), &output, 2);
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

/// Whether a command succeeds. If not, writes that its test is skipped, which the test harness does not capture.
fn has(command: &[&str], what: &str) -> bool {
    let run = Command::new(command[0]).args(&command[1..]).output();
    let has = run.is_ok_and(|output| output.status.success());
    if !has {
        let words = format!("applications: skipped what needs {what}\n");
        std::io::stderr().write_all(words.as_bytes()).unwrap();
    }
    has
}

#[test]
fn the_example_in_python_is_proven_and_weighed() {
    if has(&["python3", "-c", "import ensurepip"], "Python 3 with venv") {
        let prepare =
            "rm -rf venv && python3 -m venv venv && venv/bin/pip install -q -r requirements.txt";
        run_example("python.yaml", prepare);
    }
}

#[test]
fn the_example_in_go_is_proven_and_weighed() {
    if has(&["go", "version"], "Go") {
        run_example("go.yaml", "cd go && go build -o shop .");
    }
}
