//! CPU cost of a request at constant rates, at which a client mostly waits.

use std::cell::RefCell;
use std::path::Path;

use tare_load::Awake;
use tare_stats::order::median;

use crate::contest::{Contender, Ratio, contest};
use crate::cost::CONNECTIONS;
use crate::server::Server;
use crate::tools::{PerRequest, Tools, client, json, number_after};

/// Rates in requests per second, and the largest ratio to oha's cost.
const RATES: [(u32, &str); 4] = [
    (400, "required: at most 0.7"),
    (2_000, "required: at most 0.7"),
    (5_000, "required: at most 0.7"),
    (20_000, "required: at most 0.9"),
];

/// Compares `--pace sleep` with oha and fortio at each rate, and prints its lateness.
pub fn rates(tools: &Tools, rounds: usize, seconds: u32) {
    let awake = Awake::hold();
    for (rate, note) in RATES {
        let server = Server::start(tools, "0s");
        let url = server.url();
        let late: RefCell<[Vec<f64>; 2]> = RefCell::default();
        let mut contenders = vec![Contender {
            name: "tare",
            run: Box::new(|| {
                let (used, us) = tare(&tools.tare, &url, rate, seconds);
                let mut late = late.borrow_mut();
                late[0].push(us[0]);
                late[1].push(us[1]);
                used
            }),
        }];
        if let Some(program) = &tools.oha {
            let run = || oha(program, &url, rate, seconds);
            contenders.push(Contender {
                name: "oha",
                run: Box::new(run),
            });
        }
        if let Some(program) = &tools.fortio {
            let run = || fortio(program, &url, rate, seconds);
            contenders.push(Contender {
                name: "fortio",
                run: Box::new(run),
            });
        }
        let title = format!(
            "Constant rate: {rate} rps, {CONNECTIONS} connections. Client CPU time per request, in \
             {rounds} rounds of {seconds} s{}.",
            if awake.is_ok() {
                ", cores kept awake"
            } else {
                ""
            }
        );
        let ratio = |to| Ratio {
            of: "tare",
            to,
            note,
        };
        contest(&title, rounds, &mut contenders, &[ratio("oha")]);
        drop(contenders);
        let [p50, p99] = late.into_inner().map(|us| median(&us));
        println!("  lateness p50 {p50:.1} us, p99 {p99:.1} us; required: at most 10 and 60");
    }
}

/// Cost, and lateness at p50 and p99 in microseconds.
fn tare(program: &Path, url: &str, rate: u32, seconds: u32) -> (PerRequest, [f64; 2]) {
    let (rate, duration) = (rate.to_string(), format!("{seconds}s"));
    let mut args = vec!["load", url, "--rate", &rate, "--duration", &duration];
    args.extend(["--connections", CONNECTIONS, "--warmup", "0s"]);
    args.extend(["--pace", "sleep", "--output", "json"]);
    let used = client(program, &args);
    let result = json(&used.text);
    let late = |p: &str| result["lateness_ns"][p].as_f64().unwrap() / 1e3;
    let ok = result["counts"]["ok"].as_f64().unwrap();
    (used.per(ok), [late("p50"), late("p99")])
}

fn oha(program: &Path, url: &str, rate: u32, seconds: u32) -> PerRequest {
    let (rate, duration) = (rate.to_string(), format!("{seconds}s"));
    let mut args = vec!["-z", &duration, "-q", &rate, "-c", CONNECTIONS, "--no-tui"];
    args.extend(["--output-format", "json", url]);
    let used = client(program, &args);
    let per_second = number_after(&used.text, "\"requestsPerSec\":");
    used.per(per_second * f64::from(seconds))
}

fn fortio(program: &Path, url: &str, rate: u32, seconds: u32) -> PerRequest {
    let (rate, duration) = (rate.to_string(), format!("{seconds}s"));
    let mut args = vec!["load", "-quiet", "-qps", &rate, "-c", CONNECTIONS];
    args.extend(["-t", &duration, "-uniform", "-nocatchup", "-json", "-", url]);
    let used = client(program, &args);
    let count = json(&used.text)["DurationHistogram"]["Count"].as_f64();
    used.per(count.unwrap())
}
