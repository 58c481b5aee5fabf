//! The rules for names, for plans and trials that are read from the files of a run.

use super::resolved::Plan;
use crate::source::{Name, Problem};
use crate::trial::TrialSpec;

impl Plan {
    /// Checks the names of the plan, its meshes and its loads by the rules for written plans, and the
    /// groups of blocks: the file of a resolved plan may have been changed.
    ///
    /// # Errors
    /// What was found, and what is expected.
    pub fn check_names(&self) -> Result<(), String> {
        Name::<false>::new(&self.name)?;
        let meshes = self.meshes.iter().map(|m| m.name.as_str());
        meshes.clone().try_for_each(mesh)?;
        let loads = self.loads.iter().map(|l| l.name.as_str());
        loads.clone().try_for_each(load)?;
        once("mesh", meshes)?;
        once("load", loads)?;
        self.check_block_groups()
    }
}

impl TrialSpec {
    /// Checks the names of mesh and load, as [`Plan::check_names`] does.
    ///
    /// # Errors
    /// What was found, and what is expected.
    pub fn check_names(&self) -> Result<(), String> {
        mesh(&self.mesh.name)?;
        load(&self.load.name)
    }
}

/// A name of a plan, or the names of a mesh and of its variant.
///
/// With a version, such as `envoy@1.39.3`, and with settings that vary, such as
/// `envoy[concurrency=2]`.
fn mesh(name: &str) -> Result<(), String> {
    let (name, settings) = match name.strip_suffix(']').and_then(|n| n.split_once('[')) {
        Some((name, settings)) => (name, Some(settings)),
        None => (name, None),
    };
    settings.map_or(Ok(()), load)?;
    let (name, version) = crate::mesh::name_and_version(name);
    let version = version.map_or(Ok(()), check_version);
    version.map_err(|problem| problem.to_string())?;
    let parts = name.split_once('/');
    let of_variant =
        |(mesh, variant)| Name::<false>::new(mesh).is_ok() && Name::<false>::new(variant).is_ok();
    match parts.is_some_and(of_variant) {
        true => Ok(()),
        false => Name::<true>::new(name).map(drop),
    }
}

/// Checks the version in the name of a mesh, which can be the path of a program.
pub(crate) fn check_version(text: &str) -> Result<(), Problem> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-+/".contains(c);
    match !text.is_empty() && text.len() <= 128 && text.chars().all(fits) {
        true => Ok(()),
        false => Err(Problem::new(
            format!("found the version `{text}`"),
            "1 to 128 letters, digits, `.`, `_`, `-`, `+`, `/`",
        )),
    }
}

/// A name of a plan, or levels of a sweep, such as `response=64KiB,connections=8`.
fn load(name: &str) -> Result<(), String> {
    let mut parts = name.split(',').flat_map(|level| level.splitn(2, '='));
    parts.try_for_each(|part| Name::<false>::new(part).map(drop))
}

fn once<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("found the {what} `{name}` twice, expected it once"));
        }
    }
    Ok(())
}
