//! Calls to real datastores: a pool of connections for each, as services have them.

mod postgresql;
mod valkey;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::body::Bytes;
use tare_plan::graph::{Operation, STORE_ECHO, Service, Store};
use tokio::sync::Semaphore;

use super::failure::Failure;
use super::upstream::{Link, connect, in_time};

/// Most connections of a service to a datastore. Further calls wait, first come, first served.
const CONNECTIONS_MAX: usize = 10;
/// Most values that a write endpoint stores; it then replaces the oldest.
const VALUES_MAX: u32 = 1000;
/// Most bytes that the values of a write endpoint take, if one value is not larger.
const VALUES_BYTES_MAX: u32 = 64 << 20;

/// Why a call failed.
#[derive(Debug, PartialEq, Eq)]
enum StoreError {
    /// The connection could not be opened, or was lost.
    Connection(String),
    /// The datastore answered with an error.
    Answer(String),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error.to_string())
    }
}

/// A real datastore that is called.
pub(crate) struct StoreUpstream {
    pub(super) link: Link,
    store: Store,
    address: String,
    operations: BTreeMap<String, Operation>,
    turns: Semaphore,
    idle: Mutex<Vec<Connection>>,
    writes: AtomicU32,
}

enum Connection {
    Valkey(valkey::Connection),
    Postgresql(postgresql::Connection),
}

impl StoreUpstream {
    /// An upstream that connects at the first call.
    pub(super) fn new(link: Link, store: Store, service: &Service, address: String) -> Self {
        let endpoints = service.endpoints.iter();
        Self {
            link,
            store,
            address,
            operations: endpoints.map(|e| (e.path.clone(), e.operation)).collect(),
            turns: Semaphore::new(CONNECTIONS_MAX),
            idle: Mutex::default(),
            writes: AtomicU32::new(0),
        }
    }

    /// Does the operation of an endpoint. `value` is what it stores, if it writes.
    pub(crate) async fn call(&self, endpoint: &str, value: &Bytes) -> Result<(), Failure> {
        let started = self.link.window.start();
        match self.operations.get(endpoint) {
            Some(Operation::Write) => {
                let n = self.writes.fetch_add(1, Ordering::Relaxed) % values(value);
                self.exchange(&format!("{endpoint}#{n}"), Some(value)).await
            }
            _ => self.exchange(endpoint, None).await,
        }?;
        self.link.timed(endpoint, started);
        Ok(())
    }

    /// The value that names the datastore.
    pub(crate) async fn echo(&self) -> Result<Bytes, Failure> {
        self.exchange(STORE_ECHO, None).await
    }

    /// Stores a value, or fetches the one of `key`.
    async fn exchange(&self, key: &str, value: Option<&Bytes>) -> Result<Bytes, Failure> {
        let result = self.on_a_connection(key, value).await;
        if let Err(StoreError::Connection(why)) = result {
            return Err(self.link.unreachable(why));
        }
        self.link.mark_reachable();
        result.map_err(|found| Failure::Answered {
            service: self.link.service.clone(),
            status: match found {
                StoreError::Answer(found) | StoreError::Connection(found) => found,
            },
        })
    }

    async fn on_a_connection(&self, key: &str, value: Option<&Bytes>) -> Result<Bytes, StoreError> {
        let turn = self.turns.acquire().await;
        let _turn = turn.map_err(|e| StoreError::Connection(e.to_string()))?;
        let mut connection = match self.open_one() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let result = match &mut connection {
            Connection::Valkey(valkey) => valkey.exchange(key, value).await,
            Connection::Postgresql(postgresql) => postgresql.exchange(key, value).await,
        };
        // A call that is given up drops its connection, whose answer would belong to the next call.
        if !matches!(result, Err(StoreError::Connection(_))) {
            self.idle().push(connection);
        }
        result
    }

    /// The connection that was used last, if it is still open.
    fn open_one(&self) -> Option<Connection> {
        let mut idle = self.idle();
        while let Some(connection) = idle.pop() {
            let is_closed = match &connection {
                Connection::Valkey(valkey) => valkey.is_closed(),
                Connection::Postgresql(postgresql) => postgresql.is_closed(),
            };
            if !is_closed {
                return Some(connection);
            }
        }
        None
    }

    async fn connect(&self) -> Result<Connection, StoreError> {
        in_time(async {
            let stream = connect(&self.address).await?;
            Ok(match self.store {
                Store::Valkey => Connection::Valkey(valkey::Connection::new(stream)),
                Store::Postgresql => {
                    Connection::Postgresql(postgresql::Connection::new(stream).await?)
                }
            })
        })
        .await
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of values that are stored, so that writes do not wait for each other and a store does not grow.
fn values(value: &Bytes) -> u32 {
    let bytes = u32::try_from(value.len()).unwrap_or(u32::MAX).max(1);
    (VALUES_BYTES_MAX / bytes).clamp(1, VALUES_MAX)
}
