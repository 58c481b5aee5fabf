//! A TLS server without a socket: bytes in, steps out.

use std::io::{Read, Write};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, version};
use tare_plan::load::transport::TlsSpec;

use crate::http2::testing as h2;
use crate::simulated::driver::Step;
use crate::simulated::support::ok_response;

/// A certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Certificate and key as PEM.
    pub(super) fn signed(&self, name: &str, last_year: i32) -> (String, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key)
    }
}

/// How the server deviates from a correct handshake or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    Good,
    /// Answers the first bytes with another protocol.
    Garbage,
    CloseAtHello,
    ResetAtHello,
    /// Sends half of its handshake, then closes.
    HalfHandshake,
    /// The body ends with the connection, after close_notify.
    UntilClose,
    /// The body ends with the connection, without close_notify.
    Truncated,
    /// A record with a changed byte.
    Corrupt,
}

#[derive(Clone)]
pub(super) struct Server {
    pub(super) config: Arc<ServerConfig>,
    pub(super) behaviour: Behaviour,
}

/// The server's end of one connection, without a socket.
pub(super) struct Peer {
    session: ServerConnection,
    behaviour: Behaviour,
    received: Vec<u8>,
    after_preface: bool,
    over: bool,
}

impl Server {
    pub(super) fn new(name: &str, last_year: i32, behaviour: Behaviour) -> (Self, TlsSpec) {
        Self::with(
            name,
            last_year,
            behaviour,
            None,
            &[&version::TLS13, &version::TLS12],
        )
    }

    pub(super) fn with(
        name: &str,
        last_year: i32,
        behaviour: Behaviour,
        clients: Option<&Authority>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> (Self, TlsSpec) {
        use rustls::pki_types::{CertificateDer, pem::PemObject as _};
        let authority = Authority::new("servers");
        let (pem, key) = authority.signed(name, last_year);
        let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                let ca = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap();
                roots.add(ca).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let server = Self {
            config: Arc::new(config),
            behaviour,
        };
        let spec = TlsSpec {
            ca_pem: Some(authority.pem),
            ..TlsSpec::default()
        };
        (server, spec)
    }

    pub(super) fn peer(&self) -> Peer {
        Peer {
            session: ServerConnection::new(Arc::clone(&self.config)).unwrap(),
            behaviour: self.behaviour,
            received: Vec::new(),
            after_preface: false,
            over: false,
        }
    }
}

impl Peer {
    /// The server's reaction to `bytes`.
    pub(super) fn bytes(&mut self, mut bytes: &[u8]) -> Vec<Step> {
        match self.behaviour {
            _ if self.over => return Vec::new(),
            Behaviour::Garbage => return vec![Step::Bytes(0, b"SSH-2.0-OpenSSH\r\n".to_vec())],
            Behaviour::CloseAtHello => return self.ends(Step::Close(0)),
            Behaviour::ResetAtHello => return self.ends(Step::Reset(0)),
            _ => {}
        }
        while !bytes.is_empty() {
            self.session.read_tls(&mut bytes).unwrap();
            if self.session.process_new_packets().is_err() {
                let mut steps = self.output();
                steps.extend(self.ends(Step::Close(0)));
                return steps;
            }
            self.session.reader().read_to_end(&mut self.received).ok();
        }
        if self.behaviour == Behaviour::HalfHandshake && self.session.wants_write() {
            let mut steps = self.output();
            if let Some(Step::Bytes(_, flight)) = steps.first_mut() {
                flight.truncate(flight.len() / 2);
            }
            steps.extend(self.ends(Step::Close(0)));
            return steps;
        }
        let mut steps = self.output();
        if self.session.alpn_protocol() == Some(b"h2") {
            steps.extend(self.respond_in_frames());
            return steps;
        }
        while let Some(at) = self.received.windows(4).position(|w| w == b"\r\n\r\n") {
            self.received.drain(..at + 4);
            steps.extend(self.respond());
        }
        steps
    }

    fn ends(&mut self, step: Step) -> Vec<Step> {
        self.over = true;
        vec![step]
    }

    fn respond(&mut self) -> Vec<Step> {
        let body = match self.behaviour {
            Behaviour::UntilClose | Behaviour::Truncated => {
                b"HTTP/1.1 200 OK\r\n\r\nall of it".to_vec()
            }
            _ => ok_response(&"0123456789".repeat(2_000)),
        };
        self.session.writer().write_all(&body).unwrap();
        match self.behaviour {
            Behaviour::UntilClose => {
                self.session.send_close_notify();
                let mut steps = self.output();
                steps.extend(self.ends(Step::Close(0)));
                steps
            }
            Behaviour::Truncated => {
                let mut steps = self.output();
                steps.extend(self.ends(Step::Close(0)));
                steps
            }
            Behaviour::Corrupt => {
                let mut steps = self.output();
                if let Some(Step::Bytes(_, record)) = steps.first_mut() {
                    let last = record.len() - 1;
                    record[last] ^= 1;
                }
                steps
            }
            _ => self.output(),
        }
    }

    /// HTTP/2: settings after the preface, then an answer to each HEADERS frame.
    fn respond_in_frames(&mut self) -> Vec<Step> {
        const PREFACE: usize = 24;
        const HEADERS: u8 = 1;
        let mut answer = Vec::new();
        if !self.after_preface && self.received.len() >= PREFACE {
            self.received.drain(..PREFACE);
            self.after_preface = true;
            answer.extend(h2::settings(&[]));
        }
        while self.after_preface && self.received.len() >= 9 {
            let number = |bytes: &[u8]| bytes.iter().fold(0, |n, &b| n << 8 | u32::from(b));
            let whole = 9 + number(&self.received[..3]) as usize;
            if self.received.len() < whole {
                break;
            }
            if self.received[3] == HEADERS {
                answer.extend(h2::ok(number(&self.received[5..9]), &[b'x'; 1_000]));
            }
            self.received.drain(..whole);
        }
        self.session.writer().write_all(&answer).unwrap();
        self.output()
    }

    fn output(&mut self) -> Vec<Step> {
        let mut out = Vec::new();
        while self.session.wants_write() {
            self.session.write_tls(&mut out).unwrap();
        }
        match out.is_empty() {
            true => Vec::new(),
            false => vec![Step::Bytes(0, out)],
        }
    }
}
