//! The addresses of a run.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

/// Maximum length of the path of a Unix socket (108 bytes with the final zero).
pub(crate) const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A part of the loopback network, `127.N.0.0/16`, reserved for this run. A listener on its last
/// address is the lock: the kernel releases it even when tare is killed.
#[derive(Debug)]
pub(crate) struct Network {
    second: u8,
    _held: TcpListener,
}

impl Network {
    const LOWEST: u8 = 64;
    const HIGHEST: u8 = 127;
    /// Below the range of ports that the kernel uses for outgoing connections.
    const LOCK_PORT: u16 = 15999;

    /// Reserves the first free network. The search starts at a network that depends on the process
    /// id.
    ///
    /// # Errors
    /// When all are in use.
    pub(crate) fn take() -> io::Result<Self> {
        let span = u32::from(Self::HIGHEST - Self::LOWEST) + 1;
        let mut last = io::Error::other("no free network");
        for i in 0..span {
            let second = Self::LOWEST + ((std::process::id() + i) % span) as u8;
            let lock = SocketAddrV4::new(Ipv4Addr::new(127, second, 255, 254), Self::LOCK_PORT);
            match TcpListener::bind(lock) {
                Ok(held) => {
                    return Ok(Self {
                        second,
                        _held: held,
                    });
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Second octet.
    pub(crate) fn second(&self) -> u8 {
        self.second
    }

    /// Returns the first of `ports` that is not free in this network, and the reason. The network
    /// is reserved for this run, so such a port is held by a socket that listens on all addresses.
    pub(crate) fn taken(&self, ports: &[u16]) -> Option<(u16, io::Error)> {
        ports.iter().find_map(|&port| {
            let pod = SocketAddrV4::new(Ipv4Addr::new(127, self.second, 0, 1), port);
            TcpListener::bind(pod).err().map(|error| (port, error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_have_two_networks() {
        let (a, b) = (Network::take().unwrap(), Network::take().unwrap());
        assert_ne!(a.second(), b.second());
    }

    #[test]
    fn a_listener_on_all_addresses_occupies_the_port_of_every_pod() {
        let network = Network::take().unwrap();
        let everywhere = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = everywhere.local_addr().unwrap().port();
        let (found, error) = network.taken(&[port]).unwrap();
        assert_eq!((found, error.kind()), (port, io::ErrorKind::AddrInUse));
        drop(everywhere);
        assert!(network.taken(&[port]).is_none());
    }
}
