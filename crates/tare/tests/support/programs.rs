//! Runs with programs of the user: their results, and the processes that they leave.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tare_records::trial::TrialResult;

use crate::judged::{exit_code, judged, read};

/// Environment variable that all processes of a test inherit, so that those left behind are found.
const MARK: &str = "TARE_TEST_MARK";

/// The program under test, in `dir`.
pub(crate) fn tare(dir: &Path) -> Command {
    in_dir(Command::new(env!("CARGO_BIN_EXE_tare")), dir)
}

/// A command that runs in `dir` and is found again.
pub(crate) fn in_dir(mut command: Command, dir: &Path) -> Command {
    command
        // Tests run at the same time.
        .env("TARE_LOCK_DIR", dir.join("lock"))
        .env(MARK, dir)
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}

/// Checks that each of so many trials is proven and weighed, and that no request failed.
pub(crate) fn assert_weighed(dir: &Path, output: &Output, trials: usize) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(dir.join("out/summary.json").exists(), "{errors}");
    let summary = judged(&dir.join("out"));
    assert_eq!(
        output.status.code(),
        Some(exit_code(summary.grade)),
        "{errors}"
    );
    assert_eq!(summary.trials.len(), trials);
    for row in &summary.trials {
        let result: TrialResult = read(&dir.join("out/trials").join(&row.dir).join("result.json"));
        let counts = result.load.unwrap().counts;
        assert_eq!(counts.error, 0, "{}", row.dir);
        assert!(counts.ok > 0, "{}", row.dir);
        let broken = result.proofs.iter().filter(|p| !p.holds);
        assert_eq!(broken.collect::<Vec<_>>(), Vec::<&_>::new(), "{}", row.dir);
        assert!(!result.proofs.is_empty());
    }
}

/// The processes that have the mark of `dir` in their environment.
pub(crate) fn marked(dir: &Path) -> Vec<u32> {
    let needle = format!("{MARK}={}", dir.display());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    let pids = names.filter_map(|name| name.parse::<u32>().ok());
    pids.filter(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|b| *b == 0)
            .any(|v| v == needle.as_bytes())
    })
    .collect()
}

/// The command lines of these processes.
pub(crate) fn left_behind(dir: &Path) -> Vec<String> {
    let line = |pid| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let lines = marked(dir).into_iter().map(line);
    lines
        .map(|l| String::from_utf8_lossy(&l).replace('\0', " "))
        .collect()
}
