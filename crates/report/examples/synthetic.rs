//! Writes a synthetic run directory and its report, to look at the page without
//! measuring anything: `cargo run -p tare-report --example synthetic -- DIR`.

#[path = "../tests/support/mod.rs"]
mod support;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args()
        .nth(1)
        .ok_or("expected the directory to write to")?;
    let dir = std::path::Path::new(&dir);
    let doubtful = std::env::args().any(|a| a == "--doubts");
    support::write_run(dir, &support::quick(), |result| {
        if doubtful {
            support::with_doubts(result);
        }
    });
    let summary = tare_report::write_derived(dir)?;
    let table = tare_report::render_table(&summary, tare_report::TableOptions::default());
    std::io::Write::write_all(&mut std::io::stdout(), table.as_bytes())?;
    Ok(())
}
