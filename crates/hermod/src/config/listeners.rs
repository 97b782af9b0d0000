//! Listeners: those of `[[listeners]]`, and those that `bind` and `ports.*` stand for. Both become
//! the same [`Listening`] here, and nowhere else are they told apart.
//!
//! A listener of its own wins over a port that is open by default only. Any other two at the same
//! address and port are an error that names both.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use management::Pages;
use net::Plain;
use wire::Subnet;

use super::ConfigError;
use super::ports::{ANY, HTTP, HTTPS, Port, Ports};
use super::reader::{Described, Layer, Origin, Reader, declare};
use super::tls::{CertificateFiles, OF_LISTENERS, Tls, VERIFY, Verify};
use super::value::{self, between, optional_path};
use crate::protocols::{SERVED, Served};

/// More would be a mistake: each is a socket.
const MOST: usize = 256;

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listening {
    /// Its name, or the setting of its port.
    pub(crate) name: String,
    /// How listings call what it serves.
    pub(crate) protocol: String,
    pub(crate) serves: Serves,
    /// With `port_offset`.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) missing: MissingAddress,
    pub(crate) taken: TakenPort,
    pub(crate) tls: Option<Tls>,
    /// `None`: as many as all listeners may have.
    pub(crate) most: Option<u64>,
    /// Networks of the proxies that all its connections come from.
    pub(crate) proxies: Vec<Subnet>,
    /// What the paths of HTTP begin with.
    pub(crate) prefix: String,
    /// Where it is written; the default for those of `ports.*`.
    pub(crate) origin: Origin,
}

/// What a listener serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Serves {
    /// These rows of the table of protocols. The first one answers strangers.
    Protocols(Vec<usize>),
    /// The protocol of this row, in WebSockets.
    Web(usize),
    /// HTTP.
    Http(Pages),
    /// All protocols, as their first bytes tell, with TLS and WebSockets.
    Any(Plain),
}

/// What becomes of an address that the machine does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingAddress {
    Skipped,
    Refused,
}

/// What becomes of a port that another program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakenPort {
    Skipped,
    Refused,
}

impl Listening {
    /// Whether it is one of `[[listeners]]`.
    pub(crate) fn is_own(&self) -> bool {
        self.origin != Origin::Default
    }

    /// What it asks of connections, for people.
    pub(crate) fn terms(&self) -> Vec<String> {
        let mut terms = Vec::new();
        if let Some(tls) = &self.tls {
            terms.push(if self.serves == Serves::Any(Plain::Served) { "TLS or none" } else { "TLS" }.to_owned());
            match tls.verify {
                Verify::None => {}
                Verify::Peer => terms.push("client certificates verified".to_owned()),
                Verify::Required => terms.push("client certificates required".to_owned()),
            }
        }
        if matches!(self.serves, Serves::Any(_)) {
            terms.push("WebSocket or none".to_owned());
        }
        if !self.proxies.is_empty() {
            let networks: Vec<_> = self.proxies.iter().map(Subnet::to_string).collect();
            terms.push(format!("PROXY protocol from {}", networks.join(" and ")));
        }
        terms.extend(self.most.map(|most| format!("at most {most} connections")));
        if !self.prefix.is_empty() {
            terms.push(format!("below {}", self.prefix));
        }
        terms
    }

    /// The listener on one line.
    pub(crate) fn summary(&self) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(SocketAddr::to_string).collect();
        let parts: Vec<_> =
            [format!("{} at {}", self.protocol, addresses.join(" and "))].into_iter().chain(self.terms()).collect();
        parts.join(", ")
    }
}

/// The settings that stand for a listener for each port.
#[derive(Clone, Copy)]
pub(super) struct Short<'a> {
    pub(super) bind: &'a [IpAddr],
    pub(super) port_offset: u16,
    pub(super) ports: &'a Ports,
    pub(super) tls: &'a Tls,
}

/// One of `[[listeners]]` as it is written.
struct Written {
    name: String,
    protocols: Vec<String>,
    bind: Option<Vec<IpAddr>>,
    port: u16,
    tls: Option<bool>,
    certificates: Vec<String>,
    keys: Vec<String>,
    ca: Option<PathBuf>,
    verify: Option<Verify>,
    most: Option<u64>,
    proxies: Vec<Subnet>,
    prefix: String,
}

/// What a listener for everything serves.
const ANY_WORD: &str = "any";
/// The port that is left to another program, unless it is set.
const MAY_BE_TAKEN: &str = "ports.mqtt";
const NAME: &str = "Its name in the log, the API and the console. By default the protocols and the port.";
const PROTOCOLS: &str = "What is spoken: `amqp` (0-9-1), `amqp10`, `stomp`, `mqtt`, or several of these, told apart by their \
    first bytes; or one of `any`, which is all of them with TLS and WebSockets, `web_amqp`, `web_stomp`, `web_mqtt`, \
    `http`, or `metrics`, which is HTTP for `/metrics` and `/health/` alone.";
const BIND: &str = "IP addresses to listen on. `auto`: those of the setting `bind`.";
const PORT: &str = "The port. `port_offset` is added.";
const TLS: &str = "Whether connections are encrypted. `auto`: if `certificates` are named. `true` without them takes \
    those of `tls.certificate`. With `any`, `auto` also serves what comes without TLS, unless `verify` is `required`, \
    and takes the certificates of `tls.certificate` too.";
const CERTIFICATES: &str = "Files of certificates, as `tls.certificate`. A client gets the first one that is for the \
    name that it asks for (SNI), else the first one of all.";
const KEYS: &str = "Files of their keys, in the same order. By default the keys are in the files of the certificates.";
const CA: &str = "As `tls.ca`, which is the default.";
const VERIFY_DOC: &str = "Certificates of clients, as `tls.verify`, which `auto` takes.";
const MOST_DOC: &str = "Most connections at one time. `auto`: as many as all listeners may have together.";
const PROXIES: &str = "Networks of proxies, such as `10.0.0.0/8`. Then each connection must come from one of them and \
    begin with a header of the PROXY protocol (version 1 or 2). The address in it is taken for the client's \
    everywhere: in limits, logs and listings. Other connections are refused.";
const PREFIX: &str = "What the paths of HTTP begin with, such as `/hermod`. Other paths are answered 404.";

impl Written {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let names = |reader: &mut Reader, name, doc| reader.get(declare(name, "names", "", doc), value::names);
        let auto = "auto";
        Ok(Self {
            name: reader.get(declare("listeners.name", "text", "", NAME), value::text)?,
            protocols: names(reader, "listeners.protocols", PROTOCOLS)?,
            bind: reader
                .get(declare("listeners.bind", "addresses", auto, BIND), |text| value::or_auto(text, addresses))?,
            port: reader.get(declare("listeners.port", "port", "0", PORT), value::port)?,
            tls: reader
                .get(declare("listeners.tls", "true, false", auto, TLS), |text| value::or_auto(text, value::flag))?,
            certificates: names(reader, "listeners.certificates", CERTIFICATES)?,
            keys: names(reader, "listeners.keys", KEYS)?,
            ca: reader.get(declare("listeners.ca", "path", "", CA), optional_path)?,
            verify: reader.get(declare("listeners.verify", "none, peer, required", auto, VERIFY_DOC), |text| {
                value::or_auto(text, |text| value::choice(text, &VERIFY))
            })?,
            most: reader.get(declare("listeners.max_connections", "number", auto, MOST_DOC), |text| {
                value::or_auto(text, |text| between(text, value::count, 1, u64::from(u32::MAX)))
            })?,
            proxies: reader.get(declare("listeners.proxy_protocol", "names", "", PROXIES), |text| {
                value::names(text)?.iter().map(|network| Subnet::parse(network)).collect()
            })?,
            prefix: reader.get(declare("listeners.path_prefix", "text", "", PREFIX), prefix)?,
        })
    }
}

/// Every setting of a listener with its default.
pub(crate) fn describe_listener() -> Vec<Described> {
    let mut reader = Reader::default();
    // A test checks that all defaults are valid.
    let _ = Written::read(&mut reader);
    reader.into_described()
}

fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    match value::addresses(text)? {
        none if none.is_empty() => Err("there is no address to listen on; write at least one".to_owned()),
        some => Ok(some),
    }
}

fn prefix(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/')
        && !text.ends_with('/')
        && !text.contains("//")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte));
    match value::one_line(text)? {
        "" => Ok(String::new()),
        text if is_path => Ok(text.to_owned()),
        text => Err(format!("'{text}' is no prefix of paths; write it as /hermod")),
    }
}

/// All listeners: those of these tables, and those that `listen` has in the short form.
pub(super) fn merge(
    listen: Short<'_>,
    tables: Vec<Layer>,
    described: &[Described],
) -> Result<Vec<Listening>, ConfigError> {
    let is_default =
        |name: &str| described.iter().any(|setting| setting.name == name && setting.origin == Origin::Default);
    if tables.len() > MOST {
        return Err(ConfigError::new(format!("[[listeners]]: there are {}; the most is {MOST}", tables.len())));
    }
    let missing = if is_default("bind") { MissingAddress::Skipped } else { MissingAddress::Refused };
    let mut own: Vec<Listening> = Vec::new();
    for table in tables {
        let listening = read_one(listen, table, missing)?;
        if let Some(other) = own.iter().find(|other| other.name == listening.name) {
            let what = format!("'{}' is the name of that at {} already", other.name, other.origin);
            return Err(ConfigError::value("listeners.name", &listening.origin, &what));
        }
        own.push(listening);
    }
    let mut all = short_form(listen, missing);
    for one in &mut all {
        if is_default(&one.name) {
            // A broker that has served other protocols so far starts beside a broker of MQTT.
            one.taken = if one.name == MAY_BE_TAKEN { TakenPort::Skipped } else { TakenPort::Refused };
            one.addresses
                .retain(|address| !own.iter().any(|own| own.addresses.iter().any(|at| overlap(*at, *address))));
        }
    }
    all.retain(|one| !one.addresses.is_empty());
    for one in own {
        check_free(&one, &all)?;
        all.push(one);
    }
    Ok(all)
}

fn check_free(one: &Listening, others: &[Listening]) -> Result<(), ConfigError> {
    for address in &one.addresses {
        let taken = |other: &&Listening| other.addresses.iter().any(|at| overlap(*at, *address));
        if let Some(other) = others.iter().find(taken) {
            let what = format!("{address} is served by {} already; choose another port or address", other.name);
            return Err(ConfigError::value("listeners.port", &one.origin, &what));
        }
    }
    Ok(())
}

/// Whether both cannot be bound at the same time. `[::]` serves IPv4 as well.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let (this, that) = (one.ip(), other.ip());
    one.port() == other.port() && (this == that || covers(this, that) || covers(that, this))
}

fn read_one(listen: Short<'_>, table: Layer, missing: MissingAddress) -> Result<Listening, ConfigError> {
    super::refuse_unknown(&table, &describe_listener())?;
    let place = table.values().map(|(_, origin)| origin).min_by_key(|origin| match origin {
        Origin::File { line, .. } => *line,
        _ => usize::MAX,
    });
    let origin = place.cloned().unwrap_or(Origin::Flag("[[listeners]]".to_owned()));
    let written = Written::read(&mut Reader::new(vec![table]))?;
    let wrong = |name: &str, what: &str| ConfigError::value(&format!("listeners.{name}"), &origin, what);
    let serves = serves(&written.protocols).map_err(|what| wrong("protocols", &what))?;
    if written.port == 0 {
        return Err(wrong("port", "a listener has a port; write a number from 1 to 65535"));
    }
    let Some(port) = written.port.checked_add(listen.port_offset) else {
        return Err(wrong("port", "with port_offset it is above 65535; use a lower one"));
    };
    if !written.prefix.is_empty() && !matches!(serves, Serves::Http(_)) {
        return Err(wrong("path_prefix", "only HTTP has paths; leave it out, or write protocols = \"http\""));
    }
    let asked = match serves {
        Serves::Any(_) => written.tls.or(listen.tls.certificate.is_some().then_some(true)),
        _ => written.tls,
    };
    let tls = tls(listen, &written, asked).map_err(|(name, what)| wrong(name, what))?;
    let serves = match serves {
        Serves::Any(_) => any(tls.as_ref(), written.tls),
        other => other,
    };
    let protocol = match serves {
        Serves::Any(Plain::Served) => all_protocols(None),
        Serves::Any(Plain::Refused) => all_protocols(tls.as_ref()),
        _ => listed(written.protocols.iter().map(String::as_str), tls.as_ref()),
    };
    let default_name = if matches!(serves, Serves::Any(_)) { "any" } else { &protocol };
    Ok(Listening {
        name: if written.name.is_empty() { format!("{default_name}:{}", written.port) } else { written.name },
        protocol,
        serves,
        missing: if written.bind.is_some() { MissingAddress::Refused } else { missing },
        taken: TakenPort::Refused,
        addresses: at(written.bind.as_deref().unwrap_or(listen.bind), port),
        tls,
        most: written.most,
        proxies: written.proxies,
        prefix: written.prefix,
        origin,
    })
}

/// What a listener for everything serves: without TLS nothing, where TLS is asked for by name, or
/// where who comes without a certificate is refused.
fn any(tls: Option<&Tls>, asked: Option<bool>) -> Serves {
    let refused = tls.is_some_and(|tls| asked == Some(true) || tls.verify == Verify::Required);
    Serves::Any(if refused { Plain::Refused } else { Plain::Served })
}

/// What listings call these, where connections are encrypted or not.
fn listed<'n>(names: impl Iterator<Item = &'n str>, tls: Option<&Tls>) -> String {
    let suffix = if tls.is_some() { "s" } else { "" };
    names.map(|name| format!("{}{suffix}", name.replace('_', "-"))).collect::<Vec<_>>().join("/")
}

fn all_protocols(tls: Option<&Tls>) -> String {
    listed(SERVED.iter().map(|served| served.names.name), tls)
}

/// What these words stand for.
fn serves(words: &[String]) -> Result<Serves, String> {
    let mut own = Vec::new();
    let mut alone = Vec::new();
    for word in words {
        let is_row = |served: &&Served| served.names.name == word;
        let is_web = |served: &&Served| served.web.as_ref().is_some_and(|web| web.name.replace('-', "_") == *word);
        let place = |which: &dyn Fn(&&Served) -> bool| SERVED.iter().position(|served| which(&served));
        if let Some(row) = place(&is_row) {
            if own.contains(&row) {
                return Err(format!("'{word}' is there already; write each once"));
            }
            own.push(row);
        } else if let Some(row) = place(&is_web) {
            alone.push(Serves::Web(row));
        } else if word == "http" {
            alone.push(Serves::Http(Pages::All));
        } else if word == "metrics" {
            alone.push(Serves::Http(Pages::Observation));
        } else if word == ANY_WORD {
            alone.push(Serves::Any(Plain::Served));
        } else {
            return Err(format!("'{word}' is none of {}", known().join(", ")));
        }
    }
    match (own.is_empty(), alone.len()) {
        (false, 0) => Ok(Serves::Protocols(own)),
        (true, 1) => Ok(alone.remove(0)),
        (true, 0) => Err(format!("a listener serves something; write one of {}", known().join(", "))),
        _ => Err(format!("{} cannot share a port; write a listener for each", words.join(" and "))),
    }
}

/// The words for what a listener may serve.
fn known() -> Vec<String> {
    let web = SERVED.iter().filter_map(|served| served.web.as_ref()).map(|web| web.name.replace('-', "_"));
    let rows = SERVED.iter().map(|served| served.names.name.to_owned());
    rows.chain(web).chain(["http", "metrics", ANY_WORD].map(str::to_owned)).collect()
}

/// Its TLS, or the setting that is wrong and why. `asked` says whether there is any.
fn tls(listen: Short<'_>, written: &Written, asked: Option<bool>) -> Result<Option<Tls>, (&'static str, &'static str)> {
    let Written { certificates, keys, ca, verify, .. } = written;
    let is_plain = asked == Some(false) || (asked.is_none() && certificates.is_empty());
    if is_plain {
        let named = [("certificates", !certificates.is_empty()), ("keys", !keys.is_empty())];
        let named = named.into_iter().chain([("ca", ca.is_some()), ("verify", verify.is_some())]);
        return match named.into_iter().find(|(_, is_set)| *is_set) {
            Some((name, _)) => {
                Err((name, "this listener is without TLS; write tls = true and its certificates, or leave it out"))
            }
            None => Ok(None),
        };
    }
    let mut own = listen.tls.clone();
    if certificates.is_empty() {
        if own.certificate.is_none() {
            return Err(("tls", "there is no TLS without a certificate; name certificates here, or tls.certificate"));
        }
        if !keys.is_empty() {
            return Err(("keys", "there are no certificates for them; name certificates, too"));
        }
    } else {
        if !keys.is_empty() && keys.len() != certificates.len() {
            return Err(("keys", "there are not as many as certificates; write one for each, in the same order"));
        }
        let mut files = certificates.iter().enumerate().map(|(at, certificate)| CertificateFiles {
            certificate: PathBuf::from(certificate),
            key: keys.get(at).map(PathBuf::from),
        });
        let first = files.next();
        own.key = first.as_ref().and_then(|files| files.key.clone());
        own.certificate = first.map(|files| files.certificate);
        own.others = files.collect();
        own.words = &OF_LISTENERS;
    }
    own.verify = verify.unwrap_or(own.verify);
    own.ca = match own.verify {
        Verify::None if ca.is_some() => {
            return Err((
                "ca",
                "clients are not asked for certificates; set verify to peer or required, or leave ca out",
            ));
        }
        Verify::None => None,
        Verify::Peer | Verify::Required => ca.clone().or(own.ca),
    };
    if own.verify != Verify::None && own.ca.is_none() {
        return Err(("verify", "no certificates would be trusted; name the file of their issuers with ca or tls.ca"));
    }
    Ok(Some(own))
}

fn at(addresses: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    let every = addresses.iter().any(|address| address.is_ipv6() && address.is_unspecified());
    // `[::]` serves IPv4 as well.
    let served = addresses.iter().filter(|address| !every || !address.is_ipv4());
    served.map(|address| SocketAddr::new(*address, port)).collect()
}

/// What `bind`, `ports.*` and `tls.certificate` stand for, in the order of listings.
fn short_form(listen: Short<'_>, missing: MissingAddress) -> Vec<Listening> {
    let secure = listen.tls.certificate.as_ref().map(|_| listen.tls.clone());
    let make = |port: &Port, protocol: &str, serves: Serves, tls: Option<Tls>| {
        let number = listen.ports.of(port);
        (number != 0).then(|| Listening {
            name: port.setting.to_owned(),
            protocol: match serves {
                Serves::Any(Plain::Served) => all_protocols(None),
                Serves::Any(Plain::Refused) => all_protocols(tls.as_ref()),
                _ => listed([protocol].into_iter(), tls.as_ref()),
            },
            serves,
            addresses: at(listen.bind, number + listen.port_offset),
            missing,
            taken: TakenPort::Refused,
            tls,
            most: None,
            proxies: Vec::new(),
            prefix: String::new(),
            origin: Origin::Default,
        })
    };
    // Each port serves the protocol that it is named for, and those that share it.
    let own = |port_of: fn((&'static Port, &'static Port)) -> &'static Port, tls: Option<Tls>| -> Vec<Listening> {
        let served = |row: usize| (row..SERVED.len()).filter(|other| SERVED[*other].host() == row).collect();
        let ports = (0..SERVED.len()).filter_map(|row| Some((row, SERVED[row].own_ports().map(port_of)?)));
        ports
            .filter_map(|(row, port)| make(port, SERVED[row].names.name, Serves::Protocols(served(row)), tls.clone()))
            .collect()
    };
    let web =
        |port_of: fn(&'static crate::protocols::ServedWeb) -> &'static Port, tls: Option<Tls>| -> Vec<Listening> {
            let rows = SERVED.iter().enumerate().filter_map(|(row, served)| Some((row, served.web.as_ref()?)));
            rows.filter_map(|(row, web)| make(port_of(web), web.name, Serves::Web(row), tls.clone())).collect()
        };
    let mut all = own(|(plain, _)| plain, None);
    if secure.is_some() {
        all.extend(own(|(_, over_tls)| over_tls, secure.clone()));
    }
    all.extend(web(|web| &web.port, None));
    if secure.is_some() {
        all.extend(web(|web| &web.secure_port, secure.clone()));
    }
    all.extend(make(&HTTP, "http", Serves::Http(Pages::All), None));
    if secure.is_some() {
        all.extend(make(&HTTPS, "http", Serves::Http(Pages::All), secure.clone()));
    }
    all.extend(make(&ANY, ANY_WORD, any(secure.as_ref(), None), secure));
    all
}

#[cfg(test)]
mod tests;
