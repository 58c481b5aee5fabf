//! The two statements of PostgreSQL that calls need, prepared on each connection.

use hyper::body::Bytes;
use tare_plan::graph::{STORE_DATABASE, STORE_USER};
use tare_plan::innermost;
use tokio::net::TcpStream;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

use super::StoreError;

const READ: &str = "SELECT value FROM entries WHERE key = $1";
const WRITE: &str =
    "INSERT INTO entries VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value";

pub(super) struct Connection {
    client: Client,
    read: Statement,
    write: Statement,
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match error.as_db_error() {
            Some(answer) => Self::Answer(answer.message().to_owned()),
            None => Self::Connection(innermost(&error)),
        }
    }
}

impl Connection {
    /// Logs in and prepares the statements.
    pub(super) async fn new(stream: TcpStream) -> Result<Self, StoreError> {
        let mut config = Config::new();
        config.user(STORE_USER).dbname(STORE_DATABASE);
        let (client, connection) = config.connect_raw(stream, NoTls).await?;
        // Ends when the client is dropped, or the connection is lost, which the client's calls return.
        tokio::spawn(connection);
        let read = client.prepare(READ).await?;
        let write = client.prepare(WRITE).await?;
        Ok(Self {
            client,
            read,
            write,
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Stores a value, or fetches the one of `key`.
    pub(super) async fn exchange(
        &mut self,
        key: &str,
        value: Option<&Bytes>,
    ) -> Result<Bytes, StoreError> {
        if let Some(value) = value {
            let value: &[u8] = value;
            self.client.execute(&self.write, &[&key, &value]).await?;
            return Ok(Bytes::new());
        }
        let row = self.client.query_opt(&self.read, &[&key]).await?;
        let row = row.ok_or_else(|| StoreError::Answer("no value".to_owned()))?;
        Ok(Bytes::copy_from_slice(row.try_get::<_, &[u8]>(0)?))
    }
}
