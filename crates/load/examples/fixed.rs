//! A server of known latency: answers every request at once or after a fixed delay, and
//! records its own latencies.
//!
//! ```text
//! cargo run --release -p tare-load --example fixed -- --listen 127.0.0.1:8080 --delay 1ms
//! ```
//!
//! The server has one thread, which spins while answers are pending. With `--pace sleep` the
//! thread sleeps until the next answer: each answer is late by the time of a wake-up, but other
//! processes can use the core. `GET /record` returns the latencies recorded since the last such
//! request as JSON: nanoseconds from the end of the read to the beginning of the write. The
//! server prints its address, and ends when standard input ends.

use std::collections::{HashMap, VecDeque};
use std::io::{Error, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};
use tare_plan::units::parse_duration;
use tare_stats::Histogram;

struct Options {
    listen: String,
    delay_ns: u64,
    body_bytes: usize,
    sleeps: bool,
}

struct Connection {
    stream: TcpStream,
    seen: Vec<u8>,
}

struct Answer {
    due_ns: u64,
    read_ns: u64,
    conn: u64,
}

struct Server {
    epoll: std::os::fd::OwnedFd,
    connections: HashMap<u64, Connection>,
    queue: VecDeque<Answer>,
    response: Vec<u8>,
    delay_ns: u64,
    sleeps: bool,
    record: Histogram,
}

fn main() -> Result<(), Error> {
    let options = options().map_err(Error::other)?;
    let listener = TcpListener::bind(&options.listen)?;
    listener.set_nonblocking(true)?;
    let mut out = std::io::stdout();
    writeln!(out, "listening on {}", listener.local_addr()?)?;
    out.flush()?;
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    });
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(
        &epoll,
        &listener,
        epoll::EventData::new_u64(u64::MAX),
        epoll::EventFlags::IN,
    )?;
    let mut server = Server {
        epoll,
        connections: HashMap::new(),
        queue: VecDeque::new(),
        response: response(&"x".repeat(options.body_bytes)),
        delay_ns: options.delay_ns,
        sleeps: options.sleeps,
        record: Histogram::new(),
    };
    server.serve(&listener)
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        listen: "127.0.0.1:0".to_owned(),
        delay_ns: 0,
        body_bytes: 128,
        sleeps: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--listen" => options.listen = value,
            "--delay" => options.delay_ns = parse_duration(&value).map_err(|e| e.to_string())?,
            "--bytes" => {
                options.body_bytes = value
                    .parse()
                    .map_err(|_| format!("invalid size {value:?}"))?;
            }
            "--pace" => {
                options.sleeps = match value.as_str() {
                    "sleep" => true,
                    "spin" => false,
                    _ => return Err(format!("found --pace {value:?}, expected sleep or spin")),
                };
            }
            _ => {
                return Err(format!(
                    "found {name:?}, expected --listen, --delay, --bytes or --pace"
                ));
            }
        }
    }
    Ok(options)
}

fn clock() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn response(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl Server {
    fn serve(&mut self, listener: &TcpListener) -> Result<(), Error> {
        let blank = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        let mut events = [blank; 128];
        loop {
            let timeout = self.timeout();
            let count = match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => 0,
                other => other?,
            };
            for event in &events[..count] {
                match event.data.u64() {
                    u64::MAX => self.accept(listener)?,
                    conn => self.read(conn),
                }
                self.answer_due();
            }
            self.answer_due();
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let left = |due_ns: u64| match self.sleeps {
            true => due_ns.saturating_sub(clock()),
            false => 0,
        };
        self.queue.front().map(|answer| {
            let ns = left(answer.due_ns);
            Timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as _,
            }
        })
    }

    fn accept(&mut self, listener: &TcpListener) -> Result<(), Error> {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let id = stream.as_raw_fd() as u64;
            let data = epoll::EventData::new_u64(id);
            epoll::add(&self.epoll, stream.as_fd(), data, epoll::EventFlags::IN)?;
            let seen = Vec::new();
            self.connections.insert(id, Connection { stream, seen });
        }
        Ok(())
    }

    fn read(&mut self, id: u64) {
        let Some(conn) = self.connections.get_mut(&id) else {
            return;
        };
        let mut buffer = [0; 4096];
        let read = match conn.stream.read(&mut buffer) {
            Ok(n) if n > 0 => n,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return,
            _ => {
                self.connections.remove(&id);
                return;
            }
        };
        let read_ns = clock();
        conn.seen.extend_from_slice(&buffer[..read]);
        while let Some(end) = conn.seen.windows(4).position(|w| w == b"\r\n\r\n") {
            let is_record = conn.seen.starts_with(b"GET /record ");
            conn.seen.drain(..end + 4);
            if is_record {
                let record = std::mem::take(&mut self.record);
                conn.stream.write_all(&response(&summary(&record))).ok();
                continue;
            }
            self.queue.push_back(Answer {
                due_ns: read_ns + self.delay_ns,
                read_ns,
                conn: id,
            });
        }
    }

    fn answer_due(&mut self) {
        while let Some(answer) = self.queue.front() {
            let now = clock();
            if answer.due_ns > now {
                return;
            }
            self.record.record(now - answer.read_ns);
            if let Some(conn) = self.connections.get_mut(&answer.conn) {
                conn.stream.write_all(&self.response).ok();
            }
            self.queue.pop_front();
        }
    }
}

fn summary(record: &Histogram) -> String {
    serde_json::to_string(&record.summary()).unwrap_or_default()
}
