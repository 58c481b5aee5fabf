//! The lines of a streamed response: a log or a watch.

use http_body_util::BodyExt as _;
use kube::client::Body;

/// Reads a body line by line.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Body,
    buffer: Vec<u8>,
    /// Length of the part of `buffer` that is already returned.
    read: usize,
}

impl Lines {
    pub(crate) fn new(body: Body) -> Self {
        Self {
            body,
            buffer: Vec::new(),
            read: 0,
        }
    }

    /// Returns the next complete line without its newline, or `None` at the end of the stream; an
    /// incomplete last line is dropped. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let unread = &self.buffer[self.read..];
            if let Some(end) = unread.iter().position(|&b| b == b'\n') {
                let line = String::from_utf8_lossy(&unread[..end]).into_owned();
                self.read += end + 1;
                return Some(line);
            }
            self.buffer.drain(..self.read);
            self.read = 0;
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_incomplete_last_line_is_dropped() {
        let mut lines = Lines::new(Body::from(b"a\n\nbc\ncut".to_vec()));
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            all.push(line);
        }
        assert_eq!(all, ["a", "", "bc"]);
    }
}
