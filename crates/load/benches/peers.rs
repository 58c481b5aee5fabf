//! `make bench`: what the load engine costs and how true it is, beside wrk, oha
//! and fortio on the same server in the same run. Server and client have a core
//! each; the order of the clients changes from round to round; costs are printed
//! as ratios of medians with the range of the rounds. A peer that is not there is
//! left out with a word on how to get it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark talks, and may give up"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::Value;

const CONNECTIONS: &str = "50";

struct Tools {
    tare: PathBuf,
    fixed: PathBuf,
    wrk: Option<PathBuf>,
    oha: Option<PathBuf>,
    fortio: Option<PathBuf>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// On PATH, or where `make bench-peers` installs.
fn find(name: &str, hint: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let own = cache.map(|c| c.join("tare/bench/bin"));
    let own = own.map(|d| d.join(name)).filter(|p| p.is_file());
    let found = own.or_else(|| find_on_path(name));
    if found.is_none() {
        println!("{name} is not here and is left out; get it with: {hint}");
    }
    found
}

impl Tools {
    fn find() -> Self {
        let release = root().join("target/release");
        let built = |p: PathBuf| {
            assert!(p.is_file(), "{} is missing: use `make bench`", p.display());
            p
        };
        Self {
            tare: built(release.join("tare")),
            fixed: built(release.join("examples/fixed")),
            wrk: find("wrk", "apt-get install wrk"),
            oha: find("oha", "make bench-peers"),
            fortio: find("fortio", "make bench-peers"),
        }
    }
}

fn pinned(core: u32, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// The server of known latency on core 0; ends when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(tools: &Tools, delay: &str) -> Self {
        let mut child = pinned(0, &tools.fixed)
            .args(["--listen", "127.0.0.1:0", "--delay", delay])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { child, address }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Its own record since the last call, in nanoseconds.
    fn record(&self) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .write_all(b"GET /record HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = n.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        reader.take(length).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What a client printed and used.
struct Used {
    text: String,
    cpu_s: f64,
    /// Absent where perf is not to be had. The same whatever the host does meanwhile.
    instructions: Option<f64>,
}

/// Runs a client on core 1.
fn client(program: &Path, args: &[&str]) -> Used {
    let used = || {
        let u = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
        (u.user_time().num_microseconds() + u.system_time().num_microseconds()) as f64 / 1e6
    };
    let counted = std::env::temp_dir().join(format!("tare-bench-{}", std::process::id()));
    let mut command = match find_on_path("perf") {
        Some(perf) => {
            let mut command = pinned(1, &perf);
            command.args(["stat", "-x,", "-e", "instructions", "-o"]);
            command.arg(&counted).arg("--").arg(program);
            command
        }
        None => pinned(1, program),
    };
    let before = used();
    let out = command.args(args).stderr(Stdio::null()).output().unwrap();
    let cpu_s = used() - before;
    let count = std::fs::read_to_string(&counted).unwrap_or_default();
    let _ = std::fs::remove_file(&counted);
    let line = count.lines().find(|l| l.contains("instructions"));
    Used {
        text: String::from_utf8_lossy(&out.stdout).into_owned(),
        cpu_s,
        instructions: line.and_then(|l| l.split(',').next()?.parse().ok()),
    }
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|d| d.join(name))
        .find(|p| p.is_file())
}

/// Per request: CPU in microseconds, and instructions.
#[derive(Clone, Copy)]
struct PerRequest {
    us: f64,
    instructions: Option<f64>,
}

impl Used {
    fn per(&self, requests: f64) -> PerRequest {
        PerRequest {
            us: self.cpu_s * 1e6 / requests,
            instructions: self.instructions.map(|n| n / requests),
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(low, high), v| {
        (low.min(*v), high.max(*v))
    })
}

/// The number after `label` in a peer's text.
fn number_after(text: &str, label: &str) -> f64 {
    let rest = &text[text
        .find(label)
        .unwrap_or_else(|| panic!("no {label:?} in:\n{text}"))
        + label.len()..];
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.' || *c == 'e' || *c == '-')
        .collect();
    digits.parse().unwrap()
}

fn tare_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Reported p50 and p99 in microseconds.
fn truth_of(name: &str, program: &Path, url: &str, seconds: u32) -> (f64, f64) {
    let (duration, fortio_time) = (format!("{seconds}s"), format!("{seconds}s"));
    match name {
        "tare spin" | "tare sleep" => {
            let pace = name.rsplit(' ').next().unwrap();
            let args = [
                "load",
                url,
                "--rate",
                "2000",
                "--duration",
                &duration,
                "--connections",
                CONNECTIONS,
                "--warmup",
                "1s",
                "--output",
                "json",
                "--pace",
                pace,
            ];
            let json = tare_json(&client(program, &args).text);
            let us = |p: &str| json["latency_ns"][p].as_f64().unwrap() / 1e3;
            (us("p50"), us("p99"))
        }
        "oha" => {
            let args = [
                "-z",
                &duration,
                "-q",
                "2000",
                "-c",
                CONNECTIONS,
                "--no-tui",
                "--output-format",
                "json",
                "--latency-correction",
                url,
            ];
            let json = tare_json(&client(program, &args).text);
            let us = |p: &str| json["latencyPercentiles"][p].as_f64().unwrap() * 1e6;
            (us("p50"), us("p99"))
        }
        _ => {
            let args = [
                "load",
                "-quiet",
                "-qps",
                "2000",
                "-c",
                CONNECTIONS,
                "-t",
                &fortio_time,
                "-uniform",
                "-nocatchup",
                "-r",
                "0.00001",
                "-p",
                "50,99",
                "-json",
                "-",
                url,
            ];
            let json = tare_json(&client(program, &args).text);
            let percentiles = json["DurationHistogram"]["Percentiles"].as_array().unwrap();
            let us = |i: usize| percentiles[i]["Value"].as_f64().unwrap() * 1e6;
            (us(0), us(1))
        }
    }
}

fn truth(tools: &Tools, delay: &str, rounds: usize, seconds: u32) {
    println!(
        "\nTruth: a server that answers after exactly {delay}, 2000 rps, {CONNECTIONS} connections."
    );
    println!(
        "Medians of {rounds} interleaved rounds of {seconds} s; reported minus the server's own record."
    );
    let mut clients: Vec<(&str, &Path)> =
        vec![("tare spin", &tools.tare), ("tare sleep", &tools.tare)];
    clients.extend(tools.oha.as_deref().map(|p| ("oha", p)));
    clients.extend(tools.fortio.as_deref().map(|p| ("fortio", p)));
    let mut seen: BTreeMap<&str, Vec<[f64; 4]>> = BTreeMap::new();
    for round in 0..rounds {
        for i in 0..clients.len() {
            let (name, program) = clients[(i + round) % clients.len()];
            let server = Server::start(tools, delay);
            let (p50, p99) = truth_of(name, program, &server.url(), seconds);
            let own = server.record();
            let us = |p: &str| own[p].as_f64().unwrap() / 1e3;
            seen.entry(name)
                .or_default()
                .push([p50, p99, p50 - us("p50"), p99 - us("p99")]);
        }
    }
    println!(
        "{:<12} {:>10} {:>10} {:>12} {:>12}",
        "", "p50 us", "p99 us", "p50 - own", "p99 - own"
    );
    for (name, _) in &clients {
        let column = |k: usize| median(&seen[name].iter().map(|r| r[k]).collect::<Vec<_>>());
        println!(
            "{name:<12} {:>10.0} {:>10.0} {:>12.0} {:>12.0}",
            column(0),
            column(1),
            column(2),
            column(3)
        );
    }
}

/// `tare load` without a warm-up, so that its CPU is that of the counted requests.
fn tare(tools: &Tools, url: &str, seconds: u32, mode: &[&str]) -> Used {
    let duration = format!("{seconds}s");
    let mut args = vec![
        "load",
        url,
        "--duration",
        &duration,
        "--connections",
        CONNECTIONS,
    ];
    args.extend(["--warmup", "0s", "--output", "json"]);
    args.extend(mode);
    client(&tools.tare, &args)
}

fn saturate_tare(tools: &Tools, url: &str, seconds: u32) -> (PerRequest, f64) {
    let used = tare(tools, url, seconds, &["--max"]);
    let ok = tare_json(&used.text)["counts"]["ok"].as_f64().unwrap();
    (used.per(ok), ok / f64::from(seconds))
}

fn constant_tare(tools: &Tools, url: &str, seconds: u32, rate: f64) -> (PerRequest, f64) {
    let rate = format!("{rate:.0}");
    let used = tare(tools, url, seconds, &["--rate", &rate]);
    let json = tare_json(&used.text);
    let ok = json["counts"]["ok"].as_f64().unwrap();
    (used.per(ok), json["rate"]["achieved"].as_f64().unwrap())
}

fn saturate_wrk(wrk: &Path, url: &str, seconds: u32) -> PerRequest {
    let used = client(
        wrk,
        &["-t1", "-c", CONNECTIONS, "-d", &seconds.to_string(), url],
    );
    let line = used
        .text
        .lines()
        .find(|l| l.contains("requests in"))
        .unwrap();
    let requests: f64 = line.trim().split(' ').next().unwrap().parse().unwrap();
    used.per(requests)
}

fn saturate_oha(oha: &Path, url: &str, seconds: u32) -> PerRequest {
    let duration = format!("{seconds}s");
    let args = [
        "-z",
        &duration,
        "-c",
        CONNECTIONS,
        "--no-tui",
        "--output-format",
        "json",
        url,
    ];
    let used = client(oha, &args);
    let per_second = number_after(&used.text, "\"requestsPerSec\":");
    used.per(per_second * f64::from(seconds))
}

fn cost(tools: &Tools, rounds: usize, seconds: u32) {
    println!(
        "\nCost: a server that answers at once, {CONNECTIONS} connections, client's CPU in us per request."
    );
    println!("Medians (range) of {rounds} interleaved rounds of {seconds} s.");
    let mut seen: BTreeMap<&str, Vec<PerRequest>> = BTreeMap::new();
    let mut near = Vec::new();
    let server = Server::start(tools, "0s");
    let url = server.url();
    let (_, mut max_rate) = saturate_tare(tools, &url, 2);
    for round in 0..rounds {
        for i in 0..4 {
            match (i + round) % 4 {
                0 => {
                    let (used, rate) = saturate_tare(tools, &url, seconds);
                    max_rate = rate;
                    seen.entry("tare --max").or_default().push(used);
                }
                1 => {
                    let (used, achieved) = constant_tare(tools, &url, seconds, 0.97 * max_rate);
                    near.push(achieved / max_rate);
                    seen.entry("tare --rate").or_default().push(used);
                }
                2 => {
                    if let Some(wrk) = &tools.wrk {
                        seen.entry("wrk")
                            .or_default()
                            .push(saturate_wrk(wrk, &url, seconds));
                    }
                }
                _ => {
                    if let Some(oha) = &tools.oha {
                        seen.entry("oha")
                            .or_default()
                            .push(saturate_oha(oha, &url, seconds));
                    }
                }
            }
        }
    }
    let us =
        |name: &str| -> Option<Vec<f64>> { Some(seen.get(name)?.iter().map(|p| p.us).collect()) };
    let instructions = |name: &str| -> Option<f64> {
        let counts: Option<Vec<f64>> = seen.get(name)?.iter().map(|p| p.instructions).collect();
        counts.map(|c| median(&c))
    };
    for name in seen.keys() {
        let times = us(name).unwrap_or_default();
        let (low, high) = range(&times);
        let count =
            instructions(name).map_or_else(String::new, |n| format!("  {n:>6.0} instructions"));
        println!(
            "{name:<12} {:>6.2} us ({low:.2} to {high:.2}){count}",
            median(&times)
        );
    }
    for (a, b, asked) in [
        ("tare --max", "wrk", "at most 0.90 asked"),
        ("tare --max", "oha", "at most 0.60 asked"),
        ("tare --rate", "tare --max", "at most 1.05 asked"),
    ] {
        if let (Some(mine), Some(peer)) = (us(a), us(b)) {
            let ratio = median(&mine) / median(&peer);
            let counted = instructions(a).zip(instructions(b)).map(|(x, y)| x / y);
            let counted = counted.map_or_else(String::new, |r| format!(", in instructions {r:.3}"));
            println!("{a} / {b} = {ratio:.3}{counted}  ({asked})");
        }
    }
    println!(
        "constant rate: {:.1} % of the saturating rate",
        100.0 * median(&near)
    );
}

fn main() {
    // cargo passes --bench; a number sets the rounds.
    let rounds = std::env::args()
        .skip(1)
        .find_map(|a| a.parse().ok())
        .unwrap_or(5);
    let tools = Tools::find();
    cost(&tools, rounds, 4);
    truth(&tools, "1ms", rounds.min(3), 10);
    truth(&tools, "0s", rounds.min(3), 5);
}
