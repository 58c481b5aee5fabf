//! Credentials for registries, from the files of `docker login` and `podman login` and from credential helpers.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tare_files::DOCUMENT_BYTES_MAX;

use super::Reference;

/// User name for which a credential helper returns an identity token in the place of a password.
const TOKEN_USER: &str = "<token>";

/// What identifies a user to a registry. It has no `Debug`, so that no message shows it.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A user with a password.
    Password {
        /// Name of the user.
        user: String,
        /// Password.
        password: String,
    },
    /// A token that the registry exchanges for others, as after `az acr login`.
    IdentityToken(String),
}

/// Why credentials could not be read. Missing credentials are no error.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file cannot be read, or is invalid.
    #[error("failed to read the credentials in {path}: {found}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// The credential helper that a file names cannot run, or failed.
    #[error(
        "the credential helper `{program}`, which {path} names for {registry}, failed: {found}"
    )]
    Helper {
        /// Name of the program.
        program: String,
        /// The file that names it.
        path: PathBuf,
        /// The registry.
        registry: String,
        /// Its message.
        found: String,
    },
}

/// The files in which credentials may be.
#[derive(Debug, Clone, Default)]
pub struct CredentialFiles(Vec<PathBuf>);

impl CredentialFiles {
    /// The files of `docker login` and `podman login`: `config.json` in DOCKER_CONFIG or `~/.docker`, and
    /// `containers/auth.json` in XDG_RUNTIME_DIR.
    #[must_use]
    pub fn of_user() -> Self {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        let docker = var("DOCKER_CONFIG").map(PathBuf::from);
        let docker = docker.or_else(|| Some(Path::new(&var("HOME")?).join(".docker")));
        let podman = var("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("containers/auth.json"));
        Self(
            docker
                .map(|d| d.join("config.json"))
                .into_iter()
                .chain(podman)
                .collect(),
        )
    }

    /// Returns the credentials for a registry; `None` for an anonymous user.
    ///
    /// # Errors
    /// If a file is invalid, or a credential helper fails.
    pub fn find(&self, image: &Reference) -> Result<Option<Credentials>, CredentialsError> {
        for path in &self.0 {
            let found = |found: String| CredentialsError::File {
                path: path.clone(),
                found,
            };
            let text = match tare_files::read_text(path, DOCUMENT_BYTES_MAX) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(found(error.to_string())),
            };
            // The text of the error has no values of the file.
            let file: Value = serde_json::from_str(&text).map_err(|e| found(e.to_string()))?;
            if let Some(credentials) = in_file(&file, path, image)? {
                return Ok(Some(credentials));
            }
        }
        Ok(None)
    }
}

fn in_file(
    file: &Value,
    path: &Path,
    image: &Reference,
) -> Result<Option<Credentials>, CredentialsError> {
    let keys = image.credential_keys();
    let of = |section: &str| keys.iter().find_map(|key| file[section].get(key));
    let own = of("credHelpers").unwrap_or(&file["credsStore"]);
    if let Some(helper) = own.as_str().filter(|h| !h.is_empty()) {
        let program = format!("docker-credential-{helper}");
        let answer = ask(&program, &keys[0]).map_err(|found| CredentialsError::Helper {
            program,
            path: path.to_owned(),
            registry: image.registry.clone(),
            found,
        })?;
        if answer.is_some() {
            return Ok(answer);
        }
    }
    let Some(entry) = of("auths") else {
        return Ok(None);
    };
    if let Some(token) = entry["identitytoken"].as_str().filter(|t| !t.is_empty()) {
        return Ok(Some(Credentials::IdentityToken(token.to_owned())));
    }
    let Some(auth) = entry["auth"].as_str().filter(|a| !a.is_empty()) else {
        return Ok(None);
    };
    let decoded = STANDARD.decode(auth).ok();
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let parts = decoded.as_deref().and_then(|text| text.split_once(':'));
    let (user, password) = parts.ok_or_else(|| CredentialsError::File {
        path: path.to_owned(),
        found: format!(
            "`auth` of {} is not base64 of USER:PASSWORD",
            image.registry
        ),
    })?;
    Ok(Some(Credentials::Password {
        user: user.to_owned(),
        password: password.to_owned(),
    }))
}

/// Asks a credential helper for the credentials of a registry; `None` if it has none.
fn ask(program: &str, registry: &str) -> Result<Option<Credentials>, String> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "it is not on the PATH; install it".to_owned(),
            _ => error.to_string(),
        })?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that ends without reading is judged by its output.
        let _ = input.write_all(registry.as_bytes());
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        // Helpers write their messages to the standard output.
        let [message, more] = [&output.stdout, &output.stderr].map(|o| String::from_utf8_lossy(o));
        let message = format!("{} {}", message.trim(), more.trim());
        return match message.contains("credentials not found") {
            true => Ok(None),
            false => Err(message.trim().to_owned()),
        };
    }
    let answer: Value =
        serde_json::from_slice(&output.stdout).map_err(|_| "its output is not JSON".to_owned())?;
    let [user, secret] = ["Username", "Secret"].map(|key| answer[key].as_str().unwrap_or_default());
    Ok(match (user, secret) {
        (_, "") => None,
        (TOKEN_USER, token) => Some(Credentials::IdentityToken(token.to_owned())),
        (user, password) => Some(Credentials::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn find(file: &Value, image: &str) -> Result<Option<Credentials>, CredentialsError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, file.to_string()).unwrap();
        let missing = dir.path().join("missing.json");
        CredentialFiles(vec![missing, path]).find(&image.parse().unwrap())
    }

    fn password(user: &str, password: &str) -> Option<Credentials> {
        Some(Credentials::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    #[test]
    fn the_entry_of_the_registry_is_used() {
        let file = json!({"auths": {
            "registry.example": {"auth": STANDARD.encode("ann:a:b")},
            "https://other.example/v2/": {"auth": STANDARD.encode("bob:c")},
            "https://index.docker.io/v1/": {"auth": STANDARD.encode("hub:d")},
            "azure.example": {"auth": STANDARD.encode("0:"), "identitytoken": "t"},
            "empty.example": {}}});
        let found = |image: &str| find(&file, image).unwrap_or_else(|e| panic!("{e}"));
        assert!(found("registry.example/tare") == password("ann", "a:b"));
        assert!(found("other.example/tare") == password("bob", "c"));
        assert!(found("docker.io/team/tare") == password("hub", "d"));
        let token = Some(Credentials::IdentityToken("t".to_owned()));
        assert!(found("azure.example/tare") == token);
        for anonymous in ["empty.example/tare", "registry.example:5000/tare"] {
            assert!(found(anonymous).is_none(), "{anonymous}");
        }
    }

    #[test]
    fn errors_name_the_file_or_the_helper_but_no_secret() {
        let file = json!({"auths": {"registry.example": {"auth": "c2VjcmV0"}}});
        let error = find(&file, "registry.example/tare")
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("config.json") && error.contains("USER:PASSWORD"),
            "{error}"
        );
        assert!(
            !error.contains("secret") && !error.contains("c2VjcmV0"),
            "{error}"
        );
        let file = json!({"credHelpers": {"registry.example": "tare-test-missing"}});
        let error = find(&file, "registry.example/tare")
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("`docker-credential-tare-test-missing`"),
            "{error}"
        );
        assert!(error.contains("not on the PATH"), "{error}");
        assert!(
            find(&file, "other.example/tare").is_ok(),
            "another registry"
        );
    }
}
