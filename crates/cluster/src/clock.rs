//! The offset of a node's clock from the clock of this machine.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout};

use super::api::ApiClient;
use tare_files::unix_ns;
use tare_run::keep;
use tare_run::lines::Lines;

/// Largest offset that is not a fault: 100 ms. The window of a trial is a time of the generators' clocks, and the samples of
/// the agents carry the times of their nodes. An offset shifts the samples against the window: of a window of 10 s, 100 ms
/// is 1 %.
pub(crate) const OFFSET_NS_MAX: i64 = 100_000_000;
/// Number of exchanges, of which the shortest counts.
const EXCHANGES: usize = 5;
/// Longest time of all exchanges.
const WITHIN: Duration = Duration::from_secs(20);

/// How far a clock is ahead of that of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) ns: i64,
    /// The true offset is within `ns` plus or minus this.
    pub(crate) uncertainty_ns: i64,
}

impl Offset {
    /// The offset of a clock that showed `clock_ns` at some time between `sent_ns` and `received_ns` of this machine. The
    /// uncertainty is half of the time between the two, whatever the delays in both directions are.
    ///
    /// Source: Cristian, Probabilistic clock synchronization, Distributed Computing 3 (1989).
    pub(crate) fn between(sent_ns: u64, clock_ns: u64, received_ns: u64) -> Self {
        let width = received_ns.saturating_sub(sent_ns) as i64;
        Self {
            ns: clock_ns as i64 - sent_ns as i64 - width / 2,
            uncertainty_ns: (width + 1) / 2,
        }
    }

    pub(crate) fn is_over(self) -> bool {
        self.ns.abs() - self.uncertainty_ns > OFFSET_NS_MAX
    }

    pub(crate) fn is_under(self) -> bool {
        self.ns.abs() + self.uncertainty_ns <= OFFSET_NS_MAX
    }

    pub(crate) fn ms(self) -> f64 {
        self.ns as f64 / 1e6
    }

    pub(crate) fn words(self) -> String {
        let word = if self.ns < 0 { "behind" } else { "ahead of" };
        format!(
            "{:.1} ms {word} this machine (± {:.1} ms)",
            self.ms().abs(),
            self.uncertainty_ns as f64 / 1e6
        )
    }
}

/// Asks `tare keep` in a pod for its clock, through a forwarded port. Fails with what was found.
pub(crate) async fn measure(api: &ApiClient, pod: (&str, &str)) -> Result<Offset, String> {
    let exchange = async {
        let stream = api.port_forward(pod, keep::PORT).await?;
        let (reader, mut writer) = tokio::io::split(stream);
        let mut lines = Lines::new(reader);
        let mut best: Option<Offset> = None;
        for _ in 0..EXCHANGES {
            let (sent_ns, start) = (unix_ns(), Instant::now());
            let request = format!("{}\n", keep::CLOCK);
            let asked = writer.write_all(request.as_bytes()).await;
            asked.map_err(|e| e.to_string())?;
            let line = lines.next().await.map_err(|e| e.to_string())?;
            // This machine's clock may be set meanwhile, its monotonic clock not.
            let received_ns = sent_ns + start.elapsed().as_nanos() as u64;
            let clock = line
                .as_deref()
                .and_then(|l| l.strip_prefix(keep::CLOCK)?.trim().parse().ok())
                .ok_or("the pod did not answer with its clock")?;
            let offset = Offset::between(sent_ns, clock, received_ns);
            best = match best {
                Some(best) if best.uncertainty_ns <= offset.uncertainty_ns => Some(best),
                _ => Some(offset),
            };
        }
        best.ok_or_else(|| "no exchange".to_owned())
    };
    match timeout(WITHIN, exchange).await {
        Ok(measured) => measured,
        Err(_) => Err(format!("no clock within {} s", WITHIN.as_secs())),
    }
}
