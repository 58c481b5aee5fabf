//! The updates of a run as lines of JSON for browsers. A browser that connects during a trial
//! receives that trial from its start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tare_plan::units::format_rate;
use tare_run::experiment::Update;
use tokio::sync::broadcast;

/// Maximum number of lines that a slow browser may lag behind before it misses some.
const BEHIND_MAX: usize = 256;

/// Maximum number of lines of a trial that are kept for browsers that connect later.
const KEPT_MAX: usize = 4_096;

/// The feed, which is shared between the run, which writes, and the server, which reads.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    sender: broadcast::Sender<Arc<str>>,
    /// The lines since the trial began.
    kept: Arc<Mutex<Vec<Arc<str>>>>,
    /// Number of changes of the page since the start of this process.
    changes: Arc<AtomicU64>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            sender: broadcast::channel(BEHIND_MAX).0,
            kept: Arc::default(),
            changes: Arc::default(),
        }
    }

    /// Returns the lines so far, and a receiver of those to come.
    pub(crate) fn watch(&self) -> (Vec<Arc<str>>, broadcast::Receiver<Arc<str>>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.clone(), self.sender.subscribe())
    }

    /// Number of changes of the page since the start of this process.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Whether a browser is connected.
    pub(crate) fn watched(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn update(&self, update: &Update<'_>) {
        match update {
            Update::Started {
                trial,
                done,
                planned,
            } => {
                self.forget();
                self.keep(json!({
                    "type": "started", "index": trial.index, "block": trial.block, "mesh": trial.mesh.name,
                    "load": trial.load.name, "done": done, "planned": planned,
                }));
            }
            Update::Stage(stage) => {
                self.keep(json!({ "type": "stage", "stage": stage.words() }));
            }
            Update::Step { number, rate_rps } => {
                let step = format!("step {number} at {}", format_rate(*rate_rps));
                self.keep(json!({ "type": "stage", "stage": step }));
            }
            Update::Progress(progress) => {
                self.keep(json!({ "type": "progress", "progress": progress }));
            }
            Update::DataPlaneCores(cores) => self.keep(json!({ "type": "cores", "cores": cores })),
            Update::Event(_) | Update::Looked { .. } => {}
            // Not kept: the page of a browser that connects later already contains the trial.
            Update::Done(_) => self.page_changed(),
        }
    }

    /// Sends the time until the end of the run.
    pub(crate) fn left(&self, words: &str) {
        self.keep(json!({ "type": "left", "words": words }));
    }

    /// Makes browsers request the page again, which is created anew.
    pub(crate) fn page_changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.forget();
        self.send(&json!({ "type": "done" }));
    }

    /// Sends the end of the run; `report` is the path of its page.
    pub(crate) fn over(&self, report: &str) {
        self.forget();
        self.keep(json!({ "type": "over", "report": report }));
    }

    fn forget(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
    }

    fn keep(&self, line: Value) {
        let line = self.send(&line);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.push(line);
        }
    }

    fn send(&self, line: &Value) -> Arc<str> {
        let line: Arc<str> = line.to_string().into();
        // An error means that no browser is connected.
        let _ = self.sender.send(Arc::clone(&line));
        line
    }
}
