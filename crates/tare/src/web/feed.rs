//! What happens in a run, as lines of JSON for whoever watches. A watcher that comes
//! in the middle of a trial hears that trial from its start.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tare_run::experiment::{Stage, Update};
use tokio::sync::broadcast;

/// Most lines that a slow watcher may be behind; then it misses some.
const BEHIND_MAX: usize = 256;

/// Most lines of a trial that are kept for those who come late.
const KEPT_MAX: usize = 4_096;

/// Shared between the run, which tells, and the server, which passes on.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    sender: broadcast::Sender<Arc<str>>,
    /// Since the trial began.
    kept: Arc<Mutex<Vec<Arc<str>>>>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self {
            sender: broadcast::channel(BEHIND_MAX).0,
            kept: Arc::default(),
        }
    }

    /// The lines so far, and those to come.
    pub(crate) fn watch(&self) -> (Vec<Arc<str>>, broadcast::Receiver<Arc<str>>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.clone(), self.sender.subscribe())
    }

    /// Whether anybody watches.
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
                self.tell(json!({
                    "type": "started", "index": trial.index, "block": trial.block, "mesh": trial.mesh.name,
                    "load": trial.load.name, "done": done, "planned": planned,
                }));
            }
            Update::Stage(stage) => {
                let words = match stage {
                    Stage::Deploy => "starting",
                    Stage::Prove => "proving the mesh",
                    Stage::WarmUp => "warming up",
                    Stage::Measure => "measuring",
                    Stage::TearDown => "ending",
                };
                self.tell(json!({ "type": "stage", "stage": words }));
            }
            Update::Progress(progress) => {
                self.tell(json!({ "type": "progress", "progress": progress }));
            }
            Update::DataPlaneCores(cores) => self.tell(json!({ "type": "cores", "cores": cores })),
            Update::Event(_) => {}
            // Not kept: whoever comes later finds the trial in the page.
            Update::Done(_) => {
                self.forget();
                self.send(&json!({ "type": "done" }));
            }
        }
    }

    /// The run has ended; `report` is where its page will be.
    pub(crate) fn over(&self, report: &str) {
        self.forget();
        self.tell(json!({ "type": "over", "report": report }));
    }

    fn forget(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
    }

    fn tell(&self, line: Value) {
        let line = self.send(&line);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.push(line);
        }
    }

    fn send(&self, line: &Value) -> Arc<str> {
        let line: Arc<str> = line.to_string().into();
        // Without watchers there is nobody to tell.
        let _ = self.sender.send(Arc::clone(&line));
        line
    }
}
