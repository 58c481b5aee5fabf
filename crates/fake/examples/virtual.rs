//! Runs a plan in virtual time: `virtual DIR PLAN [KEY=VALUE]...`, where PLAN is a file. The run directory is as
//! those of real runs; its figures are made up.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (dir, plan) = args
        .next()
        .zip(args.next())
        .ok_or("usage: virtual DIR PLAN [KEY=VALUE]...")?;
    let sets: Vec<String> = args.collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    tare_fake::run_text(Path::new(&dir), &std::fs::read_to_string(plan)?, &sets);
    Ok(())
}
