//! Splits streams of bytes into lines. The length of a line is limited, because a stream from another
//! process may never contain a newline.

use std::io;

use tare_plan::limits::LINE_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

/// Collects bytes and returns them line by line.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Length of the part of `bytes` that is already returned.
    read: usize,
    /// Length of the part in which no newline is left.
    searched: usize,
}

impl LineBuffer {
    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.searched -= self.read;
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete line without its newline. A line above [`LINE_BYTES_MAX`] is
    /// returned in pieces, whose first is one byte longer than a record can be.
    pub fn next_line(&mut self) -> Option<String> {
        let rest = &self.bytes[self.searched..];
        let newline = rest.iter().position(|&b| b == b'\n');
        let end = newline.map_or(self.bytes.len(), |at| self.searched + at);
        let (end, next) = match newline {
            _ if end - self.read > LINE_BYTES_MAX => {
                let end = self.read + LINE_BYTES_MAX + 1;
                (end, end)
            }
            Some(_) => (end, end + 1),
            None => {
                self.searched = end;
                return None;
            }
        };
        let line = String::from_utf8_lossy(&self.bytes[self.read..end]).into_owned();
        (self.read, self.searched) = (next, next);
        Some(line)
    }

    /// Returns what follows the last newline, if anything.
    fn rest(&mut self) -> Option<String> {
        let rest = String::from_utf8_lossy(&self.bytes[self.read..]).into_owned();
        *self = Self::default();
        (!rest.is_empty()).then_some(rest)
    }
}

/// Reads the output of a process line by line.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: LineBuffer,
    chunk: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The lines of a stream.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: LineBuffer::default(),
            chunk: vec![0; READ_BYTES],
        }
    }

    /// Returns the next line, or `None` at the end. Safe to cancel.
    pub async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(line) = self.buffer.next_line() {
                return Ok(Some(line));
            }
            match self.reader.read(&mut self.chunk).await? {
                0 => return Ok(self.buffer.rest()),
                n => self.buffer.push(&self.chunk[..n]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(bytes);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        found
    }

    #[tokio::test]
    async fn every_line_is_returned_also_the_last_one_without_a_newline() {
        assert_eq!(all(b"a\n\nbc\ncut").await, ["a", "", "bc", "cut"]);
        assert!(all(b"").await.is_empty());
    }

    #[test]
    fn any_split_of_the_bytes_gives_the_same_lines() {
        for size in 1..6 {
            let mut buffer = LineBuffer::default();
            let mut found = Vec::new();
            for part in b"ab\n\ncdef\ng\n".chunks(size) {
                buffer.push(part);
                found.extend(std::iter::from_fn(|| buffer.next_line()));
            }
            assert_eq!(found, ["ab", "", "cdef", "g"], "{size}");
        }
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_cut_at_the_limit() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'));
        for _ in 0..2 {
            let line = lines.next().await.unwrap().unwrap();
            assert_eq!(line.len(), LINE_BYTES_MAX + 1);
        }
        let held = lines.buffer.bytes.len();
        assert!(held <= LINE_BYTES_MAX + 1 + READ_BYTES, "{held}");
    }
}
