//! The worker process: one server that writes records until it receives a signal.

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;

use futures_util::FutureExt;
use tare_records::record::{Hello, WorkloadRecord};
use tare_records::worker::WorkloadSpec;
use tare_records::writer::RecordWriter;
use tokio::runtime::{self, Runtime};

use crate::error::WorkloadError;
use crate::server::Server;
use crate::signals;

/// Serves the node of `spec` until SIGTERM, SIGINT or SIGHUP, and writes [`WorkloadRecord`]s to `out`:
/// hello, ready, events, final.
///
/// # Errors
/// Errors of [`Server::start`], and of writing to `out`.
pub fn run_worker(spec: &WorkloadSpec, out: impl Write) -> Result<(), WorkloadError> {
    block_on(async |shutdown| serve(spec, RecordWriter::new(out), shutdown).await)
}

/// Runs `main` on a runtime of this thread. Its argument completes at SIGTERM, SIGINT or SIGHUP.
pub(crate) fn block_on<T>(
    main: impl AsyncFnOnce(Pin<Box<dyn Future<Output = ()>>>) -> Result<T, WorkloadError>,
) -> Result<T, WorkloadError> {
    let runtime = runtime().map_err(WorkloadError::Start)?;
    runtime.block_on(async {
        let shutdown = signals::stopped().map_err(WorkloadError::Start)?;
        main(Box::pin(shutdown)).await
    })
}

/// A runtime with one thread: the one that blocks on it.
pub(crate) fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

async fn serve(
    spec: &WorkloadSpec,
    mut records: RecordWriter<impl Write>,
    mut shutdown: Pin<Box<dyn Future<Output = ()>>>,
) -> Result<(), WorkloadError> {
    let mut write = |record: WorkloadRecord| records.write(&record).map_err(WorkloadError::Records);
    let hello = Hello::new("workload", std::process::id());
    write(WorkloadRecord::Hello(hello))?;
    let (server, mut events) = Server::start(spec).await?;
    {
        let mut ready = std::pin::pin!(server.ready().fuse());
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                () = &mut ready => {
                    let listen = server.address().to_string();
                    write(WorkloadRecord::Ready { listen })?;
                }
                Some(message) = events.recv() => write(WorkloadRecord::Event { message })?,
            }
        }
    }
    let tally = server.stop().await;
    while let Ok(message) = events.try_recv() {
        write(WorkloadRecord::Event { message })?;
    }
    let written = records.finish(|checksum| WorkloadRecord::Final {
        checksum,
        served: tally.served,
        failed: tally.failed,
    });
    written.map(drop).map_err(WorkloadError::Records)
}
