//! Reads profile trials.

use std::fs;
use std::io::BufReader;
use std::path::Path;

use tare_analysis::AgentStream;
use tare_analysis::profile::StoredProfile;
use tare_files::open_without_links;
use tare_records::layout;
use tare_records::record::AgentRecord;
use tare_records::trial::TrialResult;

use crate::store::{io_words, next_line, read_document};
use crate::text::printable;

/// Reads a profile trial.
pub(crate) fn read_profile(dir: &Path) -> Result<StoredProfile, String> {
    let result: TrialResult = read_document(&dir.join(layout::RESULT))?;
    let names = result.trial.check_names();
    names.map_err(|found| printable(&found))?;
    if result.load.is_none() {
        // It failed before the load, which its verdict explains.
        return Ok(StoredProfile {
            result,
            processes: Vec::new(),
            sampling: None,
            served: Vec::new(),
        });
    }
    let path = dir.join(layout::AGENT);
    let file = open_without_links(&path).map_err(|e| io_words(&e))?;
    let (mut reader, mut line) = (BufReader::new(file), String::new());
    let mut stream = AgentStream::new();
    while next_line(&mut reader, &mut line).map_err(|e| io_words(&e))? {
        stream.line(&line).map_err(|e| printable(&e.to_string()))?;
    }
    let (records, problem) = stream.finish();
    if let Some(problem) = problem {
        return Err(printable(&problem.to_string()));
    }
    let mut profile = StoredProfile {
        served: served(dir, &result),
        result,
        processes: Vec::new(),
        sampling: None,
    };
    for record in records {
        match record {
            AgentRecord::Stacks(process) => profile.processes.push(process),
            AgentRecord::StackSampling(sampling) => profile.sampling = Some(sampling),
            _ => {}
        }
    }
    Ok(profile)
}

/// The pprof files that the control plane served in a profile trial, as paths in the run directory.
fn served(dir: &Path, result: &TrialResult) -> Vec<String> {
    let files = fs::read_dir(dir.join(layout::PPROF))
        .into_iter()
        .flatten()
        .flatten();
    let names = files.filter_map(|f| f.file_name().into_string().ok());
    let simple = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let mut names: Vec<String> = names
        .filter(|n| n.ends_with(".pb.gz") && n.chars().all(simple))
        .collect();
    names.sort_unstable();
    let (profiles, trials) = (layout::PROFILES, layout::TRIALS);
    let (trial, pprof) = (result.trial.dir_name(), layout::PPROF);
    let path = |name| format!("{profiles}/{trials}/{trial}/{pprof}/{name}");
    names.into_iter().map(path).collect()
}
