//! The changes of endpoints, at instants that are planned beforehand.

use std::net::IpAddr;
use std::time::Duration;

use tare_plan::Churn;
use tare_plan::load::Arrivals;
use tare_plan::load::schedule::{Schedule, SchedulePlan, Slot};
use tare_records::churn::ChurnRecord;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::api::ApiClient;
use crate::api::kinds::CHURNED_SLICE;
use crate::objects::churn::{EmptyService, watched_slice};
use crate::objects::names::TrialNames;
use tare_files::unix_ns;

/// Time between two changes of the watched service: longer than any mesh should need.
const SWITCH_EVERY: Duration = Duration::from_secs(3);
/// Most changes that the API server has not answered; further ones are not made, and counted as not written.
const PENDING_MAX: usize = 64;
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

/// The changes of services without pods, evenly spaced from the start of the window.
fn slots(per_second: u32, window_ns: u64) -> impl Iterator<Item = Slot> {
    let plan = SchedulePlan {
        rate_rps: f64::from(per_second),
        arrivals: Arrivals::Constant,
        seed: 0,
        warmup_ns: 0,
        window_ns,
        connections: 1,
    };
    let schedule = (per_second > 0).then(|| Schedule::new(&plan, 0, 1));
    let all = schedule.into_iter().flatten();
    all.take_while(move |slot| slot.at_ns < window_ns)
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
        let per_second = self.churn.changes;
        let slots = || slots(per_second, self.window.1 - self.window.0);
        // Changes that were due before now are not made up for.
        let late_ns = now_unix_ns.saturating_sub(self.window.0);
        let mut due = slots().skip_while(|s| s.at_ns < late_ns).peekable();
        // The watched service is changed between two of the other changes.
        let pause = Duration::from_secs(1).checked_div(per_second);
        let mut next_switch = at(self.window.0) + pause.unwrap_or_default() / 2;
        let mut switches = 0_usize;
        let mut made = Vec::new();
        let mut pending: JoinSet<Made> = JoinSet::new();
        loop {
            let switch = Some(next_switch).filter(|at| *at + SWITCH_EVERY <= end);
            let empty = due.peek().map(|s| at(self.window.0 + s.at_ns));
            let Some(next) = switch.into_iter().chain(empty).min() else {
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
            } else if let Some(slot) = due.next()
                && pending.len() < PENDING_MAX
            {
                pending.spawn(self.change(slot.index));
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
        let planned = slots().count() as u64;
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

    #[test]
    fn changes_are_evenly_spaced_and_as_many_as_planned() {
        let at = |per_second, window_ns| -> Vec<u64> {
            slots(per_second, window_ns).map(|s| s.at_ns).collect()
        };
        assert!(at(0, 1_000_000_000).is_empty());
        assert_eq!(at(3, 1_000_000_000), [0, 333_333_333, 666_666_667]);
        assert_eq!(at(4, 500_000_000), [0, 250_000_000]);
        assert_eq!(at(4, 500_000_001), [0, 250_000_000, 500_000_000]);
    }
}
