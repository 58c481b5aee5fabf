//! The worker process: one server that writes records until it receives a signal.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;

use tare_records::record::{Hello, WorkloadRecord};
use tare_records::worker::WorkloadSpec;
use tare_records::writer::RecordWriter;

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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WorkloadError::Start)?;
    runtime.block_on(async {
        let shutdown = signals::stopped().map_err(WorkloadError::Start)?;
        main(Box::pin(shutdown)).await
    })
}

async fn serve(
    spec: &WorkloadSpec,
    mut records: RecordWriter<impl Write>,
    mut shutdown: Pin<Box<dyn Future<Output = ()>>>,
) -> Result<(), WorkloadError> {
    let hello = Hello::new("workload", std::process::id());
    let written = records.write(&WorkloadRecord::Hello(hello));
    written.map_err(WorkloadError::Records)?;
    let (server, mut events) = Server::start(spec).await?;
    {
        let mut ready = std::pin::pin!(server.ready());
        let mut is_ready = false;
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                () = &mut ready, if !is_ready => {
                    is_ready = true;
                    let listen = server.address().to_string();
                    let written = records.write(&WorkloadRecord::Ready { listen });
                    written.map_err(WorkloadError::Records)?;
                }
                Some(message) = events.recv() => records.write(&WorkloadRecord::Event { message }).map_err(WorkloadError::Records)?,
            }
        }
    }
    let tally = server.stop().await;
    while let Ok(message) = events.try_recv() {
        records
            .write(&WorkloadRecord::Event { message })
            .map_err(WorkloadError::Records)?;
    }
    let written = records.finish(|checksum| WorkloadRecord::Final {
        checksum,
        served: tally.served,
        failed: tally.failed,
    });
    written.map(drop).map_err(WorkloadError::Records)
}
