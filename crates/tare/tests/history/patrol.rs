//! Patrols: what they refuse, one that is killed, and runs that they cannot use.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tare_plan::Figure;

use tare_records::history::HistoryEntry;

use crate::support;

#[test]
fn a_patrol_is_about_one_build() {
    let dir = tempfile::tempdir().unwrap();
    for (set, found) in [
        (
            "meshes=bare,envoy@1.39.3,envoy@1.40.0",
            "two versions of envoy",
        ),
        ("repeats=0", "repeats"),
    ] {
        let mut command = patrol(dir.path());
        let output = command.args(["--set", set]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(found), "{errors}");
    }
    for wrong in [
        ["--build", "a/b"],
        ["--run-url", "ftp://ci.example/{run}"],
        ["--run-url", "https://ci.example/ {run}"],
    ] {
        let output = patrol(dir.path()).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let own = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let same_load = own("same.yaml", "meshes: [bare]\nload: {rate: 50}\n");
    let same_name = own(
        "again.yaml",
        "name: short\nmeshes: [bare]\nload: {rate: 51}\n",
    );
    let no_program = "
mesh_files: [proxy.yaml]
meshes: [bare, proxy]
load: {rate: 52}
";
    own(
        "proxy.yaml",
        "name: proxy\ndata_plane: exec\nexec: {command: [./none, '{listen}', '{upstream}']}\n",
    );
    let no_program = own("unready.yaml", no_program);
    let long_name = |letter: &str, rate: u32| {
        let name = format!("{}.yaml", letter.repeat(64));
        own(&name, &format!("meshes: [bare]\nload: {{rate: {rate}}}\n"))
    };
    let (long, longer) = (long_name("l", 53), long_name("m", 54));
    let build = "b".repeat(100);
    let address = format!("https://ci.example/{{run}}/{}", "a".repeat(2_000));
    let one_address = "https://ci.example/report.html";
    for (more, found) in [
        (
            vec!["patrol", "--run-url", one_address],
            "found no {run} in --run-url",
        ),
        (
            vec![&same_load],
            "found the load 50rps in the plans short and same",
        ),
        (vec![&same_name], "found two plans named short"),
        (vec![&no_program], "the plan unready cannot run"),
        (
            vec![&long, &longer, "--build", &build],
            "id: found 256 characters",
        ),
        (vec!["--run-url", &address], "runs: found 2"),
    ] {
        let output = patrol(dir.path()).args(&more).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {errors}");
        assert!(errors.contains(found), "{more:?}: {errors}");
    }
    assert!(!dir.path().join("runs").exists() && !dir.path().join("history").exists());
}

fn patrol(dir: &Path) -> Command {
    let plan = dir.join("short.yaml");
    let text = "
meshes: [bare, envoy]
load: {rate: 50, duration: 2s, warmup: 500ms, arrivals: poisson}
pairing: together
repeats: 4
reruns: 0
";
    std::fs::write(&plan, text).unwrap();
    let mut command = Command::new(support::TARE);
    command
        .arg("patrol")
        .arg(&plan)
        .arg("--allow-concurrent")
        .args([Path::new("--history"), &dir.join("history")])
        .args([Path::new("--runs"), &dir.join("runs")])
        .env("TARE_LOCK_DIR", dir);
    command
}

fn named(dir: &Path) -> Command {
    let mut command = patrol(dir);
    command.args(["--build", "build-1"]);
    command.args(["--run-url", "https://ci.example/{run}/report.html"]);
    command
}

fn trials(dir: &Path) -> usize {
    let complete = |e: &std::fs::DirEntry| !e.file_name().to_string_lossy().starts_with('.');
    let entries = std::fs::read_dir(dir.join("runs/short-build-1/trials"));
    entries.map_or(0, |all| all.filter_map(Result::ok).filter(complete).count())
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir.join("history/entries"));
    all.map_or_else(
        |_| Vec::new(),
        |all| all.map(|e| e.unwrap().path()).collect(),
    )
}

#[test]
fn a_patrol_starts_anew_beside_runs_that_it_cannot_use() {
    let dir = tempfile::tempdir().unwrap();
    for damaged in ["short-build-1", "short-build-1-2"] {
        let run = dir.path().join("runs").join(damaged);
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join("run.json"), "{").unwrap();
    }
    // The start of this one was cut off.
    std::fs::create_dir_all(dir.path().join("runs/short-build-1-3/trials")).unwrap();
    let mut command = named(dir.path());
    let output = command.args(["--set", "repeats=1"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    assert_eq!(
        errors
            .matches("run.json is damaged; this patrol starts anew")
            .count(),
        2,
        "{errors}"
    );
    let words = "short-build-1-3: it contains no run; this patrol starts anew";
    assert!(errors.contains(words), "{errors}");
    let run = dir.path().join("runs/short-build-1-4/run.json");
    assert!(run.is_file(), "{errors}");
    // A run of another plan does not stop the next night, either.
    let mut command = named(dir.path());
    command.args(["--again", "--set", "repeats=1", "--set", "load.rate=40"]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    assert!(
        errors.contains("a run of another plan; this patrol starts anew"),
        "{errors}"
    );
}

#[test]
fn a_killed_patrol_continues_and_adds_one_entry() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = named(dir.path()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while trials(dir.path()) < 2 {
        assert!(Instant::now() < deadline, "no block within two minutes");
        assert!(
            first.try_wait().unwrap().is_none(),
            "the patrol ended early"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    // SIGKILL: nothing of the program's own runs after it.
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(entries(dir.path()), [] as [PathBuf; 0]);
    let partial = dir.path().join("runs/short-build-1/trials/.partial-x");
    std::fs::create_dir_all(partial).unwrap();
    let output = named(dir.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let removed = ".partial-x, an unfinished trial";
    assert_eq!(errors.matches(removed).count(), 1, "{errors}");
    assert_eq!(trials(dir.path()), 8, "{errors}");
    // On a busy machine, the run can be invalid. Then no entry is added.
    if output.status.code() == Some(3) {
        assert!(
            errors.contains("no entry is added") && entries(dir.path()).is_empty(),
            "{errors}"
        );
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let [written] = &entries(dir.path())[..] else {
        panic!("{:?}", entries(dir.path()));
    };
    let text = std::fs::read_to_string(written).unwrap();
    let entry: HistoryEntry = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (entry.build.as_str(), entry.anchor.as_str()),
        ("build-1", "bare")
    );
    assert_eq!(entry.runs, ["https://ci.example/short-build-1/report.html"]);
    let envoy = entry.variants.iter().find(|v| v.name == "envoy").unwrap();
    let p50 = envoy
        .figures
        .iter()
        .find(|f| f.what == Figure::P50)
        .unwrap();
    assert!(p50.log_ratio.is_some_and(|log| log > 0.0), "{p50:?}");
    let again = named(dir.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("already"));
    assert_eq!(entries(dir.path()).len(), 1);
    // The run is finished, and belongs to no entry any more: `--again` does not use it.
    std::fs::remove_file(written).unwrap();
    let output = named(dir.path()).arg("--again").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        dir.path().join("runs/short-build-1-2/run.json").is_file(),
        "{errors}"
    );
}
