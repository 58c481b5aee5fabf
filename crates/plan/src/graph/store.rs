//! Real datastores as services.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::service_graph::{Service, ServiceGraph};

/// A real datastore, which is started in place of tare's own server. Its callers use its own protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Store {
    /// Valkey, or Redis.
    Valkey,
    /// PostgreSQL.
    Postgresql,
}

/// What an endpoint of a real datastore does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Fetches a value of `response_bytes`.
    #[default]
    Read,
    /// Stores a value of the `request_bytes` of the call.
    Write,
}

impl Operation {
    pub(super) fn is_read(&self) -> bool {
        *self == Self::Read
    }
}

impl Store {
    /// Its name in a graph file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Valkey => "valkey",
            Self::Postgresql => "postgresql",
        }
    }

    /// A lower bound of the bytes that a caller sends to read the value of a key.
    #[must_use]
    pub fn read_bytes(self, key: &str) -> u64 {
        let key = key.len() as u64;
        match self {
            // `*2\r\n$3\r\nGET\r\n$N\r\nKEY\r\n`, with a length of one digit.
            Self::Valkey => key + 19,
            // The messages Bind (with the text of the key), Execute and Sync.
            Self::Postgresql => key + 32,
        }
    }
}

/// The user of a PostgreSQL store.
pub const STORE_USER: &str = "tare";
/// The database of a PostgreSQL store.
pub const STORE_DATABASE: &str = "postgres";
/// The table of a PostgreSQL store.
pub const STORE_TABLE: &str = "CREATE TABLE entries (key text PRIMARY KEY, value bytea NOT NULL)";
/// The key whose value names the store, for proofs.
pub const STORE_ECHO: &str = "/tare/echo";

impl ServiceGraph {
    /// The real datastores, with their services.
    pub fn stores(&self) -> impl Iterator<Item = (Store, &Service)> {
        self.services.iter().filter_map(|s| Some((s.store?, s)))
    }

    /// Makes every service outside the mesh a real datastore. Returns whether there is one.
    pub(crate) fn use_store(&mut self, store: Store) -> bool {
        let external = self.services.iter_mut().filter(|s| s.external);
        external.map(|s| s.store = Some(store)).count() > 0
    }
}
