//! The lines of a streamed response: a log or a watch.

use http_body_util::BodyExt as _;
use kube::client::Body;

use tare_run::lines::LineBuffer;

/// Reads a body line by line.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Body,
    buffer: LineBuffer,
}

impl Lines {
    pub(crate) fn new(body: Body) -> Self {
        Self {
            body,
            buffer: LineBuffer::default(),
        }
    }

    /// Returns the next complete line without its newline, or `None` at the end of the stream; an
    /// incomplete last line is dropped. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.buffer.next_line() {
                return Some(line);
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.buffer.push(&data);
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
