//! The records of a worker, from its pod's log. A stream that is cut is read again
//! from its beginning, and what was had before is skipped.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::api::Api;
use super::events::Events;
use super::kinds::{POD, POD_LOG};
use super::names::CONTAINER;
use super::pods::Pod;
use crate::experiment::unix_ns;

/// Between two tries.
const AGAIN: Duration = Duration::from_millis(300);
/// A log that cannot be had for so long is lost.
const LOST_AFTER: Duration = Duration::from_secs(90);

/// A line, who wrote it, and how far its clock seems to be behind ours: an upper bound
/// of the difference, in nanoseconds.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) source: usize,
    pub(super) text: String,
    pub(super) behind_ns: Option<i64>,
}

/// Whose log.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// Its place among the sources.
    pub(super) index: usize,
    /// As messages name it.
    pub(super) what: String,
    pub(super) namespace: String,
    pub(super) pod: String,
}

/// Sends the lines of a pod's log until tare's container ended and all was read, or
/// nobody listens any more. A stream that was cut is an event.
pub(super) async fn follow(api: Api, of: Source, lines: mpsc::Sender<Line>, events: Events) {
    let path = POD_LOG.object(Some(&of.namespace), &of.pod);
    let path = format!("{path}?container={CONTAINER}&follow=true&timestamps=true");
    let mut had = 0;
    let mut last = Instant::now();
    loop {
        let before = had;
        let ended = has_ended(&api, &of.namespace, &of.pod).await;
        if !read(&api, &path, of.index, &mut had, &lines).await {
            return;
        }
        if had > before {
            if before > 0 {
                let message = format!(
                    "the log of {} was cut after {before} lines and read again: {} more",
                    of.what,
                    had - before
                );
                events.say("log_again", message);
            }
            last = Instant::now();
        }
        if ended || last.elapsed() > LOST_AFTER {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether the container had ended before its log was asked for: then the log is whole.
async fn has_ended(api: &Api, namespace: &str, pod: &str) -> bool {
    match api.get(POD, namespace, pod).await {
        Ok(pod) => {
            let containers = Pod(&pod).containers();
            let own = containers.iter().find(|c| c.name() == CONTAINER);
            own.is_some_and(|c| c.ended().is_some()) || Pod(&pod).phase() == "Failed"
        }
        Err(error) => error.is_absent(),
    }
}

/// Reads on from line `had`. False when nobody listens.
async fn read(
    api: &Api,
    path: &str,
    source: usize,
    had: &mut usize,
    lines: &mpsc::Sender<Line>,
) -> bool {
    let Ok(mut log) = api.lines(path).await else {
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
        if number <= *had {
            continue;
        }
        *had = number;
        let (text, written_ns) = split(&line);
        let behind_ns = written_ns.map(|w| unix_ns() as i64 - w);
        let line = Line {
            source,
            text: text.to_owned(),
            behind_ns,
        };
        if lines.send(line).await.is_err() {
            return false;
        }
    }
}

/// The text behind its timestamp, and that in nanoseconds of Unix time.
fn split(line: &str) -> (&str, Option<i64>) {
    match line.split_once(' ') {
        Some((stamp, text)) => match rfc3339_ns(stamp) {
            Some(ns) => (text, Some(ns)),
            None => (line, None),
        },
        None => (line, None),
    }
}

/// `2026-01-31T23:59:59.123456789Z`, or with an offset as `+02:00`.
///
/// Source: Hinnant, "chrono-compatible low-level date algorithms", days_from_civil.
pub(super) fn rfc3339_ns(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let rest = text.get(19..)?;
    let zone = rest.find(['Z', '+', '-'])?;
    let fraction = format!("{:0<9}", rest[..zone].trim_start_matches('.'));
    let ns: i64 = fraction.get(..9)?.parse().ok()?;
    let offset_s = match rest.get(zone..)? {
        "Z" => 0,
        offset => {
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            let (h, m) = offset.get(1..)?.split_once(':')?;
            sign * (h.parse::<i64>().ok()? * 3600 + m.parse::<i64>().ok()? * 60)
        }
    };
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y - era * 400;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some((days * 86_400 + hour * 3600 + minute * 60 + second - offset_s) * 1_000_000_000 + ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_of_logs_are_read_to_the_nanosecond() {
        assert_eq!(rfc3339_ns("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(
            rfc3339_ns("2000-02-29T12:34:56.000000001Z"),
            Some(951_827_696_000_000_001)
        );
        assert_eq!(
            rfc3339_ns("2000-02-29T14:34:56.5+02:00"),
            Some(951_827_696_500_000_000)
        );
        assert_eq!(rfc3339_ns("{\"type\":"), None);
    }

    #[test]
    fn a_line_without_a_timestamp_is_kept_whole() {
        let (text, ns) = split("1970-01-01T00:00:01Z {\"a\": 1}");
        assert_eq!((text, ns), ("{\"a\": 1}", Some(1_000_000_000)));
        assert_eq!(split("{\"a\": 1}"), ("{\"a\": 1}", None));
    }
}
