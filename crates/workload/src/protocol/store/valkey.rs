//! The two commands of the Valkey protocol (RESP2, as Redis has it) that calls need.
//!
//! Source: <https://valkey.io/topics/protocol/>.

use std::io;

use hyper::body::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::StoreError;
use crate::protocol::MESSAGE_MAX;

/// Longest line of a reply.
const LINE_MAX: u64 = 4096;

pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    /// The last request. Its memory is used again.
    request: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream: BufReader::new(stream),
            request: Vec::new(),
        }
    }

    /// Whether the peer has closed the connection, or has sent something without a request.
    pub(super) fn is_closed(&self) -> bool {
        let read = self.stream.get_ref().try_read(&mut [0]);
        !read.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    }

    /// SET with a value, GET without one.
    pub(super) async fn exchange(
        &mut self,
        key: &str,
        value: Option<&Bytes>,
    ) -> Result<Bytes, StoreError> {
        self.request.clear();
        let command: &[&[u8]] = match value {
            Some(value) => &[b"SET", key.as_bytes(), value],
            None => &[b"GET", key.as_bytes()],
        };
        encode(command, &mut self.request);
        self.stream.get_mut().write_all(&self.request).await?;
        self.reply().await
    }

    async fn reply(&mut self) -> Result<Bytes, StoreError> {
        let mut line = String::new();
        let mut limited = (&mut self.stream).take(LINE_MAX);
        limited.read_line(&mut line).await?;
        let unexpected = || StoreError::Connection(format!("unexpected reply {line:?}"));
        let Some(text) = line.strip_suffix("\r\n") else {
            return Err(match line.as_str() {
                "" => io::Error::from(io::ErrorKind::UnexpectedEof).into(),
                _ => unexpected(),
            });
        };
        let length = match text.split_at_checked(1) {
            Some(("+", _)) => return Ok(Bytes::new()),
            Some(("-", error)) => return Err(StoreError::Answer(error.to_owned())),
            Some(("$", "-1")) => return Err(StoreError::Answer("no value".to_owned())),
            Some(("$", length)) => length.parse::<usize>().map_err(|_| unexpected())?,
            _ => return Err(unexpected()),
        };
        if length > MESSAGE_MAX {
            return Err(unexpected());
        }
        let mut value = vec![0; length + 2];
        self.stream.read_exact(&mut value).await?;
        value.truncate(length);
        Ok(value.into())
    }
}

/// Writes an array of strings.
fn encode(words: &[&[u8]], into: &mut Vec<u8>) {
    into.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        into.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        into.extend_from_slice(word);
        into.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::graph::Store;
    use tokio::net::TcpListener;

    /// What a server received, and what the call returned for its reply.
    async fn exchange(
        reply: &'static str,
        value: Option<&Bytes>,
    ) -> (String, Result<Bytes, StoreError>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let mut connection = Connection::new(stream);
        let (mut server, _) = listener.accept().await.unwrap();
        let serve = async move {
            let mut received = vec![0; 256];
            let n = server.read(&mut received).await.unwrap();
            // In parts, as from a network.
            for part in reply.as_bytes().chunks(3) {
                server.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            String::from_utf8(received[..n].to_vec()).unwrap()
        };
        let (received, result) = tokio::join!(serve, connection.exchange("/k", value));
        (received, result)
    }

    #[tokio::test]
    async fn values_are_fetched_and_stored() {
        let (received, value) = exchange("$5\r\na\r\nbc\r\n", None).await;
        assert_eq!(received, "*2\r\n$3\r\nGET\r\n$2\r\n/k\r\n");
        assert_eq!(value, Ok(Bytes::from("a\r\nbc")));
        assert_eq!(received.len() as u64, Store::Valkey.read_bytes("/k"));
        let (received, stored) = exchange("+OK\r\n", Some(&Bytes::from("xyz"))).await;
        assert_eq!(received, "*3\r\n$3\r\nSET\r\n$2\r\n/k\r\n$3\r\nxyz\r\n");
        assert_eq!(stored, Ok(Bytes::new()));
    }

    #[tokio::test]
    async fn errors_and_other_protocols_are_told_apart() {
        let answer = |text: &str| Err(StoreError::Answer(text.to_owned()));
        assert_eq!(exchange("$-1\r\n", None).await.1, answer("no value"));
        assert_eq!(exchange("-OOM full\r\n", None).await.1, answer("OOM full"));
        for reply in [
            "",
            "$5\r\nab",
            "HTTP/1.1 400 Bad Request\r\n",
            "$99999999999\r\n",
            "*1\r\n",
        ] {
            let found = exchange(reply, None).await.1;
            assert!(
                matches!(found, Err(StoreError::Connection(_))),
                "{reply:?}: {found:?}"
            );
        }
    }
}
