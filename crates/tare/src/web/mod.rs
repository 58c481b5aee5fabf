//! `tare run --web`: serves the report page of a run in progress, on loopback. The page is created
//! for each request, in another thread; the browser requests it again after each trial.

mod feed;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;

pub(crate) use feed::Feed;

type Body = UnsyncBoxBody<Bytes, Infallible>;

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

/// Serves the run in `dir`. Needs a tokio runtime.
pub(crate) fn serve(
    listener: std::net::TcpListener,
    dir: PathBuf,
    feed: Feed,
) -> std::io::Result<Server> {
    let listener = TcpListener::from_std(listener)?;
    let port = listener.local_addr()?.port();
    let task = tokio::spawn(async move {
        // An error of accept concerns one connection; the next one may work.
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            };
            let (dir, feed) = (dir.clone(), feed.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let (dir, feed) = (dir.clone(), feed.clone());
                    async move { Ok::<_, Infallible>(answer(request, port, dir, feed).await) }
                });
                // The browser may close the connection at any time.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Ok(Server {
        address: format!("http://127.0.0.1:{port}/"),
        task,
    })
}

async fn answer(request: Request<Incoming>, port: u16, dir: PathBuf, feed: Feed) -> Response<Body> {
    // A page of another site must not read this one through a host name of its own.
    let host = request.headers().get(HOST).and_then(|h| h.to_str().ok());
    let ours = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    if !host.is_some_and(|host| ours.iter().any(|name| name == host)) {
        return text(StatusCode::FORBIDDEN, "unexpected host name");
    }
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported");
    }
    match request.uri().path() {
        "/" => page(dir).await,
        "/events" => events(&feed),
        _ => text(StatusCode::NOT_FOUND, "not found: expected / or /events"),
    }
}

async fn page(dir: PathBuf) -> Response<Body> {
    let made = tokio::task::spawn_blocking(move || tare_report::render_live(&dir)).await;
    match made {
        Ok(Ok(page)) => whole(StatusCode::OK, "text/html; charset=utf-8", page),
        Ok(Err(error)) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Err(_) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "failed to create the page",
        ),
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
    whole(status, "text/plain; charset=utf-8", format!("{words}\n"))
}

fn whole(status: StatusCode, kind: &'static str, body: String) -> Response<Body> {
    response(status, kind, Full::new(Bytes::from(body)).boxed_unsync())
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

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
        let server = serve(listen(0).unwrap(), dir.path().to_owned(), Feed::new()).unwrap();
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

    #[tokio::test]
    async fn a_browser_receives_the_trial_from_its_start_and_later_lines() {
        let feed = Feed::new();
        feed.update(&tare_run::experiment::Update::Stage(
            tare_run::experiment::Stage::Measure,
        ));
        let server = serve(listen(0).unwrap(), PathBuf::new(), feed.clone()).unwrap();
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
