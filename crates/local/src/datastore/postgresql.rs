//! PostgreSQL. Its programs refuse to run as root; then they run as another user.

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use nix::unistd::User;
use tare_plan::graph::{STORE_DATABASE, STORE_TABLE, STORE_USER};
use tokio::io::AsyncWriteExt;

use super::{Launch, Process, Scratch, data_directory, sockets};
use crate::LocalSettings;
use crate::die::Conduct;
use tare_run::environment::EnvironmentError;
use tare_run::requirements::is_program;

/// Where Debian has its programs, in `VERSION/bin`.
pub(super) const DEBIAN: &str = "/usr/lib/postgresql";
/// Users that it runs as if tare runs as root; the first that exists.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// Its superuser, who may run programs, and whom no connection may name.
const SUPERUSER: &str = "owner";
/// Protocol 3.0.
const PROTOCOL: u32 = 3 << 16;

/// Finds the directory of its programs: in these directories, else the newest version of Debian's packages.
///
/// # Errors
/// When there is none.
pub(super) fn find(path: &[PathBuf], debian: &Path) -> Result<PathBuf, EnvironmentError> {
    let has_programs = |dir: &&PathBuf| {
        ["postgres", "initdb"]
            .iter()
            .all(|p| is_program(&dir.join(p)))
    };
    if let Some(dir) = path.iter().find(has_programs) {
        return Ok(dir.clone());
    }
    let versions = fs::read_dir(debian).into_iter().flatten().flatten();
    let versions = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    let installed = versions.filter(|(_, dir)| has_programs(&dir));
    installed.max().map(|(_, dir)| dir).ok_or_else(|| {
        EnvironmentError::missing(
            format!(
                "the workload has services with `store: postgresql`, and no directory has its programs postgres \
                 and initdb: neither of the PATH nor {}/VERSION/bin",
                debian.display()
            ),
            "install the Debian package postgresql",
        )
    })
}

/// Its programs, and an empty database that each datastore copies.
#[derive(Debug)]
pub(super) struct Installed {
    bin: PathBuf,
    conduct: Conduct,
    scratch: Scratch,
}

/// The data of one datastore.
#[derive(Debug)]
pub(crate) struct Data {
    conduct: Conduct,
    path: PathBuf,
}

impl Drop for Data {
    fn drop(&mut self) {
        // Of a trial that ended before its datastores had started.
        let left = sockets::working_in(&self.path);
        left.into_iter().for_each(sockets::kill);
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Installed {
    /// Makes the empty database.
    ///
    /// # Errors
    /// When initdb fails.
    pub(super) async fn prepare(
        bin: PathBuf,
        settings: &LocalSettings,
    ) -> Result<Self, EnvironmentError> {
        let is_root = rustix::process::geteuid().is_root();
        let conduct = Conduct {
            user: if is_root { Some(user()?) } else { None },
            // Fast shutdown. SIGTERM would wait for the callers to disconnect.
            interrupt: true,
            keep: true,
        };
        let scratch = data_directory(&settings.temporary, conduct.user.is_some())?;
        let installed = Self {
            bin,
            conduct,
            scratch,
        };
        let template = installed.template();
        let launch = Launch {
            tare: &settings.tare,
            name: "initdb".to_owned(),
            log: installed.scratch.path().join("initdb.log"),
        };
        let made = async {
            installed.make(&template)?;
            let initdb = installed.bin.join("initdb").display().to_string();
            let dir = template.display().to_string();
            let user = format!("--username={SUPERUSER}");
            let arguments = [
                initdb.as_str(),
                "--no-sync",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                user.as_str(),
                dir.as_str(),
            ];
            installed.run(launch, &template, &arguments, None).await?;
            let only = format!("host {STORE_DATABASE} {STORE_USER} all trust\n");
            let file = template.join("pg_hba.conf");
            fs::write(&file, only).map_err(|e| format!("{}: {e}", file.display()))
        };
        made.await
            .map_err(|e| EnvironmentError::start("initdb", e))?;
        Ok(installed)
    }

    /// The program of the server.
    pub(super) fn server(&self) -> PathBuf {
        self.bin.join("postgres")
    }

    fn template(&self) -> PathBuf {
        self.scratch.path().join("template")
    }

    /// Makes a directory for the user that the server runs as.
    fn make(&self, dir: &Path) -> Result<(), String> {
        use std::os::unix::fs::{DirBuilderExt, chown};
        let failed = |e: std::io::Error| format!("{}: {e}", dir.display());
        fs::DirBuilder::new()
            .mode(0o700)
            .create(dir)
            .map_err(failed)?;
        match self.conduct.user {
            Some((uid, gid)) => chown(dir, Some(uid), Some(gid)).map_err(|e| {
                let remedy = "run tare as root of the machine, or as another user than root";
                format!("give {} to user {uid}: {e}; {remedy}", dir.display())
            }),
            None => Ok(()),
        }
    }

    /// Makes the data of a datastore, with these values.
    ///
    /// # Errors
    /// What failed, with the end of the log.
    pub(super) async fn data(
        &self,
        launch: Launch<'_>,
        trial: u32,
        name: &str,
        values: &[(String, String)],
    ) -> Result<Data, String> {
        let path = self.scratch.path().join(format!("{trial}-{name}"));
        self.make(&path)?;
        let data = Data {
            conduct: self.conduct,
            path,
        };
        let dir = data.path.display().to_string();
        let copy = format!("{}/.", self.template().display());
        let copy = ["cp", "-a", copy.as_str(), dir.as_str()];
        self.run(launch.clone(), &data.path, &copy, None).await?;
        let postgres = self.server().display().to_string();
        let single = [
            postgres.as_str(),
            "--single",
            "-F",
            "-D",
            dir.as_str(),
            "-c",
            "exit_on_error=true",
            STORE_DATABASE,
        ];
        self.run(launch, &data.path, &single, Some(&statements(values)))
            .await?;
        Ok(data)
    }

    /// Runs a program until it ends.
    async fn run(
        &self,
        launch: Launch<'_>,
        dir: &Path,
        run: &[&str],
        input: Option<&str>,
    ) -> Result<(), String> {
        let name = Path::new(run[0]).file_name().unwrap_or_default().to_owned();
        let failed = |e: std::io::Error| format!("{}: {e}", name.display());
        let run: Vec<String> = run.iter().map(|&word| word.to_owned()).collect();
        let program = Path::new(&run[0]);
        let mut process = launch
            .conducted(program, &run[1..], dir, self.conduct)
            .map_err(failed)?;
        if let (Some(mut stdin), Some(input)) = (process.child.stdin.take(), input) {
            // A broken pipe means that the program ended, which is reported below with its log.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let status = process.child.wait().await.map_err(failed)?;
        match status.success() {
            true => Ok(()),
            false => Err(format!(
                "{} ended with {status}{}",
                name.display(),
                process.log_tail()
            )),
        }
    }
}

impl Data {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts the server.
    pub(super) fn launch(
        &self,
        launch: Launch<'_>,
        program: &Path,
        arguments: &[String],
    ) -> std::io::Result<Process> {
        launch.conducted(program, arguments, &self.path, self.conduct)
    }
}

fn user() -> Result<(u32, u32), EnvironmentError> {
    let mut users = USERS.iter().filter_map(|name| User::from_name(name).ok()?);
    let user = users.next().map(|u| (u.uid.as_raw(), u.gid.as_raw()));
    user.ok_or_else(|| {
        let what = "PostgreSQL does not run as root, and there is no user postgres or nobody";
        EnvironmentError::missing(
            what,
            "create the user postgres, or run tare as another user",
        )
    })
}

/// The statements that fill a database, one on each line, as the server expects them when it runs alone.
fn statements(values: &[(String, String)]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let mut statements = format!(
        "{STORE_TABLE}\nCREATE ROLE {STORE_USER} LOGIN\nGRANT ALL ON entries TO {STORE_USER}\n"
    );
    // Values of any size travel as they are: none is compressed.
    statements += "ALTER TABLE entries ALTER value SET STORAGE EXTERNAL\n";
    for (key, value) in values {
        let (key, value) = (quoted(key), quoted(value));
        statements += &format!("INSERT INTO entries VALUES ({key}, convert_to({value}, 'UTF8'))\n");
    }
    statements
}

/// The arguments of the server: no wait for the disk, no sockets but this address, and nothing outside its
/// directory.
pub(super) fn arguments(address: SocketAddrV4, data: &Path, callers: usize) -> Vec<String> {
    let settings = [
        ("listen_addresses", address.ip().to_string()),
        ("port", address.port().to_string()),
        ("unix_socket_directories", String::new()),
        ("dynamic_shared_memory_type", "mmap".to_owned()),
        ("max_connections", (100 + 10 * callers).to_string()),
    ];
    let mut arguments = vec!["-F".to_owned(), "-D".to_owned(), data.display().to_string()];
    for (name, value) in settings {
        arguments.extend(["-c".to_owned(), format!("{name}={value}")]);
    }
    arguments
}

/// The first message of a connection, which the server answers with R if it is ready, and with E if not.
///
/// Source: PostgreSQL, Frontend/Backend Protocol, StartupMessage.
pub(super) fn startup_message() -> Vec<u8> {
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for text in ["user", STORE_USER, "database", STORE_DATABASE, ""] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    let length = u32::try_from(body.len() + 4).unwrap_or(0);
    [&length.to_be_bytes()[..], &body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_path_comes_first_then_the_newest_version_of_debian() {
        let root = tempfile::tempdir().unwrap();
        let (debian, path) = (root.path().join("debian"), [root.path().join("bin")]);
        let error = find(&path, &debian).unwrap_err().to_string();
        assert!(
            error.contains("install the Debian package postgresql"),
            "{error}"
        );
        let install = |dir: &Path, programs: &[&str]| {
            fs::create_dir_all(dir).unwrap();
            for program in programs {
                fs::write(dir.join(program), "").unwrap();
                let executable = PermissionsExt::from_mode(0o755);
                fs::set_permissions(dir.join(program), executable).unwrap();
            }
        };
        let both = ["postgres", "initdb"];
        install(&debian.join("9/bin"), &both);
        install(&debian.join("15/bin"), &both);
        install(&debian.join("17/bin"), &["postgres"]);
        install(&path[0], &["initdb"]);
        assert_eq!(find(&path, &debian).unwrap(), debian.join("15/bin"));
        install(&path[0], &["postgres"]);
        assert_eq!(find(&path, &debian).unwrap(), path[0]);
    }

    #[test]
    fn quotes_in_keys_are_doubled() {
        let values = [("/it's".to_owned(), "x".to_owned())];
        let expected = "INSERT INTO entries VALUES ('/it''s', convert_to('x', 'UTF8'))\n";
        assert!(statements(&values).ends_with(expected));
    }
}
