//! The user's own commands before a run, a block or a trial.

use std::path::Path;
use std::process::Stdio;

use tare_model::layout;
use tare_model::plan::KubernetesSettings;
use tare_model::trial::TrialSpec;
use tokio::process::Command;

use crate::environment::EnvironmentError;

pub(super) async fn before_run(settings: &KubernetesSettings) -> Result<(), EnvironmentError> {
    for command in &settings.hooks.before_run {
        run(settings, command, &[], None).await?;
    }
    Ok(())
}

pub(super) async fn before_trial(
    settings: &KubernetesSettings,
    trial: &TrialSpec,
    new_block: bool,
    dir: &Path,
) -> Result<(), EnvironmentError> {
    let block = trial.block.to_string();
    let about = [
        ("TARE_BLOCK", block.as_str()),
        ("TARE_MESH", trial.mesh.name.as_str()),
    ];
    let log = dir.join(layout::LOGS).join("hooks.log");
    let of_block = settings.hooks.before_block.iter().filter(|_| new_block);
    for command in of_block.chain(&settings.hooks.before_trial) {
        run(settings, command, &about, Some(&log)).await?;
    }
    Ok(())
}

async fn run(
    settings: &KubernetesSettings,
    command: &str,
    about: &[(&str, &str)],
    log: Option<&Path>,
) -> Result<(), EnvironmentError> {
    let failed = |found: String| EnvironmentError::Start {
        name: format!("hook `{command}`"),
        found,
    };
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    shell.envs(about.iter().copied());
    if let Some(path) = super::kubeconfig(settings) {
        shell.env("TARE_KUBECONFIG", &path).env("KUBECONFIG", path);
    }
    if let Some(context) = &settings.context {
        shell.env("TARE_CONTEXT", context);
    }
    let done = shell.output().await.map_err(|e| failed(e.to_string()))?;
    let said = [done.stdout.as_slice(), &done.stderr].concat();
    if let Some(log) = log {
        let _ = std::fs::write(log, &said);
    }
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    let last = said.trim().lines().last().unwrap_or("").to_owned();
    Err(failed(format!("ended with {}: {last}", done.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hook_is_told_what_begins_and_its_failure_is_the_trials() {
        let settings = KubernetesSettings::default();
        let about = [("TARE_MESH", "istio")];
        run(&settings, "test \"$TARE_MESH\" = istio", &about, None)
            .await
            .unwrap();
        let error = run(&settings, "echo no way; exit 3", &about, None)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("no way"), "{error}");
    }
}
