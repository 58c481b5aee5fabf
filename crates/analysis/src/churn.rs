//! From the records of the churn of a trial to what it showed: how long a change takes to arrive everywhere.

use std::collections::{BTreeMap, BTreeSet};

use tare_records::churn::{ChurnRecord, ChurnResult};
use tare_records::watch::Watched;

/// A change of the endpoint of the watched service.
#[derive(Debug, Clone, Copy)]
struct Switch {
    /// Size of the answers of the new server.
    bytes: u64,
    sent_unix_ns: u64,
}

/// Summarises the records of a trial.
///
/// A change has converged when the first request has its answer after which all requests are answered by the new
/// server, of the last watcher. Only requests that were sent after the change are considered, and the time ends with
/// the answer, so it is at most too long, by the time between two requests and the duration of one. Requests that
/// failed are counted, and say nothing about where the endpoint is.
#[must_use]
pub fn summarise(records: &[ChurnRecord]) -> ChurnResult {
    let mut result = ChurnResult::default();
    let mut ahead_ns: BTreeMap<u32, i64> = BTreeMap::new();
    let mut uncertainty_ns = Some(0);
    let mut requests: BTreeMap<u32, Vec<&Watched>> = BTreeMap::new();
    let mut switches = Vec::new();
    for record in records {
        match record {
            ChurnRecord::MeshReady { took_ns } => result.mesh_ready_ns = Some(*took_ns),
            ChurnRecord::PodReady { took_ns, .. } => result.pod_ready_ns.push(*took_ns),
            ChurnRecord::Watcher {
                watcher,
                ahead_ns: ahead,
                uncertainty_ns: of_watcher,
                ..
            } => {
                ahead_ns.insert(*watcher, *ahead);
                uncertainty_ns = uncertainty_ns.zip(*of_watcher).map(|(a, b)| a.max(b));
            }
            ChurnRecord::Switch {
                bytes,
                sent_unix_ns,
                written_unix_ns: Some(_),
            } => switches.push(Switch {
                bytes: *bytes,
                sent_unix_ns: *sent_unix_ns,
            }),
            // Not stored: nothing can follow from it.
            ChurnRecord::Switch { .. } => {}
            ChurnRecord::Changes { planned, written } => {
                result.planned += planned;
                result.written += written;
            }
            ChurnRecord::Watched { watcher, request } => {
                requests.entry(*watcher).or_default().push(request);
            }
            ChurnRecord::Metric(metric) => result.metrics.push(metric.clone()),
        }
    }
    let watchers: BTreeSet<u32> = ahead_ns.keys().copied().collect();
    result.watchers = watchers.len() as u32;
    result.clock_uncertainty_ns = uncertainty_ns.filter(|_| !watchers.is_empty());
    let all = requests.values().flatten();
    (result.requests, result.failed) = all.fold((0, 0), |(all, failed), r| {
        (all + 1, failed + u64::from(r.bytes.is_none()))
    });
    let of_watchers: Vec<Vec<Watched>> = watchers
        .iter()
        .map(|w| by_time(requests.get(w).map_or(&[], |r| r.as_slice()), ahead_ns[w]))
        .collect();
    for (i, switch) in switches.iter().enumerate() {
        let next = switches.get(i + 1).map_or(u64::MAX, |s| s.sent_unix_ns);
        let times = of_watchers.iter().map(|r| converged_ns(r, *switch, next));
        match times.collect::<Option<Vec<u64>>>() {
            Some(times) if !times.is_empty() => {
                result.convergence_ns.extend(times.into_iter().max());
            }
            _ => result.unseen += 1,
        }
    }
    result
}

/// The answered requests in the order in which they were sent, by the orchestrator's clock.
fn by_time(requests: &[&Watched], ahead_ns: i64) -> Vec<Watched> {
    let here = |ns: u64| ns.saturating_add_signed(-ahead_ns);
    let answered = requests.iter().filter(|r| r.bytes.is_some());
    let mut all: Vec<Watched> = answered
        .map(|r| Watched {
            sent_unix_ns: here(r.sent_unix_ns),
            done_unix_ns: here(r.done_unix_ns),
            ..(*r).clone()
        })
        .collect();
    all.sort_by_key(|r| r.sent_unix_ns);
    all
}

/// From the change until the first request was answered after which the old server answered none; `None` if the last
/// request before `next` was not answered by the new one, or if the new one already answered before the change.
fn converged_ns(requests: &[Watched], switch: Switch, next: u64) -> Option<u64> {
    let mut before = requests.iter().rev();
    let before = before.find(|r| r.sent_unix_ns < switch.sent_unix_ns)?;
    if before.bytes == Some(switch.bytes) {
        return None;
    }
    let during = requests.iter();
    let during = during.filter(|r| (switch.sent_unix_ns..next).contains(&r.sent_unix_ns));
    let during: Vec<&Watched> = during.collect();
    let new = during
        .iter()
        .rev()
        .take_while(|r| r.bytes == Some(switch.bytes));
    let first = new.last()?;
    Some(first.done_unix_ns.saturating_sub(switch.sent_unix_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A request at this time, which takes 1 ms.
    fn request(watcher: u32, at_ms: u64, bytes: Option<u64>) -> ChurnRecord {
        ChurnRecord::Watched {
            watcher,
            request: Watched {
                sent_unix_ns: at_ms * MS,
                done_unix_ns: (at_ms + 1) * MS,
                bytes,
                failure: String::new(),
            },
        }
    }

    fn watcher(watcher: u32, ahead_ms: i64) -> ChurnRecord {
        ChurnRecord::Watcher {
            watcher,
            node: format!("node-{watcher}"),
            ahead_ns: ahead_ms * MS as i64,
            uncertainty_ns: Some(u64::from(watcher + 1) * MS),
        }
    }

    fn switch(at_ms: u64, bytes: u64) -> ChurnRecord {
        ChurnRecord::Switch {
            bytes,
            sent_unix_ns: at_ms * MS,
            written_unix_ns: Some((at_ms + 2) * MS),
        }
    }

    #[test]
    fn a_change_has_converged_when_the_last_watcher_sees_only_the_new_server() {
        let mut records = vec![watcher(0, 0), watcher(1, 0), switch(1000, 2)];
        // The first has the new server from 1100 on, with one answer of the old one at 1200; the second from 1150 on.
        for at in (900..2000).step_by(50) {
            let first = match at {
                1200 => 1,
                at if at >= 1100 => 2,
                _ => 1,
            };
            records.push(request(0, at, Some(first)));
            records.push(request(1, at, Some(if at >= 1150 { 2 } else { 1 })));
        }
        let result = summarise(&records);
        assert_eq!(result.convergence_ns, [251 * MS]);
        assert_eq!((result.unseen, result.watchers), (0, 2));
        assert_eq!((result.requests, result.failed), (44, 0));
        assert_eq!(result.clock_uncertainty_ns, Some(2 * MS));
    }

    #[test]
    fn a_change_that_a_watcher_did_not_see_before_the_next_one_is_counted() {
        let mut records = vec![watcher(0, 0), switch(1000, 2), switch(2000, 1)];
        for at in (900..3000).step_by(50) {
            records.push(request(0, at, Some(1)));
        }
        // Nothing is known of the second change, because the watcher still sees what it leads back to.
        let result = summarise(&records);
        assert!(result.convergence_ns.is_empty());
        assert_eq!(result.unseen, 2);
        // A watcher without any request has seen nothing.
        let records = [
            watcher(0, 0),
            watcher(1, 0),
            switch(1000, 2),
            request(0, 900, Some(1)),
            request(0, 1100, Some(2)),
        ];
        assert_eq!(summarise(&records).unseen, 1);
    }

    #[test]
    fn failed_requests_are_counted_and_are_not_answers() {
        let mut records = vec![watcher(0, 0), switch(1000, 2)];
        for at in (900..2000).step_by(50) {
            let bytes = match at {
                1050 | 1500 => None,
                at if at >= 1100 => Some(2),
                _ => Some(1),
            };
            records.push(request(0, at, bytes));
        }
        let result = summarise(&records);
        assert_eq!(
            (result.convergence_ns.as_slice(), result.failed),
            (&[101 * MS][..], 2)
        );
    }

    #[test]
    fn clocks_that_differ_are_corrected() {
        let mut records = vec![watcher(0, 0), watcher(1, 400), switch(1000, 2)];
        for at in (900..2000).step_by(50) {
            records.push(request(0, at, Some(if at >= 1100 { 2 } else { 1 })));
            // Its clock is 400 ms ahead: it has the new server from 1200 on by the orchestrator's clock.
            records.push(request(1, at + 400, Some(if at >= 1200 { 2 } else { 1 })));
        }
        assert_eq!(summarise(&records).convergence_ns, [201 * MS]);
    }

    #[test]
    fn a_change_that_was_not_stored_is_no_change() {
        let not_stored = ChurnRecord::Switch {
            bytes: 2,
            sent_unix_ns: 1000 * MS,
            written_unix_ns: None,
        };
        let records = vec![watcher(0, 0), not_stored, request(0, 1100, Some(1))];
        let result = summarise(&records);
        assert!(result.convergence_ns.is_empty() && result.unseen == 0);
    }

    #[test]
    fn an_unknown_clock_leaves_the_uncertainty_unknown() {
        let unknown = ChurnRecord::Watcher {
            watcher: 1,
            node: "node-1".into(),
            ahead_ns: 0,
            uncertainty_ns: None,
        };
        let result = summarise(&[watcher(0, 0), unknown]);
        assert_eq!(result.clock_uncertainty_ns, None);
    }
}
