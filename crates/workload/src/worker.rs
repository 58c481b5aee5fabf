//! The worker process: one server that writes records until it receives a signal.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;

use serde::Serialize;
use tare_model::record::{Hello, StreamChecksum, WorkloadRecord};
use tare_model::worker::WorkloadSpec;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::WorkloadError;
use crate::server::Server;

/// Serves the node of `spec` until SIGTERM or SIGINT, and writes [`WorkloadRecord`]s to `out`:
/// hello, ready, events, final.
///
/// # Errors
/// Errors of [`Server::start`], and of writing to `out`.
pub fn run_worker(spec: &WorkloadSpec, out: impl Write) -> Result<(), WorkloadError> {
    let checksum = StreamChecksum::default();
    block_on(async |shutdown| serve(spec, Records { out, checksum }, shutdown).await)
}

/// Runs `main` on a runtime of this thread. Its argument completes at SIGTERM or SIGINT.
pub(crate) fn block_on<T>(
    main: impl AsyncFnOnce(Pin<Box<dyn Future<Output = ()>>>) -> Result<T, WorkloadError>,
) -> Result<T, WorkloadError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WorkloadError::Start)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(WorkloadError::Start)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(WorkloadError::Start)?;
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        main(Box::pin(shutdown)).await
    })
}

async fn serve(
    spec: &WorkloadSpec,
    mut records: Records<impl Write>,
    mut shutdown: Pin<Box<dyn Future<Output = ()>>>,
) -> Result<(), WorkloadError> {
    records.write(&WorkloadRecord::Hello(Hello {
        schema_version: tare_model::SCHEMA_VERSION,
        role: "workload".to_owned(),
        tare_version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
    }))?;
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
                    records.write(&WorkloadRecord::Ready { listen })?;
                }
                Some(message) = events.recv() => records.write(&WorkloadRecord::Event { message })?,
            }
        }
    }
    let tally = server.stop().await;
    while let Ok(message) = events.try_recv() {
        records.write(&WorkloadRecord::Event { message })?;
    }
    let checksum = records.checksum.hex();
    records.write(&WorkloadRecord::Final {
        checksum,
        served: tally.served,
        failed: tally.failed,
    })
}

/// Writes one JSON object per line and flushes it; keeps the checksum over all lines.
struct Records<W> {
    out: W,
    checksum: StreamChecksum,
}

impl<W: Write> Records<W> {
    fn write(&mut self, record: &impl Serialize) -> Result<(), WorkloadError> {
        let line = serde_json::to_string(record).map_err(|e| WorkloadError::Records(e.into()))?;
        self.checksum.line(&line);
        writeln!(self.out, "{line}")
            .and_then(|()| self.out.flush())
            .map_err(WorkloadError::Records)
    }
}
