//! The programs of the benchmark, and the CPU time of a run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// The programs; `None` for a client that is not installed.
pub struct Tools {
    pub tare: PathBuf,
    pub fixed: PathBuf,
    pub recording: PathBuf,
    pub counting: PathBuf,
    pub bare: PathBuf,
    pub wrk: Option<PathBuf>,
    pub oha: Option<PathBuf>,
    pub fortio: Option<PathBuf>,
    pub h2load: Option<PathBuf>,
    pub ghz: Option<PathBuf>,
}

impl Tools {
    pub fn find() -> Self {
        // The bench is target/PROFILE/deps/peers-HASH; what it measures has the same profile.
        let bench = std::env::current_exe().expect("the path of this program");
        let release = bench.ancestors().nth(2).expect("a target folder");
        let built = |p: PathBuf| {
            assert!(p.is_file(), "{} is missing: use `make bench`", p.display());
            p
        };
        Self {
            tare: built(release.join("tare")),
            fixed: built(release.join("examples/fixed")),
            recording: built(release.join("examples/recording")),
            counting: built(release.join("examples/counting")),
            bare: built(release.join("examples/bare")),
            wrk: find("wrk", "apt-get install wrk"),
            oha: find("oha", "make bench-peers"),
            fortio: find("fortio", "make bench-peers"),
            h2load: find("h2load", "apt-get install nghttp2-client"),
            ghz: find("ghz", "make bench-peers"),
        }
    }
}

/// Finds a program on PATH or where `make bench-peers` installs it.
fn find(name: &str, hint: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let own = cache.map(|c| c.join("tare/bench/bin").join(name));
    let found = own.filter(|p| p.is_file()).or_else(|| find_on_path(name));
    if found.is_none() {
        println!("{name} is not installed and is skipped; install it with: {hint}");
    }
    found
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|d| d.join(name))
        .find(|p| p.is_file())
}

/// `program` on one core. The kernel sends it SIGTERM when this process ends.
pub fn pinned(core: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "taskset", "-c", &core.to_string()]);
    command.arg(program);
    command
}

/// Output, CPU time and instructions of a client.
pub struct Used {
    pub text: String,
    pub cpu_s: f64,
    /// `None` without perf. Unlike CPU time, the count does not depend on the host.
    pub instructions: Option<f64>,
}

/// Cost per request: CPU time in microseconds, and instructions.
#[derive(Clone, Copy)]
pub struct PerRequest {
    pub us: f64,
    pub instructions: Option<f64>,
}

impl Used {
    pub fn per(&self, requests: f64) -> PerRequest {
        PerRequest {
            us: self.cpu_s * 1e6 / requests,
            instructions: self.instructions.map(|n| n / requests),
        }
    }
}

/// Runs a client on core 1 until it ends.
pub fn client(program: &Path, args: &[&str]) -> Used {
    let used = || {
        let u = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
        (u.user_time().num_microseconds() + u.system_time().num_microseconds()) as f64 / 1e6
    };
    let counted = std::env::temp_dir().join(format!("tare-bench-{}", std::process::id()));
    let mut command = match find_on_path("perf") {
        Some(perf) => {
            let mut command = pinned(1, &perf);
            command.args(["stat", "-x,", "-e", "instructions", "-o"]);
            command.arg(&counted).arg("--").arg(program);
            command
        }
        None => pinned(1, program),
    };
    let before = used();
    let out = command.args(args).stderr(Stdio::null()).output().unwrap();
    let cpu_s = used() - before;
    let count = std::fs::read_to_string(&counted).unwrap_or_default();
    let _ = std::fs::remove_file(&counted);
    let line = count.lines().find(|l| l.contains("instructions"));
    Used {
        text: String::from_utf8_lossy(&out.stdout).into_owned(),
        cpu_s,
        instructions: line.and_then(|l| l.split(',').next()?.parse().ok()),
    }
}

/// A temporary file, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str, content: &[u8]) -> Self {
        let name = format!("tare-bench-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Parses `text` as JSON.
pub fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// The number after `label` in a client's output.
pub fn number_after(text: &str, label: &str) -> f64 {
    let at = text.find(label);
    let rest = &text[at.unwrap_or_else(|| panic!("no {label:?} in:\n{text}")) + label.len()..];
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.' || *c == 'e' || *c == '-')
        .collect();
    digits.parse().unwrap()
}
