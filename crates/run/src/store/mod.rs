//! Writes a run directory. A trial gets its name only when all of it is on disk: it is written
//! under a `.partial-` name, synced, and renamed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tare_plan::Plan;
use tare_plan::limits::JSON_BYTES_MAX;
use tare_plan::trial::TrialSpec;
use tare_records::layout;
use tare_records::layout::RunManifest;
use tare_records::overload::FoundCapacities;
use tare_records::trial::{Event, EventKind, TrialResult};

use crate::events::event;
use crate::seal;

mod files;
mod trial;

pub use trial::TrialWriter;

use files::{
    Lines, io_error, lock, names, remove_temporaries, write_atomically, write_json, write_list,
};

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
        remove_temporaries(&run.path)?;
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
