//! Reads the records of a worker from its pod's log. The records are numbered ([`keep`]). Those that the log has lost, because
//! the kubelet has rotated it or the connection was lost, are read again from the worker.

use std::time::Duration;
use tare_records::trial::EventKind;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::events::Events;
use crate::api::ApiClient;
use crate::api::kinds::POD;
use crate::objects::Pod;
use crate::objects::names::CONTAINER;
use crate::objects::timestamp;
use tare_files::unix_ns;
use tare_run::keep;
use tare_run::lines::Lines;

/// Pause before a log, or the records that are kept, are read again.
const PAUSE: Duration = Duration::from_millis(300);
/// A log without new lines for this time counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(90);
/// After this time without a line, the kept records are read: the API server may still follow a log that the kubelet has
/// rotated. Generators and agents write a record each second.
const SILENT_AFTER: Duration = Duration::from_secs(5);
/// How often kept records are requested before they count as lost.
const ATTEMPTS_MAX: u32 = 3;
/// Longest time to read kept records.
const KEPT_WITHIN: Duration = Duration::from_secs(30);

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
    /// Sends the records until the final one, the end of tare's container, or until the receiver is dropped. Reports records
    /// that were read again, and those that are lost, as events.
    pub(crate) async fn follow(self, api: ApiClient, lines: mpsc::Sender<Line>, events: Events) {
        let mut reader = Reader {
            log: &self,
            api: &api,
            lines: &lines,
            events: &events,
            next: 1,
            silent_after: SILENT_AFTER,
        };
        let mut last = Instant::now();
        loop {
            let before = reader.next;
            // A log is complete if its container had ended before the log was requested.
            let ended = self.has_ended(&api).await;
            let is_over = reader.read().await == Reading::Over;
            if reader.next > before {
                if before > 1 {
                    let found = format!(
                        "connection to its log lost after record {}; {} more were read after \
                         reconnecting",
                        before - 1,
                        reader.next - before
                    );
                    events.push(EventKind::LogReread, &self.worker, found);
                }
                last = Instant::now();
            }
            if is_over || ended || last.elapsed() > LOST_AFTER {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn has_ended(&self, api: &ApiClient) -> bool {
        match api.get::<Pod>(POD, &self.namespace, &self.pod).await {
            Ok(pod) => {
                let own = pod.status_of(CONTAINER);
                own.is_some_and(|c| c.ended().is_some()) || pod.phase() == "Failed"
            }
            Err(error) => error.is_not_found(),
        }
    }
}

/// Whether there can be more records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// There can be more.
    More,
    /// The final record was read, or the receiver is dropped.
    Over,
}

/// Reads records in the order of their numbers, each once.
struct Reader<'a> {
    log: &'a PodLog,
    api: &'a ApiClient,
    lines: &'a mpsc::Sender<Line>,
    events: &'a Events,
    /// Number of the next record.
    next: u64,
    silent_after: Duration,
}

impl Reader<'_> {
    /// Follows the log until it ends.
    async fn read(&mut self) -> Reading {
        let pod = (self.log.namespace.as_str(), self.log.pod.as_str());
        let Ok(mut log) = self.api.log(pod, CONTAINER).await else {
            return Reading::More;
        };
        loop {
            let line = tokio::select! {
                line = log.next() => line,
                () = tokio::time::sleep(self.silent_after) => {
                    let before = self.next;
                    if self.read_kept(u64::MAX).await == Reading::Over {
                        return Reading::Over;
                    }
                    // What has written lines that did not arrive is followed no longer.
                    if self.next > before {
                        return Reading::More;
                    }
                    // A worker can be silent: an agent before its window.
                    self.silent_after = (self.silent_after * 2).min(LOST_AFTER);
                    continue;
                }
                () = self.lines.closed() => return Reading::Over,
            };
            let Some(line) = line else {
                return Reading::More;
            };
            let (text, written_ns) = split(&line);
            // A line without a number is not a record: an error of tare itself.
            let Some((number, text)) = keep::numbered(text) else {
                continue;
            };
            if number > self.next && self.read_kept(number).await == Reading::Over {
                return Reading::Over;
            }
            if number >= self.next {
                let delay_ns = written_ns.map(|w| unix_ns() as i64 - w);
                if self.send(number, text, delay_ns).await == Reading::Over {
                    return Reading::Over;
                }
            }
        }
    }

    async fn send(&mut self, number: u64, text: &str, delay_ns: Option<i64>) -> Reading {
        self.next = number + 1;
        let line = Line {
            source: self.log.index,
            text: text.to_owned(),
            delay_ns,
        };
        let is_last = text.starts_with("{\"type\":\"final\"");
        match self.lines.send(line).await {
            Ok(()) if !is_last => Reading::More,
            _ => Reading::Over,
        }
    }

    /// Sends the records before number `to` that the log has lost.
    async fn read_kept(&mut self, to: u64) -> Reading {
        let first = self.next;
        let mut found = String::new();
        let mut reading = Reading::More;
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(to).await {
                Ok(read) => {
                    reading = read;
                    found.clear();
                    break;
                }
                Err(error) => found = error,
            }
            tokio::time::sleep(PAUSE).await;
        }
        // Without a known end, nothing may be missing.
        let is_gap = to != u64::MAX && reading == Reading::More;
        if self.next > first {
            let last = self.next - 1;
            let found = format!(
                "its log lost records {first} to {last}; they were read again from the worker"
            );
            self.events
                .push(EventKind::LogReread, &self.log.worker, found);
        }
        if is_gap && self.next < to {
            let (first, last) = (self.next, to - 1);
            let why = match found.is_empty() {
                true => "the worker no longer keeps them".to_owned(),
                false => found,
            };
            let found = format!("its log lost records {first} to {last}: {why}");
            self.events
                .push(EventKind::LogReread, &self.log.worker, found);
        }
        reading
    }

    /// Reads kept records up to number `to`, or to the last one.
    async fn attempt(&mut self, to: u64) -> Result<Reading, String> {
        let pod = (self.log.namespace.as_str(), self.log.pod.as_str());
        let read = async {
            let mut stream = self.api.port_forward(pod, keep::PORT).await?;
            let request = format!("{}\n", self.next);
            let asked = stream.write_all(request.as_bytes()).await;
            asked.map_err(|e| e.to_string())?;
            let mut kept = Lines::new(stream);
            while let Some(line) = kept.next().await.map_err(|e| e.to_string())? {
                if line.starts_with("end ") {
                    return Ok(Reading::More);
                }
                let (number, text) =
                    keep::numbered(&line).ok_or("found a line without a number")?;
                if number >= to || number != self.next {
                    return Ok(Reading::More);
                }
                if self.send(number, text, None).await == Reading::Over {
                    return Ok(Reading::Over);
                }
            }
            Err("the connection to the worker was lost".to_owned())
        };
        match tokio::time::timeout(KEPT_WITHIN, read).await {
            Ok(read) => read,
            Err(_) => Err(format!("no end within {} s", KEPT_WITHIN.as_secs())),
        }
    }
}

/// Returns the last lines of a container's log for a message, or an empty string. A container that was started again has
/// its last output in the log of its previous run.
pub(crate) async fn last_output(api: &ApiClient, pod: &Pod, container: &str) -> String {
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
