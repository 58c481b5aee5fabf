//! The lines of an answer that goes on: a log, or changes that are watched for.

use http_body_util::BodyExt as _;
use kube::client::Body;

/// A body, line by line.
#[derive(Debug)]
pub(super) struct Lines {
    body: Body,
    buffer: Vec<u8>,
    /// What of the buffer has been read.
    from: usize,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            buffer: Vec::new(),
            from: 0,
        }
    }

    /// The next whole line, without its end; `None` when the stream has ended or was cut.
    /// Nothing is lost when the wait for it is given up.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            let unread = &self.buffer[self.from..];
            if let Some(end) = unread.iter().position(|&b| b == b'\n') {
                let line = String::from_utf8_lossy(&unread[..end]).into_owned();
                self.from += end + 1;
                return Some(line);
            }
            self.buffer.drain(..self.from);
            self.from = 0;
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
    async fn lines_are_whole_and_what_was_cut_is_none() {
        let mut lines = Lines::new(Body::from(b"a\n\nbc\ncut".to_vec()));
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            all.push(line);
        }
        assert_eq!(all, ["a", "", "bc"]);
    }
}
