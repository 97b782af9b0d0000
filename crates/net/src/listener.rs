//! Binding: one bound address, ready to accept, or an error that says what to do about it.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};
use wire::Subnet;

/// Connections that may wait in the kernel until they are accepted.
const BACKLOG: i32 = 1024;

/// A bound socket. No connection is accepted from it yet.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    nagle: Nagle,
    admission: Admission,
}

/// Which connections a listener lets in, besides the limits of all listeners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admission {
    /// Most connections at one time; `None` for as many as all listeners may have.
    pub most: Option<usize>,
    /// The networks of proxies. If there are any, only their connections are let in, and each
    /// begins with a header of the PROXY protocol.
    pub proxies: Vec<Subnet>,
}

/// Nagle's algorithm, for the sockets that a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nagle {
    /// The kernel gathers small segments.
    On,
    /// `TCP_NODELAY`: each segment is sent at once.
    Off,
}

/// Why an address could not be bound.
#[derive(Debug)]
pub struct BindError {
    address: SocketAddr,
    cause: io::Error,
}

impl BindError {
    /// True when this machine does not have the address (no IPv6, say): a default address may then
    /// be skipped.
    pub fn is_unavailable(&self) -> bool {
        matches!(self.cause.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
            || (self.address.is_ipv6() && self.cause.raw_os_error().is_some_and(is_no_address_family))
    }

    /// True when another program has the port.
    pub fn is_taken(&self) -> bool {
        self.cause.kind() == io::ErrorKind::AddrInUse
    }
}

/// EAFNOSUPPORT, which std has no name for.
fn is_no_address_family(code: i32) -> bool {
    if cfg!(windows) {
        code == 10047
    } else if cfg!(any(target_os = "macos", target_os = "ios", target_os = "freebsd")) {
        code == 47
    } else {
        code == 97
    }
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (address, port) = (self.address, self.address.port());
        match self.cause.kind() {
            io::ErrorKind::AddrInUse => write!(
                f,
                "port {port} is in use at {}; stop the program that holds it, or move all ports with --port-offset",
                address.ip()
            ),
            io::ErrorKind::PermissionDenied => write!(
                f,
                "no permission to listen on {address}; use a port from 1024 up, or grant the capability to bind lower ones"
            ),
            _ if self.is_unavailable() => {
                write!(f, "cannot listen on {address}: this machine has no address {}; check --bind", address.ip())
            }
            _ => write!(f, "cannot listen on {address}: {}", self.cause),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl Listener {
    /// Binds `address`; port 0 takes any free port.
    pub fn bind(address: SocketAddr, nagle: Nagle) -> Result<Self, BindError> {
        let bound = Self::open(address).map_err(|cause| BindError { address, cause })?;
        Ok(Self { socket: bound, nagle, admission: Admission::default() })
    }

    /// The same listener, which lets in as `admission` says.
    #[must_use]
    pub fn with(self, admission: Admission) -> Self {
        Self { admission, ..self }
    }

    fn open(address: SocketAddr) -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // On Windows the option means something else: it would let two programs share the port.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            // `[::]` serves IPv4 as well, on every system alike, whatever its default is.
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    }

    /// The bound address, with the port that was chosen.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The bound socket, non-blocking, for another server to accept from.
    pub fn into_socket(self) -> TcpListener {
        self.socket
    }

    pub(crate) fn into_parts(self) -> (TcpListener, Nagle, Admission) {
        (self.socket, self.nagle, self.admission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_with_a_way_out() {
        let first = Listener::bind(([127, 0, 0, 1], 0).into(), Nagle::Off).unwrap();
        let address = first.address().unwrap();
        let error = Listener::bind(address, Nagle::Off).unwrap_err();
        assert!(error.is_taken() && !error.is_unavailable());
        let error = error.to_string();
        let expected = format!("port {} is in use at 127.0.0.1; stop the program that holds it", address.port());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn an_address_of_another_machine_is_told_from_a_taken_one() {
        // 192.0.2.0/24 is reserved for documentation (RFC 5737); no machine has it.
        let error = Listener::bind(([192, 0, 2, 1], 0).into(), Nagle::Off).unwrap_err();
        assert!(error.is_unavailable() && !error.is_taken(), "{error}");
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
    }
}
