//! Requests that ask the server to close the connection, in virtual time.

use std::sync::atomic::AtomicBool;

use tare_plan::load::{LoadSpec, Mode};

use crate::driver::ConnId;

use super::driver::{SimDriver, SimServer, Step};
use super::support::{MS, addr, drive, ok_response, spec};

/// Closes the connection some time after the response if the request asks for that, without
/// announcing it in the response.
struct ClosesAsAsked {
    delay: u64,
    asked: u64,
    late: u64,
    closing: std::collections::HashSet<(ConnId, u64)>,
}

impl SimServer for ClosesAsAsked {
    fn bytes(&mut self, _now: u64, on: (ConnId, u64), request: &[u8]) -> Option<Vec<Step>> {
        self.late += u64::from(self.closing.contains(&on));
        let text = String::from_utf8_lossy(request).to_lowercase();
        let mut steps = vec![Step::Bytes(MS / 10, ok_response("ok"))];
        if text
            .lines()
            .any(|l| l.contains("connection:") && l.contains("close"))
        {
            self.asked += 1;
            self.closing.insert(on);
            steps.push(Step::Close(MS / 10 + self.delay));
        }
        Some(steps)
    }
}

fn run(s: &LoadSpec, delay: u64) -> u64 {
    let mut driver = SimDriver::new(ClosesAsAsked {
        delay,
        asked: 0,
        late: 0,
        closing: Default::default(),
    });
    driver.reads_later = true;
    let stop = AtomicBool::new(false);
    let r = drive(&mut driver, s, vec![vec![addr()]], &stop);
    assert_eq!(r.counts.ok, r.counts.planned, "{:?}", r.errors);
    let server = driver.server();
    assert_eq!(
        server.late, 0,
        "requests on connections that were to be closed"
    );
    assert!(server.asked > 0);
    server.asked
}

#[test]
fn a_connection_is_not_used_again_after_a_request_that_asks_to_close_it() {
    let headers: [&[(&str, &str)]; 4] = [
        &[("Connection", "close")],
        &[("cOnNeCtIoN", "Keep-Alive , CLOSE")],
        &[("Connection", "TE"), ("Connection", "close")],
        &[("Proxy-Connection", "close")],
    ];
    for headers in headers {
        for mode in [spec(&["http://h/"]).mode, Mode::Saturate] {
            let mut s = spec(&["http://h/a", "http://h/b"]);
            s.mode = mode;
            s.connections = 3;
            s.duration_ns = 200 * MS;
            let owned = headers.iter().map(|(n, v)| ((*n).into(), (*v).into()));
            // Only one of the endpoints of the shared connections asks to close them.
            s.endpoints[1].headers = owned.collect();
            // The end arrives with the response, before the next request, or much later.
            for delay in [0, MS / 2, 500 * MS] {
                run(&s, delay);
            }
        }
    }
}

#[test]
fn a_request_that_asks_to_close_has_a_connection_of_its_own() {
    let mut s = spec(&["http://h/"]);
    s.endpoints[0].headers = vec![("connection".into(), "close".into())];
    assert_eq!(run(&s, 0), 1_000);
    s.requests_per_connection = Some(5);
    assert_eq!(run(&s, MS), 1_000);
}
