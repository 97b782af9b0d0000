//! From the listeners of the settings to sockets, and to what is served there.
//!
//! Sockets are bound before anything else is opened. So a port in use is reported at once, and
//! early clients wait instead of failing.

use std::sync::Arc;

use broker::Broker;
use management::{Endpoints, Handshake, Hosts, HttpListener, Introduce, ListenerRow};
use net::{Admission, Listener, Nagle, Net};
use wire::Protocol;

use crate::config::{Config, Listening, MissingAddress, Serves, Settings, TakenPort};
use crate::exit::{Exit, Failure};
use crate::log::START;
use crate::machine;
use crate::protocols::{OwnSettings, SERVED, ServedWeb};
use crate::tls::{AllCertificates, Certificates};

/// A listener of the settings, and its sockets.
pub(crate) struct Bound {
    listening: Listening,
    sockets: Vec<Listener>,
}

/// Binds all of them.
pub(crate) fn bind(config: &Config) -> Result<Vec<Bound>, Failure> {
    let listen = &config.settings.listen;
    let nagle = if listen.tcp.nodelay { Nagle::Off } else { Nagle::On };
    listen.all.iter().map(|listening| bind_one(listening, nagle)).collect()
}

fn bind_one(listening: &Listening, nagle: Nagle) -> Result<Bound, Failure> {
    let admission = Admission {
        most: listening.most.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        proxies: listening.proxies.clone(),
    };
    let mut sockets = Vec::new();
    for address in &listening.addresses {
        match Listener::bind(*address, nagle) {
            Ok(listener) => sockets.push(listener.with(admission.clone())),
            Err(error) if listening.missing == MissingAddress::Skipped && error.is_unavailable() => {
                tracing::debug!("{error}");
            }
            Err(error) if listening.taken == TakenPort::Skipped && error.is_taken() => {
                tracing::warn!(
                    "{} is not served: {error}; or set {} to another one",
                    listening.protocol,
                    listening.name
                );
            }
            Err(error) if listening.is_own() => {
                return Err(Exit::System.because(format!("{}: {}: {error}", listening.origin, listening.name)));
            }
            Err(error) => return Err(Exit::System.because(error)),
        }
    }
    Ok(Bound { listening: listening.clone(), sockets })
}

/// A bound socket and what is served there. Clients that connect early wait until it is opened.
pub(crate) struct Entrance {
    listener: Listener,
    leads_to: LeadsTo,
}

enum LeadsTo {
    /// These protocols, all in the same wrapping. The first one answers peers of unknown protocols.
    Protocols { protocols: Vec<Arc<dyn Protocol>>, tls: Option<Arc<dyn net::Tls>>, web: Option<net::Web> },
    /// Whatever the first bytes ask for.
    Any(net::Any),
}

impl Entrance {
    pub(crate) fn open(self, net: &Net) -> std::io::Result<()> {
        match self.leads_to {
            LeadsTo::Protocols { protocols, tls, web } => net.serve(self.listener, &protocols, tls, web),
            LeadsTo::Any(any) => net.serve_any(self.listener, any),
        }
    }
}

/// Decides which protocols each socket serves, and how management is reached.
pub(crate) fn furnish(
    settings: &Settings,
    broker: &Broker,
    bound: Vec<Bound>,
    certificates: &AllCertificates,
    limits: management::Limits,
) -> (Vec<Entrance>, Vec<ListenerRow>, Endpoints) {
    let made: Vec<_> = settings.protocols.iter().map(|own| own.make(broker, settings)).collect();
    let hosts = Arc::new(Hosts::new(&machine::name(), settings.http.hosts.clone()));
    let pages = Pages { own: &settings.protocols, hosts: hosts.clone() };
    let (mut entrances, mut rows, mut http) = (Vec::new(), Vec::new(), Vec::new());
    for Bound { listening, sockets } in bound {
        let tls = listening.tls.as_ref().and_then(|tls| certificates.of(tls));
        for listener in sockets {
            rows.push(row(&listening, &listener));
            let of_sockets = tls.clone().map(|certificates| certificates as Arc<dyn net::Tls>);
            let fixed = |protocols, web| LeadsTo::Protocols { protocols, tls: of_sockets.clone(), web };
            let leads_to = match &listening.serves {
                Serves::Protocols(rows) => fixed(rows.iter().map(|row| made[*row].clone()).collect(), None),
                Serves::Web(row) => fixed(vec![made[*row].clone()], pages.web(*row)),
                Serves::Any(plain) => {
                    let spoken = made.iter().zip(SERVED).map(|(protocol, served)| net::Spoken {
                        protocol: protocol.clone(),
                        alpn: served.alpn,
                        web: served.web_host().and_then(|row| pages.web(row)),
                    });
                    LeadsTo::Any(net::Any { spoken: spoken.collect(), tls: of_sockets, plain: *plain })
                }
                Serves::Http(answered) => {
                    http.push(for_http(settings, &listening, *answered, listener, tls.clone()));
                    continue;
                }
            };
            entrances.push(Entrance { listener, leads_to });
        }
    }
    let per_object = settings.http.per_object;
    (entrances, rows, Endpoints { listeners: http, limits, hosts, per_object, control: None })
}

fn for_http(
    settings: &Settings,
    listening: &Listening,
    pages: management::Pages,
    listener: Listener,
    certificates: Option<Arc<Certificates>>,
) -> HttpListener {
    let tls = certificates.map(|certificates| Handshake {
        config: Arc::new(move || net::Tls::config(&*certificates)),
        patience: settings.listen.tls.handshake_timeout,
    });
    let proxies: Arc<[_]> = listening.proxies.clone().into();
    let introduce = (!proxies.is_empty()).then(|| -> Arc<Introduce> {
        Arc::new(move |socket, peer| {
            let proxies = proxies.clone();
            Box::pin(async move { net::introduce(socket, peer, &proxies).await.map_err(|why| why.to_string()) })
        })
    });
    HttpListener {
        socket: listener.into_socket(),
        tls,
        most: listening.most.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        introduce,
        pages,
        prefix: listening.prefix.clone(),
    }
}

/// The listeners of HTTP, for a node that follows another and serves no client. A port that is
/// taken is only needed once it serves.
pub(crate) fn for_standby(settings: &Settings, certificates: &AllCertificates) -> Vec<HttpListener> {
    let nagle = if settings.listen.tcp.nodelay { Nagle::Off } else { Nagle::On };
    let mut http = Vec::new();
    for listening in &settings.listen.all {
        let Serves::Http(pages) = listening.serves else { continue };
        let tls = listening.tls.as_ref().and_then(|tls| certificates.of(tls));
        if listening.tls.is_some() && tls.is_none() {
            continue;
        }
        for address in &listening.addresses {
            match Listener::bind(*address, nagle) {
                Ok(listener) => {
                    let (protocol, bound) = (&listening.protocol, listener.address().unwrap_or(*address));
                    tracing::info!(target: START, "listening for {protocol} on {bound}: metrics, health and page of a standby");
                    http.push(for_http(settings, listening, pages, listener, tls.clone()));
                }
                Err(error) if listening.missing == MissingAddress::Skipped && error.is_unavailable() => {}
                Err(error) => tracing::warn!("{address} is not served: {error}"),
            }
        }
    }
    http
}

/// The pages that may open WebSockets.
struct Pages<'s> {
    /// Each protocol has origins of its own.
    own: &'s [Arc<dyn OwnSettings>],
    hosts: Arc<Hosts>,
}

impl Pages<'_> {
    fn web(&self, row: usize) -> Option<net::Web> {
        let ServedWeb { subprotocols, messages, .. } = *SERVED[row].web.as_ref()?;
        let hosts = self.hosts.clone();
        let admits = move |host: &str, peer| hosts.admits(host, peer);
        Some(net::Web { subprotocols, origins: self.own[row].web_origins().into(), hosts: Arc::new(admits), messages })
    }
}

fn row(listening: &Listening, listener: &Listener) -> ListenerRow {
    let address = listener.address().map_or_else(|error| error.to_string(), |address| address.to_string());
    ListenerRow {
        protocol: listening.protocol.clone(),
        address,
        name: listening.name.clone(),
        terms: listening.terms(),
    }
}
