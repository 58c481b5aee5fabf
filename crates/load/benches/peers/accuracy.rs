//! Accuracy: reported latencies compared with the server's own record.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tare_load::Awake;
use tare_stats::order::median;

use crate::cost::CONNECTIONS;
use crate::host::{LostCpu, disturbances};
use crate::server::Server;
use crate::tools::{Tools, client, json};

/// p50 and p99 of a summary, in microseconds.
fn us(summary: &Value) -> (f64, f64) {
    let of = |p: &str| summary[p].as_f64().unwrap() / 1e3;
    (of("p50"), of("p99"))
}

fn tare(program: &Path, url: &str, rate: &str, seconds: u32, pace: &str) -> Value {
    let duration = format!("{seconds}s");
    let mut args = vec!["load", url, "--rate", rate, "--duration", &duration];
    args.extend(["--connections", CONNECTIONS, "--warmup", "1s"]);
    args.extend(["--output", "json", "--pace", pace]);
    json(&client(program, &args).text)
}

fn oha(program: &Path, url: &str, rate: &str, seconds: u32) -> (f64, f64) {
    let duration = format!("{seconds}s");
    let mut args = vec!["-z", &duration, "-q", rate, "-c", CONNECTIONS, "--no-tui"];
    args.extend(["--output-format", "json", "--latency-correction", url]);
    let json = json(&client(program, &args).text);
    let us = |p: &str| json["latencyPercentiles"][p].as_f64().unwrap() * 1e6;
    (us("p50"), us("p99"))
}

fn fortio(program: &Path, url: &str, rate: &str, seconds: u32) -> (f64, f64) {
    let duration = format!("{seconds}s");
    let mut args = vec!["load", "-quiet", "-qps", rate, "-c", CONNECTIONS];
    args.extend(["-t", &duration, "-uniform", "-nocatchup", "-r", "0.00001"]);
    args.extend(["-p", "50,99", "-json", "-", url]);
    let json = json(&client(program, &args).text);
    let percentiles = json["DurationHistogram"]["Percentiles"].as_array().unwrap();
    let us = |i: usize| percentiles[i]["Value"].as_f64().unwrap() * 1e6;
    (us(0), us(1))
}

/// Computes percentiles from the request log, because h2load does not print them.
fn h2load(program: &Path, url: &str, rate: f64, seconds: u32) -> (f64, f64) {
    let log = std::env::temp_dir().join(format!("tare-bench-h2load-{}", std::process::id()));
    let connections: f64 = CONNECTIONS.parse().unwrap();
    let each = format!("{}", rate / connections);
    let requests = format!("{}", rate * f64::from(seconds));
    let mut args = vec!["--h1", "-c", CONNECTIONS, "-n", &requests, "--rps", &each];
    args.extend(["--log-file", log.to_str().unwrap(), url]);
    client(program, &args);
    let text = std::fs::read_to_string(&log).unwrap();
    let _ = std::fs::remove_file(&log);
    // Instant, status, microseconds.
    let last = text.lines().filter_map(|l| l.split('\t').nth(2));
    let mut us: Vec<f64> = last.map(|f| f.trim().parse().unwrap()).collect();
    us.sort_by(f64::total_cmp);
    let rank = |q: f64| us[((us.len() as f64 * q).ceil() as usize).max(1) - 1];
    (rank(0.5), rank(0.99))
}

const TRIES: usize = 4;

/// Repeats a measurement that the host disturbed, because stolen CPU time dominates the 99th
/// percentile. Measures at most [`TRIES`] times; returns the last measurement and its lost time.
fn undisturbed<const N: usize>(mut measure: impl FnMut() -> [f64; N]) -> ([f64; N], LostCpu) {
    let mut tries = (0..TRIES).map(|_| LostCpu::during(&mut measure));
    let mut last = tries.next().expect("at least one try");
    while !last.1.is_undisturbed()
        && let Some(next) = tries.next()
    {
        last = next;
    }
    last
}

/// Keeps the cores awake and prints whether that succeeded. The wake-up time is a property of
/// the machine, not of a client, and a host may need milliseconds to return an idle core.
fn awake() -> Option<Awake> {
    let awake = Awake::hold();
    match &awake {
        Ok(held) => println!("  cores kept awake: {held}"),
        Err(error) => println!("  cores may sleep: {error}"),
    }
    awake.ok()
}

/// Measures the lateness of requests, and the part of the service time that tare itself adds.
pub fn pace(tools: &Tools, rounds: usize, seconds: u32) {
    println!(
        "\nPace: tare at 10000 rps, --pace spin, {CONNECTIONS} connections. Medians of {rounds} rounds of {seconds} s, in us."
    );
    let _awake = awake();
    let measure = || {
        let server = Server::start(tools, "0s");
        let result = tare(&tools.tare, &server.url(), "10000", seconds, "spin");
        let (late_p50, late_p99) = us(&result["lateness_ns"]);
        let (own_p50, own_p99) = us(&result["instrument_error"]["service_time_ns"]);
        [late_p50, late_p99, own_p50, own_p99]
    };
    let tries: Vec<([f64; 4], LostCpu)> = (0..rounds).map(|_| undisturbed(measure)).collect();
    let all: Vec<[f64; 4]> = tries.iter().map(|(row, _)| *row).collect();
    let undisturbed = tries.iter().filter(|(_, lost)| lost.is_undisturbed());
    let undisturbed: Vec<[f64; 4]> = undisturbed.map(|(row, _)| *row).collect();
    let print = |name: &str, of: usize, required: &str| {
        let column = |rows: &[[f64; 4]], k| rows.iter().map(|r| r[k]).collect::<Vec<f64>>();
        let medians = |rows: &[[f64; 4]]| {
            let [p50, p99] = [of, of + 1].map(|k| median(&column(rows, k)));
            format!("p50 {p50:.1}, p99 {p99:.1}")
        };
        println!("  {name} {}; required: {required}", medians(&all));
        if undisturbed.len() < all.len() && !undisturbed.is_empty() {
            println!(
                "    undisturbed: {} in {} rounds",
                medians(&undisturbed),
                undisturbed.len()
            );
        }
        let each = column(&all, of + 1);
        let each: Vec<String> = each.iter().map(|v| format!("{v:.1}")).collect();
        println!("    p99 of each round: {}", each.join(" "));
    };
    print("lateness", 0, "at most 5 and 50");
    print("service time minus the kernel's", 2, "at most 15 and 60");
    let lost: Vec<LostCpu> = tries.iter().map(|(_, lost)| *lost).collect();
    println!("  {}", disturbances(&lost));
}

/// Compares all clients on a server that answers after exactly `delay`.
pub fn accuracy(tools: &Tools, delay: &str, rate: &str, rounds: usize, seconds: u32) {
    println!(
        "\nAccuracy: a server that answers after exactly {delay}, {rate} rps, {CONNECTIONS} connections. \
         Medians of {rounds} interleaved rounds of {seconds} s;\nreported minus the server's own record, \
         in us (required with 1 ms at 2000 rps: p50 within 60, p99 within 150)."
    );
    let _awake = awake();
    type Client<'a> = Box<dyn Fn(&str) -> (f64, f64) + 'a>;
    let mut clients: Vec<(&str, Client<'_>)> = vec![
        (
            "tare sleep",
            Box::new(|url| us(&tare(&tools.tare, url, rate, seconds, "sleep")["latency_ns"])),
        ),
        (
            "tare spin",
            Box::new(|url| us(&tare(&tools.tare, url, rate, seconds, "spin")["latency_ns"])),
        ),
    ];
    if let Some(program) = &tools.oha {
        clients.push(("oha", Box::new(|url| oha(program, url, rate, seconds))));
    }
    if let Some(program) = &tools.fortio {
        clients.push((
            "fortio",
            Box::new(|url| fortio(program, url, rate, seconds)),
        ));
    }
    if let Some(program) = &tools.h2load {
        let rate: f64 = rate.parse().unwrap();
        clients.push((
            "h2load",
            Box::new(move |url| h2load(program, url, rate, seconds)),
        ));
    }
    let mut rows: BTreeMap<&str, Vec<[f64; 4]>> = BTreeMap::new();
    let mut lost: BTreeMap<&str, Vec<LostCpu>> = BTreeMap::new();
    for round in 0..rounds {
        for i in 0..clients.len() {
            let (name, run) = &clients[(i + round) % clients.len()];
            let (row, lost_now) = undisturbed(|| {
                let server = Server::start(tools, delay);
                let (p50, p99) = run(&server.url());
                let (own_p50, own_p99) = us(&server.record());
                [p50, p99, p50 - own_p50, p99 - own_p99]
            });
            rows.entry(name).or_default().push(row);
            lost.entry(name).or_default().push(lost_now);
        }
    }
    println!(
        "  {:<12} {:>9} {:>9} {:>12} {:>12}   p99 - server of each round",
        "", "p50", "p99", "p50 - server", "p99 - server"
    );
    for (name, _) in &clients {
        let column = |k: usize| -> Vec<f64> { rows[name].iter().map(|r| r[k]).collect() };
        let [p50, p99, d50, d99] = [0, 1, 2, 3].map(|k| median(&column(k)));
        let each: Vec<String> = column(3).iter().map(|v| format!("{v:.0}")).collect();
        println!(
            "  {name:<12} {p50:>9.0} {p99:>9.0} {d50:>12.0} {d99:>12.0}   {} ({})",
            each.join(" "),
            disturbances(&lost[name])
        );
    }
}
