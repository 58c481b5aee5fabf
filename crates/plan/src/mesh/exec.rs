//! Sidecars of which tare knows only how to start them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source::Problem;

/// The address on which a sidecar listens, in its arguments.
const LISTEN: &str = "{listen}";
/// The address of its application, in its arguments.
const UPSTREAM: &str = "{upstream}";
/// A directory of its own, in its arguments.
const DIR: &str = "{dir}";
/// Its name, in its arguments.
const NAME: &str = "{name}";

/// A program that forwards each connection, or each request, to the application beside it: the section
/// `exec` of a mesh file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecSidecar {
    /// The program and its arguments. `{listen}` and `{upstream}` stand for addresses such as
    /// `127.64.0.2:15006`, `{dir}` for a directory of this sidecar alone, which is removed after the trial, and `{name}` for
    /// a name such as `shop-0-front`. A relative path of the program starts from the working directory.
    pub command: Vec<String>,
}

impl ExecSidecar {
    /// Checks a section `exec`.
    ///
    /// # Errors
    /// What was found and what was expected, as a fragment of a sentence.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(Problem::new(
                "found no `command`",
                "a program and its arguments",
            ));
        }
        let is_in = |a: &String, word: &str| fill(a, &[(word, "")]) != *a;
        let missing = |word: &&&str| !self.command[1..].iter().any(|a| is_in(a, word));
        match [LISTEN, UPSTREAM].iter().find(missing) {
            None => Ok(()),
            Some(word) => Err(Problem::new(
                format!("found no `{word}` in the arguments of `command`"),
                format!("`{LISTEN}` and `{UPSTREAM}`"),
            )),
        }
    }

    /// The path of the program.
    #[must_use]
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// The program and the arguments of a sidecar.
    #[must_use]
    pub fn run(&self, places: &ExecPlaces<'_>) -> Vec<String> {
        // Without a slash, the program would be searched in the PATH.
        let program = match self.program().contains('/') {
            true => self.program().to_owned(),
            false => format!("./{}", self.program()),
        };
        let values = [
            (LISTEN, places.listen),
            (UPSTREAM, places.upstream),
            (DIR, places.dir),
            (NAME, places.name),
        ];
        let arguments = self.command.iter().skip(1).map(|a| fill(a, &values));
        std::iter::once(program).chain(arguments).collect()
    }
}

/// Replaces each place in an argument by its value. After `$` it is a variable of a shell:
/// `${dir}`.
fn fill(argument: &str, values: &[(&str, &str)]) -> String {
    let (mut filled, mut rest) = (String::new(), argument);
    while let Some(start) = rest.find('{') {
        filled += &rest[..start];
        rest = &rest[start..];
        let mut places = values.iter().filter(|_| !filled.ends_with('$'));
        let (length, value) = match places.find(|(place, _)| rest.starts_with(place)) {
            Some((place, value)) => (place.len(), *value),
            None => (1, "{"),
        };
        filled += value;
        rest = &rest[length..];
    }
    filled + rest
}

/// What the places in the arguments of a sidecar stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecPlaces<'a> {
    /// Address on which it listens.
    pub listen: &'a str,
    /// Address to which it forwards.
    pub upstream: &'a str,
    /// Path of its directory.
    pub dir: &'a str,
    /// Its name.
    pub name: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(command: &[&str]) -> ExecSidecar {
        let command = command.iter().map(|&a| a.to_owned()).collect();
        ExecSidecar { command }
    }

    #[test]
    fn a_command_needs_both_addresses() {
        let complete = exec(&["./proxy", "--from={listen}", "{upstream}", "{dir}/{name}"]);
        let places = ExecPlaces {
            listen: "127.0.0.1:1",
            upstream: "127.0.0.1:2",
            dir: "/tmp/a",
            name: "shop-0-front",
        };
        assert_eq!(complete.check(), Ok(()));
        assert_eq!(complete.program(), "./proxy");
        assert_eq!(
            complete.run(&places),
            [
                "./proxy",
                "--from=127.0.0.1:1",
                "127.0.0.1:2",
                "/tmp/a/shop-0-front"
            ]
        );
        let inner = exec(&[
            "proxy",
            "sh -c 'p ${dir} {{dir}} ${{name} {other}' {",
            "${listen}",
        ]);
        assert_eq!(
            inner.run(&places),
            [
                "./proxy",
                "sh -c 'p ${dir} {/tmp/a} ${shop-0-front {other}' {",
                "${listen}"
            ]
        );
        assert!(inner.check().is_err());
        let found = exec(&["./proxy", "{listen}"])
            .check()
            .unwrap_err()
            .to_string();
        assert!(found.starts_with("found no `{upstream}`"), "{found}");
        assert!(exec(&[]).check().is_err());
    }

    /// The problems of a plan with this mesh file.
    fn problems(file: &str) -> String {
        let plan =
            "workload: chain-2\nmesh_files: [mine.yaml]\nmeshes: [bare, mine]\nload: {rate: 100}";
        let read = |_: &str| Ok(file.to_owned());
        let resolved = crate::plan::resolve("p.yaml", plan, &[], &read);
        resolved.map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    #[test]
    fn a_mesh_has_both_the_kind_and_the_command_and_no_settings() {
        let command = "exec: {command: [./proxy, '{listen}', '{upstream}']}";
        let complete = format!("name: mine\ndata_plane: exec\n{command}");
        assert_eq!(problems(&complete), "");
        let one = "has only one of `data_plane: exec` and a section `exec`";
        let found = problems("name: mine\ndata_plane: exec");
        assert!(found.contains(one), "{found}");
        let found = problems(&format!("name: mine\ndata_plane: envoy-sidecar\n{command}"));
        assert!(found.contains(one), "{found}");
        let found = problems(&format!("{complete}\nsettings: {{mtls: strict}}"));
        assert!(found.contains("`mine` has settings"), "{found}");
        let found = problems("name: mine\ndata_plane: exec\nexec: {command: [./proxy]}");
        assert!(found.contains("found no `{listen}`"), "{found}");
    }
}
