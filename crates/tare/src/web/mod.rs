//! `tare run --web` and `tare history --serve`: serve the report page of a run in progress, and the page of a
//! history, on loopback. The page is created once after each change (the end of a trial, a new entry), in another
//! thread, when a browser requests it; the browser requests it again after each change.
//!
//! Anything on this machine, and any site that a browser shows, can send requests while trials are
//! measured. Therefore the page is kept, requests from other sites are refused, and connections are
//! limited in number, in time and in the size of their headers. A new connection above the limit closes the oldest
//! one, so that clients that do not read, or that wait for events, shut nobody out; a browser reconnects by itself.

mod feed;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

pub(crate) use feed::Feed;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Most connections at the same time. A further one closes the oldest.
const CONNECTIONS_MAX: usize = 32;
/// Time for a client to send the headers of its request. Shorter in tests, which wait for its end.
const HEADERS_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 5 });
/// Largest size of the headers of a request, in bytes.
const HEADERS_BYTES_MAX: usize = 16 << 10;

/// A running server. Dropping it stops the server.
#[derive(Debug)]
pub(crate) struct Server {
    /// The address it listens on, for example `http://127.0.0.1:40123/`.
    pub(crate) address: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens on `port` of 127.0.0.1, or on any free port for 0, without serving yet: a port in use is
/// found before the run begins.
pub(crate) fn listen(port: u16) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Creates the page that is served; an error is shown instead.
type CreatePage = dyn Fn() -> Result<String, String> + Send + Sync;

/// Serves the page that `create` returns. Needs a tokio runtime.
pub(crate) fn serve(
    listener: std::net::TcpListener,
    feed: Feed,
    create: impl Fn() -> Result<String, String> + Send + Sync + 'static,
) -> std::io::Result<Server> {
    let listener = TcpListener::from_std(listener)?;
    let port = listener.local_addr()?.port();
    let site = Arc::new(Site {
        port,
        create: Arc::new(create),
        feed,
        page: Arc::default(),
    });
    let task = tokio::spawn(async move {
        let mut open = Open::default();
        loop {
            // An error of accept concerns one connection; the next one may work.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let site = Arc::clone(&site);
            let connection = tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let site = Arc::clone(&site);
                    async move { Ok::<_, Infallible>(site.answer(&request).await) }
                });
                // The browser may close the connection at any time.
                let _ = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADERS_WITHIN)
                    .max_buf_size(HEADERS_BYTES_MAX)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
            open.add(connection.abort_handle());
        }
    });
    Ok(Server {
        address: format!("http://127.0.0.1:{port}/"),
        task,
    })
}

/// The open connections, oldest first.
#[derive(Default)]
struct Open(VecDeque<AbortHandle>);

impl Open {
    fn add(&mut self, connection: AbortHandle) {
        self.0.retain(|c| !c.is_finished());
        self.0.push_back(connection);
        if self.0.len() > CONNECTIONS_MAX
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
    }
}

/// What the server shows.
struct Site {
    port: u16,
    create: Arc<CreatePage>,
    feed: Feed,
    /// The page, and the number of changes before it was created.
    page: Arc<Mutex<Option<(u64, Bytes)>>>,
}

impl Site {
    async fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        let header = |name| request.headers().get(name).and_then(|h| h.to_str().ok());
        // A page of another site must not read this one through a host name of its own.
        let ours = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        if !header(HOST).is_some_and(|host| ours.iter().any(|name| name == host)) {
            return text(StatusCode::FORBIDDEN, "unexpected host name");
        }
        // Every browser states the origin of a request. `none`: the user entered the address.
        let origin = header(HeaderName::from_static("sec-fetch-site"));
        if !matches!(origin, None | Some("none" | "same-origin")) {
            let words = "requests from other sites are refused: enter the address in the browser";
            return text(StatusCode::FORBIDDEN, words);
        }
        if request.method() != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported");
        }
        match request.uri().path() {
            "/" => self.page().await,
            "/events" => events(&self.feed),
            _ => text(StatusCode::NOT_FOUND, "not found: expected / or /events"),
        }
    }

    /// Serves the page. It is created at most once after each change, and for one request at a time.
    async fn page(&self) -> Response<Body> {
        const HTML: &str = "text/html; charset=utf-8";
        let mut kept = Arc::clone(&self.page).lock_owned().await;
        let changes = self.feed.changes();
        if let Some((of, page)) = kept.as_ref()
            && *of == changes
        {
            return whole(StatusCode::OK, HTML, page.clone());
        }
        let create = Arc::clone(&self.create);
        // The lock is held until the page is created, even if this connection is closed before.
        let created = tokio::task::spawn_blocking(move || {
            let page = Bytes::from(create()?);
            *kept = Some((changes, page.clone()));
            Ok(page)
        });
        match created.await {
            Ok(Ok(page)) => whole(StatusCode::OK, HTML, page),
            Ok(Err::<_, String>(error)) => text(StatusCode::INTERNAL_SERVER_ERROR, &error),
            Err(_) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "failed to create the page",
            ),
        }
    }
}

/// Serves the kept lines and those to come as server-sent events.
fn events(feed: &Feed) -> Response<Body> {
    let (kept, receiver) = feed.watch();
    let lines = stream::unfold(
        (kept.into_iter(), receiver),
        |(mut kept, mut coming)| async {
            let line = match kept.next() {
                Some(line) => line,
                None => next(&mut coming).await?,
            };
            let event = Frame::data(Bytes::from(format!("data: {line}\n\n")));
            Some((Ok::<_, Infallible>(event), (kept, coming)))
        },
    );
    response(
        StatusCode::OK,
        "text/event-stream",
        StreamBody::new(lines).boxed_unsync(),
    )
}

/// Returns the next line; missed lines are skipped. `None` when the run has ended.
async fn next(coming: &mut tokio::sync::broadcast::Receiver<Arc<str>>) -> Option<Arc<str>> {
    loop {
        match coming.recv().await {
            Ok(line) => return Some(line),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

fn text(status: StatusCode, words: &str) -> Response<Body> {
    let words = Bytes::from(format!("{words}\n"));
    whole(status, "text/plain; charset=utf-8", words)
}

fn whole(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Body> {
    response(status, kind, Full::new(body).boxed_unsync())
}

fn response(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        kind.parse()
            .unwrap_or(hyper::header::HeaderValue::from_static("text/plain")),
    );
    headers.insert(
        CACHE_CONTROL,
        hyper::header::HeaderValue::from_static("no-store"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    fn serve_run(dir: &Path, feed: Feed) -> Server {
        let dir = dir.to_owned();
        let create = move || tare_report::render_live(&dir).map_err(|e| e.to_string());
        serve(listen(0).unwrap(), feed, create).unwrap()
    }

    async fn ask(server: &Server, path: &str, host: Option<&str>) -> TcpStream {
        let address = server
            .address
            .trim_start_matches("http://")
            .trim_end_matches('/');
        let mut stream = TcpStream::connect(address).await.unwrap();
        let host = host.unwrap_or(address);
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn whole_answer(mut stream: TcpStream) -> String {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Reads until `text` has arrived.
    async fn read_to(stream: &mut TcpStream, text: &str) -> String {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let mut more = [0; 1024];
            let n = stream.read(&mut more).await.unwrap();
            assert!(n > 0, "the stream ended before {text:?}");
            seen.extend_from_slice(&more[..n]);
        }
        String::from_utf8(seen).unwrap()
    }

    #[tokio::test]
    async fn other_host_names_and_paths_are_refused_and_a_missing_run_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let server = serve_run(dir.path(), Feed::new());
        let status = |answer: String| answer.lines().next().unwrap().to_owned();
        let evil = whole_answer(ask(&server, "/", Some("evil.example")).await).await;
        assert!(status(evil).contains("403"));
        let lost = whole_answer(ask(&server, "/lost", None).await).await;
        assert!(status(lost).contains("404"));
        let missing = whole_answer(ask(&server, "/", None).await).await;
        assert!(
            missing.contains("500") && missing.contains("no run.json found"),
            "{missing}"
        );
    }

    /// Sends a request with these header lines; returns the status line.
    async fn status(server: &Server, headers: &str) -> String {
        let address = server.address.trim_start_matches("http://");
        let host = address.trim_end_matches('/');
        let mut stream = TcpStream::connect(host).await.unwrap();
        let request = format!("GET /lost HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n");
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn requests_from_other_sites_and_large_headers_are_refused() {
        let server = serve_run(Path::new(""), Feed::new());
        for own in ["none", "same-origin"] {
            let line = status(&server, &format!("sec-fetch-site: {own}\r\n")).await;
            assert!(line.contains("404"), "{own}: {line}");
        }
        for other in ["cross-site", "same-site", "x"] {
            let line = status(&server, &format!("sec-fetch-site: {other}\r\n")).await;
            assert!(line.contains("403"), "{other}: {line}");
        }
        let large = format!("x: {}\r\n", "x".repeat(HEADERS_BYTES_MAX));
        let line = status(&server, &large).await;
        assert!(line.is_empty() || line.contains("431"), "{line}");
    }

    #[tokio::test]
    async fn connections_without_complete_headers_are_closed_and_do_not_shut_out_others() {
        let server = serve_run(Path::new(""), Feed::new());
        let address = server.address.trim_start_matches("http://");
        let address = address.trim_end_matches('/');
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
            silent.push(stream);
        }
        let answered = whole_answer(ask(&server, "/lost", None).await).await;
        assert!(answered.contains("404"), "{answered}");
        for mut stream in silent {
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
        }
    }

    #[tokio::test]
    async fn clients_that_wait_for_events_or_do_not_read_do_not_shut_out_others() {
        // Larger than the buffers of a connection: an answer that nobody reads does not end.
        let page = "x".repeat(32 << 20);
        let feed = Feed::new();
        let server = serve(listen(0).unwrap(), feed.clone(), move || Ok(page.clone())).unwrap();
        feed.over("report.html");
        for (path, begin) in [("/events", "report.html"), ("/", "200 OK")] {
            let mut idle = Vec::new();
            for _ in 0..2 * CONNECTIONS_MAX {
                idle.push(ask(&server, path, None).await);
            }
            let answered = whole_answer(ask(&server, "/lost", None).await).await;
            assert!(answered.contains("404"), "{path}: {answered}");
            // The first one was closed, the last one is served.
            let mut answer = Vec::new();
            let _ = idle[0].read_to_end(&mut answer).await;
            read_to(&mut idle.pop().unwrap(), begin).await;
        }
    }

    #[tokio::test]
    async fn a_page_that_is_slow_to_create_is_created_once_for_many_connections() {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let create = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_secs(1));
            Ok("the page".to_owned())
        };
        let server = serve(listen(0).unwrap(), Feed::new(), create).unwrap();
        let mut asked = Vec::new();
        for _ in 0..100 {
            asked.push(ask(&server, "/", None).await);
        }
        let answer = whole_answer(asked.pop().unwrap()).await;
        assert!(answer.ends_with("the page"), "{answer}");
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn the_page_is_created_once_until_the_next_trial_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let plan = "name: short\nmeshes: [bare]\nload: {rate: 100, duration: 1s}\nrepeats: 1\n";
        let made = dir.path().to_owned();
        let run = std::thread::spawn(move || tare_fake::run_text(&made, plan, &[]));
        run.join().unwrap();
        let feed = Feed::new();
        let server = serve_run(dir.path(), feed.clone());
        let page = async || {
            let answer = whole_answer(ask(&server, "/", None).await).await;
            answer.split_once("\r\n\r\n").unwrap().1.to_owned()
        };
        let first = page().await;
        assert!(first.contains("<!doctype html>"), "{first:.200}");
        // Without its run, the page cannot be created again.
        std::fs::remove_file(dir.path().join("run.json")).unwrap();
        assert!(page().await == first);
        feed.page_changed();
        assert!(page().await.contains("no run.json found"));
    }

    #[tokio::test]
    async fn a_browser_receives_the_trial_from_its_start_and_later_lines() {
        let feed = Feed::new();
        feed.update(&tare_run::experiment::Update::Stage(
            tare_run::experiment::Stage::Measure,
        ));
        let server = serve_run(Path::new(""), feed.clone());
        let mut stream = ask(&server, "/events", None).await;
        let head = read_to(&mut stream, "\"measuring\"").await;
        assert!(head.contains("text/event-stream"), "{head}");
        assert!(feed.watched());
        feed.update(&tare_run::experiment::Update::DataPlaneCores(0.25));
        read_to(&mut stream, "data: {\"cores\":0.25,\"type\":\"cores\"}\n\n").await;
        feed.over("runs/x/report.html");
        read_to(&mut stream, "runs/x/report.html").await;
        let (kept, _) = feed.watch();
        assert_eq!(kept.len(), 1, "only the end of the run is kept: {kept:?}");
    }
}
