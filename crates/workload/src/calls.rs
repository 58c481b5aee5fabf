//! Times the calls of a service in the measured window: those that it makes, and those that it
//! receives. Outside the window nothing is counted.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::{Body, Frame, SizeHint};
use tare_files::unix_ns;
use tare_plan::load::WarmParts;
use tare_records::calls::{CallLatency, CallWindow};
use tare_stats::Histogram;

/// The measured window, in nanoseconds since `origin`; empty until it is announced.
#[derive(Debug)]
pub(crate) struct Window {
    origin: Instant,
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    warm_every_ns: AtomicU64,
    warm_length_ns: AtomicU64,
}

impl Window {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            origin: Instant::now(),
            start_ns: AtomicU64::new(0),
            end_ns: AtomicU64::new(0),
            warm_every_ns: AtomicU64::new(0),
            warm_length_ns: AtomicU64::new(0),
        })
    }

    /// Sets the window.
    ///
    /// # Errors
    /// When the window has already started: its first calls would be missing.
    pub(crate) fn announce(&self, window: CallWindow) -> Result<(), &'static str> {
        // Read before the other clock: if the thread pauses between them, no first call is missed.
        let now = self.origin.elapsed().as_nanos() as u64;
        let now_unix = unix_ns();
        let wait = window.start_unix_ns.checked_sub(now_unix);
        let wait = wait.ok_or("the window has already started")?;
        let start = now.saturating_add(wait);
        let end = start.saturating_add(window.window_ns);
        for (place, ns) in [
            (&self.warm_every_ns, window.warm.every_ns),
            (&self.warm_length_ns, window.warm.length_ns),
            (&self.start_ns, start),
            (&self.end_ns, end),
        ] {
            place.store(ns, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether a window was announced.
    pub(crate) fn is_known(&self) -> bool {
        self.end_ns.load(Ordering::Relaxed) > 0
    }

    /// The instant at which a call starts; `None` outside the window.
    pub(crate) fn start(&self) -> Option<Instant> {
        let now = Instant::now();
        let at = now.duration_since(self.origin).as_nanos() as u64;
        let load = |ns: &AtomicU64| ns.load(Ordering::Relaxed);
        let since = at.checked_sub(load(&self.start_ns))?;
        let warm = WarmParts {
            every_ns: load(&self.warm_every_ns),
            length_ns: load(&self.warm_length_ns),
        };
        (at < load(&self.end_ns) && !warm.contain(since)).then_some(now)
    }
}

/// Latencies by endpoint. A service has few endpoints, so they are searched in sequence.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Mutex<Vec<(String, Histogram)>>);

impl Latencies {
    /// Counts a call that ends now.
    pub(crate) fn record(&self, endpoint: &str, started: Instant) {
        let ns = started.elapsed().as_nanos() as u64;
        let mut endpoints = self.endpoints();
        if let Some((_, latency)) = endpoints.iter_mut().find(|(name, _)| name == endpoint) {
            return latency.record(ns);
        }
        let mut latency = Histogram::in_pages();
        latency.record(ns);
        endpoints.push((endpoint.to_owned(), latency));
    }

    /// Removes all counts.
    pub(crate) fn clear(&self) {
        self.endpoints().clear();
    }

    /// The latencies of `service`, in order of the endpoints' names.
    pub(crate) fn of(&self, service: &str) -> Vec<CallLatency> {
        let endpoints = self.endpoints();
        let latency = |(endpoint, latency): &(String, Histogram)| CallLatency {
            service: service.to_owned(),
            endpoint: endpoint.clone(),
            latency: latency.to_wire(),
        };
        let mut all: Vec<CallLatency> = endpoints.iter().map(latency).collect();
        all.sort_by(|a, b| a.endpoint.cmp(&b.endpoint));
        all
    }

    fn endpoints(&self) -> MutexGuard<'_, Vec<(String, Histogram)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was received and is being answered.
#[derive(Debug)]
pub(crate) struct Answering {
    pub(crate) latencies: Arc<Latencies>,
    pub(crate) endpoint: String,
    pub(crate) started: Instant,
}

/// A response body that counts its call when the connection has taken all of it and drops it. A
/// response that was cut off is not counted.
#[derive(Debug)]
pub(crate) struct Timed<B> {
    body: B,
    call: Option<Answering>,
    taken: bool,
}

impl<B: Body> Timed<B> {
    pub(crate) fn new(body: B, call: Option<Answering>) -> Self {
        let taken = body.is_end_stream();
        Self { body, call, taken }
    }
}

impl<B: Body + Unpin> Body for Timed<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.taken |= match &frame {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(frame))) => frame.is_trailers() || self.body.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Timed<B> {
    fn drop(&mut self) {
        if let Some(call) = self.call.as_ref().filter(|_| self.taken) {
            call.latencies.record(&call.endpoint, call.started);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of(start_unix_ns: u64, window_ns: u64) -> CallWindow {
        CallWindow {
            start_unix_ns,
            window_ns,
            ..CallWindow::default()
        }
    }

    /// Announces a window of an hour that starts soon, and waits until it has started. If the
    /// machine stops until then, the window is refused and announced again.
    fn begin(window: &Window) {
        let until = Instant::now() + Duration::from_secs(60);
        let mut soon = unix_ns() + 1_000_000_000;
        while window.announce(of(soon, 3_600_000_000_000)).is_err() {
            assert!(Instant::now() < until);
            soon = unix_ns() + 1_000_000_000;
        }
        while unix_ns() <= soon {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn calls_in_warm_parts_of_the_window_are_not_timed() {
        let window = Window::new();
        begin(&window);
        assert!(window.start().is_some());
        for (every_ns, is_timed) in [(0, true), (1 << 60, false), (1, false)] {
            window.warm_every_ns.store(every_ns, Ordering::Relaxed);
            window.warm_length_ns.store(1 << 60, Ordering::Relaxed);
            assert_eq!(window.start().is_some(), is_timed, "{every_ns}");
        }
    }

    #[test]
    fn only_calls_in_the_window_are_timed() {
        let window = Window::new();
        assert!(window.start().is_none() && !window.is_known());
        assert!(window.announce(of(unix_ns() - 1_000_000_000, 1)).is_err());
        let hour = 3_600_000_000_000;
        window.announce(of(unix_ns() + hour, hour)).unwrap();
        assert!(window.start().is_none() && window.is_known());
        begin(&window);
        assert!(window.start().is_some());
    }

    #[test]
    fn latencies_are_counted_by_endpoint() {
        let latencies = Latencies::default();
        let started = Instant::now();
        for endpoint in ["b", "a", "b"] {
            latencies.record(endpoint, started);
        }
        let counts = |l: &Latencies| -> Vec<(String, u64)> {
            let all = l.of("web").into_iter();
            all.map(|c| (c.endpoint, c.latency.count)).collect()
        };
        assert_eq!(
            counts(&latencies),
            [("a".to_owned(), 1), ("b".to_owned(), 2)]
        );
        latencies.clear();
        assert_eq!(counts(&latencies), []);
    }

    #[tokio::test]
    async fn only_complete_responses_are_counted() {
        use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
        use hyper::body::Bytes;

        let latencies = Arc::new(Latencies::default());
        let answering = || {
            Some(Answering {
                latencies: latencies.clone(),
                endpoint: "/".to_owned(),
                started: Instant::now(),
            })
        };
        let counted = || latencies.of("web").first().map_or(0, |c| c.latency.count);
        let body = || Full::new(Bytes::from_static(b"body"));
        drop(Timed::new(body(), answering()));
        assert_eq!(counted(), 0, "nothing was taken");
        // The connection may drop a body without asking whether there is more.
        let mut whole = Timed::new(body(), answering());
        whole.frame().await.unwrap().unwrap();
        drop(whole);
        assert_eq!(counted(), 1);
        drop(Timed::new(Empty::<Bytes>::new(), answering()));
        assert_eq!(counted(), 2, "without a body");

        let frames = |end: bool| {
            let part = Frame::data(Bytes::from_static(b"part"));
            let trailers = end.then(|| Frame::trailers(hyper::HeaderMap::new()));
            let frames = [part]
                .into_iter()
                .chain(trailers)
                .map(Ok::<_, std::io::Error>);
            StreamBody::new(futures_util::stream::iter(frames.collect::<Vec<_>>()))
        };
        let mut reset = Timed::new(frames(true), answering());
        reset.frame().await.unwrap().unwrap();
        drop(reset);
        assert_eq!(counted(), 2, "the trailers are missing");
        let mut grpc = Timed::new(frames(true), answering());
        grpc.frame().await.unwrap().unwrap();
        grpc.frame().await.unwrap().unwrap();
        drop(grpc);
        assert_eq!(counted(), 3);
        Timed::new(frames(false), answering())
            .collect()
            .await
            .unwrap();
        assert_eq!(counted(), 4, "read to its end");
    }

    /// Prints what timing adds to a call; docs/path.md states it.
    #[test]
    #[ignore = "a microbenchmark: cargo test --release -p tare-workload --lib cost_of -- --ignored --nocapture"]
    fn cost_of_timing_a_call() {
        const CALLS: u32 = 1_000_000;
        let window = Window::new();
        begin(&window);
        let latencies = Latencies::default();
        let begun = Instant::now();
        for _ in 0..CALLS {
            if let Some(started) = window.start() {
                latencies.record("FindByShortcode", started);
            }
        }
        let each_ns = begun.elapsed().as_nanos() / u128::from(CALLS);
        assert_eq!(latencies.of("emoji")[0].latency.count, u64::from(CALLS));
        println!("{each_ns} ns per call");
    }
}
