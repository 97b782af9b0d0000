//! Where both nodes run: on loopback, or each in a network namespace of its own. A pair of veth
//! devices joins the two, and can be cut.
//!
//! Invariant: nothing is done to the network of this machine. The namespaces have no names, and are
//! gone with the last process in them, whichever way this program ends.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

/// The state of the link between both nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    Up,
    Down,
}

/// See the module.
pub(super) enum Network {
    Loopback,
    #[cfg(target_os = "linux")]
    Namespaces([spaces::Space; 2]),
}

impl Network {
    /// Two namespaces.
    ///
    /// # Errors
    /// Where there are none for this user.
    #[cfg(target_os = "linux")]
    pub(super) fn namespaces() -> Result<Self, String> {
        spaces::join().map(Self::Namespaces).map_err(|why| {
            format!(
                "--netns needs root, the network namespaces of Linux, and the programs unshare, nsenter and ip: {why}"
            )
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn namespaces() -> Result<Self, String> {
        Err("--netns needs the network namespaces of Linux".to_owned())
    }

    /// Whether the link can be cut.
    pub(super) fn has_link(&self) -> bool {
        !matches!(self, Self::Loopback)
    }

    /// Where the other node reaches the one at this place.
    pub(super) fn address(&self, place: usize) -> Ipv4Addr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST,
            #[cfg(target_os = "linux")]
            Self::Namespaces(_) => spaces::ADDRESSES[place],
        }
    }

    /// A command that runs `program` at this place.
    pub(super) fn command(&self, place: usize, program: &Path) -> Command {
        match self {
            Self::Loopback => {
                let _ = place;
                Command::new(program)
            }
            #[cfg(target_os = "linux")]
            Self::Namespaces(spaces) => {
                let mut command = spaces[place].command("nsenter");
                command.arg(program);
                command
            }
        }
    }

    /// A connection to a port on the loopback device of this place.
    pub(super) fn connect(&self, place: usize, port: u16) -> io::Result<TcpStream> {
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        match self {
            Self::Loopback => {
                let _ = place;
                connect()
            }
            #[cfg(target_os = "linux")]
            Self::Namespaces(spaces) => spaces[place].inside(connect),
        }
    }

    /// Cuts the link, or mends it.
    pub(super) fn set(&self, link: Link) -> Result<(), String> {
        match self {
            Self::Loopback => Err(format!("there is no link that could be {link:?}")),
            #[cfg(target_os = "linux")]
            Self::Namespaces([space, _]) => space.set(link),
        }
    }
}

#[cfg(target_os = "linux")]
mod spaces {
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::net::Ipv4Addr;
    use std::os::fd::AsFd;
    use std::process::{Child, Command, Stdio};

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

    use super::Link;

    /// The device at both ends of the link.
    const DEVICE: &str = "veth0";

    /// The addresses of the ends.
    pub(super) const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 0, 2)];

    /// A namespace, as long as its keeper runs.
    pub(in super::super) struct Space {
        keeper: Child,
    }

    impl Drop for Space {
        fn drop(&mut self) {
            let _ = self.keeper.kill();
            let _ = self.keeper.wait();
        }
    }

    /// Two namespaces that reach each other.
    pub(super) fn join() -> Result<[Space; 2], String> {
        let spaces = [Space::new()?, Space::new()?];
        let [one, other] = spaces.each_ref().map(|space| space.keeper.id().to_string());
        let end = ["name", DEVICE, "netns"];
        let pair = [&["link", "add"], &end[..], &[&one, "type", "veth", "peer"], &end, &[&other]].concat();
        done(Command::new("ip").args(pair))?;
        for (space, address) in spaces.iter().zip(ADDRESSES) {
            let script =
                format!("ip link set lo up; ip address add {address}/24 dev {DEVICE}; ip link set {DEVICE} up");
            done(space.command("nsenter").args(["sh", "-euc", &script]))?;
        }
        Ok(spaces)
    }

    impl Space {
        fn new() -> Result<Self, String> {
            let mut keeper = Command::new("unshare");
            keeper.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut space = Self { keeper: keeper.spawn().map_err(|error| format!("unshare: {error}"))? };
            // What comes back comes from inside.
            if space.echoes().is_err() {
                let mut said = String::new();
                let _ = space.keeper.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
                return Err(said.trim().to_owned());
            }
            Ok(space)
        }

        fn echoes(&mut self) -> io::Result<()> {
            if let (Some(input), Some(output)) = (self.keeper.stdin.as_mut(), self.keeper.stdout.as_mut()) {
                input.write_all(b"\n")?;
                output.read_exact(&mut [0])?;
            }
            Ok(())
        }

        /// The program `nsenter`, up to where the command line goes on that it runs inside.
        pub(super) fn command(&self, nsenter: &str) -> Command {
            let mut command = Command::new(nsenter);
            command.args(["--target", &self.keeper.id().to_string(), "--net"]);
            command
        }

        /// What `work` gives inside. Sockets stay in the namespace that they were made in.
        pub(super) fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
            let space = File::open(format!("/proc/{}/ns/net", self.keeper.id()))?;
            // A thread of its own, since this one is to go on outside.
            std::thread::scope(|scope| {
                let inside = scope.spawn(move || {
                    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
                    work()
                });
                inside.join().unwrap_or_else(|_| Err(io::Error::other("it panicked inside")))
            })
        }

        pub(super) fn set(&self, link: Link) -> Result<(), String> {
            let state = if link == Link::Up { "up" } else { "down" };
            done(self.command("nsenter").args(["ip", "link", "set", DEVICE, state]))
        }
    }

    fn done(command: &mut Command) -> Result<(), String> {
        let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", said.trim())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_loopback_there_is_no_link() {
        let network = Network::Loopback;
        assert!(!network.has_link() && network.set(Link::Down).is_err());
        assert_eq!(network.address(1), Ipv4Addr::LOCALHOST);
        assert_eq!(network.command(1, Path::new("broker")).get_program(), "broker");
    }

    /// Without the rights for it, it says what it needs.
    #[test]
    #[cfg(target_os = "linux")]
    fn two_namespaces_reach_each_other_while_the_link_is_up() {
        use std::net::TcpListener;

        let network = match Network::namespaces() {
            Ok(network) => network,
            // Anything else is a fault of ours, and was one: `ip` took the device's name for a
            // keyword.
            Err(error) if error.contains("not permitted") || error.contains("No such file") => {
                return assert!(error.starts_with("--netns needs root"), "{error}");
            }
            Err(error) => panic!("{error}"),
        };
        let Network::Namespaces([one, other]) = &network else { panic!("they are two") };
        let socket = one.inside(|| TcpListener::bind((network.address(0), 0))).unwrap();
        let address = socket.local_addr().unwrap();
        let reach = || other.inside(|| TcpStream::connect_timeout(&address, std::time::Duration::from_secs(10)));
        assert!(network.has_link() && reach().is_ok());
        network.set(Link::Down).unwrap();
        assert!(reach().is_err());
        network.set(Link::Up).unwrap();
        assert!(reach().is_ok());
        // What listens on loopback is reached at its own place alone.
        let socket = one.inside(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(network.connect(0, port).is_ok() && network.connect(1, port).is_err());
    }
}
