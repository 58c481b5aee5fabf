//! The echo server: listeners, threads, shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::thread::JoinHandle;
use std::time::Duration;

use tare_plan::limits::THREADS_MAX;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::connection;
use super::knobs::Knobs;
use super::metrics::Metrics;
use super::state::{Shared, WorkerState};
use super::tls::{self, Issued, TlsOptions};
use crate::error::WorkloadError;
use crate::queue::Queue;
use crate::worker;

/// How long requests in flight may take after the server was stopped.
const GRACE: Duration = Duration::from_secs(1);

/// The options of an echo server.
#[derive(Debug, Clone)]
pub struct EchoOptions {
    /// `address:port` for HTTP/1.1, HTTP/2 with prior knowledge and gRPC; port 0: any free port.
    pub listen: String,
    /// `address:port` for the same protocols with TLS.
    pub tls: Option<(String, TlsOptions)>,
    /// Threads, each with an event loop; connections are assigned to them in turn.
    pub threads: usize,
    /// The knobs of requests that set none.
    pub defaults: Knobs,
    /// Maximum number of concurrent requests; 0: unlimited. The capacity is this number divided
    /// by the delay.
    pub concurrency: u32,
    /// Seed of the random choices.
    pub seed: u64,
}

impl EchoOptions {
    /// Options for one thread, without TLS and default knobs.
    #[must_use]
    pub fn at(listen: &str) -> Self {
        Self {
            listen: listen.to_owned(),
            tls: None,
            threads: 1,
            defaults: Knobs::default(),
            concurrency: 0,
            seed: 1,
        }
    }
}

/// A running echo server. Dropping it stops it without waiting.
pub struct EchoServer {
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    issued: Option<Issued>,
    shared: Arc<Shared>,
    stop: watch::Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

/// An accepted connection for one of the threads, and whether it uses TLS.
type Accepted = (std::net::TcpStream, bool);

impl EchoServer {
    /// Starts to listen and to serve on its own threads.
    ///
    /// # Errors
    /// An address that is not available, or unusable certificates.
    pub fn start(options: &EchoOptions) -> Result<Self, WorkloadError> {
        let (listener, address) = bind(&options.listen)?;
        let mut listeners = vec![(listener, false)];
        let (mut tls_address, mut acceptor, mut issued) = (None, None, None);
        if let Some((listen, tls)) = &options.tls {
            let (listener, address) = bind(listen)?;
            listeners.push((listener, true));
            let (tls, files) = tls::acceptor(tls)?;
            (tls_address, acceptor, issued) = (Some(address), Some(tls), files);
        }
        let (stop, stopped) = watch::channel(());
        let shared = Arc::new(Shared {
            defaults: options.defaults.clone(),
            queue: Queue::new(options.concurrency),
            metrics: Metrics::default(),
            seed: options.seed,
        });
        let mut server = Self {
            address,
            tls_address,
            issued,
            shared: Arc::clone(&shared),
            stop,
            threads: Vec::new(),
        };
        let mut workers = Vec::new();
        for number in 0..options.threads.clamp(1, THREADS_MAX as usize) {
            let (sender, accepted) = mpsc::unbounded_channel();
            workers.push(sender);
            let (shared, acceptor, stopped) = (shared.clone(), acceptor.clone(), stopped.clone());
            server.spawn(format!("tare-echo-{number}"), async move |ready| {
                let state = match WorkerState::new(shared, number as u64).await {
                    Ok(state) => state,
                    Err(e) => return drop(ready.send(Err(e))),
                };
                let _ = ready.send(Ok(()));
                serve(accepted, &state, acceptor, stopped).await;
            })?;
        }
        server.spawn("tare-accept".to_owned(), async move |ready| {
            let listeners = listeners.into_iter().map(|(listener, secure)| {
                Ok::<_, io::Error>((TcpListener::from_std(listener)?, secure))
            });
            match listeners.collect::<io::Result<Vec<_>>>() {
                Ok(listeners) => {
                    let _ = ready.send(Ok(()));
                    accept(listeners, &workers, stopped).await;
                }
                Err(e) => drop(ready.send(Err(e))),
            }
        })?;
        Ok(server)
    }

    /// Runs `body` on a thread with its own runtime; returns when `body` has reported that it is
    /// ready.
    fn spawn<F>(&mut self, name: String, body: F) -> Result<(), WorkloadError>
    where
        F: AsyncFnOnce(blocking::Sender<io::Result<()>>) + Send + 'static,
    {
        let (ready, is_ready) = blocking::channel();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            match runtime {
                Ok(runtime) => runtime.block_on(body(ready)),
                Err(e) => drop(ready.send(Err(e))),
            }
        });
        self.threads.push(thread.map_err(WorkloadError::Start)?);
        is_ready
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))
            .map_err(WorkloadError::Start)
    }

    /// The address without TLS.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address with TLS.
    #[must_use]
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// The generated certificates.
    #[must_use]
    pub fn issued(&self) -> Option<&Issued> {
        self.issued.as_ref()
    }

    /// The number of requests and of connections so far.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let metrics = &self.shared.metrics;
        (metrics.requests(), metrics.connections())
    }

    /// Stops accepting, waits up to a second for requests in flight, and returns the number of
    /// requests and of connections.
    pub fn stop(mut self) -> (u64, u64) {
        let _ = self.stop.send(());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.counts()
    }
}

/// Serves until SIGTERM, SIGINT or SIGHUP. Calls `started` when the server listens; returns the number
/// of requests and of connections.
///
/// # Errors
/// Errors of [`EchoServer::start`].
pub fn run_echo(
    options: &EchoOptions,
    started: impl FnOnce(&EchoServer),
) -> Result<(u64, u64), WorkloadError> {
    worker::block_on(async |shutdown| {
        let server = EchoServer::start(options)?;
        started(&server);
        shutdown.await;
        Ok(server.stop())
    })
}

/// A non-blocking listener and its address.
fn bind(listen: &str) -> Result<(std::net::TcpListener, SocketAddr), WorkloadError> {
    let refused = |error| WorkloadError::Listen {
        address: listen.to_owned(),
        error,
    };
    let listener = std::net::TcpListener::bind(listen).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// Assigns new connections to the threads in turn until `stop` changes.
async fn accept(
    listeners: Vec<(TcpListener, bool)>,
    workers: &[mpsc::UnboundedSender<Accepted>],
    mut stop: watch::Receiver<()>,
) {
    let mut turn = 0;
    loop {
        let next = listeners
            .iter()
            .map(|(l, secure)| Box::pin(async move { (l.accept().await, *secure) }));
        let (accepted, secure) = tokio::select! {
            (accepted, ..) = futures_util::future::select_all(next) => accepted,
            _ = stop.changed() => return,
        };
        match accepted.and_then(|(stream, _)| stream.into_std()) {
            Ok(stream) => {
                // Fails only for a thread that has ended; the others continue.
                let _ = workers[turn % workers.len()].send((stream, secure));
                turn += 1;
            }
            // Out of file descriptors, or the peer has disconnected: continue with the next.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Serves the connections of one thread until `stop` changes, then waits for their end.
async fn serve(
    mut accepted: mpsc::UnboundedReceiver<Accepted>,
    state: &Arc<WorkerState>,
    acceptor: Option<TlsAcceptor>,
    mut stop: watch::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        let next = tokio::select! {
            next = accepted.recv() => next,
            Some(_) = connections.join_next() => continue,
            _ = stop.changed() => break,
        };
        let Some((stream, secure)) = next else {
            break;
        };
        let Ok(stream) = TcpStream::from_std(stream) else {
            continue;
        };
        let tls = acceptor.clone().filter(|_| secure);
        let (state, stop) = (Arc::clone(state), stop.clone());
        connections.spawn(connection::serve(stream, tls, state, stop));
    }
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, all).await;
}
