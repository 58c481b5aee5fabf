//! Bundles the front end of `web/` for the report page, with npm.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

fn main() -> ExitCode {
    match bundle() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={}", message.replace('\n', " | "));
            ExitCode::FAILURE
        }
    }
}

fn bundle() -> Result<(), String> {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?).join("web");
    let web = manifest.join("../../web");
    for input in [
        "src",
        "scripts/build.mjs",
        "package.json",
        "package-lock.json",
        ".npmrc",
    ] {
        println!("cargo::rerun-if-changed={}", web.join(input).display());
    }
    if !installed(&web) {
        let mut arguments = vec!["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        // Whoever works on the front end has its tools installed, and keeps them.
        if !web.join("node_modules/typescript").exists() {
            arguments.push("--omit=dev");
        }
        run(&web, "npm", &arguments)?;
    }
    std::fs::create_dir_all(&out).map_err(|e| format!("create {}: {e}", out.display()))?;
    let script = ["scripts/build.mjs", &out.to_string_lossy()];
    run(&web, "node", &script)
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("cargo did not set {name}"))
}

/// Whether `node_modules` is there and not older than the lock.
fn installed(web: &Path) -> bool {
    let time = |path: PathBuf| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    let lock = time(web.join("package-lock.json"));
    let modules = time(web.join("node_modules/.package-lock.json"));
    modules.is_some() && modules >= lock
}

fn run(web: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let line = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).current_dir(web).output().map_err(|e| {
        format!(
            "`{line}` did not start ({e}). The report page is built from web/ and needs Node.js 20 \
             or newer with npm: install them and build again"
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "`{line}` in {} ended with {}: {}{}",
        web.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout).trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
