//! What is reported, beside what the server did.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::contest::median;
use crate::cost::CONNECTIONS;
use crate::server::Server;
use crate::tools::{Tools, client, json};

const RATE: &str = "2000";

/// p50 and p99 in microseconds of a summary in nanoseconds.
fn us(summary: &Value) -> (f64, f64) {
    let of = |p: &str| summary[p].as_f64().unwrap() / 1e3;
    (of("p50"), of("p99"))
}

fn tare(program: &Path, url: &str, seconds: u32, pace: &str) -> (f64, f64) {
    let duration = format!("{seconds}s");
    let mut args = vec!["load", url, "--rate", RATE, "--duration", &duration];
    args.extend(["--connections", CONNECTIONS, "--warmup", "1s"]);
    args.extend(["--output", "json", "--pace", pace]);
    us(&json(&client(program, &args).text)["latency_ns"])
}

fn oha(program: &Path, url: &str, seconds: u32) -> (f64, f64) {
    let duration = format!("{seconds}s");
    let mut args = vec!["-z", &duration, "-q", RATE, "-c", CONNECTIONS, "--no-tui"];
    args.extend(["--output-format", "json", "--latency-correction", url]);
    let json = json(&client(program, &args).text);
    let us = |p: &str| json["latencyPercentiles"][p].as_f64().unwrap() * 1e6;
    (us("p50"), us("p99"))
}

fn fortio(program: &Path, url: &str, seconds: u32) -> (f64, f64) {
    let duration = format!("{seconds}s");
    let mut args = vec!["load", "-quiet", "-qps", RATE, "-c", CONNECTIONS];
    args.extend(["-t", &duration, "-uniform", "-nocatchup", "-r", "0.00001"]);
    args.extend(["-p", "50,99", "-json", "-", url]);
    let json = json(&client(program, &args).text);
    let percentiles = json["DurationHistogram"]["Percentiles"].as_array().unwrap();
    let us = |i: usize| percentiles[i]["Value"].as_f64().unwrap() * 1e6;
    (us(0), us(1))
}

/// All clients on a server that answers after exactly `delay`.
pub fn truth(tools: &Tools, delay: &str, rounds: usize, seconds: u32) {
    println!(
        "\nTruth: a server that answers after exactly {delay}, {RATE} rps, {CONNECTIONS} connections. \
         Medians of {rounds} interleaved rounds of {seconds} s;\nreported minus the server's own record, \
         in us (asked of a 1 ms server: p50 within 60, p99 within 150)."
    );
    type Client<'a> = Box<dyn Fn(&str) -> (f64, f64) + 'a>;
    let mut clients: Vec<(&str, Client<'_>)> = vec![
        (
            "tare sleep",
            Box::new(|url| tare(&tools.tare, url, seconds, "sleep")),
        ),
        (
            "tare spin",
            Box::new(|url| tare(&tools.tare, url, seconds, "spin")),
        ),
    ];
    if let Some(program) = &tools.oha {
        clients.push(("oha", Box::new(|url| oha(program, url, seconds))));
    }
    if let Some(program) = &tools.fortio {
        clients.push(("fortio", Box::new(|url| fortio(program, url, seconds))));
    }
    let mut seen: BTreeMap<&str, Vec<[f64; 4]>> = BTreeMap::new();
    for round in 0..rounds {
        for i in 0..clients.len() {
            let (name, run) = &clients[(i + round) % clients.len()];
            let server = Server::start(tools, delay);
            let (p50, p99) = run(&server.url());
            let (own_p50, own_p99) = us(&server.record());
            let row = [p50, p99, p50 - own_p50, p99 - own_p99];
            seen.entry(name).or_default().push(row);
        }
    }
    println!(
        "  {:<12} {:>9} {:>9} {:>11} {:>11}   p99 - own, each round",
        "", "p50", "p99", "p50 - own", "p99 - own"
    );
    for (name, _) in &clients {
        let column = |k: usize| -> Vec<f64> { seen[name].iter().map(|r| r[k]).collect() };
        let [p50, p99, d50, d99] = [0, 1, 2, 3].map(|k| median(&column(k)));
        let each: Vec<String> = column(3).iter().map(|v| format!("{v:.0}")).collect();
        println!(
            "  {name:<12} {p50:>9.0} {p99:>9.0} {d50:>11.0} {d99:>11.0}   {}",
            each.join(" ")
        );
    }
}
