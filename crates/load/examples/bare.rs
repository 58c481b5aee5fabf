//! A minimal client: waits for many sockets, reads those that are ready and writes again,
//! without parsing what it reads. `make bench` compares the other clients with this one: the
//! difference is the cost of their own work.
//!
//! ```text
//! cargo run --release -p tare-load --example bare -- 127.0.0.1:8080 50 1
//! ```
//!
//! Takes an address, connections and seconds. Prints the number of responses as JSON; each read
//! counts as one.
#![allow(clippy::print_stdout, missing_docs, reason = "a program")]

use std::io::{Error, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::epoll;

const BATCH: usize = 128;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, connections, seconds] = &args[..] else {
        return Err(Error::other("expected ADDRESS CONNECTIONS SECONDS"));
    };
    let connections: u64 = connections.parse().map_err(Error::other)?;
    let seconds = seconds.parse().map_err(Error::other)?;
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut streams = Vec::new();
    for id in 0..connections {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &stream, epoll::EventData::new_u64(id), flags)?;
        stream.write_all(&request)?;
        streams.push(stream);
    }
    let nothing = epoll::Event {
        flags: epoll::EventFlags::empty(),
        data: epoll::EventData::new_u64(0),
    };
    let mut events = [nothing; BATCH];
    let mut buffer = vec![0; 64 * 1024];
    let (mut ok, end) = (0_u64, Instant::now() + Duration::from_secs(seconds));
    while Instant::now() < end {
        let count = epoll::wait(&epoll, &mut events[..], None)?;
        for event in &events[..count] {
            if streams[event.data.u64() as usize].read(&mut buffer)? == 0 {
                return Err(Error::other("the server closed a connection"));
            }
            ok += 1;
        }
        for event in &events[..count] {
            streams[event.data.u64() as usize].write_all(&request)?;
        }
    }
    println!("{{\"counts\": {{\"ok\": {ok}}}}}");
    Ok(())
}
