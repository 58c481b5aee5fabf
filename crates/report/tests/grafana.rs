//! Sends every query of the Grafana dashboard to a real Prometheus with a pushed run.
//! `make grafana-test` sets `PROMETHEUS` to the path of its binary.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tare_report::export::{metrics, push};

/// Longest time until Prometheus listens, and until it returns a pushed run.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Prometheus on loopback, killed when this value is dropped.
struct Prometheus {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(binary: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("prometheus.yml");
        std::fs::write(&config, "global: {}\n").unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new(binary)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().display()))
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

#[test]
#[ignore = "needs a Prometheus: make grafana-test"]
fn every_query_of_the_dashboard_finds_a_pushed_run() {
    let binary = std::env::var("PROMETHEUS").expect("PROMETHEUS must be the path of its binary");
    let prometheus = Prometheus::start(&binary);
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
    let begun = Instant::now();
    while prometheus
        .ask("last_over_time(tare_run_info[1h])")
        .is_empty()
    {
        assert!(
            begun.elapsed() < PATIENCE,
            "Prometheus does not return the pushed run"
        );
        std::thread::sleep(Duration::from_millis(100));
    }

    let dashboard = include_str!("../../../docs/grafana/tare-run.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            // Values of Grafana's variables: one run, all loads, one mesh, the last day.
            let query = target["expr"]
                .as_str()
                .unwrap()
                .replace("$run", &summary.run)
                .replace("$load", ".+")
                .replace("$mesh", "envoy/mtls")
                .replace("$__range", "24h");
            assert!(!query.contains('$'), "a variable without a value: {query}");
            let found = prometheus.ask(&query);
            assert!(
                !found.is_empty(),
                "{}: no series for {query}",
                panel["title"]
            );
            let value = found[0]["value"][1].as_str().unwrap();
            assert!(
                value.parse::<f64>().unwrap().is_finite(),
                "{query}: {value}"
            );
            asked += 1;
        }
    }
    assert!(asked >= 15, "only {asked} queries in the dashboard");
    for (variable, label) in [("tare_run_info", "run"), ("tare_achieved_rps", "mesh")] {
        let found = prometheus.ask(&format!("last_over_time({variable}[24h])"));
        assert!(found.iter().all(|s| s["metric"][label].is_string()));
    }
}
