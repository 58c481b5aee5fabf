//! The echo server: listeners, threads, shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as blocking;
use std::thread::JoinHandle;

use tare_plan::limits::THREADS_MAX;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::connection;
use super::knobs::Knobs;
use super::metrics::Metrics;
use super::state::{Shared, WorkerState};
use super::tls::{self, Issued, TlsOptions};
use crate::error::WorkloadError;
use crate::front;
use crate::queue::Queue;
use crate::worker;

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
    threads: Threads,
}

impl EchoServer {
    /// Starts to listen and to serve on its own threads.
    ///
    /// # Errors
    /// An address that is not available, or unusable certificates.
    pub fn start(options: &EchoOptions) -> Result<Self, WorkloadError> {
        let shared = Arc::new(Shared {
            defaults: options.defaults.clone(),
            queue: Queue::new(options.concurrency),
            metrics: Metrics::default(),
            seed: options.seed,
        });
        let mut threads = Threads::default();
        let mut workers = Workers::default();
        for number in 0..options.threads.clamp(1, THREADS_MAX as usize) {
            let shared = Arc::clone(&shared);
            let worker = threads.start(format!("tare-echo-{number}"), async move |_| {
                let state = WorkerState::new(shared, number as u64).await;
                Ok((Handle::current(), state.map_err(WorkloadError::Start)?))
            })?;
            workers.all.push(worker);
        }
        let workers = Arc::new(workers);
        let mut listen = |listen: &str, tls: Option<TlsAcceptor>| {
            let (listen, workers) = (listen.to_owned(), Arc::clone(&workers));
            threads.start("tare-accept".to_owned(), async move |stop| {
                let (listener, address) = front::bind(&listen).await?;
                let serve = move |stream, stop| workers.serve(stream, tls.clone(), stop);
                tokio::spawn(front::accept(listener, stop, serve));
                Ok(address)
            })
        };
        let address = listen(&options.listen, None)?;
        let (mut tls_address, mut issued) = (None, None);
        if let Some((address, tls)) = &options.tls {
            let (acceptor, files) = tls::acceptor(tls)?;
            tls_address = Some(listen(address, Some(acceptor))?);
            issued = files;
        }
        Ok(Self {
            address,
            tls_address,
            issued,
            shared,
            threads,
        })
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
        self.threads.stop();
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

/// The threads that serve connections.
#[derive(Default)]
struct Workers {
    all: Vec<(Handle, Arc<WorkerState>)>,
    /// The next connection goes to the thread of this number, modulo their count.
    turn: AtomicUsize,
}

impl Workers {
    fn serve(&self, stream: TcpStream, tls: Option<TlsAcceptor>, stop: watch::Receiver<()>) {
        let Ok(stream) = stream.into_std() else {
            return;
        };
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let (thread, state) = &self.all[turn % self.all.len()];
        thread.spawn(connection::serve(stream, tls, Arc::clone(state), stop));
    }
}

/// Threads, each with an event loop, until they are stopped.
#[derive(Default)]
struct Threads {
    stop: watch::Sender<()>,
    all: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Runs `start` on a new thread, and returns its result. The thread then runs the tasks that it is given
    /// until the connections of a stopped server have ended.
    fn start<T: Send + 'static>(
        &mut self,
        name: String,
        start: impl AsyncFnOnce(watch::Receiver<()>) -> Result<T, WorkloadError> + Send + 'static,
    ) -> Result<T, WorkloadError> {
        let (stop, mut stopped) = (self.stop.clone(), self.stop.subscribe());
        let (result, started) = blocking::channel();
        let run = move || match worker::runtime() {
            Ok(runtime) => runtime.block_on(async {
                let _ = result.send(start(stopped.clone()).await);
                let _ = stopped.changed().await;
                drop(stopped);
                front::ended(&stop).await;
            }),
            Err(e) => drop(result.send(Err(WorkloadError::Start(e)))),
        };
        let thread = std::thread::Builder::new().name(name).spawn(run);
        self.all.push(thread.map_err(WorkloadError::Start)?);
        let early = |_| WorkloadError::Start(io::Error::other("a thread ended early"));
        started.recv().map_err(early)?
    }

    /// Stops, and waits for the threads.
    fn stop(&mut self) {
        let _ = self.stop.send(());
        for thread in self.all.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.stop.send(());
    }
}
