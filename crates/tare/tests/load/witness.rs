//! Checks that `scripts/witness` reduces a capture in the same way as tare reduces its own record.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use tare_stats::rng::Rng;

/// Returns `count p50 p99 max` of a capture's fields.
fn reduced(fields: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/witness");
    let mut child = Command::new(script)
        .args(["--reduce", "80"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(fields.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Formats nanoseconds as tshark prints seconds.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

#[test]
fn a_capture_is_reduced_to_the_nanosecond_by_the_same_rank() {
    let mut rng = Rng::new(1);
    for count in [1, 2, 99, 100, 101, 2_000] {
        let (mut fields, mut times) = (String::new(), Vec::new());
        for i in 0..count {
            // Ten connections in turn, at least 25 s after the first packet.
            let (conn, at) = (i % 10, 25_000_000_000 + i * 1_000_000);
            let took = 1 + rng.below(9_000_000);
            times.push(took);
            writeln!(fields, "{conn}\t{}\t80\t40", seconds(at)).unwrap();
            writeln!(fields, "{conn}\t{}\t5000\t120", seconds(at + took)).unwrap();
        }
        times.sort_unstable();
        let rank = |q: f64| times[((q * count as f64).ceil() as usize).max(1) - 1];
        let expected = [count, rank(0.5), rank(0.99), rank(1.0)];
        assert_eq!(reduced(&fields), expected.map(|n| n.to_string()).join(" "));
    }
}

#[test]
fn segments_of_one_message_and_acknowledgements_do_not_count_as_exchanges() {
    let fields = "\
        0\t0.000000000\t80\t0\n\
        0\t1.000000000\t80\t1400\n\
        0\t1.000000100\t80\t200\n\
        0\t1.001000000\t5000\t0\n\
        0\t1.002000000\t5000\t1400\n\
        1\t1.002000001\t80\t9\n\
        0\t1.002500000\t5000\t30\n\
        0\t3.000000000\t80\t1400\n";
    // The two requests of connection 0 and the one of connection 1 without a response do not count.
    assert_eq!(reduced(fields), "1 2500000 2500000 2500000");
    assert_eq!(reduced(""), "0 0 0 0");
}
