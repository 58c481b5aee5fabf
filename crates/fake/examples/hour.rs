//! Runs an hour of trials in virtual time into a directory, for `make soak`: `hour DIR`.

use std::path::Path;

const PLAN: &str = "name: hour\nmeshes: [bare, envoy/mtls]\nload: {rate: 400, duration: 30s, warmup: 5s}\nrepeats: 60\n";

fn main() -> Result<(), &'static str> {
    let dir = std::env::args().nth(1).ok_or("usage: hour DIR")?;
    tare_fake::run_text(Path::new(&dir), PLAN, &[]);
    Ok(())
}
