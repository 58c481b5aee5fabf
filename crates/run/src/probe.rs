//! The worker behind `tare probe`: sends single requests and writes what came back, so that proofs have a place outside
//! the mesh. Nothing here is measured.

use std::error::Error as _;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tare_plan::{SCHEMA_VERSION, innermost};
use tare_records::probe::{
    FailureKind, ProbeAnswer, ProbeFailure, ProbeRecord, ProbeRequest, ProbeResult, ProbeSpec,
};
use tare_records::record::Hello;
use tare_records::writer::RecordWriter;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};

use tare_files::unix_ns;

/// Maximum number of requests at the same time.
pub const CONCURRENT_MAX: usize = 16;
/// Pause before a request is sent again.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum size of a body whose lines are selected.
const SELECTED_BYTES_MAX: usize = 16 << 20;

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The specification has the schema version of another version of tare.
    #[error("probe specification has schema version {found}, expected {SCHEMA_VERSION}")]
    SchemaVersion {
        /// Its schema version.
        found: u32,
    },
    /// A write failed.
    #[error("failed to write records: {0}")]
    Io(#[from] io::Error),
}

/// Sends the requests of the specification and writes a record for each to `out`, in the same order.
///
/// # Errors
/// When the specification is from another version, or `out` fails. A request that fails is a result.
pub async fn run(spec: &ProbeSpec, out: &mut impl Write) -> Result<(), ProbeError> {
    if spec.schema_version != SCHEMA_VERSION {
        return Err(ProbeError::SchemaVersion {
            found: spec.schema_version,
        });
    }
    let mut records = RecordWriter::new(out);
    let hello = Hello::new("probe", std::process::id());
    records.write(&ProbeRecord::Hello(hello))?;
    let start = Instant::now();
    let (first, others) = spec.requests.split_at(spec.first.min(spec.requests.len()));
    for requests in [first, others] {
        let sent = requests.iter().map(|request| send(request, start));
        let mut results = stream::iter(sent).buffered(CONCURRENT_MAX);
        while let Some(result) = results.next().await {
            records.write(&ProbeRecord::from(result))?;
        }
    }
    records.finish(|checksum| ProbeRecord::Final { checksum })?;
    Ok(())
}

/// Sends a request, and sends it again while it fails and its time for that is not over.
async fn send(request: &ProbeRequest, start: Instant) -> ProbeResult {
    let until = start + Duration::from_nanos(request.retry_ns);
    loop {
        let result = attempt(request).await;
        let is_good = result.as_ref().is_ok_and(|answer| answer.status < 400);
        if is_good || Instant::now() + PAUSE > until {
            return result;
        }
        sleep(PAUSE).await;
    }
}

/// Sends one request.
pub async fn attempt(request: &ProbeRequest) -> ProbeResult {
    let within = Duration::from_nanos(request.timeout_ns);
    let until = Instant::now() + within;
    let late = |what: &str| ProbeFailure {
        kind: FailureKind::Timeout,
        found: format!("no {what} within {} s", within.as_secs_f64()),
    };
    let address: SocketAddr = request.address.parse().map_err(|_| ProbeFailure {
        kind: FailureKind::Other,
        found: format!(
            "invalid address {}, expected an IP address with a port",
            request.address
        ),
    })?;
    let connected = timeout_at(until, TcpStream::connect(address)).await;
    let stream = match connected {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(io_failure(&error)),
        Err(_) => return Err(late("connection")),
    };
    let exchanged = timeout_at(until, exchange(stream, request)).await;
    exchanged.unwrap_or_else(|_| Err(late("response")))
}

async fn exchange(stream: TcpStream, request: &ProbeRequest) -> ProbeResult {
    let http = Request::get(&request.path).header("host", &request.host);
    let http = http.body(Empty::<Bytes>::new()).map_err(|e| ProbeFailure {
        kind: FailureKind::Other,
        found: format!("invalid request: {e}"),
    })?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(failure)?;
    tokio::spawn(connection);
    let response = sender.send_request(http).await.map_err(failure)?;
    let status = response.status().as_u16();
    let bytes_max = match request.counters {
        Some(_) => SELECTED_BYTES_MAX,
        None => request.body_bytes_max,
    };
    let (body, is_cut) = body(response.into_body(), bytes_max).await?;
    Ok(ProbeAnswer {
        unix_ns: unix_ns(),
        ..request.answer(status, &String::from_utf8_lossy(&body), is_cut)
    })
}

/// Reads at most this many bytes of a body. Returns whether it is longer.
async fn body(mut body: Incoming, bytes_max: usize) -> Result<(Vec<u8>, bool), ProbeFailure> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(failure)?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > bytes_max {
            bytes.truncate(bytes_max);
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

fn failure(error: hyper::Error) -> ProbeFailure {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return io_failure(io);
        }
        cause = inner.source();
    }
    let (kind, found) = if error.is_parse() {
        (
            FailureKind::NotHttp,
            "the response is not HTTP/1.1".to_owned(),
        )
    } else if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        let found = "connection closed without a complete response";
        (FailureKind::Reset, found.to_owned())
    } else {
        (FailureKind::Other, innermost(&error))
    };
    ProbeFailure { kind, found }
}

fn io_failure(error: &io::Error) -> ProbeFailure {
    let (kind, found) = match error.kind() {
        ErrorKind::ConnectionRefused => (FailureKind::Refused, "connection refused".to_owned()),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            (FailureKind::Reset, "connection reset".to_owned())
        }
        ErrorKind::UnexpectedEof => {
            let found = "connection closed without a complete response";
            (FailureKind::Reset, found.to_owned())
        }
        ErrorKind::TimedOut => (FailureKind::Timeout, "connection timed out".to_owned()),
        _ => (FailureKind::Other, error.to_string()),
    };
    ProbeFailure { kind, found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::probe::read;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    fn request(address: impl ToString) -> ProbeRequest {
        ProbeRequest {
            address: address.to_string(),
            host: "web".into(),
            path: "/".into(),
            timeout_ns: 60_000_000_000,
            retry_ns: 0,
            body_bytes_max: 1000,
            counters: None,
            is_sum: false,
        }
    }

    async fn results(requests: Vec<ProbeRequest>) -> Vec<ProbeResult> {
        let count = requests.len();
        let spec = ProbeSpec {
            schema_version: SCHEMA_VERSION,
            requests,
            first: 1,
        };
        let mut out = Vec::new();
        run(&spec, &mut out).await.unwrap();
        read(&tare_records::writer::lines(&out), count).unwrap()
    }

    async fn result(request: ProbeRequest) -> ProbeResult {
        results(vec![request]).await.remove(0)
    }

    /// Serves one text for each connection, the last one for all others, and closes it; returns the address.
    async fn server(on: &str, texts: Vec<String>) -> SocketAddr {
        let listener = TcpListener::bind(on).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut texts = texts.into_iter().peekable();
            let mut text = String::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                text = texts.next().unwrap_or(text);
                let mut head = [0; 1000];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        address
    }

    fn response(status: &str, body: &str) -> String {
        let bytes = body.len();
        format!("HTTP/1.1 {status}\r\ncontent-length: {bytes}\r\n\r\n{body}")
    }

    fn kind(result: &ProbeResult) -> FailureKind {
        result.as_ref().unwrap_err().kind
    }

    #[tokio::test]
    async fn each_failure_has_its_kind() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refusing = closed.local_addr().unwrap();
        drop(closed);
        let result_of = |address| result(request(address));
        let found = result_of(refusing).await;
        assert_eq!(kind(&found), FailureKind::Refused);
        assert_eq!(found.unwrap_err().found, "connection refused");

        let resetting = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = resetting.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = resetting.accept().await.unwrap();
            // Closing a socket with unread bytes resets the connection.
            stream.readable().await.unwrap();
        });
        assert_eq!(kind(&result_of(address).await), FailureKind::Reset);

        let closing = server("127.0.0.1:0", vec![String::new()]).await;
        assert_eq!(kind(&result_of(closing).await), FailureKind::Reset);
        let short = response("200 OK", "whole").replace("whole", "w");
        let short = server("127.0.0.1:0", vec![short]).await;
        assert_eq!(kind(&result_of(short).await), FailureKind::Reset);

        let alert = server("127.0.0.1:0", vec!["\u{15}\u{3}\u{3}".into()]).await;
        assert_eq!(kind(&result_of(alert).await), FailureKind::NotHttp);

        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut late = request(silent.local_addr().unwrap());
        late.timeout_ns = 20_000_000;
        let found = result(late).await;
        assert_eq!(kind(&found), FailureKind::Timeout);
        assert_eq!(found.unwrap_err().found, "no response within 0.02 s");

        let found = result(request("web:80")).await;
        assert_eq!(kind(&found), FailureKind::Other);
    }

    #[tokio::test]
    async fn results_are_in_the_order_of_the_requests() {
        let mut requests = Vec::new();
        for index in 0..CONCURRENT_MAX + 4 {
            let text = response("404 Not Found", &index.to_string());
            requests.push(request(server("127.0.0.1:0", vec![text]).await));
        }
        let results = results(requests).await;
        for (index, result) in results.into_iter().enumerate() {
            let answer = result.unwrap();
            assert_eq!((answer.status, answer.body), (404, index.to_string()));
        }
    }

    #[tokio::test]
    async fn a_request_is_sent_again_until_it_succeeds_or_its_time_is_over() {
        let later = || vec![response("503 Later", ""), response("200 OK", "done")];
        let once = request(server("127.0.0.1:0", later()).await);
        assert_eq!(result(once).await.unwrap().status, 503);
        let mut again = request(server("127.0.0.1:0", later()).await);
        again.retry_ns = 3_600_000_000_000;
        assert_eq!(result(again).await.unwrap().body, "done");
    }

    #[tokio::test]
    async fn the_first_requests_are_over_before_the_others_are_sent() {
        let texts = [("503 Later", ""), ("200 OK", "first"), ("200 OK", "other")];
        let texts = texts.map(|(status, body)| response(status, body));
        let address = server("127.0.0.1:0", texts.into()).await;
        let mut first = request(address);
        first.retry_ns = 3_600_000_000_000;
        let bodies = results(vec![first, request(address)]).await;
        let bodies: Vec<String> = bodies.into_iter().map(|r| r.unwrap().body).collect();
        assert_eq!(bodies, ["first", "other"]);
    }

    #[tokio::test]
    async fn only_the_requested_part_of_a_body_is_kept() {
        let text = "a{x=\"1\"} 1\nb 2\na{x=\"2\"} 3\n";
        let address = server("127.0.0.1:0", vec![response("200 OK", text)]).await;
        let mut counters = request(address);
        counters.counters = Some(vec!["a{x=\"2\"}".into()]);
        counters.body_bytes_max = 14;
        let answer = result(counters).await.unwrap();
        assert_eq!(
            (answer.body.as_str(), answer.is_cut),
            ("a{x=\"2\"} 3\n", false)
        );
        let mut start = request(address);
        start.body_bytes_max = 5;
        let answer = result(start).await.unwrap();
        assert_eq!((answer.body.as_str(), answer.is_cut), ("a{x=\"", true));
    }

    #[tokio::test]
    async fn addresses_of_ipv6_are_in_brackets() {
        let Ok(_) = TcpListener::bind("[::1]:0").await else {
            return; // This machine has no IPv6.
        };
        let address = server("[::1]:0", vec![response("200 OK", "six")]).await;
        assert!(address.to_string().starts_with("[::1]:"));
        assert_eq!(result(request(address)).await.unwrap().body, "six");
    }

    #[tokio::test]
    async fn the_specification_of_another_version_is_refused() {
        let spec = ProbeSpec {
            schema_version: 99,
            requests: Vec::new(),
            first: 0,
        };
        let error = run(&spec, &mut Vec::new()).await.unwrap_err();
        let expected =
            format!("probe specification has schema version 99, expected {SCHEMA_VERSION}");
        assert_eq!(error.to_string(), expected);
    }
}
