//! `make bench`: cost and accuracy of the load engine, compared with other clients on the same
//! server in the same run. Server and client have a core each. A client that is not installed
//! is skipped, with a hint on how to install it.
//!
//! `cargo bench -p tare-load --bench peers -- [ROUNDS] [PART ...]` selects rounds and parts.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    missing_docs,
    reason = "a benchmark prints its results and may panic"
)]

mod accuracy;
mod contest;
mod cost;
mod host;
mod protocols;
mod rates;
mod recording;
mod server;
mod tools;

use tools::Tools;

fn main() {
    // cargo passes --bench.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let rounds = args.iter().find_map(|a| a.parse().ok()).unwrap_or(6);
    let parts: Vec<&String> = args
        .iter()
        .filter(|a| a.parse::<usize>().is_err())
        .collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|p| *p == part);
    let tools = Tools::find();
    // Ratios near their limit need twice the rounds for a conclusive interval.
    let near = 6 * rounds;
    if wanted("http1") {
        cost::http1(&tools, near, 1);
    }
    if wanted("http2") {
        protocols::http2(&tools, 3 * rounds, 1);
    }
    if wanted("grpc") {
        protocols::grpc(&tools, 3 * rounds, 1);
    }
    if wanted("tls") {
        protocols::tls(&tools, 3 * rounds, 1);
    }
    if wanted("endpoints") {
        protocols::endpoints(&tools, near, 1);
    }
    if wanted("recording") {
        recording::recording(&tools, near, 1);
    }
    if wanted("rates") {
        rates::rates(&tools, rounds, 3);
    }
    if wanted("pace") {
        accuracy::pace(&tools, rounds, 6);
        accuracy::accuracy(&tools, "0s", "10000", rounds.min(3), 6);
    }
    if wanted("accuracy") {
        accuracy::accuracy(&tools, "1ms", "2000", rounds, 6);
        accuracy::accuracy(&tools, "0s", "2000", rounds.min(3), 6);
    }
}
