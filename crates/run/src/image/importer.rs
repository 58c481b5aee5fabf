//! Imports the archive of an image into a cluster, with the cluster's own command.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Longest part of a program's output in a message, in bytes.
const OUTPUT_MAX: usize = 2_000;

/// A command that imports an archive.
#[derive(Debug, Clone, Copy)]
pub struct Importer {
    /// Name of the kind of cluster.
    pub name: &'static str,
    program: &'static str,
    /// Arguments before the path of the archive.
    args: &'static [&'static str],
    /// Whether it imports into all nodes; otherwise into the machine on which it runs.
    pub all_nodes: bool,
}

/// The commands of the clusters that have one.
pub const IMPORTERS: [Importer; 4] = [
    Importer {
        name: "kind",
        program: "kind",
        args: &["load", "image-archive"],
        all_nodes: true,
    },
    Importer {
        name: "minikube",
        program: "minikube",
        args: &["image", "load"],
        all_nodes: true,
    },
    Importer {
        name: "k3s",
        program: "k3s",
        args: &["ctr", "images", "import"],
        all_nodes: false,
    },
    Importer {
        name: "containerd",
        program: "ctr",
        args: &["-n", "k8s.io", "images", "import"],
        all_nodes: false,
    },
];

/// Why an archive could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The program is not installed.
    #[error(
        "`{program}` is not on the PATH: install it, or run `{command}` on a machine that has it"
    )]
    Missing {
        /// Name of the program.
        program: &'static str,
        /// The whole command.
        command: String,
    },
    /// The program cannot start.
    #[error("failed to start `{command}`: {error}")]
    Start {
        /// The whole command.
        command: String,
        /// The system's error.
        error: io::Error,
    },
    /// The program failed.
    #[error("`{command}` failed ({status}): {output}")]
    Failed {
        /// The whole command.
        command: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its output.
        output: String,
    },
}

impl Importer {
    /// The command for an archive.
    #[must_use]
    pub fn command(&self, archive: &Path) -> String {
        format!(
            "{} {} {}",
            self.program,
            self.args.join(" "),
            archive.display()
        )
    }

    /// Runs the command.
    ///
    /// # Errors
    /// If the program is missing or fails.
    pub fn import(&self, archive: &Path) -> Result<(), ImportError> {
        let command = self.command(archive);
        let output = Command::new(self.program)
            .args(self.args)
            .arg(archive)
            .output();
        let output = output.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ImportError::Missing {
                program: self.program,
                command: command.clone(),
            },
            _ => ImportError::Start {
                command: command.clone(),
                error,
            },
        })?;
        if output.status.success() {
            return Ok(());
        }
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text[text.len().saturating_sub(OUTPUT_MAX)..]);
        Err(ImportError::Failed {
            command,
            status: output.status,
            output: match text.trim() {
                "" => "no output".to_owned(),
                text => text.to_owned(),
            },
        })
    }
}
