//! `tare image`: pushes to a registry, and imports with the commands of clusters.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

#[path = "../../run/tests/support/executable.rs"]
mod executable;
#[path = "image/registry.rs"]
mod registry;

use executable::executable;
use registry::{Login, Registry, sha256};

/// Returns a directory with static programs of two architectures: ELF headers with one program header.
fn programs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, machine) in [("amd64", 62), ("arm64", 183)] {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = machine;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = 1;
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// `tare image` in a directory, with credentials only from `dir/config.json`.
fn image(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.arg("image").args(args).current_dir(dir);
    command
        .env("DOCKER_CONFIG", dir)
        .env_remove("XDG_RUNTIME_DIR");
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env_remove(proxy).env_remove(proxy.to_lowercase());
    }
    command
}

fn push(dir: &Path, to: &str) -> Output {
    let args = ["--program", "amd64", "--program", "arm64", "--push", to];
    image(dir, &args).output().unwrap()
}

fn error(output: &Output) -> String {
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn log_in(dir: &Path, config: &Value) {
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
}

/// Writes an executable script and returns a PATH with it before all others.
fn stub(dir: &Path, name: &str, script: &str) -> String {
    executable(&dir.join(name), &format!("#!/bin/sh\n{script}\n"));
    format!("{}:{}", dir.display(), std::env::var("PATH").unwrap())
}

#[test]
fn a_push_stores_an_image_for_each_architecture_and_prints_the_line_for_the_cluster_file() {
    let registry = Registry::start(Login::Token);
    let dir = programs();
    let host = registry.address.to_string();
    log_in(
        dir.path(),
        &json!({"auths": {&host: {"auth": "YW5uOnNlY3JldA=="}}}),
    );
    let to = format!("{host}/team/tare:1.0");
    let output = push(dir.path(), &to);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let uploads = {
        let stored = registry.stored.lock().unwrap();
        let (kind, index) = &stored.manifests["1.0"];
        assert_eq!(kind, "application/vnd.oci.image.index.v1+json");
        assert_eq!(printed, format!("image: {to}@{}\n", sha256(index)));
        let index: Value = serde_json::from_slice(index).unwrap();
        let platforms = index["manifests"].as_array().unwrap();
        let architecture = |p: &Value| p["platform"]["architecture"].clone();
        let found: Vec<Value> = platforms.iter().map(architecture).collect();
        assert_eq!(found, ["amd64", "arm64"]);
        // A configuration and a layer for each; the registry has checked that manifests name stored blobs.
        assert_eq!(stored.blobs.len(), 4);
        assert!(stored.tokens > 1, "a token expired during the push");
        stored.uploads
    };
    assert_eq!(uploads, 4);
    assert!(!dir.path().join("tare-image.tar").exists());
    assert!(push(dir.path(), &to).status.success());
    let stored = registry.stored.lock().unwrap();
    assert_eq!(stored.uploads, 4, "the registry had all blobs");
}

#[test]
fn passwords_identity_tokens_and_credential_helpers_identify_the_user() {
    let dir = programs();
    let registry = Registry::start(Login::Password);
    let host = registry.address.to_string();
    let to = format!("{host}/team/tare");
    log_in(
        dir.path(),
        &json!({"auths": {&host: {"auth": "YW5uOnNlY3JldA=="}}}),
    );
    let output = push(dir.path(), &to);
    assert!(output.status.success(), "{output:?}");
    let tags: Vec<String> = registry
        .stored
        .lock()
        .unwrap()
        .manifests
        .keys()
        .cloned()
        .collect();
    assert!(
        tags.iter().any(|tag| tag == env!("CARGO_PKG_VERSION")),
        "{tags:?}"
    );

    log_in(dir.path(), &json!({"credHelpers": {&host: "stub"}}));
    let path = stub(
        dir.path(),
        "docker-credential-stub",
        r#"read -r server; test "$1" = get || exit 1
           echo "$server" > asked; echo '{"Username": "ann", "Secret": "secret"}'"#,
    );
    let args = ["--program", "arm64", "--push", &to];
    let output = image(dir.path(), &args).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let asked = std::fs::read_to_string(dir.path().join("asked")).unwrap();
    assert_eq!(asked.trim(), host);

    let registry = Registry::start(Login::Token);
    let host = registry.address.to_string();
    log_in(
        dir.path(),
        &json!({"auths": {&host: {"auth": "MDo=", "identitytoken": "identity"}}}),
    );
    let output = push(dir.path(), &format!("{host}/team/tare"));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_refused_push_names_the_user_and_what_to_do() {
    let dir = programs();
    let registry = Registry::start(Login::Token);
    let host = registry.address.to_string();
    let to = format!("{host}/team/tare");
    let found = error(&push(dir.path(), &to));
    assert!(
        found.contains("an anonymous user") && found.contains("401"),
        "{found}"
    );
    assert!(found.contains(&format!("docker login {host}")), "{found}");
    // `ann:wrong`.
    log_in(
        dir.path(),
        &json!({"auths": {&host: {"auth": "YW5uOndyb25n"}}}),
    );
    let found = error(&push(dir.path(), &to));
    assert!(found.contains("the user `ann`"), "{found}");
    assert!(found.contains("incorrect username or password"), "{found}");
    assert!(
        !found.contains("wrong") && !found.contains("YW5u"),
        "{found}"
    );

    let read_only = Registry::start(Login::ReadOnly);
    let found = error(&push(
        dir.path(),
        &format!("{}/team/tare", read_only.address),
    ));
    assert!(found.contains("403") && found.contains("DENIED"), "{found}");
    let other = Registry::start(Login::None);
    let found = error(&push(dir.path(), &format!("{}/other", other.address)));
    assert!(
        found.contains("NAME_UNKNOWN") && found.contains("create it first"),
        "{found}"
    );
    other.stored.lock().unwrap().lies = true;
    let found = error(&push(dir.path(), &format!("{}/team/tare", other.address)));
    assert!(found.contains("the registry stored sha256:"), "{found}");
}

#[test]
fn a_wrong_registry_is_an_error_with_a_remedy() {
    let dir = programs();
    // A server of the web, which answers 404 to everything but its pages.
    let web = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = web.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = web.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nNope");
    });
    let found = error(&push(dir.path(), &format!("{address}/team/tare")));
    assert!(
        found.contains(&format!("http://{address}/v2/ is not a registry")),
        "{found}"
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let found = error(&push(dir.path(), &format!("{free}/team/tare")));
    assert!(
        found.contains(&format!("failed to reach the registry {free}")),
        "{found}"
    );
    assert!(found.contains("check its name and port"), "{found}");
    let found = error(&push(dir.path(), "registry.invalid/tare"));
    assert!(
        found.contains("failed to reach the registry registry.invalid"),
        "{found}"
    );
    let found = error(&push(dir.path(), "tare:1"));
    assert!(found.contains("which has no registry"), "{found}");
}

#[test]
fn the_command_of_the_cluster_imports_the_archive() {
    for (cluster, program, expected) in [
        ("kind", "kind", "load image-archive x.tar"),
        ("minikube", "minikube", "image load x.tar"),
        ("k3s", "k3s", "ctr images import x.tar"),
        ("containerd", "ctr", "-n k8s.io images import x.tar"),
    ] {
        let dir = programs();
        let args = ["--program", "amd64", "--out", "x.tar", "--load", cluster];
        let run = |path: &str| image(dir.path(), &args).env("PATH", path).output().unwrap();
        let path = stub(
            dir.path(),
            program,
            "printf '%s\\n' \"$*\" > args; test -s x.tar",
        );
        let output = run(&path);
        assert!(output.status.success(), "{output:?}");
        let found = std::fs::read_to_string(dir.path().join("args")).unwrap();
        assert_eq!(found.trim(), expected);

        let path = stub(dir.path(), program, "echo no nodes found >&2; exit 3");
        let found = error(&run(&path));
        assert!(
            found.contains("no nodes found") && found.contains("3"),
            "{found}"
        );
        let empty: PathBuf = dir.path().join("empty");
        let found = error(&run(&empty.display().to_string()));
        assert!(
            found.contains(&format!("`{program}` is not on the PATH")),
            "{found}"
        );
        assert!(found.contains(expected), "{found}");
    }
}
