//! Commands of the plan that run before a run, a block or a trial.

use std::path::Path;
use std::process::Stdio;

use tare_plan::KubernetesSettings;
use tare_plan::trial::TrialSpec;
use tare_records::layout;
use tokio::process::Command;
use tokio::time::Instant;

use crate::api::kubeconfig;
use tare_run::environment::EnvironmentError;

pub(crate) async fn before_run(settings: &KubernetesSettings) -> Result<(), EnvironmentError> {
    for command in &settings.hooks.before_run {
        run(settings, command, &[], None).await?;
    }
    Ok(())
}

pub(crate) async fn before_trial(
    settings: &KubernetesSettings,
    trial: &TrialSpec,
    new_block: bool,
    dir: &Path,
) -> Result<(), EnvironmentError> {
    let block = trial.block.to_string();
    let variables = [
        ("TARE_BLOCK", block.as_str()),
        ("TARE_MESH", trial.mesh.name.as_str()),
    ];
    let log = dir.join(layout::LOGS).join("hooks.log");
    let before_block = settings.hooks.before_block.iter().filter(|_| new_block);
    for command in before_block.chain(&settings.hooks.before_trial) {
        run(settings, command, &variables, Some(&log)).await?;
    }
    Ok(())
}

async fn run(
    settings: &KubernetesSettings,
    command: &str,
    variables: &[(&str, &str)],
    log: Option<&Path>,
) -> Result<(), EnvironmentError> {
    let failed = |found| EnvironmentError::start(format!("hook `{command}`"), found);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    shell.envs(variables.iter().copied());
    if let Some(path) = kubeconfig::path(settings) {
        shell.env("TARE_KUBECONFIG", &path).env("KUBECONFIG", path);
    }
    if let Some(context) = &settings.context {
        shell.env("TARE_CONTEXT", context);
    }
    let start = Instant::now();
    let output = shell.output().await.map_err(|e| failed(e.to_string()))?;
    let (status, elapsed) = (output.status, start.elapsed());
    // The command may contain secrets.
    tracing::debug!(%status, ?elapsed, "hook");
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    if let Some(log) = log {
        let _ = std::fs::write(log, &text);
    }
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&text);
    let last = text.trim().lines().last().unwrap_or("");
    Err(failed(format!("{status}: {last}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hook_gets_the_mesh_as_a_variable_and_its_failure_is_an_error() {
        let settings = KubernetesSettings::default();
        let variables = [("TARE_MESH", "istio")];
        run(&settings, "test \"$TARE_MESH\" = istio", &variables, None)
            .await
            .unwrap();
        let error = run(&settings, "echo no way; exit 3", &variables, None)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("no way"), "{error}");
    }
}
