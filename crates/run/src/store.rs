//! Writes a run directory. A trial gets its name only when all of it is on disk: it is written
//! under a `.partial-` name, synced, and renamed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::Serialize;
use tare_plan::Plan;
use tare_plan::limits::JSON_BYTES_MAX;
use tare_plan::trial::TrialSpec;
use tare_records::calls::TrialCalls;
use tare_records::capacity::CapacityStep;
use tare_records::churn::ChurnRecord;
use tare_records::layout;
use tare_records::layout::RunManifest;
use tare_records::overload::FoundCapacities;
use tare_records::trial::{Event, EventKind, TrialResult};

use crate::now::event;
use crate::seal;

/// Why a run directory could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error("failed to {doing} {}: {source}", path.display())]
    Io {
        /// `create`, `write`...
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The folder has a run.
    #[error("{} contains a run: choose another --out, or continue the run with tare run --resume {}", path.display(), path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has files, but no run.
    #[error("{} is not empty and contains no run: choose a new or empty directory for --out", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has no run to resume.
    #[error("{}: no {} found; expected a run directory, as printed by `tare run`", path.display(), layout::RUN)]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// A file of the run is damaged.
    #[error("{} is damaged: {found}; restore it from a backup, or start a new run", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// A file of the run has the schema of another version of tare.
    #[error("{} has schema {found}, expected {}: resume the run with the version of tare that began it", path.display(), tare_plan::SCHEMA_VERSION)]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
    },
    /// Another tare process writes to the folder.
    #[error("{} is in use by another tare process", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
}

fn io_error<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |source| StoreError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Writes `value` as JSON. `path` always holds the complete old file or the complete new file.
fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from);
    let mut text = text.map_err(io_error("write", path))?;
    text.push('\n');
    write_atomically(path, text.as_bytes())
}

/// Writes each value as a line of JSON: all of them, or none.
fn write_lines(path: &Path, values: &[impl Serialize]) -> Result<(), StoreError> {
    let mut text = String::new();
    for value in values {
        let line = serde_json::to_string(value).map_err(io::Error::from);
        text.push_str(&line.map_err(io_error("write", path))?);
        text.push('\n');
    }
    write_atomically(path, text.as_bytes())
}

fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let temporary = path.with_extension("tmp");
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(source) = written {
        let _ = fs::remove_file(&temporary);
        return Err(StoreError::Io {
            doing: "write",
            path: path.to_owned(),
            source,
        });
    }
    fs::rename(&temporary, path).map_err(io_error("write", path))
}

/// An open run directory, locked by this process.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    manifest: RunManifest,
    /// What was found when the run was opened again, for messages.
    found: Vec<String>,
    /// Whether the trials have lists of their files. Those of older versions of tare have none.
    has_lists: bool,
    /// Trials whose files were checked.
    checked: RefCell<BTreeSet<PathBuf>>,
    _lock: File,
}

impl RunDir {
    /// Checks that `path` is free for a new run.
    ///
    /// # Errors
    /// When `path` exists and is not empty.
    pub fn check_new(path: &Path) -> Result<(), StoreError> {
        if path.exists() && !names(path)?.is_empty() {
            let (has_run, path) = (path.join(layout::RUN).exists(), path.to_owned());
            return Err(match has_run {
                true => StoreError::Occupied { path },
                false => StoreError::NotEmpty { path },
            });
        }
        Ok(())
    }

    /// Creates `path` and writes the plan and the manifest.
    ///
    /// # Errors
    /// When `path` exists and is not empty, or cannot be written.
    pub fn create(path: &Path, manifest: RunManifest, plan_text: &str) -> Result<Self, StoreError> {
        Self::check_new(path)?;
        fs::create_dir_all(path.join(layout::TRIALS)).map_err(io_error("create", path))?;
        let lock = lock(path)?;
        write_atomically(&path.join(layout::PLAN), plan_text.as_bytes())?;
        write_json(&path.join(layout::RUN), &manifest)?;
        Ok(Self {
            path: path.to_owned(),
            manifest,
            found: Vec::new(),
            has_lists: true,
            checked: RefCell::default(),
            _lock: lock,
        })
    }

    /// Opens an existing run and removes unfinished trials.
    ///
    /// # Errors
    /// When the manifest cannot be read or is of another version, or another tare process has
    /// locked the directory.
    pub fn resume(path: &Path) -> Result<Self, StoreError> {
        let file = path.join(layout::RUN);
        let text =
            tare_files::read_text(&file, JSON_BYTES_MAX).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => StoreError::NoRun {
                    path: path.to_owned(),
                },
                _ => io_error("read", &file)(error),
            })?;
        let damaged = |found| StoreError::Damaged {
            path: file.clone(),
            found,
        };
        let manifest: RunManifest =
            serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
        if manifest.schema_version != tare_plan::SCHEMA_VERSION {
            return Err(StoreError::Schema {
                path: file,
                found: manifest.schema_version,
            });
        }
        manifest.plan.check_names().map_err(damaged)?;
        let lock = lock(path)?;
        let mut run = Self {
            path: path.to_owned(),
            manifest,
            found: Vec::new(),
            has_lists: false,
            checked: RefCell::default(),
            _lock: lock,
        };
        let trials = run.path.join(layout::TRIALS);
        fs::create_dir_all(&trials).map_err(io_error("create", &trials))?;
        run.remove_unfinished(&trials)?;
        run.remove_unfinished(&run.path.join(layout::PROFILES).join(layout::TRIALS))?;
        run.check_finished()?;
        Ok(run)
    }

    /// Removes the unfinished trials of a folder.
    fn remove_unfinished(&mut self, trials: &Path) -> Result<(), StoreError> {
        let mut names = match trials.is_dir() {
            true => names(trials)?,
            false => Vec::new(),
        };
        names.retain(|name| name.starts_with(layout::PARTIAL_PREFIX));
        names.sort();
        for dir in names.iter().map(|name| trials.join(name)) {
            fs::remove_dir_all(&dir).map_err(io_error("remove", &dir))?;
            let words = format!("removed {}, an unfinished trial", dir.display());
            self.found.push(words);
        }
        Ok(())
    }

    /// Notes the finished trials whose files are missing or damaged. Trials of an older version get
    /// the lists of their files: the next ones will have some.
    fn check_finished(&mut self) -> Result<(), StoreError> {
        let plan = &self.manifest.plan;
        let attempts = (0..plan.repeats).flat_map(|block| {
            let attempts = 0..=plan.reruns;
            attempts.flat_map(move |attempt| tare_plan::trial::block_order(plan, block, attempt))
        });
        let specs = attempts.chain(tare_plan::trial::profile_order(plan));
        let mut dirs: Vec<PathBuf> = specs.map(|spec| self.dir(&spec)).collect();
        dirs.retain(|dir| dir.exists());
        let had_lists = dirs.iter().any(|dir| dir.join(layout::FILES).exists());
        self.has_lists = true;
        for dir in dirs {
            if let Err(found) = seal::check(&dir, had_lists) {
                let words = format!("{} will be repeated: {found}", dir.display());
                self.found.push(words);
                continue;
            }
            if !had_lists {
                write_list(&dir)?;
            }
            self.checked.get_mut().insert(dir);
        }
        Ok(())
    }

    /// What was found and done when the run was opened again, for messages.
    #[must_use]
    pub fn found(&self) -> &[String] {
        &self.found
    }

    /// Adds profile trials to the run.
    ///
    /// # Errors
    /// When the manifest cannot be written.
    pub fn add_profile(&mut self) -> Result<(), StoreError> {
        self.manifest.profile = true;
        write_json(&self.path.join(layout::RUN), &self.manifest)
    }

    /// Adds a note to the manifest, unless it has it.
    ///
    /// # Errors
    /// When the manifest cannot be written.
    pub fn note(&mut self, note: String) -> Result<(), StoreError> {
        if self.manifest.notes.contains(&note) {
            return Ok(());
        }
        self.manifest.notes.push(note);
        write_json(&self.path.join(layout::RUN), &self.manifest)
    }

    /// Replaces the plan by one that has more blocks and the same trials before them. `added` describes the
    /// new blocks, for the events of the run.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn extend(&mut self, plan: Plan, added: String) -> Result<(), StoreError> {
        self.manifest.plan = plan;
        write_json(&self.path.join(layout::RUN), &self.manifest)?;
        self.event(&event(EventKind::Extended, "", added))
    }

    /// The capacities that overloads are a share of; `None` until they are known.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn capacities(&self) -> Result<Option<FoundCapacities>, StoreError> {
        let path = self.path.join(layout::CAPACITIES);
        let bytes = match tare_files::read(&path, JSON_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|e| StoreError::Damaged {
                path,
                found: e.to_string(),
            })
    }

    /// Writes the capacities that overloads are a share of.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_capacities(&self, capacities: &FoundCapacities) -> Result<(), StoreError> {
        write_json(&self.path.join(layout::CAPACITIES), capacities)
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest of the run.
    #[must_use]
    pub fn manifest(&self) -> &RunManifest {
        &self.manifest
    }

    /// Whether `trial` is on disk with a measurement. A resumed run repeats a trial that failed
    /// before measurement.
    #[must_use]
    pub fn has(&self, trial: &TrialSpec) -> bool {
        self.result(trial).is_some()
    }

    /// Returns the results of those `trials` that are on disk with a measurement, in their order.
    #[must_use]
    pub fn results(&self, trials: &[TrialSpec]) -> Vec<(String, TrialResult)> {
        let read = |trial: &TrialSpec| Some((self.name(trial), self.result(trial)?));
        trials.iter().filter_map(read).collect()
    }

    /// The same with those that failed before measurement.
    #[must_use]
    pub fn all_results(&self, trials: &[TrialSpec]) -> Vec<(String, TrialResult)> {
        let read = |trial: &TrialSpec| Some((self.name(trial), self.stored(trial)?));
        trials.iter().filter_map(read).collect()
    }

    fn result(&self, trial: &TrialSpec) -> Option<TrialResult> {
        self.stored(trial).filter(|result| result.load.is_some())
    }

    /// The folder of the trials to which this one belongs.
    fn trials(&self, trial: &TrialSpec) -> PathBuf {
        match trial.profile {
            true => self.path.join(layout::PROFILES).join(layout::TRIALS),
            false => self.path.join(layout::TRIALS),
        }
    }

    /// The name of the folder of a finished trial.
    fn name(&self, trial: &TrialSpec) -> String {
        let old = Some(trial.old_dir_name()).filter(|old| self.trials(trial).join(old).is_dir());
        old.unwrap_or_else(|| trial.dir_name())
    }

    fn dir(&self, trial: &TrialSpec) -> PathBuf {
        self.trials(trial).join(self.name(trial))
    }

    fn stored(&self, trial: &TrialSpec) -> Option<TrialResult> {
        let dir = self.dir(trial);
        let bytes = tare_files::read(&dir.join(layout::RESULT), JSON_BYTES_MAX).ok()?;
        let result: TrialResult = serde_json::from_slice(&bytes).ok()?;
        result.check_windows().ok()?;
        if !self.checked.borrow().contains(&dir) {
            seal::check(&dir, self.has_lists).ok()?;
            self.checked.borrow_mut().insert(dir);
        }
        Some(result)
    }

    /// Appends to the events of the run.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn event(&self, event: &Event) -> Result<(), StoreError> {
        Lines::open(self.path.join(layout::EVENTS))?.json(event)
    }

    /// Creates the directory of `trial` for writing.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn begin(&self, trial: &TrialSpec) -> Result<TrialWriter, StoreError> {
        let trials = self.trials(trial);
        let path = trials.join(format!("{}{}", layout::PARTIAL_PREFIX, trial.dir_name()));
        if path.exists() {
            fs::remove_dir_all(&path).map_err(io_error("remove", &path))?;
        }
        for folder in [layout::LOGS, layout::CONFIG] {
            fs::create_dir_all(path.join(folder)).map_err(io_error("create", &path))?;
        }
        write_json(&path.join(layout::TRIAL), trial)?;
        Ok(TrialWriter {
            load: Lines::open(path.join(layout::LOAD))?,
            agent: Lines::open(path.join(layout::AGENT))?,
            events: Lines::open(path.join(layout::EVENTS))?,
            target: self.dir(trial),
            path,
            kept: false,
        })
    }
}

/// A text file that grows line by line. It contains every line that was written, even after the
/// process was killed.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    fn open(path: PathBuf) -> Result<Self, StoreError> {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(io_error("open", &path))?;
        Ok(Self { path, file })
    }

    fn line(&mut self, line: &str) -> Result<(), StoreError> {
        self.file
            .write_all(format!("{line}\n").as_bytes())
            .map_err(io_error("write", &self.path))
    }

    fn json(&mut self, value: &impl Serialize) -> Result<(), StoreError> {
        self.line(&serde_json::to_string(value).unwrap_or_default())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(io_error("write", &self.path))
    }
}

/// The directory of a trial in progress. Dropping it before [`Self::finish`] removes it.
#[derive(Debug)]
pub struct TrialWriter {
    path: PathBuf,
    target: PathBuf,
    load: Lines,
    agent: Lines,
    events: Lines,
    kept: bool,
}

impl TrialWriter {
    /// The path for logs and configurations while the trial runs.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a record of the generator, unchanged.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn load(&mut self, line: &str) -> Result<(), StoreError> {
        self.load.line(line)
    }

    /// Writes a record of the agent, unchanged.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn agent(&mut self, line: &str) -> Result<(), StoreError> {
        self.agent.line(line)
    }

    /// Writes the records of an agent that sampled the idle deployment, unchanged.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn idle(&self, lines: &[String]) -> Result<(), StoreError> {
        let mut file = Lines::open(self.path.join(layout::IDLE))?;
        lines.iter().try_for_each(|line| file.line(line))
    }

    /// Writes the steps of a search for the capacity: all of them, or none.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn steps(&self, steps: &[&CapacityStep]) -> Result<(), StoreError> {
        write_lines(&self.path.join(layout::STEPS), steps)
    }

    /// Writes the records of the churn: all of them, or none.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn churn(&self, records: &[ChurnRecord]) -> Result<(), StoreError> {
        write_lines(&self.path.join(layout::CHURN), records)
    }

    /// Writes an event.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn event(&mut self, event: &Event) -> Result<(), StoreError> {
        self.events.json(event)
    }

    /// Writes the calls between services.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn calls(&self, calls: &TrialCalls) -> Result<(), StoreError> {
        write_json(&self.path.join(layout::CALLS), calls)
    }

    /// Writes the interval log.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn hlog(&self, text: &[u8]) -> Result<(), StoreError> {
        write_atomically(&self.path.join(layout::HLOG), text)
    }

    /// Writes the result, and renames the directory to the name of the trial.
    ///
    /// # Errors
    /// When it cannot be written; the trial is then not kept.
    pub fn finish(mut self, result: &TrialResult) -> Result<PathBuf, StoreError> {
        for lines in [&self.load, &self.agent, &self.events] {
            lines.sync()?;
        }
        write_json(&self.path.join(layout::RESULT), result)?;
        write_list(&self.path)?;
        if self.target.exists() {
            // Remove an earlier attempt that failed before measurement.
            fs::remove_dir_all(&self.target).map_err(io_error("replace", &self.target))?;
        }
        fs::rename(&self.path, &self.target).map_err(io_error("write", &self.target))?;
        self.kept = true;
        if let Some(parent) = self.target.parent() {
            // The rename is durable only after its folder is synced.
            File::open(parent)
                .and_then(|d| d.sync_all())
                .map_err(io_error("sync", parent))?;
        }
        Ok(self.target.clone())
    }
}

impl Drop for TrialWriter {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Writes the list of the files of a trial.
fn write_list(dir: &Path) -> Result<(), StoreError> {
    let files = seal::list(dir).map_err(io_error("read", dir))?;
    write_atomically(&dir.join(layout::FILES), files.as_bytes())
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let folder = File::open(path).map_err(io_error("open", path))?;
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(folder),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Locked {
            path: path.to_owned(),
        }),
        Err(e) => Err(StoreError::Io {
            doing: "lock",
            path: path.to_owned(),
            source: e.into(),
        }),
    }
}

fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = fs::read_dir(folder).map_err(io_error("read", folder))?;
    Ok(entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect())
}
