//! CPU and memory of a deployment without load: the fixed cost of its proxies.

use std::path::Path;
use std::time::Duration;

use tare_analysis::AgentStream;
use tare_plan::Plan;
use tare_plan::trial::{TrialSpec, block_order};
use tare_records::trial::Resources;
use tare_records::worker::{AgentSpec, Plane};

use super::error::RunError;
use crate::environment::{Deployed, Environment, Worker, WorkerSpec};
use crate::store::TrialWriter;
use tare_files::unix_ns;

/// Whether the idle deployment is sampled in this trial: in the first trial of each mesh with proxies
/// in each block, of those with the plan's own workload.
pub(super) fn is_due(plan: &Plan, trial: &TrialSpec, deployment: &impl Deployed) -> bool {
    let block = block_order(plan, trial.block, trial.attempt);
    let own = |t: &&TrialSpec| plan.is_anchor_but_rate(&t.load.name);
    let mut own = block.iter().filter(own);
    let first = own.find(|t| t.mesh.name == trial.mesh.name);
    let proxies = || {
        deployment
            .watched()
            .iter()
            .any(|w| w.plane == Plane::DataPlane)
    };
    first.is_some_and(|t| t.index == trial.index) && proxies()
}

/// An agent that samples an idle deployment.
pub(super) struct Sampling {
    agent: Worker,
    spec: AgentSpec,
    /// Time until it has ended.
    within: Duration,
}

impl Sampling {
    pub(super) async fn start<E: Environment>(
        environment: &mut E,
        deployment: &mut E::Deployment,
        path: &Path,
    ) -> Result<Self, RunError> {
        let times = E::IDLE;
        let spec = AgentSpec {
            schema_version: tare_plan::SCHEMA_VERSION,
            processes: deployment.watched(),
            window_start_unix_ns: unix_ns() + times.lead.as_nanos() as u64,
            window_ns: times.window.as_nanos() as u64,
            stack_period_ns: None,
            slices: None,
        };
        let agent = WorkerSpec::IdleAgent(spec.clone());
        Ok(Self {
            agent: environment.start(deployment, agent, path).await?,
            spec,
            within: times.lead + times.window + times.overdue,
        })
    }

    /// What the agent sampled; `None` if it gave no complete records.
    pub(super) async fn resources(
        &mut self,
        writer: &TrialWriter,
        cores: u32,
    ) -> Result<Option<Resources>, RunError> {
        let mut lines = Vec::new();
        let read = async {
            while let Some(line) = self.agent.lines.recv().await {
                lines.push(line);
            }
        };
        // An agent that does not end in time is ended, and its records are incomplete.
        let _ = tokio::time::timeout(self.within, read).await;
        if lines.is_empty() {
            return Ok(None);
        }
        writer.idle(&lines)?;
        let mut stream = AgentStream::new();
        let whole = lines.iter().all(|line| stream.line(line).is_ok());
        let (records, problem) = stream.finish();
        let resources = tare_analysis::resources::summarise(&self.spec, &records, cores, &[]);
        Ok(resources.filter(|_| whole && problem.is_none()))
    }
}
