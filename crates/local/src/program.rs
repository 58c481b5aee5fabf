//! The programs of a deployment's services and sidecars.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use tare_plan::mesh::Mesh;

use super::Local;
use tare_run::environment::EnvironmentError;

/// The program of the sidecars of a mesh: a copy, as [`own`] says.
///
/// # Errors
/// When the mesh was not prepared, or the copy cannot be written.
pub(super) fn of_sidecars(
    local: &Local,
    mesh: &Mesh,
    at: usize,
) -> Result<PathBuf, EnvironmentError> {
    let envoy = local.envoys.get(&mesh.settings.envoy).ok_or_else(|| {
        EnvironmentError::missing(
            "the environment was not prepared for Envoy",
            "call prepare with a plan that has this mesh",
        )
    })?;
    let key = local.envoys.keys().position(|k| *k == mesh.settings.envoy);
    let name = format!("envoy-{}", key.unwrap_or(0));
    own(local.scratch.path(), &envoy.program, &name, at)
}

/// A copy of a program for the deployment `at`, in a folder of this name below `scratch`.
///
/// Proportional memory (PSS) divides the pages of a program by the number of processes that share them. Without copies,
/// a deployment beside others that run the same program would seem smaller than one that runs alone, and services that
/// are tare itself would seem smaller with each of its generators and agents.
///
/// # Errors
/// When the copy cannot be written.
pub(super) fn own(
    scratch: &Path,
    program: &Path,
    name: &str,
    at: usize,
) -> Result<PathBuf, EnvironmentError> {
    // A script may read files beside it, and has no pages of its own.
    let can_be_copied = is_binary(program).unwrap_or(false) && may_execute(scratch);
    let Some(file) = program.file_name().filter(|_| can_be_copied) else {
        return Ok(program.to_owned());
    };
    let folder = scratch.join(format!("{name}-{at}"));
    let copy = folder.join(file);
    if !copy.exists() {
        let doing = || EnvironmentError::io(format!("copy {}", program.display()));
        fs::create_dir_all(&folder).map_err(doing())?;
        // Under its name only when it is complete.
        let partial = folder.join(".partial");
        fs::copy(program, &partial).map_err(doing())?;
        fs::rename(&partial, &copy).map_err(doing())?;
    }
    Ok(copy)
}

/// Whether the file system of a folder permits to execute programs.
fn may_execute(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|fs| !fs.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Whether a program is an ELF file.
fn is_binary(program: &Path) -> std::io::Result<bool> {
    let mut magic = [0; 4];
    let read = tare_files::open(program)?.read(&mut magic)?;
    Ok(magic[..read] == *b"\x7fELF")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_deployment_has_a_copy_of_its_own_and_keeps_it() {
        let scratch = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let of = |at| own(scratch.path(), &program, "tare", at).unwrap();
        if !may_execute(scratch.path()) {
            return assert_eq!(of(0), program);
        }
        let (first, second) = (of(0), of(1));
        assert!(first != second && first != program, "{first:?} {second:?}");
        assert_eq!(first.file_name(), program.file_name());
        assert_eq!(fs::read(&first).unwrap(), fs::read(&program).unwrap());
        let made = fs::metadata(&first).unwrap().modified().unwrap();
        assert_eq!(fs::metadata(of(0)).unwrap().modified().unwrap(), made);
        let script = scratch.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(own(scratch.path(), &script, "envoy", 0).unwrap(), script);
    }
}
