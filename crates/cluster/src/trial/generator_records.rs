//! Merges the records of all generators of a trial into one stream.

use std::path::PathBuf;

use tare_analysis::streams::generators::GeneratorStreams;
use tare_records::layout;
use tare_records::trial::EventKind;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::deployment::Deployment;
use super::events::Events;
use super::pod_log::{Line, PodLog};
use super::termination::PodTerminations;
use crate::api::ApiClient;
use crate::objects::Pod;
use tare_run::sidecar;

/// Maximum number of lines that are buffered in each channel.
const BUFFERED_LINES_MAX: usize = 4096;

/// Starts to read the logs of the generators' pods until an instant, and returns the merged
/// stream.
pub(crate) fn read(
    api: &ApiClient,
    deployment: &mut Deployment,
    pods: &[Pod],
    until: Instant,
) -> mpsc::Receiver<String> {
    let (log_sender, logs) = mpsc::channel(BUFFERED_LINES_MAX);
    for (index, pod) in pods.iter().enumerate() {
        let log = PodLog {
            index,
            worker: pod.title(),
            namespace: pod.namespace().to_owned(),
            pod: pod.name().to_owned(),
        };
        let events = deployment.events.clone();
        let task = log.follow(api.clone(), log_sender.clone(), events);
        deployment.tasks.spawn(task);
    }
    let (sender, lines) = mpsc::channel(BUFFERED_LINES_MAX);
    let requested = deployment.proxy_config().into_keys();
    let merge = Merge {
        streams: GeneratorStreams::new(pods.len()).asked_for(requested),
        delays_ns: vec![None; pods.len()],
        events: deployment.events.clone(),
        terminations: deployment.terminations.clone(),
        pods: pods.iter().map(Pod::key).collect(),
        config: deployment.dir.join(layout::CONFIG),
    };
    deployment.tasks.spawn(merge.run(logs, sender, until));
    lines
}

/// The merge of the generators' streams.
struct Merge {
    streams: GeneratorStreams,
    /// Least delay of a line of each generator; see [`Line::delay_ns`].
    delays_ns: Vec<Option<i64>>,
    events: Events,
    terminations: PodTerminations,
    /// Namespace and name of each generator's pod.
    pods: Vec<String>,
    /// Directory for the configuration of the generator's sidecar.
    config: PathBuf,
}

impl Merge {
    /// Merges the lines until all streams end. A stream with a fault is reported as an event, and
    /// the merged stream then has no final record, which makes the trial invalid.
    async fn run(
        mut self,
        mut logs: mpsc::Receiver<Line>,
        out: mpsc::Sender<String>,
        until: Instant,
    ) {
        loop {
            let line = match timeout_at(until, logs.recv()).await {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(_) => {
                    for index in self.streams.unfinished() {
                        self.exited(index, "lost: its last records did not arrive in time");
                    }
                    return;
                }
            };
            if let Some(ns) = line.delay_ns {
                let least = &mut self.delays_ns[line.source];
                *least = Some(least.map_or(ns, |l| l.min(ns)));
            }
            match self.streams.line(line.source, &line.text) {
                Ok(lines) => {
                    for line in lines {
                        if out.send(line).await.is_err() {
                            return;
                        }
                    }
                }
                Err(error) => {
                    let found = format!("damaged records: {}", error.error);
                    self.exited(error.generator, &found);
                    return;
                }
            }
        }
        if let Some(last) = self.finish() {
            let _ = out.send(last).await;
        }
    }

    fn exited(&self, index: usize, found: &str) {
        let reason = self.terminations.suffix(&self.pods[index]);
        let (name, found) = (format!("generator-{index}"), format!("{found}{reason}"));
        self.events.push(EventKind::Exited, name, found);
    }

    /// Returns the final record of the merged stream, if all streams are complete.
    fn finish(mut self) -> Option<String> {
        if let Some(skew_ns) = skew_ns(&self.delays_ns) {
            let ms = skew_ns as f64 / 1e6;
            let found = format!("clocks of generators differ by up to {ms:.3} ms");
            self.events.push(EventKind::ClockSkew, "", found);
        }
        self.save_proxy_config();
        let streams = std::mem::replace(&mut self.streams, GeneratorStreams::new(0));
        match streams.finish() {
            Ok((last, results)) => {
                // A generator gets a signal to stop only if its pod is deleted or evicted, or
                // its node shuts down.
                for index in (0..results.len()).filter(|&i| results[i].interrupted) {
                    self.exited(index, "was stopped before its end");
                }
                Some(last)
            }
            Err(error) => {
                let found = format!("ended early: {}", error.error);
                self.exited(error.generator, &found);
                None
            }
        }
    }

    fn save_proxy_config(&mut self) {
        for (name, settings) in self.streams.take_proxy_configs() {
            if let Err(found) = settings.and_then(|s| sidecar::save(&self.config, &s)) {
                self.events.push(EventKind::ProxyConfigMissing, name, found);
            }
        }
    }
}

/// Returns the greatest difference between the clocks of generators. The least delay of each
/// generator is the delay of the log, which is the same for all, plus the difference of its clock.
fn skew_ns(delays_ns: &[Option<i64>]) -> Option<i64> {
    let known = || delays_ns.iter().flatten();
    if known().count() < 2 {
        return None;
    }
    Some(known().max()? - known().min()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_is_the_difference_of_the_least_delays() {
        assert_eq!(skew_ns(&[Some(5_000_000)]), None);
        assert_eq!(
            skew_ns(&[Some(5_000_000), Some(9_000_000)]),
            Some(4_000_000)
        );
    }
}
