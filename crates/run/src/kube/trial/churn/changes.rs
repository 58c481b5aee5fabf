//! The changes of endpoints, at instants that are planned beforehand.

use std::net::IpAddr;
use std::time::Duration;

use tare_model::churn::ChurnRecord;
use tare_model::plan::Churn;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::until;
use crate::kube::api::ApiClient;
use crate::kube::api::kinds::CHURNED_SLICE;
use crate::kube::objects::churn::{EmptyService, watched_slice};
use crate::kube::objects::names::TrialNames;
use crate::now::unix_ns;

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
        let now = Instant::now();
        let begin = now + until(self.window.0);
        let end = now + until(self.window.1);
        let pause = match self.churn.changes {
            0 => None,
            per_second => Some(Duration::from_secs(1) / per_second),
        };
        // The watched service is changed between two of the other changes.
        let mut next_switch = begin + pause.map_or(Duration::ZERO, |p| p / 2);
        let mut next_empty = pause.map(|_| begin);
        let late_ns = unix_ns().saturating_sub(self.window.0);
        // Changes that were due before the watchers ran are not made up for.
        let missed = pause.map_or(0, |p| late_ns / p.as_nanos() as u64);
        let (mut planned, mut switches) = (missed, 0_usize);
        let mut made = Vec::new();
        let mut pending: JoinSet<Made> = JoinSet::new();
        loop {
            let switch = Some(next_switch).filter(|at| *at + SWITCH_EVERY <= end);
            let empty = next_empty.filter(|at| *at < end);
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
            } else {
                if pending.len() < PENDING_MAX {
                    pending.spawn(self.change(planned));
                }
                planned += 1;
                next_empty = next_empty.zip(pause).map(|(at, pause)| at + pause);
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
