//! TLS over any other driver. For the engine a connection is open when its handshake is
//! done, and carries decrypted bytes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{CertificateError, ClientConnection, HandshakeKind};

use super::report::count;
use super::{ConnId, Driver, DriverReport, Fault, Ready, RequestTimes, TlsReport};
use crate::target::tls::{TlsPeer, explained};

/// Maximum number of bytes that rustls reads from a socket at once. After a shorter read the
/// socket is empty.
const READ_BYTES: usize = 4096;

/// A driver that encrypts the connections with TLS settings and passes the others through.
pub(crate) struct TlsDriver<D> {
    inner: D,
    /// TLS settings by connection.
    peers: Vec<Option<TlsPeer>>,
    conns: Vec<Option<Box<TlsConn>>>,
    /// Connections with decrypted bytes in rustls, which the socket does not report.
    pending: Vec<ConnId>,
    report: TlsReport,
}

struct TlsConn {
    session: ClientConnection,
    stage: Stage,
    /// Whether the engine waits until the connection is writable.
    wanted: bool,
    /// Whether rustls waits until the socket is writable.
    blocked: bool,
    /// Whether the inner driver reports when the socket is writable.
    registered: bool,
    /// Whether the connection is in `pending`.
    queued: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// TCP.
    Connecting,
    /// TLS, since this instant.
    Handshaking(u64),
    Open,
}

/// The inner driver's connection as `Read` and `Write`.
struct Wire<'a, D> {
    driver: &'a mut D,
    conn: ConnId,
}

fn io_error(fault: Fault) -> io::Error {
    io::Error::from(match fault {
        Fault::WouldBlock => ErrorKind::WouldBlock,
        Fault::Closed => ErrorKind::BrokenPipe,
        Fault::Reset => ErrorKind::ConnectionReset,
        _ => ErrorKind::Other,
    })
}

fn fault(error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::WouldBlock => Fault::WouldBlock,
        ErrorKind::BrokenPipe => Fault::Closed,
        ErrorKind::ConnectionReset => Fault::Reset,
        _ => Fault::Other,
    }
}

impl<D: Driver> Read for Wire<'_, D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.driver.recv(self.conn, buffer).map_err(io_error)
    }
}

impl<D: Driver> Write for Wire<'_, D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.driver.send(self.conn, bytes).map_err(io_error)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reason of a failure, without values that differ between connections.
fn reason(error: &rustls::Error) -> String {
    use rustls::Error as E;
    match error {
        E::InvalidCertificate(CertificateError::ExpiredContext { .. }) => {
            "invalid peer certificate: expired".to_owned()
        }
        E::InvalidCertificate(CertificateError::NotValidYetContext { .. }) => {
            "invalid peer certificate: not valid yet".to_owned()
        }
        other => explained(other.to_string()),
    }
}

impl TlsConn {
    fn update_interest<D: Driver>(&mut self, inner: &mut D, conn: ConnId) {
        let wanted = self.wanted || self.blocked;
        if wanted != self.registered {
            self.registered = wanted;
            inner.want_writable(conn, wanted);
        }
    }

    /// Writes the pending output of rustls.
    fn flush<D: Driver>(&mut self, inner: &mut D, conn: ConnId) -> Result<(), Fault> {
        let mut outcome = Ok(());
        while self.session.wants_write() && outcome.is_ok() {
            let wire = &mut Wire {
                driver: &mut *inner,
                conn,
            };
            outcome = match self.session.write_tls(wire) {
                Ok(_) => Ok(()),
                Err(error) => Err(fault(&error)),
            };
        }
        self.blocked = outcome == Err(Fault::WouldBlock);
        self.update_interest(inner, conn);
        outcome
    }

    /// Reads once from the socket into rustls; returns 0 at the end.
    fn fill<D: Driver>(&mut self, inner: &mut D, conn: ConnId) -> Result<usize, Fault> {
        let wire = &mut Wire {
            driver: inner,
            conn,
        };
        self.session.read_tls(wire).map_err(|e| fault(&e))
    }
}

impl<D: Driver> TlsDriver<D> {
    /// Uses TLS on connection `i` where `peers[i]` has settings.
    #[must_use]
    pub(crate) fn new(inner: D, peers: Vec<Option<TlsPeer>>) -> Self {
        let report = TlsReport {
            insecure: peers.iter().flatten().any(|p| p.insecure),
            ..TlsReport::default()
        };
        Self {
            inner,
            conns: peers.iter().map(|_| None).collect(),
            peers,
            pending: Vec::new(),
            report,
        }
    }

    #[inline]
    fn tls(&self, conn: ConnId) -> bool {
        matches!(self.conns.get(conn as usize), Some(Some(_)))
    }

    fn failed(&mut self, why: impl Into<String>) -> Fault {
        self.report.failed(why.into());
        Fault::Tls
    }

    /// Continues the handshake until it ends or the socket would block.
    fn handshake(&mut self, conn: ConnId) -> Result<(), Fault> {
        let Some(Some(tls)) = self.conns.get_mut(conn as usize) else {
            return Err(Fault::Other);
        };
        let in_handshake = |fault| match fault {
            Fault::Reset => "connection reset during the handshake",
            _ => "connection closed during the handshake",
        };
        loop {
            match tls.flush(&mut self.inner, conn) {
                Ok(()) => {}
                Err(Fault::WouldBlock) => return Err(Fault::WouldBlock),
                Err(fault) => return Err(self.failed(in_handshake(fault))),
            }
            if !tls.session.is_handshaking() {
                break;
            }
            match tls.fill(&mut self.inner, conn) {
                Ok(0) => return Err(self.failed(in_handshake(Fault::Closed))),
                Ok(_) => {}
                Err(Fault::WouldBlock) => return Err(Fault::WouldBlock),
                Err(fault) => return Err(self.failed(in_handshake(fault))),
            }
            if let Err(error) = tls.session.process_new_packets() {
                // Sends the alert if the socket still accepts it.
                tls.flush(&mut self.inner, conn).ok();
                return Err(self.failed(reason(&error)));
            }
        }
        self.opened(conn)
    }

    fn opened(&mut self, conn: ConnId) -> Result<(), Fault> {
        let now = self.inner.now();
        let (Some(Some(tls)), Some(Some(peer))) = (
            self.conns.get_mut(conn as usize),
            self.peers.get(conn as usize),
        ) else {
            return Err(Fault::Other);
        };
        let offered = peer.config.alpn_protocols.first();
        let chosen = tls.session.alpn_protocol();
        // HTTP/1.1 does not need ALPN; HTTP/2 does.
        let agreed = match chosen {
            Some(chosen) => offered.is_some_and(|o| o == chosen),
            None => offered.is_none_or(|o| o != b"h2"),
        };
        if !agreed {
            let name = |p: Option<&[u8]>| match p {
                Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                None => "no protocol".to_owned(),
            };
            let why = format!(
                "the server negotiated {}, expected {}",
                name(chosen),
                name(offered.map(Vec::as_slice))
            );
            return Err(self.failed(why));
        }
        if let Stage::Handshaking(since) = tls.stage {
            self.report.handshake.record(now.saturating_sub(since));
        }
        tls.stage = Stage::Open;
        match tls.session.handshake_kind() {
            Some(HandshakeKind::Resumed) => self.report.resumed += 1,
            _ => self.report.full += 1,
        }
        let version = tls.session.protocol_version().and_then(|v| v.as_str());
        let suite = tls
            .session
            .negotiated_cipher_suite()
            .and_then(|s| s.suite().as_str());
        let protocol = [version, suite].map(|s| s.unwrap_or("unknown")).join(" ");
        count(&mut self.report.protocols, protocol, 1);
        // Data that the server sent directly after its handshake is already in rustls.
        let state = tls.session.process_new_packets();
        if state.is_ok_and(|s| s.plaintext_bytes_to_read() > 0 || s.peer_has_closed()) {
            self.queue(conn);
        }
        Ok(())
    }

    fn queue(&mut self, conn: ConnId) {
        if let Some(Some(tls)) = self.conns.get_mut(conn as usize)
            && !tls.queued
        {
            tls.queued = true;
            self.pending.push(conn);
        }
    }

    /// Returns the reason of an alert that arrived before the socket failed, otherwise
    /// `fault`.
    fn pending_alert(&mut self, conn: ConnId, fault: Fault) -> Fault {
        let Some(Some(tls)) = self.conns.get_mut(conn as usize) else {
            return fault;
        };
        while tls.fill(&mut self.inner, conn).is_ok_and(|n| n > 0) {
            if let Err(error) = tls.session.process_new_packets() {
                return self.failed(reason(&error));
            }
        }
        fault
    }

    /// Decrypts into `buffer` what has arrived.
    fn decrypt(&mut self, conn: ConnId, buffer: &mut [u8]) -> Result<usize, Fault> {
        let (mut filled, mut more) = (0, true);
        loop {
            let Some(Some(tls)) = self.conns.get_mut(conn as usize) else {
                return Err(Fault::Other);
            };
            match tls.session.reader().read(&mut buffer[filled..]) {
                Ok(n) if n > 0 => filled += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if filled > 0 && !more {
                        return Ok(filled);
                    }
                    match self.fill_and_process(conn) {
                        Ok(n) => more = n >= READ_BYTES,
                        Err(Fault::Tls) => return Err(Fault::Tls),
                        Err(_) if filled > 0 => return Ok(filled),
                        Err(fault) => return Err(fault),
                    }
                }
                // The end is reported again by the next call.
                _ if filled > 0 => break,
                Ok(_) => return Ok(0),
                Err(_) => {
                    let truncated = "connection closed without close_notify";
                    self.report.failed(truncated.to_owned());
                    return Err(Fault::Closed);
                }
            }
            if filled == buffer.len() {
                break;
            }
        }
        // rustls may hold more bytes, which the socket does not report.
        self.queue(conn);
        Ok(filled)
    }

    fn fill_and_process(&mut self, conn: ConnId) -> Result<usize, Fault> {
        let Some(Some(tls)) = self.conns.get_mut(conn as usize) else {
            return Err(Fault::Other);
        };
        let n = tls.fill(&mut self.inner, conn)?;
        let outcome = tls.session.process_new_packets();
        // Sends an alert or the answer to a key update. The next read returns a fault.
        if tls.session.wants_write() {
            tls.flush(&mut self.inner, conn).ok();
        }
        match outcome {
            Ok(_) => Ok(n),
            Err(error) => Err(self.failed(reason(&error))),
        }
    }

    /// Keeps the reports in `ready` that concern the engine, and handles those for rustls.
    fn filter_ready(&mut self, ready: &mut Vec<Ready>) {
        ready.retain_mut(|r| {
            let Some(Some(tls)) = self.conns.get_mut(r.conn as usize) else {
                return true;
            };
            if tls.stage != Stage::Open {
                return true;
            }
            if r.writable && tls.blocked {
                let outcome = tls.flush(&mut self.inner, r.conn);
                // The next read returns the fault.
                r.readable |= !matches!(outcome, Ok(()) | Err(Fault::WouldBlock));
            }
            r.writable &= tls.wanted && !tls.blocked;
            r.readable || r.writable || r.hangup
        });
        for conn in std::mem::take(&mut self.pending) {
            let Some(Some(tls)) = self.conns.get_mut(conn as usize) else {
                continue;
            };
            if !std::mem::take(&mut tls.queued) {
                continue;
            }
            match ready.iter_mut().find(|r| r.conn == conn) {
                Some(r) => r.readable = true,
                None => ready.push(Ready {
                    conn,
                    readable: true,
                    writable: false,
                    hangup: false,
                }),
            }
        }
    }
}

impl<D: Driver> Driver for TlsDriver<D> {
    #[inline]
    fn now(&mut self) -> u64 {
        self.inner.now()
    }

    fn process_cpu_ns(&mut self) -> u64 {
        self.inner.process_cpu_ns()
    }

    fn idle_ns(&self) -> u64 {
        self.inner.idle_ns()
    }

    fn connect(&mut self, conn: ConnId, to: SocketAddr) -> Result<(), Fault> {
        self.close(conn);
        self.inner.connect(conn, to)?;
        let Some(Some(peer)) = self.peers.get(conn as usize) else {
            return Ok(());
        };
        let session = ClientConnection::new(Arc::clone(&peer.config), peer.name.clone());
        match session {
            Ok(session) => {
                self.conns[conn as usize] = Some(Box::new(TlsConn {
                    session,
                    stage: Stage::Connecting,
                    wanted: false,
                    blocked: false,
                    registered: false,
                    queued: false,
                }));
                Ok(())
            }
            Err(error) => Err(self.failed(reason(&error))),
        }
    }

    fn connected(&mut self, conn: ConnId) -> Result<(), Fault> {
        let Some(Some(tls)) = self.conns.get_mut(conn as usize) else {
            return self.inner.connected(conn);
        };
        match tls.stage {
            Stage::Open => Ok(()),
            Stage::Handshaking(_) => self.handshake(conn),
            Stage::Connecting => {
                self.inner.connected(conn)?;
                tls.stage = Stage::Handshaking(self.inner.now());
                self.handshake(conn)
            }
        }
    }

    fn connect_too_long(&mut self, conn: ConnId) -> Fault {
        match self.conns.get(conn as usize) {
            Some(Some(tls)) if matches!(tls.stage, Stage::Handshaking(_)) => {
                self.failed("TLS handshake timed out")
            }
            _ => self.inner.connect_too_long(conn),
        }
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, Fault> {
        let Some(Some(tls)) = self.conns.get_mut(conn as usize) else {
            return self.inner.send(conn, bytes);
        };
        let outcome = match tls.flush(&mut self.inner, conn) {
            Ok(()) => match tls.session.writer().write(bytes) {
                // rustls has the bytes and sends the rest when the socket is writable.
                Ok(taken) => match tls.flush(&mut self.inner, conn) {
                    Ok(()) | Err(Fault::WouldBlock) => Ok(taken),
                    Err(fault) => Err(fault),
                },
                Err(_) => Err(Fault::Other),
            },
            Err(fault) => Err(fault),
        };
        match outcome {
            Err(fault) if fault != Fault::WouldBlock => Err(self.pending_alert(conn, fault)),
            other => other,
        }
    }

    fn recv(&mut self, conn: ConnId, buffer: &mut [u8]) -> Result<usize, Fault> {
        if !self.tls(conn) {
            return self.inner.recv(conn, buffer);
        }
        self.decrypt(conn, buffer)
    }

    fn arrival(&mut self, conn: ConnId) -> Option<u64> {
        self.inner.arrival(conn)
    }

    fn read_later(&mut self, allowed: bool) {
        self.inner.read_later(allowed);
    }

    fn want_writable(&mut self, conn: ConnId, wanted: bool) {
        match self.conns.get_mut(conn as usize) {
            Some(Some(tls)) => {
                tls.wanted = wanted;
                tls.update_interest(&mut self.inner, conn);
            }
            _ => self.inner.want_writable(conn, wanted),
        }
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(place) = self.conns.get_mut(conn as usize)
            && let Some(mut tls) = place.take()
            && tls.stage == Stage::Open
        {
            tls.session.send_close_notify();
            // Sent once without waiting, because the connection is closed in any case.
            tls.flush(&mut self.inner, conn).ok();
        }
        self.inner.close(conn);
    }

    fn wait(&mut self, mut now: u64, until: u64, ready: &mut Vec<Ready>) -> u64 {
        loop {
            let until_inner = if self.pending.is_empty() { until } else { now };
            now = self.inner.wait(now, until_inner, ready);
            self.filter_ready(ready);
            if !ready.is_empty() || now >= until {
                return now;
            }
        }
    }

    fn request_starts(&mut self, conn: ConnId) {
        self.inner.request_starts(conn);
    }

    fn request_done(&mut self, conn: ConnId, times: RequestTimes) {
        self.inner.request_done(conn, times);
    }

    fn driver_report(&mut self) -> DriverReport {
        let mut report = self.inner.driver_report();
        report.tls = Some(self.report.clone());
        report
    }
}
