//! The machine, the build and the programs of a run, which must not change during the run.

use std::collections::BTreeSet;

use anyhow::bail;
use tare_load::Awake;
use tare_model::layout::{Fingerprint, IdleCores, RunManifest};

/// Keeps the cores of this machine awake unless the user or the system forbids it, and returns
/// what was done. A resumed run continues as it began.
pub(super) fn idle_cores(
    let_sleep: bool,
    began: Option<&Fingerprint>,
) -> (Option<Awake>, IdleCores) {
    let asleep = |how: String| (None, IdleCores { awake: false, how });
    if let_sleep {
        return asleep("--let-cores-sleep".to_owned());
    }
    if began.is_some_and(|then| !is_awake(then)) {
        return asleep("as at the start of the run".to_owned());
    }
    match Awake::hold() {
        Ok(awake) => {
            let how = awake.to_string();
            (Some(awake), IdleCores { awake: true, how })
        }
        Err(refused) => asleep(refused.to_string()),
    }
}

/// Runs of versions that did not keep cores awake have no record of it.
fn is_awake(fingerprint: &Fingerprint) -> bool {
    fingerprint.idle.as_ref().is_some_and(|idle| idle.awake)
}

pub(super) fn build() -> &'static str {
    if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    }
}

/// Fails unless this machine and these programs are those of the run.
pub(super) fn check_same_place(manifest: &RunManifest, here: &Fingerprint) -> anyhow::Result<()> {
    let then = &manifest.fingerprint;
    let number = |n: u64| n.to_string();
    let mut pairs = vec![
        (
            "tare",
            manifest.tare_version.clone(),
            env!("CARGO_PKG_VERSION").to_owned(),
        ),
        (
            "build of tare",
            manifest.tare_build.clone(),
            build().to_owned(),
        ),
        ("kernel", then.kernel.clone(), here.kernel.clone()),
        ("processor", then.cpu_model.clone(), here.cpu_model.clone()),
        (
            "cores",
            number(then.cores.into()),
            number(here.cores.into()),
        ),
        (
            "memory",
            number(then.memory_bytes),
            number(here.memory_bytes),
        ),
    ];
    if is_awake(then) != is_awake(here) {
        let words = |f: &Fingerprint| {
            f.idle
                .as_ref()
                .map_or("may sleep".into(), ToString::to_string)
        };
        pairs.push(("idle cores", words(then), words(here)));
    }
    let names: BTreeSet<&String> = then.programs.keys().chain(here.programs.keys()).collect();
    let version = |f: &Fingerprint, name: &str| {
        f.programs
            .get(name)
            .cloned()
            .unwrap_or_else(|| "none".into())
    };
    pairs.extend(
        names
            .into_iter()
            .map(|n| (n.as_str(), version(then, n), version(here, n))),
    );
    for (what, then, here) in pairs {
        if then != here {
            bail!(
                "this run started with {what} {then}, found {here}: its trials would not be comparable; \
                 resume it where it started, or start a new run"
            );
        }
    }
    Ok(())
}
