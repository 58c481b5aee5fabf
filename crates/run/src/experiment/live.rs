//! The data plane's CPU while a trial runs, for the progress display. The results are computed
//! from all samples afterwards.

use tare_records::record::ResourceSample;
use tare_records::worker::{AgentSpec, Plane};

#[derive(Debug, Default)]
pub(super) struct LiveCpu {
    last: Option<(i64, u64)>,
}

impl LiveCpu {
    /// Returns the cores used by the data plane since the previous sample.
    pub(super) fn data_plane_cores(
        &mut self,
        spec: &AgentSpec,
        sample: &ResourceSample,
    ) -> Option<f64> {
        let used: u64 = spec
            .processes
            .iter()
            .zip(&sample.processes)
            .filter(|(watched, _)| watched.plane == Plane::DataPlane)
            .filter_map(|(_, process)| process.map(|p| p.cpu_ns))
            .sum();
        let before = self.last.replace((sample.t_ns, used));
        let (t_ns, cpu_ns) = before?;
        let elapsed_ns = sample.t_ns - t_ns;
        (elapsed_ns > 0).then(|| used.saturating_sub(cpu_ns) as f64 / elapsed_ns as f64)
    }
}
