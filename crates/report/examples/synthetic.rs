//! Writes a synthetic run directory and its report, to look at the page without measuring
//! anything: `cargo run -p tare-report --example synthetic -- DIR [KIND]`, where KIND is `doubts`
//! (some trials suspect or invalid) or `hostile` (names that contain markup).

#[path = "../tests/support/mod.rs"]
mod support;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args()
        .nth(1)
        .ok_or("expected the directory to write to")?;
    let dir = std::path::Path::new(&dir);
    let kind = std::env::args().nth(2).unwrap_or_default();
    let mut plan = support::quick();
    if kind == "hostile" {
        support::make_hostile(&mut plan);
    }
    support::write_run(dir, &plan, |result| {
        if kind == "doubts" {
            support::with_doubts(result);
        }
    });
    let summary = tare_report::write_derived(dir, &[])?;
    // What `tare run --web` would show.
    std::fs::write(dir.join("live.html"), tare_report::render_live(dir)?)?;
    let table = tare_report::render_table(&summary, false);
    std::io::Write::write_all(&mut std::io::stdout(), table.as_bytes())?;
    Ok(())
}
