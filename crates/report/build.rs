//! Bundles the front end of `web/` for the report page, with npm, and compiles the
//! analysis for it.

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
    let analysis = analysis(&manifest)?;
    let script = [
        "scripts/build.mjs",
        &out.to_string_lossy(),
        &analysis.to_string_lossy(),
    ];
    run(&web, "node", &script)
}

/// Compiles the crate `tare-page` to WebAssembly, in a target directory of its own:
/// the one of the build around this is locked.
fn analysis(manifest: &Path) -> Result<PathBuf, String> {
    const TARGET: &str = "wasm32-unknown-unknown";
    let root = manifest.join("../..");
    for input in ["crates/page", "crates/stats", "crates/model", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let target = PathBuf::from(variable("OUT_DIR")?).join("analysis");
    let mut cargo = Command::new(variable("CARGO")?);
    cargo
        .args(["rustc", "--locked", "--package", "tare-page", "--lib"])
        .args(["--crate-type", "cdylib", "--release", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&root);
    // Small before fast: the module is part of every page.
    cargo
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s")
        .env("CARGO_PROFILE_RELEASE_LTO", "true")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    // What was meant for the build around this, as coverage or another linker.
    for meant_for_others in ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        cargo.env_remove(meant_for_others);
    }
    finish(cargo, &format!("cargo rustc --package tare-page --target {TARGET}"), &root).map_err(
        |e| format!("{e} (where the target is missing: rustup target add {TARGET})"),
    )?;
    Ok(target.join(TARGET).join("release/tare_page.wasm"))
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
    let mut command = Command::new(program);
    command.args(arguments).current_dir(web);
    finish(command, &line, web)
}

fn finish(mut command: Command, line: &str, place: &Path) -> Result<(), String> {
    let output = command.output().map_err(|e| {
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
        place.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout).trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}
