//! The load engine without the command line: `recording SPEC` runs a specification (a JSON
//! file) and prints the result. The example `counting` is the same engine, built without the
//! recording of times; `make bench` compares both.
#![allow(clippy::print_stdout, missing_docs, reason = "a program")]

use std::sync::atomic::AtomicBool;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("expected the path of a specification")?;
    let spec = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let result = tare_load::run(&spec, &AtomicBool::new(false), false, &mut |_| {})?;
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}
