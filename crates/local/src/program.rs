//! The program of a deployment's sidecars.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tare_plan::mesh::Mesh;

use super::Local;
use tare_run::environment::EnvironmentError;

/// The program of the sidecars of a mesh; a copy for the deployment `at`, if deployments run at the same time.
///
/// Proportional memory (PSS) divides the pages of a program by the number of processes that share them. Without
/// copies, two deployments of one program would seem smaller than a third one with another program.
///
/// # Errors
/// When the mesh was not prepared, or the copy cannot be written.
pub(super) fn of(
    local: &Local,
    mesh: &Mesh,
    at: Option<usize>,
) -> Result<PathBuf, EnvironmentError> {
    let envoy = local.envoys.get(&mesh.settings.envoy).ok_or_else(|| {
        EnvironmentError::missing(
            "the environment was not prepared for Envoy",
            "call prepare with a plan that has this mesh",
        )
    })?;
    // A script may read files beside it, and has no pages of its own.
    let Some(at) = at.filter(|_| is_binary(&envoy.program).unwrap_or(false)) else {
        return Ok(envoy.program.clone());
    };
    let key = local.envoys.keys().position(|k| *k == mesh.settings.envoy);
    let copy = local
        .scratch
        .path()
        .join(format!("envoy-{at}-{}", key.unwrap_or(0)));
    if !copy.exists() {
        let doing = format!("copy {}", envoy.program.display());
        fs::copy(&envoy.program, &copy).map_err(EnvironmentError::io(doing))?;
    }
    Ok(copy)
}

/// Whether a program is an ELF file.
fn is_binary(program: &Path) -> std::io::Result<bool> {
    let mut magic = [0; 4];
    let read = tare_files::open(program)?.read(&mut magic)?;
    Ok(magic[..read] == *b"\x7fELF")
}
