//! The changes of endpoints, at instants that are planned beforehand.

use std::net::IpAddr;
use std::time::Duration;

use tare_model::churn::ChurnRecord;
use tare_model::plan::Churn;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::kube::api::ApiClient;
use crate::kube::api::kinds::CHURNED_SLICE;
use crate::kube::objects::churn::{EmptyService, watched_slice};
use crate::kube::objects::names::TrialNames;
use crate::now::unix_ns;

/// Time between two changes of the watched service: longer than any mesh should need.
const SWITCH_EVERY: Duration = Duration::from_secs(3);
/// Most changes that the API server has not answered; further ones are not made, and counted as not written.
const PENDING_MAX: usize = 64;
const SECOND_NS: u64 = 1_000_000_000;
/// How long the last answers of the API server may take.
const LAST_WITHIN: Duration = Duration::from_secs(5);

/// What changes, and when.
pub(super) struct Changes {
    pub(super) api: ApiClient,
    pub(super) names: TrialNames,
    pub(super) churn: Churn,
    /// Names and addresses of the servers of the watched service; it begins with the first.
    pub(super) servers: Vec<(String, IpAddr)>,
    /// Start and end, in nanoseconds of Unix time.
    pub(super) window: (u64, u64),
}

/// The changes of services without pods, at even distances in the window.
struct Planned {
    per_second: u64,
    begin_unix_ns: u64,
    /// The number of changes in the whole window.
    all: u64,
    /// Number of the next change.
    next: u64,
}

impl Planned {
    /// Changes that were due before now are not made up for.
    fn new(per_second: u32, (begin, end): (u64, u64), now_unix_ns: u64) -> Self {
        let per_second = u64::from(per_second);
        let until = |ns: u64| (per_second * ns.saturating_sub(begin)).div_ceil(SECOND_NS);
        Self {
            per_second,
            begin_unix_ns: begin,
            all: until(end),
            next: until(now_unix_ns.min(end)),
        }
    }

    /// When the next change is due; `None` after the last.
    fn due_unix_ns(&self) -> Option<u64> {
        let after_ns = || self.next * SECOND_NS / self.per_second;
        (self.next < self.all).then(|| self.begin_unix_ns + after_ns())
    }

    /// Time between two changes; zero without changes.
    fn pause(&self) -> Duration {
        Duration::from_nanos(SECOND_NS.checked_div(self.per_second).unwrap_or(0))
    }
}

/// A change that was made.
enum Made {
    /// Of a service without pods; whether the API server stored it.
    Empty(bool),
    /// Of the watched service.
    Switch(ChurnRecord),
}

impl Changes {
    /// Makes the changes until the end of the window. Returns the records.
    pub(super) async fn make(self) -> Vec<ChurnRecord> {
        let (now, now_unix_ns) = (Instant::now(), unix_ns());
        let at = |ns: u64| now + Duration::from_nanos(ns.saturating_sub(now_unix_ns));
        let end = at(self.window.1);
        let mut empty = Planned::new(self.churn.changes, self.window, now_unix_ns);
        // The watched service is changed between two of the other changes.
        let mut next_switch = at(self.window.0) + empty.pause() / 2;
        let mut switches = 0_usize;
        let mut made = Vec::new();
        let mut pending: JoinSet<Made> = JoinSet::new();
        loop {
            let switch = Some(next_switch).filter(|at| *at + SWITCH_EVERY <= end);
            let due = empty.due_unix_ns().map(at);
            let Some(next) = switch.into_iter().chain(due).min() else {
                break;
            };
            sleep_until(next).await;
            while let Some(done) = pending.try_join_next() {
                made.extend(done);
            }
            if switch == Some(next) {
                switches += 1;
                next_switch += SWITCH_EVERY;
                pending.spawn(self.switch(switches % self.servers.len()));
            } else {
                if pending.len() < PENDING_MAX {
                    pending.spawn(self.change(empty.next));
                }
                empty.next += 1;
            }
        }
        let rest = async {
            while let Some(done) = pending.join_next().await {
                made.extend(done);
            }
        };
        let _ = timeout(LAST_WITHIN, rest).await;
        let written = made.iter().filter(|m| matches!(m, Made::Empty(true)));
        let written = written.count() as u64;
        let mut records: Vec<ChurnRecord> = made
            .into_iter()
            .filter_map(|m| match m {
                Made::Switch(record) => Some(record),
                Made::Empty(_) => None,
            })
            .collect();
        records.sort_by_key(|record| match record {
            ChurnRecord::Switch { sent_unix_ns, .. } => *sent_unix_ns,
            _ => 0,
        });
        let planned = empty.all;
        records.push(ChurnRecord::Changes { planned, written });
        records
    }

    /// The change with this number of a service without pods.
    fn change(&self, number: u64) -> impl Future<Output = Made> + Send + 'static {
        let service = EmptyService::of_change(self.churn, number);
        let own = number / u64::from(self.churn.services) + 1;
        let slice = service.slice(&self.names, own);
        let api = self.api.clone();
        async move { Made::Empty(api.apply(CHURNED_SLICE, &slice).await.is_ok()) }
    }

    /// Gives the watched service the server with this index.
    fn switch(&self, server: usize) -> impl Future<Output = Made> + Send + 'static {
        let (name, address) = &self.servers[server];
        let slice = watched_slice(&self.names, (name, &address.to_string()));
        let api = self.api.clone();
        async move {
            let sent_unix_ns = unix_ns();
            let written = api.apply(CHURNED_SLICE, &slice).await.is_ok();
            Made::Switch(ChurnRecord::Switch {
                bytes: server as u64 + 1,
                sent_unix_ns,
                written_unix_ns: written.then(unix_ns),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instants of all changes that are made, and their number in the whole window.
    fn made(per_second: u32, late_ns: u64) -> (Vec<u64>, u64) {
        let begin = 7 * SECOND_NS;
        let window = (begin, begin + SECOND_NS);
        let mut planned = Planned::new(per_second, window, begin + late_ns);
        let mut made = Vec::new();
        while let Some(due) = planned.due_unix_ns() {
            made.push(due - begin);
            planned.next += 1;
        }
        (made, planned.all)
    }

    #[test]
    fn as_many_changes_are_planned_however_late_they_begin() {
        assert_eq!(made(0, 0), (vec![], 0));
        assert_eq!(
            made(4, 0),
            (vec![0, 250_000_000, 500_000_000, 750_000_000], 4)
        );
        assert_eq!(made(3, 0), (vec![0, 333_333_333, 666_666_666], 3));
        assert_eq!(
            made(4, 250_000_000),
            (vec![250_000_000, 500_000_000, 750_000_000], 4)
        );
        assert_eq!(made(4, 250_000_001), (vec![500_000_000, 750_000_000], 4));
        assert_eq!(made(4, 9 * SECOND_NS), (vec![], 4));
    }
}
