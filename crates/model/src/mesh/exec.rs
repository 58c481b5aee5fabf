//! Sidecars of which tare knows only how to start them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The address on which a sidecar listens, in its arguments.
const LISTEN: &str = "{listen}";
/// The address of its application, in its arguments.
const UPSTREAM: &str = "{upstream}";

/// A program that forwards each connection, or each request, to the application beside it: the section
/// `exec` of a mesh file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecSidecar {
    /// The program and its arguments. `{listen}` and `{upstream}` stand for addresses such as
    /// `127.64.0.2:15006`. A relative path of the program starts from the working directory.
    pub command: Vec<String>,
}

impl ExecSidecar {
    /// Checks a section `exec`.
    ///
    /// # Errors
    /// What was found and what was expected, as a fragment of a sentence.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("found no `command`, expected a program and its arguments".to_owned());
        }
        let missing = |word: &&&str| !self.command[1..].iter().any(|a| a.contains(**word));
        match [LISTEN, UPSTREAM].iter().find(missing) {
            None => Ok(()),
            Some(word) => Err(format!(
                "found no `{word}` in the arguments of `command`, expected `{LISTEN}` and `{UPSTREAM}`"
            )),
        }
    }

    /// The path of the program.
    #[must_use]
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// The arguments of the sidecar that listens on `listen` and forwards to `upstream`.
    #[must_use]
    pub fn arguments(&self, listen: &str, upstream: &str) -> Vec<String> {
        let arguments = self.command.iter().skip(1);
        arguments
            .map(|a| a.replace(LISTEN, listen).replace(UPSTREAM, upstream))
            .collect()
    }
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
        let complete = exec(&["./proxy", "--from={listen}", "{upstream}"]);
        assert_eq!(complete.check(), Ok(()));
        assert_eq!(complete.program(), "./proxy");
        assert_eq!(
            complete.arguments("127.0.0.1:1", "127.0.0.1:2"),
            ["--from=127.0.0.1:1", "127.0.0.1:2"]
        );
        let found = exec(&["./proxy", "{listen}"]).check().unwrap_err();
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
