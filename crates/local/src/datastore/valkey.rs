//! Valkey, or Redis, which has the same protocol.

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ProbeError;
use tare_run::environment::EnvironmentError;
use tare_run::requirements::is_program;

/// The programs, in the order in which they are chosen.
const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];

/// Finds the program in these directories.
///
/// # Errors
/// When there is none.
pub(super) fn find(path: &[PathBuf]) -> Result<PathBuf, EnvironmentError> {
    let candidates = PROGRAMS.iter();
    let mut candidates = candidates.flat_map(|name| path.iter().map(move |dir| dir.join(name)));
    candidates.find(|p| is_program(p)).ok_or_else(|| {
        EnvironmentError::missing(
            "the workload has services with `store: valkey`, and neither valkey-server nor redis-server is on \
             the PATH",
            "install one of the Debian packages valkey-server and redis-server",
        )
    })
}

/// Commands that it refuses, because every user of the machine can connect to it, and it may run as root.
const REFUSED: [&str; 8] = [
    "CONFIG",
    "MODULE",
    "DEBUG",
    "REPLICAOF",
    "SLAVEOF",
    "SAVE",
    "BGSAVE",
    "SHUTDOWN",
];

/// Its arguments: no persistence, no password, and only this address.
pub(super) fn arguments(address: SocketAddrV4, dir: &Path) -> Vec<String> {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let dir = dir.display().to_string();
    let arguments = [
        "--bind",
        &ip,
        "--port",
        &port,
        "--dir",
        &dir,
        "--save",
        "",
        "--appendonly",
        "no",
        "--daemonize",
        "no",
        "--protected-mode",
        "no",
    ];
    let refused = REFUSED
        .iter()
        .flat_map(|name| ["--rename-command", name, ""]);
    arguments
        .into_iter()
        .chain(refused)
        .map(str::to_owned)
        .collect()
}

/// Stores these values.
pub(super) async fn fill(
    address: SocketAddrV4,
    values: &[(String, String)],
) -> Result<(), ProbeError> {
    let mut stream = TcpStream::connect(address).await?;
    for (key, value) in values {
        let (k, v) = (key.len(), value.len());
        let set = format!("*3\r\n$3\r\nSET\r\n${k}\r\n{key}\r\n${v}\r\n{value}\r\n");
        stream.write_all(set.as_bytes()).await?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).await?;
        if reply != *b"+OK\r\n" {
            let found = String::from_utf8_lossy(&reply).into_owned();
            return Err(ProbeError::Answer(format!("SET returned {found:?}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn valkey_comes_before_redis_and_the_absence_of_both_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = [dir.path().join("a"), dir.path().join("b")];
        let error = find(&path).unwrap_err().to_string();
        assert!(error.contains("Debian packages valkey-server"), "{error}");
        for (dir, name) in path.iter().zip(["redis-server", "valkey-server"]) {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join(name), "").unwrap();
            assert!(find(&path).is_err() || name == "valkey-server");
            let executable = PermissionsExt::from_mode(0o755);
            fs::set_permissions(dir.join(name), executable).unwrap();
            assert_eq!(find(&path).unwrap(), dir.join(name));
        }
    }
}
