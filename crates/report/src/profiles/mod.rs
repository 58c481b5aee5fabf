//! The files of profiles: flame graphs, difference flame graphs, pprof.

mod flame;
mod read;
mod words;

use tare_analysis::formats::pprof;
use tare_analysis::profile::ProfileData;

pub(crate) use read::read_profile;
pub(crate) use words::{LIMITS, Row, rows};

/// All files with their paths in the run directory. A graph that cannot be drawn is left out.
pub(crate) fn files(data: &ProfileData) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for (mesh, folded) in data.summary.meshes.iter().zip(&data.meshes) {
        for (plane, stacks) in mesh.planes.iter().zip(folded) {
            let title = format!("{}, {} at {}", plane.plane.words(), mesh.mesh, mesh.load);
            if let Some(svg) = flame::graph(&title, stacks) {
                files.push((plane.graph.clone(), svg));
            }
            files.push((plane.pprof.clone(), pprof::encode(stacks)));
        }
    }
    let summaries = data.summary.differences.iter();
    for (summary, difference) in summaries.zip(&data.differences) {
        let title = format!(
            "What {} adds to {} at {}",
            summary.mesh, summary.reference, summary.load
        );
        let folded = flame::folded(difference);
        if let Some(svg) = flame::difference(&title, &folded) {
            files.push((summary.graph.clone(), svg));
        }
        files.push((summary.folded.clone(), folded.into_bytes()));
    }
    files
}
