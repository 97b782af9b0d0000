//! Loads brokers over a network with packets, instead of over the loopback device: this program
//! goes on in a network namespace of its own, what it starts to be measured runs in another, and a
//! pair of veth devices joins the two.
//!
//! On this side 127.0.0.1 leads to the other one, so that brokers listen on loopback there as ever,
//! with the same descriptions and addresses. The namespaces have no names: they are gone with the
//! last process in them, and nothing is left to be removed, whichever way this program ends.

use std::fmt;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::command::CommandLine;
use bench_record::failure::{Context, Failure};
use bench_record::span::Span;

/// What Ethernet carries in one frame, bytes.
const ETHERNET_MTU: u32 = 1500;
/// What every host takes in one packet (RFC 791), and the most that veth takes.
const MTUS: std::ops::RangeInclusive<u32> = 576..=65_535;
/// Units of a rate, and their bits a second.
const RATE_UNITS: [(&str, u64); 3] = [("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];

/// Tells this program that it was started again: `PID NAMESPACE` of what it was before.
const BEFORE: &str = "HERMOD_BENCH_NETNS";
/// This side, which to brokers is a loopback address like others: many let no other address in with
/// default names.
const NEAR: &str = "127.0.0.2";
/// The other side, where brokers listen.
const FAR: &str = "127.0.0.1";

/// The other side, once this program is joined to one. A namespace belongs to a process as its
/// environment does, and so there is one such place for the program.
static JOINED: OnceLock<Joined> = OnceLock::new();

#[derive(Debug)]
struct Joined {
    network: Network,
    /// Keeps the other namespace until this program ends, and its pipe with it.
    keeper: Child,
}

/// What lies between the load and the brokers: `mtu=BYTES`, `delay=SPAN` each way,
/// `rate=NUMBERmbit`, all optional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Bytes of a packet.
    mtu: u32,
    delay: Option<Span>,
    /// Bits a second.
    rate: Option<u64>,
}

impl std::str::FromStr for Network {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let wrong = |what: &str| Failure::new(format!("{text}: {what}"));
        let mut network = Self { mtu: ETHERNET_MTU, delay: None, rate: None };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("mtu", bytes)) => {
                    network.mtu = bytes.parse().ok().filter(|mtu| MTUS.contains(mtu)).ok_or_else(|| {
                        wrong(&format!("an MTU is a number of bytes from {} to {}", MTUS.start(), MTUS.end()))
                    })?;
                }
                Some(("delay", span)) => network.delay = Some(span.parse()?),
                Some(("rate", rate)) => {
                    let number = RATE_UNITS.iter().find_map(|(unit, bits)| Some((rate.strip_suffix(unit)?, bits)));
                    let bits = number.and_then(|(number, bits)| Some(u64::from(number.parse::<u32>().ok()?) * bits));
                    network.rate = bits.filter(|bits| *bits > 0);
                    if network.rate.is_none() {
                        return Err(wrong("a rate is a whole number of kbit, mbit or gbit, such as 100mbit"));
                    }
                }
                _ => return Err(wrong("a network is described by mtu=BYTES, delay=SPAN and rate=NUMBERmbit")),
            }
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "two network namespaces joined by veth, MTU {}", self.mtu)?;
        if let Some(Span(delay)) = self.delay {
            write!(f, ", {} ms of delay each way", delay.as_secs_f64() * 1e3)?;
        }
        self.rate.map_or(Ok(()), |rate| write!(f, ", {} Mbit/s each way", rate as f64 / 1e6))
    }
}

impl Network {
    /// How the packets that leave by `link` are held back, as `tc` takes it.
    fn shaping(&self, link: &str) -> Option<String> {
        let discipline = match (self.delay, self.rate) {
            (None, None) => return None,
            (None, Some(rate)) => {
                // What goes at once is two packets, or what comes in a millisecond where the clock
                // is not exact enough.
                let burst = (rate / 8_000).max(u64::from(2 * self.mtu));
                format!("tbf rate {rate}bit burst {burst}b latency 50ms")
            }
            (Some(Span(delay)), rate) => {
                let rate = rate.map_or_else(String::new, |rate| format!(" rate {rate}bit"));
                format!("netem delay {}us{rate}", delay.as_micros())
            }
        };
        Some(format!("tc qdisc add dev {link} root {discipline}"))
    }
}

/// The network that this program is joined to; none: whatever the targets' addresses say.
pub fn joined() -> Option<&'static Network> {
    JOINED.get().map(|joined| &joined.network)
}

/// A command that runs `program` where brokers run: on the other side, if there is one.
pub fn beside_brokers(program: &Path) -> Command {
    let Some(joined) = JOINED.get() else { return Command::new(program) };
    let mut command = Command::new("nsenter");
    command.args(["--target", &joined.keeper.id().to_string(), "--net"]).arg(program);
    command
}

/// Starts this program again, in its place, in a namespace of its own, and joins that to another
/// one. Returns in the second process alone, unless it fails.
pub fn enter(network: &Network) -> Result<(), Failure> {
    if !cfg!(target_os = "linux") {
        return Err(Failure::new("--netns needs the network namespaces of Linux"));
    }
    let here = std::fs::read_link("/proc/self/ns/net").context("--netns: /proc/self/ns/net")?;
    let here = here.display().to_string();
    // A program that has another process's variable, or is still in the same namespace, was not
    // started by this.
    let me = std::process::id().to_string();
    let before = std::env::var(BEFORE).unwrap_or_default();
    if before.split_once(' ').is_none_or(|(pid, namespace)| pid != me || namespace == here) {
        return Err(again(&format!("{me} {here}"))?);
    }
    join(network)
}

/// Becomes `unshare`, which becomes this program: the process stays the same, for signals and for
/// the one that waits.
fn again(before: &str) -> Result<Failure, Failure> {
    for program in ["ip", "nsenter"] {
        CommandLine::new([program, "-V"]).output().context("--netns")?;
    }
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new("unshare");
    command.args(permitted()?).arg(program).args(std::env::args_os().skip(1)).env(BEFORE, before);
    Ok(Failure::new(format!("unshare: {}", replaced_by(&mut command))))
}

/// Makes this process another program's. Returns only why it could not.
#[cfg(unix)]
fn replaced_by(command: &mut Command) -> std::io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

#[cfg(not(unix))]
fn replaced_by(_command: &mut Command) -> std::io::Error {
    std::io::ErrorKind::Unsupported.into()
}

/// What makes a namespace here: root may, others as root of a user namespace, where the system lets
/// them.
fn permitted() -> Result<&'static [&'static str], Failure> {
    let ways: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    let mut refused = Vec::new();
    for way in ways {
        let words = [&["unshare"], way, &["true"]].concat();
        match CommandLine::new(words).output() {
            Ok(_) => return Ok(way),
            Err(failure) => refused.push(failure.to_string()),
        }
    }
    let why = refused.join("; ");
    Err(Failure::new(format!("--netns: network namespaces need root, or user namespaces for all, and here: {why}")))
}

fn join(network: &Network) -> Result<(), Failure> {
    let mut keeper = Command::new("unshare");
    keeper.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Ctrl-C is for this program; the other side goes when brokers have ended.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut keeper, 0);
    let mut keeper = keeper.spawn().context("--netns: unshare")?;
    // What comes back comes from the other side.
    if let (Some(input), Some(output)) = (keeper.stdin.as_mut(), keeper.stdout.as_mut()) {
        input.write_all(b"\n").context("--netns: unshare")?;
        output.read_exact(&mut [0]).context("--netns: the other namespace")?;
    }
    let pid = keeper.id();
    let far = |script: &str| CommandLine::new(["nsenter", "--target", &pid.to_string(), "--net", "sh", "-euc", script]);
    let near = |script: &str| CommandLine::new(["sh", "-euc", script]);
    near(&format!("ip link add near mtu {0} type veth peer name far mtu {0} netns {pid}", network.mtu))
        .output()
        .context("--netns: a pair of veth devices")?;
    // Else the system takes no packets from or to loopback addresses over other devices.
    let up = |link: &str| format!("ip link set {link} up; echo 1 > /proc/sys/net/ipv4/conf/{link}/route_localnet");
    // The loopback device is down on this side, and has no more than one address on the other.
    near(&format!("ip address add {NEAR}/32 dev near; {}; ip route add {FAR} dev near src {NEAR}", up("near")))
        .output()
        .context("--netns: this side")?;
    far(&format!(
        "ip link set lo up; ip address del {FAR}/8 dev lo; ip address add {FAR}/32 dev lo; {}; \
         ip route add {NEAR} dev far src {FAR}",
        up("far")
    ))
    .output()
    .context("--netns: the brokers' side")?;
    if let Some((this, other)) = network.shaping("near").zip(network.shaping("far")) {
        let needs = "--netns: delay needs tc and the kernel's sch_netem, rate alone tc and its sch_tbf";
        near(&this).output().context(needs)?;
        far(&other).output().context(needs)?;
    }
    let joined = Joined { network: network.clone(), keeper };
    JOINED.set(joined).map_err(|_| Failure::new("--netns: this program is joined already"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_read_and_told() {
        assert_eq!(network("").to_string(), "two network namespaces joined by veth, MTU 1500");
        let all = network("rate=100mbit,delay=500us,mtu=9000");
        let told = "two network namespaces joined by veth, MTU 9000, 0.5 ms of delay each way, 100 Mbit/s each way";
        assert_eq!(all.to_string(), told);
        for bad in
            ["mtu=100", "mtu=65536", "mtu=x", "delay=-1ms", "rate=1", "rate=0mbit", "rate=1mbit;ls", "loss=1", "x"]
        {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_is_asked_for_holds_packets_back() {
        let cases = [
            ("", None),
            ("rate=1gbit", Some("tc qdisc add dev far root tbf rate 1000000000bit burst 125000b latency 50ms")),
            ("rate=64kbit", Some("tc qdisc add dev far root tbf rate 64000bit burst 3000b latency 50ms")),
            ("delay=1ms", Some("tc qdisc add dev far root netem delay 1000us")),
            ("delay=1ms,rate=1gbit", Some("tc qdisc add dev far root netem delay 1000us rate 1000000000bit")),
        ];
        for (text, shaping) in cases {
            assert_eq!(network(text).shaping("far").as_deref(), shaping, "{text}");
        }
    }

    #[test]
    fn without_another_side_brokers_run_here() {
        assert_eq!(joined(), None);
        assert_eq!(beside_brokers(Path::new("broker")).get_program(), "broker");
    }
}
