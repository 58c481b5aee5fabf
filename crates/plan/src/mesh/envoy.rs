//! Which Envoy a mesh runs.

use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::source::Problem;

/// The versions of Envoy that tare can install, the newest first.
pub const ENVOY_VERSIONS: [&str; 11] = [
    "1.40.0",
    "1.39.3",
    "1.39.1",
    "1.39.0",
    "1.38.3",
    "1.38.2",
    "1.37.0",
    "1.36.4",
    "1.36.3",
    "1.36.2.post1",
    "1.36.2",
];

/// The Envoy of a mesh: a version, which tare installs, or a program on this machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String")]
pub enum EnvoyProgram {
    /// One of [`ENVOY_VERSIONS`].
    Version(String),
    /// The path of a program. A relative path starts from the working directory.
    Path(String),
}

impl EnvoyProgram {
    /// `text` as a version or, if it contains `/`, as a path.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn new(text: &str) -> Result<Self, Problem> {
        if text.contains('/') && !text.ends_with('/') {
            return Ok(Self::Path(text.to_owned()));
        }
        if ENVOY_VERSIONS.contains(&text) {
            return Ok(Self::Version(text.to_owned()));
        }
        let known = ENVOY_VERSIONS.join(", ");
        let mut problem = Problem::new(format!("found Envoy `{text}`"), format!("one of: {known}"));
        problem.help("or the path of a program, such as ./envoy");
        Err(problem)
    }

    /// The path, for a program on this machine.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Version(_) => None,
            Self::Path(path) => Some(Path::new(path)),
        }
    }
}

impl fmt::Display for EnvoyProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Version(text) | Self::Path(text)) = self;
        f.write_str(text)
    }
}

impl Serialize for EnvoyProgram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EnvoyProgram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::source::scalar(deserializer, "a version or a path", Self::new)
    }
}
