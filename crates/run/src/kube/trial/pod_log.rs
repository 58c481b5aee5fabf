//! Reads the records of a worker from its pod's log. If the connection is lost, the log is read
//! again from its start, without the lines that were read before.

use std::time::Duration;
use tare_model::trial::EventKind;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::events::Events;
use crate::kube::api::ApiClient;
use crate::kube::api::kinds::POD;
use crate::kube::objects::Pod;
use crate::kube::objects::names::CONTAINER;
use crate::kube::objects::timestamp;
use crate::now::unix_ns;

/// Pause before a log is read again.
const PAUSE: Duration = Duration::from_millis(300);
/// A log without new lines for this time counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(90);

/// A line of a log.
#[derive(Debug)]
pub(crate) struct Line {
    /// [`PodLog::index`].
    pub(crate) source: usize,
    pub(crate) text: String,
    /// Time from the line's timestamp to its arrival here, in nanoseconds. The timestamp is of
    /// another clock, so this is the delay of the log plus the difference of the clocks.
    pub(crate) delay_ns: Option<i64>,
}

/// A pod whose log is read.
#[derive(Debug, Clone)]
pub(crate) struct PodLog {
    /// Index among the logs that are read together.
    pub(crate) index: usize,
    /// Name of the worker in messages.
    pub(crate) worker: String,
    pub(crate) namespace: String,
    pub(crate) pod: String,
}

impl PodLog {
    /// Sends the lines of the log until tare's container has ended and its log is read, or the
    /// receiver is dropped. Reports a lost connection as an event.
    pub(crate) async fn follow(self, api: ApiClient, lines: mpsc::Sender<Line>, events: Events) {
        let mut read = 0;
        let mut last = Instant::now();
        loop {
            let before = read;
            // A log is complete if its container had ended before the log was requested.
            let ended = self.has_ended(&api).await;
            if !self.read(&api, &mut read, &lines).await {
                return;
            }
            if read > before {
                if before > 0 {
                    let found = format!(
                        "connection to its log lost after line {before}; {} more lines were read \
                         after reconnecting",
                        read - before
                    );
                    events.push(EventKind::LogReread, &self.worker, found);
                }
                last = Instant::now();
            }
            if ended || last.elapsed() > LOST_AFTER {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn has_ended(&self, api: &ApiClient) -> bool {
        match api.get(POD, &self.namespace, &self.pod).await {
            Ok(pod) => {
                let own = Pod(&pod).status_of(CONTAINER);
                own.is_some_and(|c| c.ended().is_some()) || Pod(&pod).phase() == "Failed"
            }
            Err(error) => error.is_not_found(),
        }
    }

    /// Reads the log and sends the lines after the first `read`. Returns false when the receiver is
    /// dropped.
    async fn read(&self, api: &ApiClient, read: &mut usize, lines: &mpsc::Sender<Line>) -> bool {
        let pod = (self.namespace.as_str(), self.pod.as_str());
        let Ok(mut log) = api.log(pod, CONTAINER).await else {
            return true;
        };
        let mut number = 0;
        loop {
            let line = tokio::select! {
                line = log.next() => line,
                () = lines.closed() => return false,
            };
            let Some(line) = line else {
                return true;
            };
            number += 1;
            if number <= *read {
                continue;
            }
            *read = number;
            let (text, written_ns) = split(&line);
            let line = Line {
                source: self.index,
                text: text.to_owned(),
                delay_ns: written_ns.map(|w| unix_ns() as i64 - w),
            };
            if lines.send(line).await.is_err() {
                return false;
            }
        }
    }
}

/// Returns the last lines of a container's log for a message, or an empty string. A container that was started again has
/// its last output in the log of its previous run.
pub(crate) async fn last_output(api: &ApiClient, pod: Pod<'_>, container: &str) -> String {
    let address = (pod.namespace(), pod.name());
    let runs = pod
        .status_of(container)
        .is_some_and(|c| c.id().is_some() && c.restarts() > 0);
    let mut text = api.log_tail(address, container, runs).await;
    if text.trim().is_empty() {
        text = api.log_tail(address, container, !runs).await;
    }
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("; last lines of its log: {}", lines.join(" | ")),
    }
}

/// Splits a line into its text and its timestamp, in nanoseconds of Unix time.
fn split(line: &str) -> (&str, Option<i64>) {
    let parts = line.split_once(' ');
    let stamped = parts.and_then(|(stamp, text)| Some((text, timestamp::unix_ns(stamp)?)));
    stamped.map_or((line, None), |(text, ns)| (text, Some(ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_a_timestamp_stays_whole() {
        let (text, ns) = split("1970-01-01T00:00:01Z {\"a\": 1}");
        assert_eq!((text, ns), ("{\"a\": 1}", Some(1_000_000_000)));
        assert_eq!(split("{\"a\": 1}"), ("{\"a\": 1}", None));
    }
}
