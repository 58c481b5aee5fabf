//! CPU cost of recording: the engine compared with a build that only counts slots.

use std::path::Path;

use tare_plan::load::{Arrivals, Endpoint, LoadSpec, Mode};

use crate::contest::{Contender, Ratio, contest};
use crate::cost::CONNECTIONS;
use crate::server::Server;
use crate::tools::{PerRequest, Scratch, Tools, client, json};

/// The constant rate, as a share of the saturating rate before the comparison.
const SHARE: f64 = 0.8;

fn spec(url: &str, seconds: u32, mode: Mode) -> LoadSpec {
    let duration_ns = u64::from(seconds) * 1_000_000_000;
    LoadSpec {
        connections: CONNECTIONS.parse().unwrap(),
        ..LoadSpec::new(vec![Endpoint::get(url)], mode, duration_ns)
    }
}

fn scratch(name: &str, spec: &LoadSpec) -> Scratch {
    Scratch::new(name, serde_json::to_string(spec).unwrap().as_bytes())
}

fn run(program: &Path, spec: &Scratch) -> (PerRequest, f64) {
    let used = client(program, &[spec.path()]);
    let ok = json(&used.text)["counts"]["ok"].as_f64().unwrap();
    (used.per(ok), ok)
}

/// Compares the engine with and without recording. A request records three durations in the
/// closed loop, and five at a rate.
pub fn recording(tools: &Tools, rounds: usize, seconds: u32) {
    let server = Server::start(tools, "0s");
    let url = server.url();
    let (on, off) = (&tools.recording, &tools.counting);
    let first = scratch("first", &spec(&url, 2, Mode::Saturate));
    let rate_rps = SHARE * run(off, &first).1 / 2.0;
    let arrivals = Arrivals::Constant;
    let at_rate = spec(&url, seconds, Mode::Open { rate_rps, arrivals });
    let (most, rate) = (
        scratch("most", &spec(&url, seconds, Mode::Saturate)),
        scratch("rate", &at_rate),
    );
    let contender = |name, program, spec| Contender {
        name,
        run: Box::new(move || run(program, spec).0),
    };
    contest(
        &format!(
            "Recording: the engine and a build of it that counts slots but records no times; \
             {CONNECTIONS} connections, saturating and at {rate_rps:.0} rps."
        ),
        rounds,
        &mut [
            contender("recording", on, &most),
            contender("counting only", off, &most),
            contender("recording at a rate", on, &rate),
            contender("counting at a rate", off, &rate),
        ],
        &[
            Ratio {
                of: "recording",
                to: "counting only",
                note: "required: at most 1.05",
            },
            Ratio {
                of: "recording at a rate",
                to: "counting at a rate",
                note: "required: at most 1.05",
            },
        ],
    );
}
