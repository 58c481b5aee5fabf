//! From a generator's interval records to log lines: one line for each series and second, although
//! the late responses of a second arrive in separate records.

use std::collections::BTreeMap;

use tare_records::record::Interval;
use tare_stats::wire::HistogramWire;

use super::{SECOND_NS, line};
use tare_stats::{Histogram, WireError};

/// Number of seconds that stay open for late responses. Responses that arrive even later get a
/// separate line, so that memory does not grow with the length of a measurement.
const OPEN: u32 = 3;

/// The open seconds of one log.
#[derive(Debug, Clone, Default)]
pub struct Seconds {
    window_ns: u64,
    /// Histograms by second and tag. The histogram of all responses has no tag.
    open: BTreeMap<(u32, Option<String>), Histogram>,
}

impl Seconds {
    /// For a window of `window_ns`, whose last second can be shorter.
    #[must_use]
    pub fn new(window_ns: u64) -> Self {
        Self {
            window_ns,
            open: BTreeMap::new(),
        }
    }

    /// Takes a record, and returns the lines of the seconds that it closes.
    ///
    /// # Errors
    /// [`WireError`] when a histogram of the record is damaged.
    pub fn add(&mut self, interval: &Interval) -> Result<String, WireError> {
        let second = interval.second;
        let mut add = |tag: Option<String>, wire: &HistogramWire| {
            let histogram = Histogram::from_wire(wire)?;
            self.open
                .entry((second, tag))
                .or_default()
                .merge(&histogram);
            Ok(())
        };
        add(None, &interval.latency)?;
        for endpoint in &interval.endpoints {
            if endpoint.latency.count > 0 {
                add(Some(endpoint.name.clone()), &endpoint.latency)?;
            }
            for (class, latency) in &endpoint.error_latency {
                add(Some(format!("{}#{class}", endpoint.name)), latency)?;
            }
        }
        let still_open = self.open.split_off(&(second.saturating_sub(OPEN), None));
        let closed = std::mem::replace(&mut self.open, still_open);
        Ok(self.lines(&closed))
    }

    /// The lines of all seconds that are still open.
    #[must_use]
    pub fn finish(self) -> String {
        self.lines(&self.open)
    }

    fn lines(&self, seconds: &BTreeMap<(u32, Option<String>), Histogram>) -> String {
        let of = |((second, tag), histogram): (&(u32, Option<String>), &Histogram)| {
            let from_ns = u64::from(*second) * SECOND_NS;
            let length_ns = self.window_ns.saturating_sub(from_ns).min(SECOND_NS);
            line(tag.as_deref(), from_ns, length_ns, histogram)
        };
        seconds.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::load::Counts;
    use tare_records::record::IntervalEndpoint;

    fn record(second: u32, latencies: &[u64], failed: bool) -> Interval {
        let mut h = Histogram::new();
        latencies.iter().for_each(|ns| h.record(*ns));
        let none = Histogram::new().to_wire();
        Interval {
            second,
            counts: Counts::default(),
            sent: 0,
            latency: h.to_wire(),
            service_time: none.clone(),
            lateness: none.clone(),
            wait: none.clone(),
            error_latency: None,
            stream_wait: None,
            message_latency: None,
            errors: BTreeMap::new(),
            endpoints: vec![IntervalEndpoint {
                name: "list".to_owned(),
                counts: Counts::default(),
                latency: h.to_wire(),
                error_latency: match failed {
                    true => BTreeMap::from([("reset".to_owned(), h.to_wire())]),
                    false => BTreeMap::new(),
                },
            }],
        }
    }

    #[test]
    fn late_responses_join_the_line_of_their_second() {
        let mut seconds = Seconds::new(40_500_000_000);
        let mut text = super::super::header(0);
        for second in 0..41 {
            text += &seconds
                .add(&record(second, &[1_000, 2_000], second == 3))
                .unwrap();
            if second > 0 {
                text += &seconds
                    .add(&record(second - 1, &[9_000_000], false))
                    .unwrap();
            }
        }
        assert_eq!(seconds.open.len(), 2 * (OPEN as usize + 1));
        text += &seconds.finish();
        let log = super::super::read(&text).unwrap();
        let of = |tag: Option<&str>| -> Vec<(u64, u64, u64)> {
            let here = log.lines.iter().filter(|l| l.tag.as_deref() == tag);
            here.map(|l| (l.from_ns, l.length_ns, l.histogram.len()))
                .collect()
        };
        let whole = of(None);
        assert_eq!(whole.len(), 41);
        assert_eq!(whole[5], (5 * SECOND_NS, SECOND_NS, 3));
        assert_eq!(whole[40], (40 * SECOND_NS, SECOND_NS / 2, 2));
        assert_eq!(of(Some("list")), whole);
        assert_eq!(of(Some("list#reset")), [(3 * SECOND_NS, SECOND_NS, 2)]);
    }
}
