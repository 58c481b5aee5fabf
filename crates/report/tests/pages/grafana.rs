//! Sends every query of the Grafana dashboards to a real Prometheus: with a pushed run, with the whole history of
//! Envoy, and with metrics like those of istiod. `make grafana-test` sets `PROMETHEUS` to the path of its binary;
//! `promtool` is beside it.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tare_analysis::formats::families;
use tare_analysis::history::series;
use tare_plan::{Figure, Margins};
use tare_report::HistoryDir;
use tare_report::export::{self, metrics, push};

/// Longest time until Prometheus listens, and until it returns a pushed run.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Prometheus on loopback, killed when this value is dropped.
struct Prometheus {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

/// The path of the binary.
fn binary() -> String {
    std::env::var("PROMETHEUS").expect("PROMETHEUS must be the path of its binary")
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts it with a configuration, on the data in `dir`.
    fn start(config: &str, dir: tempfile::TempDir) -> Self {
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new(binary())
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().display()))
            .arg("--storage.tsdb.retention.time=100y")
            .arg(format!("--web.listen-address={address}"))
            .arg("--web.enable-remote-write-receiver")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let prometheus = Self {
            child,
            url: format!("http://{address}"),
            _dir: dir,
        };
        let begun = Instant::now();
        while prometheus.get("/-/ready").is_none() {
            assert!(begun.elapsed() < PATIENCE, "Prometheus does not listen");
            std::thread::sleep(Duration::from_millis(100));
        }
        prometheus
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut answer = ureq::get(format!("{}{path}", self.url)).call().ok()?;
        answer.body_mut().read_to_string().ok()
    }

    /// Waits until a query returns a series.
    fn wait_for(&self, query: &str) {
        let begun = Instant::now();
        while self.ask(query).is_empty() {
            assert!(begun.elapsed() < PATIENCE, "no series for {query}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The series that `query` returns.
    fn ask(&self, query: &str) -> Vec<Value> {
        let mut answer = ureq::post(format!("{}/api/v1/query", self.url))
            .config()
            .http_status_as_error(false)
            .build()
            .send_form([("query", query)])
            .unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {text}");
        answer["data"]["result"].as_array().unwrap().clone()
    }
}

/// Sends every query of a dashboard; each finds a series with a finite value, but those of the panels `empty`.
/// Returns their number.
fn ask_all(
    prometheus: &Prometheus,
    dashboard: &str,
    values: &[(&str, &str)],
    empty: &[&str],
) -> usize {
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let mut query = target["expr"].as_str().unwrap().to_owned();
            for (variable, value) in values {
                query = query.replace(variable, value);
            }
            assert!(!query.contains('$'), "a variable without a value: {query}");
            let found = prometheus.ask(&query);
            let title = panel["title"].as_str().unwrap();
            asked += 1;
            if empty.contains(&title) {
                assert!(found.is_empty(), "{title}: {found:?}");
                continue;
            }
            assert!(!found.is_empty(), "{title}: no series for {query}");
            let value = found[0]["value"][1].as_str().unwrap();
            assert!(
                value.parse::<f64>().unwrap().is_finite(),
                "{query}: {value}"
            );
        }
    }
    asked
}

#[test]
#[ignore = "needs a Prometheus: make grafana-test"]
fn a_history_is_imported_and_every_query_of_its_dashboard_finds_it() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let history = HistoryDir::read(&root.join("data/history/envoy-2026")).unwrap();
    let all = series(&history.entries, &[], &Margins::default(), "2026-11-25");
    let families = export::history::families(&history.entries, &all);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history.txt");
    std::fs::write(&file, families::openmetrics(&families)).unwrap();
    let promtool = std::path::Path::new(&binary()).with_file_name("promtool");
    let import = Command::new(promtool)
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&file, dir.path()])
        .output()
        .unwrap();
    assert!(import.status.success(), "{import:?}");
    let prometheus = Prometheus::start("global: {}\n", dir);
    let dashboard = include_str!("../../../../docs/grafana/tare-history.json");
    let values = [
        ("$plan", ".+"),
        ("$host", ".+"),
        ("$mesh", "envoy/mtls"),
        ("$load", ".+"),
        ("$__range", "90y"),
        ("$__interval", "90y"),
    ];
    // The patrol of Envoy has no search for a capacity, and no change.
    let empty = ["Capacity, ratio to the baseline", "Changes of a level"];
    assert!(ask_all(&prometheus, dashboard, &values, &empty) >= 14);
    let builds =
        prometheus.ask("count(count by (build) (last_over_time(tare_history_build_info[90y])))");
    assert_eq!(builds[0]["value"][1], "10");
    // The value at the time of the last entry is that of the entry.
    let last = history.entries.last().unwrap();
    let p50 = all
        .iter()
        .find(|s| s.key.variant == "envoy/mtls" && s.key.what == Figure::P50);
    let expected = p50.unwrap().points.last().unwrap().log.exp();
    let query = format!(
        "tare_history_ratio{{mesh=\"envoy/mtls\",figure=\"p50\"}} @ {}",
        last.at_unix_ns / 1_000_000_000 + 1
    );
    let found = prometheus.ask(&query);
    let value: f64 = found[0]["value"][1].as_str().unwrap().parse().unwrap();
    assert!((value - expected).abs() < 1e-9, "{value}, {expected}");
}

/// The metrics of istiod's `/metrics` that the dashboard reads, after `n` seconds.
fn istiod(n: u64) -> String {
    let mut text = format!(
        "process_cpu_seconds_total {}\nprocess_resident_memory_bytes 9e7\npilot_xds{{version=\"1\"}} 3\npilot_services 9\n\
         pilot_xds_pushes{{type=\"cds_senderr\"}} {n}\npilot_total_xds_rejects {n}\npilot_total_xds_internal_errors {n}\n\
         pilot_push_triggers{{type=\"endpoint\"}} {n}\n",
        n as f64 / 10.0
    );
    for (name, label) in [
        ("pilot_xds_push_time", "type=\"cds\","),
        ("pilot_proxy_convergence_time", ""),
        ("pilot_proxy_queue_time", ""),
    ] {
        for le in ["0.1", "1", "+Inf"] {
            text += &format!("{name}_bucket{{{label}le=\"{le}\"}} {n}\n");
        }
        text += &format!("{name}_count{{{label}}} {n}\n").replace(",}", "}");
    }
    text
}

#[test]
#[ignore = "needs a Prometheus: make grafana-test"]
fn every_query_of_the_control_plane_dashboard_finds_the_metrics_of_istiod() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).unwrap();
            let body = istiod(n as u64 * 10);
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
    });
    let config = format!(
        "scrape_configs: [{{job_name: istiod, scrape_interval: 1s, static_configs: [{{targets: ['{address}']}}]}}]\n"
    );
    let prometheus = Prometheus::start(&config, tempfile::tempdir().unwrap());
    prometheus.wait_for("rate(pilot_push_triggers[5m]) > 0");
    let dashboard = include_str!("../../../../docs/grafana/tare-control-plane.json");
    let values = [("$job", "istiod"), ("$__rate_interval", "5m")];
    assert!(ask_all(&prometheus, dashboard, &values, &[]) >= 14);
}

#[test]
#[ignore = "needs a Prometheus: make grafana-test"]
fn every_query_of_the_dashboard_finds_a_pushed_run() {
    let prometheus = Prometheus::start("global: {}\n", tempfile::tempdir().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let plan = support::quick();
    support::write_run(dir.path(), &plan, |_| {});
    let run = tare_report::load_run(dir.path()).unwrap();
    let summary = tare_report::summarise(&run);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let families = metrics::of(&run, &summary).unwrap();
    let url = format!("{}/api/v1/write", prometheus.url);
    let protocol = push::Protocol::of(&url);
    push::push(&url, protocol, &[], &families, now.as_millis() as i64).unwrap();
    prometheus.wait_for("last_over_time(tare_run_info[1h])");
    let dashboard = include_str!("../../../../docs/grafana/tare-run.json");
    // Values of Grafana's variables: one run, all loads, one mesh, the last day.
    let values = [
        ("$run", summary.run.as_str()),
        ("$load", ".+"),
        ("$mesh", "envoy/mtls"),
        ("$__range", "24h"),
    ];
    assert!(ask_all(&prometheus, dashboard, &values, &[]) >= 15);
    for (variable, label) in [("tare_run_info", "run"), ("tare_achieved_rps", "mesh")] {
        let found = prometheus.ask(&format!("last_over_time({variable}[24h])"));
        assert!(found.iter().all(|s| s["metric"][label].is_string()));
    }
}
