//! Updates from the experiment to its observers.

use tare_plan::trial::TrialSpec;
use tare_records::record::Progress;
use tare_records::trial::{Event, TrialResult};

/// An update from the experiment.
#[derive(Debug)]
pub enum Update<'a> {
    /// A trial begins.
    Started {
        /// The trial.
        trial: &'a TrialSpec,
        /// Trials on disk.
        done: u32,
        /// Trials in the plan.
        planned: u32,
    },
    /// The trial enters a stage.
    Stage(Stage),
    /// A step of a search for the capacity begins.
    Step {
        /// Position in the search, from 1.
        number: u32,
        /// Its rate.
        rate_rps: f64,
    },
    /// Progress of the generator.
    Progress(&'a Progress),
    /// The data plane's CPU over the last second, in cores.
    DataPlaneCores(f64),
    /// An adaptive plan runs another block.
    Looked {
        /// Blocks that ran.
        blocks: u32,
        /// How far it is from its targets.
        found: &'a str,
    },
    /// An event of the trial or the run.
    Event(&'a Event),
    /// The trial is on disk.
    Done(&'a TrialResult),
}

/// A stage of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Mesh and workload start.
    Deploy,
    /// Proofs that the mesh is in the path.
    Prove,
    /// CPU and memory without load.
    Idle,
    /// Warm-up, excluded from results.
    WarmUp,
    /// The measured window.
    Measure,
    /// Everything that belongs to the trial ends.
    TearDown,
}

impl Stage {
    /// What happens in the stage, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Deploy => "starting",
            Self::Prove => "proving the mesh",
            Self::Idle => "sampling the idle proxies",
            Self::WarmUp => "warming up",
            Self::Measure => "measuring",
            Self::TearDown => "stopping",
        }
    }
}

/// Receives the updates.
pub trait Observer {
    /// Called for each update; must return at once.
    fn update(&mut self, update: Update<'_>);
}
