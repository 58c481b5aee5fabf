//! The programs and files of the user that a plan needs: whether they exist on this machine.

use std::path::{Path, PathBuf};

use tare_plan::graph::{Application, Command};
use tare_plan::mesh::{EnvoyProgram, Mesh};
use tare_plan::{EnvironmentKind, Plan};

/// Where programs and files are searched.
#[derive(Debug, Clone)]
pub struct Places {
    /// The directory at which relative paths start.
    pub directory: PathBuf,
    /// Directories of programs without a slash: the PATH.
    pub path: Vec<PathBuf>,
}

impl Places {
    /// Those of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self {
            directory: std::env::current_dir().unwrap_or_default(),
            path: std::env::var_os("PATH")
                .map_or_else(Vec::new, |p| std::env::split_paths(&p).collect()),
        }
    }

    /// What prevents the start of the program of `of`. One without a slash is searched in `path`,
    /// if there is one.
    fn program(&self, of: &str, program: &str, path: Option<&[PathBuf]>) -> Option<String> {
        let found = self.directory.join(program);
        let is_name = !program.contains('/');
        let in_dir = |dir: &PathBuf| self.directory.join(dir).join(program);
        if let Some(path) = path.filter(|_| is_name) {
            let missing = !path.iter().any(|dir| is_program(&in_dir(dir)));
            let hint = match is_program(&found) {
                true => format!(
                    "; for the file in {}, write ./{program}",
                    self.directory.display()
                ),
                false => String::new(),
            };
            return missing
                .then(|| format!("{of}: found no program {program:?} on the PATH{hint}"));
        }
        if is_program(&found) {
            return None;
        }
        let what = match found.exists() {
            true => format!("{} is not an executable file", found.display()),
            false => format!(
                "found no program {program:?} in {}",
                self.directory.display()
            ),
        };
        let mut on_path = self.path.iter().map(in_dir);
        let hint = match on_path.find(|p| is_name && is_program(p)) {
            Some(other) => format!("; for the one on the PATH, write {}", other.display()),
            None => "; a relative path starts at the directory in which tare runs".to_owned(),
        };
        Some(format!("{of}: {what}{hint}"))
    }

    /// What prevents the start of a program of the user, which may have a PATH of its own.
    fn command(&self, of: &str, command: &Command) -> Option<String> {
        let program = command.run.first()?;
        let own = command.env.get("PATH");
        // With a place in its path, it is known only when the service starts.
        let has_place = |text: &String| text.contains('{');
        if has_place(program) || (!program.contains('/') && own.is_some_and(has_place)) {
            return None;
        }
        let own: Option<Vec<PathBuf>> = own.map(|own| std::env::split_paths(own).collect());
        self.program(of, program, Some(own.as_ref().unwrap_or(&self.path)))
    }
}

/// The programs and files of a plan that do not exist, in words. Programs that tare installs are left out.
#[must_use]
pub fn missing(plan: &Plan, places: &Places) -> Vec<String> {
    let mut found = Vec::new();
    if plan.environment == EnvironmentKind::Local {
        found.extend(plan.meshes.iter().filter_map(|m| of_mesh(m, places)));
    }
    for workload in plan.workloads() {
        let graph = &workload.graph;
        for service in &graph.services {
            let of = format!(
                "the program of the service `{}` of {}",
                service.name, graph.name
            );
            let command = service.command.as_ref();
            found.extend(command.and_then(|c| places.command(&of, c)));
        }
        found.extend(
            graph
                .application
                .iter()
                .flat_map(|a| of_application(a, places)),
        );
    }
    found.sort();
    found.dedup();
    found
}

fn of_mesh(mesh: &Mesh, places: &Places) -> Option<String> {
    let of = format!("the program of the mesh `{}`", mesh.name);
    match (&mesh.proxy, &mesh.settings.envoy) {
        (Some(proxy), _) if proxy.package.is_some() => None,
        (Some(proxy), _) => places.program(&of, proxy.program(), None),
        (None, Some(EnvoyProgram::Path(path))) => places.program(&of, path, None),
        (None, _) => None,
    }
}

/// The files of an application that do not exist.
fn of_application(application: &Application, places: &Places) -> Vec<String> {
    let mut files: Vec<(&str, &str)> = Vec::new();
    files.extend(
        application
            .manifests
            .iter()
            .map(|p| ("manifests", p.as_str())),
    );
    files.extend(
        application
            .kustomize
            .iter()
            .map(|p| ("kustomize", p.as_str())),
    );
    if let Some(chart) = &application.chart {
        files.extend(Some(("chart", chart.chart.as_str())).filter(|_| chart.is_local()));
        files.extend(
            chart
                .values_files
                .iter()
                .map(|p| ("values_files", p.as_str())),
        );
    }
    let missing = |(_, path): &(&str, &str)| !exists(&places.directory.join(path));
    let words = |(key, path)| {
        let path = Path::new(path);
        let folder = places
            .directory
            .join(path.parent().unwrap_or(Path::new("")));
        format!(
            "`{key}` of the application: found no {:?} in {}; relative paths start at the directory of the plan",
            path.file_name().unwrap_or(path.as_os_str()),
            folder.display()
        )
    };
    files.into_iter().filter(missing).map(words).collect()
}

fn exists(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

/// Whether it is a file that may be executed.
#[must_use]
pub fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executable::executable;
    use std::fs;
    use tare_plan::resolve;

    const SHOP: &str = r#"
workload:
  graph:
    name: shop
    services:
      - {name: front, protocol: http, command: {run: [PROGRAM, "{port}"]}, endpoints: [{path: /}]}
    mixes: [{name: default, endpoints: [{name: home, service: front, path: /}]}]
meshes: bare
"#;

    /// What is missing for a plan, in a directory with a program and a file, whose PATH has another program.
    fn missing_for(text: &str, mesh: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        executable(&dir.path().join("here"), "#!/bin/sh\n");
        executable(&dir.path().join("bin/there"), "#!/bin/sh\n");
        fs::write(dir.path().join("plain"), "").unwrap();
        let read = |_: &str| Ok(mesh.to_owned());
        let plan = resolve("plan.yaml", text, &[], &read).unwrap_or_else(|e| panic!("{e}"));
        let places = Places {
            directory: dir.path().to_owned(),
            path: vec![dir.path().join("bin")],
        };
        let all = missing(&plan, &places).into_iter();
        let here = dir.path().display().to_string();
        all.map(|words| words.replace(&here, "DIR")).collect()
    }

    #[test]
    fn a_program_of_a_service_is_searched_like_when_it_starts() {
        let of = |program: &str| missing_for(&SHOP.replace("PROGRAM", program), "");
        for there in [
            "./here",
            "there",
            "bin/there",
            "/bin/sh",
            "\"./{instance}\"",
        ] {
            assert!(of(there).is_empty(), "{there}");
        }
        let name = "the program of the service `front` of shop: ";
        for (program, found) in [
            (
                "./nope",
                "found no program \"./nope\" in DIR; a relative path starts at",
            ),
            ("nope", "found no program \"nope\" on the PATH"),
            (
                "here",
                "found no program \"here\" on the PATH; for the file in DIR, write ./here",
            ),
            ("./plain", "DIR/./plain is not an executable file"),
            ("./bin", "DIR/./bin is not an executable file"),
        ] {
            let all = of(program);
            assert_eq!(all.len(), 1, "{all:?}");
            assert!(all[0].starts_with(&format!("{name}{found}")), "{all:?}");
        }
    }

    #[test]
    fn a_program_with_a_path_of_its_own_is_searched_there() {
        let of = |path: &str| {
            let own = format!("{{run: [PROGRAM, \"{{port}}\"], env: {{PATH: \"{path}\"}}}}");
            let shop = SHOP.replace("{run: [PROGRAM, \"{port}\"]}", &own);
            missing_for(&shop.replace("PROGRAM", "sh"), "")
        };
        // The PATH of tare has no `sh` here.
        assert_eq!(missing_for(&SHOP.replace("PROGRAM", "sh"), "").len(), 1);
        assert!(of("/nowhere:/bin").is_empty());
        assert!(of("/opt/{instance}/bin").is_empty(), "known later");
        let all = of("/nowhere");
        assert!(
            all[0].ends_with("found no program \"sh\" on the PATH"),
            "{all:?}"
        );
        let there = SHOP.replace(
            "PROGRAM, \"{port}\"]",
            "there, \"{port}\"], env: {PATH: bin}",
        );
        assert!(missing_for(&there, "").is_empty(), "a relative directory");
    }

    #[test]
    fn a_program_of_a_mesh_is_a_path() {
        let mesh = |program: &str| {
            let mesh = format!(
                "name: mine\ndata_plane: exec\nexec: {{command: [{program}, \"{{listen}}\", \"{{upstream}}\"]}}\n"
            );
            missing_for("mesh_files: mine.yaml\nmeshes: [bare, mine]\n", &mesh)
        };
        assert!(mesh("./here").is_empty());
        let found = mesh("./proxy");
        assert!(
            found[0].starts_with(
                "the program of the mesh `mine`: found no program \"./proxy\" in DIR;"
            ),
            "{found:?}"
        );
        let found = mesh("there");
        assert!(
            found[0].ends_with("; for the one on the PATH, write DIR/bin/there"),
            "{found:?}"
        );
        let found = missing_for("meshes: [bare, envoy@./my-envoy]", "");
        assert!(
            found[0].starts_with("the program of the mesh `envoy@./my-envoy`: found no program"),
            "{found:?}"
        );
    }

    #[test]
    fn the_files_of_an_application_exist() {
        let of = |application: &str| {
            missing_for(
                &format!(
                    "environment: kubernetes\nmeshes: bare\nworkload:\n  graph:\n    name: shop\n    application: {application}\n    \
                     services: [{{name: web, protocol: http, port: 80, endpoints: [{{path: /}}]}}]\n    \
                     mixes: [{{name: default, endpoints: [{{name: home, service: web, path: /}}]}}]\n"
                ),
                "",
            )
        };
        assert!(of("{manifests: [plain, bin]}").is_empty());
        assert!(of("{chart: {chart: shop, repo: 'https://charts.example'}}").is_empty());
        for (application, found) in [
            (
                "{manifests: [plain, k8s]}",
                "`manifests` of the application: found no \"k8s\" in DIR",
            ),
            (
                "{kustomize: k8s/overlay}",
                "`kustomize` of the application: found no \"overlay\" in DIR/k8s",
            ),
            (
                "{chart: {chart: ./shop}}",
                "`chart` of the application: found no \"shop\" in DIR",
            ),
            (
                "{chart: {chart: ./bin, values_files: [a.yaml]}}",
                "`values_files` of the application: found no \"a.yaml\" in DIR",
            ),
        ] {
            let all = of(application);
            assert_eq!(all.len(), 1, "{all:?}");
            assert!(all[0].starts_with(found), "{all:?}");
        }
    }
}
