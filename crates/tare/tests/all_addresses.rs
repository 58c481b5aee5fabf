//! A program that listens on all addresses has the port of every pod: it would answer for the programs of other tests,
//! so no test runs beside this one.
#![allow(clippy::unwrap_used, dead_code, reason = "helpers of tests may panic")]

#[path = "support/judged.rs"]
mod judged;
#[path = "support/programs.rs"]
mod programs;
#[path = "support/shop.rs"]
mod shop;

use programs::left_behind;
use shop::run_with;

/// One of the two programs listens first. The other cannot.
#[test]
fn a_program_that_listens_on_all_addresses_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (output, events) = run_with(dir.path(), "all-addresses", "bare", 1);
    let named = [
        "failed to start shop-0/front: it listens on all addresses (0.0.0.0:15080)",
        "; shop-0-front listens on all addresses (0.0.0.0:15080)",
        "failed to start shop-0/front: ended with exit status: 1; last lines of its log: ",
    ];
    assert!(named.iter().any(|text| events.contains(text)), "{events}");
    assert_ne!(output.status.code(), Some(0));
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}
