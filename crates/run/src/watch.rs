//! The worker behind `tare watch`: sends requests to a service at fixed instants, each on a connection of its own, and
//! writes which of its servers answered.

use std::io::{self, Write};
use std::time::Duration;

use tare_plan::SCHEMA_VERSION;
use tare_records::probe::ProbeRequest;
use tare_records::record::Hello;
use tare_records::watch::{WatchRecord, WatchSpec, Watched};
use tare_records::writer::RecordWriter;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::probe::attempt;
use tare_files::unix_ns;

/// How many bytes of a body are read. Its size shows which server answered.
const BODY_BYTES_MAX: usize = 1 << 10;

/// Why a watcher failed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The specification has the schema version of another version of tare.
    #[error("watch specification has schema version {found}, expected {SCHEMA_VERSION}")]
    SchemaVersion {
        /// Its schema version.
        found: u32,
    },
    /// The specification has no time between two requests.
    #[error("watch specification has every_ns 0, expected more")]
    Every,
    /// A write failed.
    #[error("failed to write records: {0}")]
    Io(#[from] io::Error),
}

/// Sends the requests of the specification and writes a record for each to `out`, when it has ended.
///
/// # Errors
/// When the specification is invalid, or `out` fails. A request that fails is a result.
pub async fn run(spec: &WatchSpec, out: &mut impl Write) -> Result<(), WatchError> {
    if spec.schema_version != SCHEMA_VERSION {
        return Err(WatchError::SchemaVersion {
            found: spec.schema_version,
        });
    }
    if spec.every_ns == 0 {
        return Err(WatchError::Every);
    }
    let mut records = RecordWriter::new(out);
    records.write(&WatchRecord::Hello(Hello::new("watch", std::process::id())))?;
    let request = ProbeRequest {
        address: spec.address.clone(),
        host: spec.host.clone(),
        path: "/".to_owned(),
        timeout_ns: spec.timeout_ns,
        retry_ns: 0,
        body_bytes_max: BODY_BYTES_MAX,
        counters: None,
        is_sum: false,
    };
    // By the monotonic clock, because this machine's clock may be set meanwhile.
    let left = Duration::from_nanos(spec.until_unix_ns.saturating_sub(unix_ns()));
    let until = Instant::now() + left;
    let mut ticks = interval(Duration::from_nanos(spec.every_ns));
    // An instant that has passed is not made up for: it would not show more.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(until) => break,
            Some(Ok(watched)) = running.join_next() => records.write(&WatchRecord::Watched(watched))?,
            _ = ticks.tick() => drop(running.spawn(watched(request.clone()))),
        }
    }
    while let Some(done) = running.join_next().await {
        if let Ok(watched) = done {
            records.write(&WatchRecord::Watched(watched))?;
        }
    }
    records.finish(|checksum| WatchRecord::Final { checksum })?;
    Ok(())
}

async fn watched(request: ProbeRequest) -> Watched {
    let (sent_unix_ns, start) = (unix_ns(), Instant::now());
    let result = attempt(&request).await;
    let (bytes, failure) = match result {
        Ok(answer) if answer.status == 200 => (Some(answer.body.len() as u64), String::new()),
        Ok(answer) => (None, format!("status {}", answer.status)),
        Err(failure) => (None, failure.found),
    };
    Watched {
        sent_unix_ns,
        done_unix_ns: sent_unix_ns + start.elapsed().as_nanos() as u64,
        bytes,
        failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tare_records::watch::read;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    fn spec(address: &str, within_ns: u64) -> WatchSpec {
        WatchSpec {
            schema_version: SCHEMA_VERSION,
            address: address.into(),
            host: "watched".into(),
            every_ns: 10_000_000,
            until_unix_ns: unix_ns() + within_ns,
            timeout_ns: 60_000_000_000,
        }
    }

    #[tokio::test]
    async fn each_request_has_a_connection_and_a_record() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let body = match count.fetch_add(1, Ordering::Relaxed) {
                    0 => "HTTP/1.1 503 Later\r\ncontent-length: 0\r\n\r\n",
                    1 => "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
                    _ => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nbb",
                };
                let mut head = [0; 1000];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(body.as_bytes()).await;
            }
        });
        let mut within_ns = 300_000_000;
        let all = loop {
            accepted.store(0, Ordering::Relaxed);
            let mut out = Vec::new();
            run(&spec(&address, within_ns), &mut out).await.unwrap();
            let all = read(&tare_records::writer::lines(&out)).unwrap();
            assert_eq!(all.len(), accepted.load(Ordering::Relaxed));
            // A slow machine needs more time for the three kinds of answers.
            if all.len() >= 3 {
                break all;
            }
            assert!(within_ns < 60_000_000_000, "{all:?}");
            within_ns *= 2;
        };
        let failed: Vec<&Watched> = all.iter().filter(|w| w.bytes.is_none()).collect();
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].failure, "status 503");
        assert!(all.iter().any(|w| w.bytes == Some(1)));
        assert!(all.iter().all(|w| w.done_unix_ns >= w.sent_unix_ns));
    }

    #[tokio::test]
    async fn a_specification_without_a_pace_or_of_another_version_is_refused() {
        let mut wrong = spec("127.0.0.1:1", 0);
        wrong.every_ns = 0;
        let error = run(&wrong, &mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("every_ns"), "{error}");
        wrong.schema_version = 99;
        let error = run(&wrong, &mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("99"), "{error}");
    }
}
