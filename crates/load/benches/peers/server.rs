//! The server under load, on core 0.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::tools::{Tools, json, pinned};

/// A server of known latency; stopped when dropped.
pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    pub fn start(tools: &Tools, delay: &str) -> Self {
        let mut child = pinned(0, &tools.fixed)
            .args(["--listen", "127.0.0.1:0", "--delay", delay])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { child, address }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The latencies that the server has recorded since the last call, in nanoseconds.
    pub fn record(&self) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .write_all(b"GET /record HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = n.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        reader.take(length).read_to_string(&mut text).unwrap();
        json(&text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
