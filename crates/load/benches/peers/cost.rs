//! CPU cost of a request in the client.

use std::cell::Cell;
use std::path::Path;

use crate::contest::{Contender, Ratio, contest};
use crate::server::Server;
use crate::tools::{PerRequest, Tools, Used, client, json, number_after};

pub const CONNECTIONS: &str = "50";
/// The constant rate, as a share of the saturating rate in the same round.
const NEAR: f64 = 0.97;

/// Runs `tare load` without a warm-up, so that its CPU time is that of the counted requests.
fn tare(tools: &Tools, url: &str, seconds: u32, mode: &[&str]) -> Used {
    let duration = format!("{seconds}s");
    let mut args = vec!["load", url, "--duration", &duration];
    args.extend(["--connections", CONNECTIONS]);
    args.extend(["--warmup", "0s", "--output", "json"]);
    args.extend(mode);
    client(&tools.tare, &args)
}

/// Runs `tare load --max`; returns the cost and the responses per second.
fn tare_max(tools: &Tools, url: &str, seconds: u32) -> (PerRequest, f64) {
    let used = tare(tools, url, seconds, &["--max"]);
    let ok = json(&used.text)["counts"]["ok"].as_f64().unwrap();
    (used.per(ok), ok / f64::from(seconds))
}

fn tare_rate(tools: &Tools, url: &str, seconds: u32, rate: f64) -> PerRequest {
    let rate = format!("{rate:.0}");
    let used = tare(tools, url, seconds, &["--rate", &rate]);
    let ok = json(&used.text)["counts"]["ok"].as_f64().unwrap();
    used.per(ok)
}

pub fn wrk(wrk: &Path, url: &str, seconds: u32) -> PerRequest {
    let seconds = seconds.to_string();
    let used = client(wrk, &["-t1", "-c", CONNECTIONS, "-d", &seconds, url]);
    let line = used.text.lines().find(|l| l.contains("requests in"));
    let requests: f64 = line
        .unwrap()
        .trim()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    used.per(requests)
}

fn oha(oha: &Path, url: &str, seconds: u32) -> PerRequest {
    let duration = format!("{seconds}s");
    let mut args = vec!["-z", &duration, "-c", CONNECTIONS, "--no-tui"];
    args.extend(["--output-format", "json", url]);
    let used = client(oha, &args);
    let per_second = number_after(&used.text, "\"requestsPerSec\":");
    used.per(per_second * f64::from(seconds))
}

/// Runs the minimal client, which only writes and reads.
fn bare(tools: &Tools, address: &str, seconds: u32) -> PerRequest {
    let used = client(&tools.bare, &[address, CONNECTIONS, &seconds.to_string()]);
    used.per(json(&used.text)["counts"]["ok"].as_f64().unwrap())
}

/// Compares tare with wrk and oha over HTTP/1.1, and tare's open loop near the saturating rate
/// with its closed loop.
pub fn http1(tools: &Tools, rounds: usize, seconds: u32) {
    let server = Server::start(tools, "0s");
    let url = server.url();
    let max_rate = Cell::new(tare_max(tools, &url, 2).1);
    let mut contenders = vec![
        Contender {
            name: "tare --rate",
            run: Box::new(|| tare_rate(tools, &url, seconds, NEAR * max_rate.get())),
        },
        Contender {
            name: "tare --max",
            run: Box::new(|| {
                let (used, rate) = tare_max(tools, &url, seconds);
                max_rate.set(rate);
                used
            }),
        },
        Contender {
            name: "bare loop",
            run: Box::new(|| bare(tools, server.address(), seconds)),
        },
    ];
    if let Some(program) = &tools.wrk {
        contenders.push(Contender {
            name: "wrk",
            run: Box::new(|| wrk(program, &url, seconds)),
        });
    }
    if let Some(program) = &tools.oha {
        contenders.push(Contender {
            name: "oha",
            run: Box::new(|| oha(program, &url, seconds)),
        });
    }
    contest(
        &format!(
            "HTTP/1.1: server without delay, {CONNECTIONS} connections. Client CPU time per request: \
             median (range) of {rounds} rounds of {seconds} s; ratios: median over the rounds (95 % interval)."
        ),
        rounds,
        &mut contenders,
        &[
            Ratio {
                of: "tare --max",
                to: "wrk",
                note: "required: at most 0.85",
            },
            Ratio {
                of: "tare --max",
                to: "oha",
                note: "required: at most 0.6",
            },
            Ratio {
                of: "bare loop",
                to: "oha",
                note: "the part of the kernel and a minimal client",
            },
            Ratio {
                of: "tare --max",
                to: "bare loop",
                note: "the part of tare itself",
            },
            Ratio {
                of: "tare --rate",
                to: "tare --max",
                note: "at 97 % of the saturating rate; required: at most 1.05",
            },
        ],
    );
}
