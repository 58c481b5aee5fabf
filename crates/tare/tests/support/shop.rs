//! A program of the user with one of several faults.

use std::path::Path;
use std::process::Output;

use crate::programs::tare;

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
pub(crate) fn run_with(dir: &Path, fault: &str, mesh: &str, instances: u32) -> (Output, String) {
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
    let output = tare(dir)
        .args(["run", "plan.yaml", "--out", "out"])
        .output()
        .unwrap();
    let trials = std::fs::read_dir(dir.join("out/trials"))
        .into_iter()
        .flatten();
    let events = trials.map(|t| std::fs::read_to_string(t.unwrap().path().join("events.ndjson")));
    let events = events.filter_map(Result::ok).collect();
    (output, events)
}
