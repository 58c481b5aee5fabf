//! Bundles the front end of `web/` for the report page, with npm, and compiles the
//! analysis for it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

/// What the analysis in the page is compiled to.
const TARGET: &str = "wasm32-unknown-unknown";

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
    let analysis = analysis(&manifest)?.map(|path| path.to_string_lossy().into_owned());
    let out = out.to_string_lossy();
    let mut script = vec!["scripts/build.mjs", &out];
    script.extend(analysis.as_deref());
    run(&web, "node", &script)
}

/// Compiles the crate `tare-page` to WebAssembly, in a target directory of its own:
/// the one of the build around this is locked.
///
/// Nothing where this Rust has no such target and cannot get it: then pages are made in
/// which no trial can be left out, and say so.
fn analysis(manifest: &Path) -> Result<Option<PathBuf>, String> {
    let root = manifest.join("../..");
    for input in ["crates/page", "crates/stats", "crates/model", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    if let Err(why) = target_there(&root) {
        println!(
            "cargo::warning=report pages will not be able to leave out trials: {} \
             (rustup target add {TARGET}, then touch crates/report/build.rs)",
            why.replace('\n', " | ")
        );
        return Ok(None);
    }
    // TARGET/PROFILE/build/PACKAGE/out: one folder for all profiles and for clippy.
    let out = PathBuf::from(variable("OUT_DIR")?);
    let target = out.ancestors().nth(4).unwrap_or(&out).join("analysis");
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
    // What was meant for the build around this, as coverage, clippy or another linker.
    for meant_for_others in [
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "RUSTC_WORKSPACE_WRAPPER",
        "CLIPPY_ARGS",
    ] {
        cargo.env_remove(meant_for_others);
    }
    let line = format!("cargo rustc --package tare-page --target {TARGET}");
    finish(cargo, &line, &root)?;
    Ok(Some(target.join(TARGET).join("release/tare_page.wasm")))
}

/// Sees to it that the standard library for [`TARGET`] is installed.
fn target_there(root: &Path) -> Result<(), String> {
    let asked = Command::new(variable("RUSTC")?)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    let there = asked.is_ok_and(|answer| {
        let folder = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        answer.status.success() && Path::new(&folder).is_dir()
    });
    if there {
        return Ok(());
    }
    run(root, "rustup", &["target", "add", TARGET])
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
