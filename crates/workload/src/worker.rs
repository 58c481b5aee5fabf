//! The worker process: one server, records on standard output, an end on request.

use std::future::Future;
use std::io::Write;
use std::pin::Pin;

use serde::Serialize;
use tare_model::record::{Hello, StreamChecksum, WorkloadRecord};
use tare_model::worker::WorkloadSpec;
use tokio::signal::unix::{SignalKind, signal};

use crate::server::{Server, WorkloadError};

/// Serves what `spec` says until SIGTERM or SIGINT and writes
/// [`WorkloadRecord`]s to `out`: hello, ready, events, final.
///
/// # Errors
/// Whatever keeps the server from starting; a reader of the records who went away.
pub fn run_worker(spec: &WorkloadSpec, out: impl Write) -> Result<(), WorkloadError> {
    block_on(async |asked_to_end| serve(spec, Records::new(out), asked_to_end).await)
}

/// Runs `main` on a runtime of this thread; its argument ends at SIGTERM or SIGINT.
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
        let asked_to_end = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        main(Box::pin(asked_to_end)).await
    })
}

async fn serve(
    spec: &WorkloadSpec,
    mut records: Records<impl Write>,
    mut asked_to_end: Pin<Box<dyn Future<Output = ()>>>,
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
                () = &mut asked_to_end => break,
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

/// One JSON object a line, flushed, with the checksum over all of them.
struct Records<W> {
    out: W,
    checksum: StreamChecksum,
}

impl<W: Write> Records<W> {
    fn new(out: W) -> Self {
        let checksum = StreamChecksum::default();
        Self { out, checksum }
    }

    fn write(&mut self, record: &impl Serialize) -> Result<(), WorkloadError> {
        let line = serde_json::to_string(record).map_err(|e| WorkloadError::Records(e.into()))?;
        self.checksum.line(&line);
        writeln!(self.out, "{line}")
            .and_then(|()| self.out.flush())
            .map_err(WorkloadError::Records)
    }
}
