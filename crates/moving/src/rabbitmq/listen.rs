//! Listeners of RabbitMQ: what was open stays open, and nothing else is opened. Hermod opens STOMP
//! and MQTT by itself, RabbitMQ only with a plugin.

use super::{Entry, Gathered, last};
use crate::outcome::{Listener, Outcome};

/// An address of a listener. `None` is every address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    address: Option<String>,
    port: u16,
}

impl Place {
    /// `5672`, `127.0.0.1:5672`, `::1:5672` or `[::]:5672`: the port is the last field.
    fn read(text: &str) -> Option<Self> {
        let (address, port) = text.rsplit_once(':').unwrap_or(("", text));
        let address = address.trim_matches(['[', ']']);
        let everywhere = matches!(address, "" | "0.0.0.0" | "::" | "*" | "auto");
        let address = if everywhere { None } else { Some(address.to_owned()) };
        address.iter().all(|address| address.parse::<std::net::IpAddr>().is_ok()).then_some(())?;
        Some(Self { address, port: port.trim().parse().ok()? })
    }

    fn bind(&self) -> String {
        self.address.clone().unwrap_or_else(|| "*".to_owned())
    }
}

/// Whether there is a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tls {
    Possible,
    Missing,
}

/// Why nothing is made of the other parts of TLS.
const NO_CERTIFICATE: &str = "without a certificate (ssl_options.certfile) there is no TLS";

/// Whose certificate management has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Own,
    Shared,
}

/// A protocol's listeners of one kind.
#[derive(Debug, Default)]
struct Open {
    places: Vec<(Entry, Place)>,
    /// Whether the file says that there are none.
    none: Option<Entry>,
}

fn open(gathered: &Gathered, key: &str, outcome: &mut Outcome<'_>) -> Open {
    let mut open = Open::default();
    if let Some(entry) = gathered.entry(key).filter(|entry| entry.value == "none") {
        open.none = Some(entry.clone());
    }
    for entry in gathered.below(&format!("{key}.")) {
        if open.none.is_some() {
            outcome.needless(entry.line, &entry.key, format!("{key} = none wins over it"));
        } else if let Some(place) = Place::read(&entry.value) {
            open.places.push((entry.clone(), place));
        } else {
            outcome.left_out(entry.line, &entry.key, "its value is no port, and no address with a port");
        }
    }
    open.without_covered(outcome);
    open
}

impl Open {
    /// A port that is open at every address is open at each of them, too.
    fn without_covered(&mut self, outcome: &mut Outcome<'_>) {
        let wide: Vec<u16> =
            self.places.iter().filter(|(_, place)| place.address.is_none()).map(|(_, place)| place.port).collect();
        self.places.retain(|(entry, place)| {
            let covered = place.address.is_some() && wide.contains(&place.port);
            if covered {
                outcome.needless(entry.line, &entry.key, "its port is open at every address already");
            }
            !covered
        });
    }
}

/// All listeners.
pub(super) fn convert(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let tls = certificate(gathered, outcome);
    let mut plain = open(gathered, "listeners.tcp", outcome);
    if let (Some(entry), true) = (gathered.entry("env.NODE_IP_ADDRESS"), plain.none.is_none()) {
        let port = plain.places.first().map_or(5672, |(_, place)| place.port);
        if let Some(place) = Place::read(&format!("{}:{port}", entry.value)) {
            plain.places = vec![(entry.clone(), place)];
        }
    }
    let secure = open(gathered, "listeners.ssl", outcome);
    let bind = plain.places.first().or(secure.places.first()).map_or_else(|| "*".to_owned(), |(_, place)| place.bind());
    // Hermod's default is this machine alone.
    outcome.put("bind", bind.clone());
    let sides = [("amqp", &plain, "ports.amqp", false), ("amqp", &secure, "ports.amqps", true)];
    for (protocol, open, setting, encrypted) in sides {
        if !encrypted || tls == Tls::Possible {
            listeners(protocol, open, (setting, encrypted), &bind, outcome);
        } else {
            if let Some(entry) = &open.none {
                outcome.needless(entry.line, &entry.key, "without a certificate none is open");
            }
            for (entry, _) in &open.places {
                outcome.left_out(
                    entry.line,
                    &entry.key,
                    "there is no certificate to open it with (ssl_options.certfile)",
                );
            }
        }
    }
    if tls == Tls::Possible && secure.places.is_empty() {
        outcome.put("ports.amqps", "0");
        outcome.warn("there is a certificate, and no listeners.ssl: RabbitMQ opens no port over TLS, and neither do these settings");
    }
    other_protocol(gathered, "stomp", "STOMP", tls, &bind, outcome);
    other_protocol(gathered, "mqtt", "MQTT", tls, &bind, outcome);
    http(gathered, tls, &bind, outcome);
    metrics(gathered, outcome);
    proxies(gathered, outcome);
}

/// One port is the short form; each further one is a listener of its own.
fn listeners(protocol: &'static str, open: &Open, port: (&'static str, bool), bind: &str, outcome: &mut Outcome<'_>) {
    let (setting, encrypted) = port;
    if let Some(entry) = &open.none {
        outcome.set(entry.line, &entry.key, setting, "0");
    }
    let mut short = false;
    for (entry, place) in &open.places {
        if !short && place.bind() == bind {
            short = true;
            outcome.set(entry.line, &entry.key, setting, place.port.to_string());
            continue;
        }
        let name = format!("{protocol}-{}", last(&entry.key));
        let fields = if encrypted { vec![("tls", toml::Value::Boolean(true))] } else { Vec::new() };
        outcome.moved(entry.line, &entry.key, format!("the listener {name}"));
        outcome.listen(Listener {
            name,
            protocols: vec![protocol],
            bind: Some(place.bind()),
            port: place.port,
            fields,
        });
    }
    if !short && !open.places.is_empty() {
        outcome.put(setting, "0");
    }
}

/// The certificate of all listeners.
fn certificate(gathered: &Gathered, outcome: &mut Outcome<'_>) -> Tls {
    let has = gathered.entry("ssl_options.certfile").is_some();
    for (key, setting) in [("certfile", "tls.certificate"), ("keyfile", "tls.key"), ("password", "tls.key_password")] {
        let Some(entry) = gathered.entry(&format!("ssl_options.{key}")) else { continue };
        match has {
            true => outcome.set(entry.line, &entry.key, setting, entry.value.clone()),
            false => outcome.left_out(entry.line, &entry.key, NO_CERTIFICATE),
        }
    }
    let (verify, fail) = (gathered.entry("ssl_options.verify"), gathered.entry("ssl_options.fail_if_no_peer_cert"));
    let asked = match (verify.map(|entry| entry.value.as_str()), fail.map(|entry| entry.value.as_str())) {
        (Some("verify_peer"), Some("true")) => Some("required"),
        (Some("verify_peer"), _) => Some("peer"),
        (Some("verify_none") | None, _) => Some("none"),
        _ => None,
    };
    for entry in [verify, fail].into_iter().flatten() {
        match asked {
            // Who adds a certificate later must not forget it.
            asked if !has && asked != Some("none") => {
                let text = format!("{NO_CERTIFICATE}; with one, set tls.verify = {}", asked.unwrap_or("required"));
                outcome.left_out(entry.line, &entry.key, text);
            }
            Some(asked) => outcome.set(entry.line, &entry.key, "tls.verify", asked),
            // Never laxer: what can't be read is the strictest.
            None => {
                outcome.put("tls.verify", "required");
                outcome.left_out(
                    entry.line,
                    &entry.key,
                    "expected verify_peer or verify_none; tls.verify is now required",
                );
            }
        }
    }
    if let Some(entry) = gathered.entry("ssl_options.cacertfile") {
        match asked {
            Some("none") => outcome.needless(entry.line, &entry.key, "clients are not asked for certificates"),
            _ if !has => outcome.left_out(entry.line, &entry.key, NO_CERTIFICATE),
            _ => outcome.set(entry.line, &entry.key, "tls.ca", entry.value.clone()),
        }
    }
    let versions = gathered.numbered("ssl_options.versions.");
    if let Some(first) = versions.first() {
        let old = versions.iter().any(|entry| matches!(entry.value.as_str(), "tlsv1" | "tlsv1.1" | "sslv3"));
        let least = if versions.iter().all(|entry| entry.value == "tlsv1.3") { "1.3" } else { "1.2" };
        outcome.set(first.line, "ssl_options.versions", "tls.least_version", least);
        if old {
            outcome.warn("TLS below 1.2 is not spoken: clients that have nothing newer can't connect");
        }
    }
    if has && gathered.entry("ssl_options.cacertfile").is_some() {
        outcome.warn(
            "issuers of the server's own certificate must stand in the file of tls.certificate, behind it: tls.ca is for \
             certificates of clients alone",
        );
    }
    if has { Tls::Possible } else { Tls::Missing }
}

/// STOMP or MQTT, which RabbitMQ has as plugins.
fn other_protocol(gathered: &Gathered, key: &'static str, name: &str, tls: Tls, bind: &str, outcome: &mut Outcome<'_>) {
    let (plain_setting, secure_setting, default) = match key {
        "stomp" => ("ports.stomp", "ports.stomps", "61613"),
        _ => ("ports.mqtt", "ports.mqtts", "1883"),
    };
    let plain = open(gathered, &format!("{key}.listeners.tcp"), outcome);
    let secure = open(gathered, &format!("{key}.listeners.ssl"), outcome);
    let plugin = gathered.entry(&format!("plugin.rabbitmq_{key}"));
    let used = gathered.below(&format!("{key}.")).next().is_some();
    listeners(key_of(key), &plain, (plain_setting, false), bind, outcome);
    if tls == Tls::Possible {
        listeners(key_of(key), &secure, (secure_setting, true), bind, outcome);
        if secure.places.is_empty() {
            outcome.put(secure_setting, "0");
        }
    }
    if let Some(plugin) = plugin {
        outcome.moved(plugin.line, &plugin.key, plain_setting);
    }
    if plain.places.is_empty() && plain.none.is_none() {
        if used || plugin.is_some() {
            outcome.put(plain_setting, default);
        } else {
            outcome.put(plain_setting, "0");
            outcome.warn(format!(
                "{name} is closed, because these files do not mention it; if its plugin was on: {plain_setting} = {default}"
            ));
        }
    }
}

fn key_of(key: &str) -> &'static str {
    if key == "stomp" { "stomp" } else { "mqtt" }
}

/// The management API and the console.
fn http(gathered: &Gathered, tls: Tls, bind: &str, outcome: &mut Outcome<'_>) {
    let mentioned = ["management.", "plugin.rabbitmq_management", "prometheus."];
    if mentioned.iter().all(|start| gathered.below(start).next().is_none()) {
        outcome.warn("HTTP (management, metrics) is open at 15672, with log-in; if its plugin was off: ports.http = 0");
    }
    let old_is_secure = gathered.is_true("management.listener.ssl");
    let listener = gathered.entry("management.listener.port");
    let plain = gathered.entry("management.tcp.port").or(listener.filter(|_| !old_is_secure));
    let secure = gathered.entry("management.ssl.port").or(listener.filter(|_| old_is_secure));
    if let Some(entry) = gathered.entry("management.listener.ssl") {
        outcome.moved(entry.line, &entry.key, if old_is_secure { "ports.https" } else { "ports.http" });
    }
    let own = own_certificate(gathered, outcome);
    let prefix = gathered.entry("management.path_prefix");
    let path = prefix.map_or("", |entry| entry.value.trim_matches('/'));
    if let Some(entry) = prefix.filter(|_| path.is_empty()) {
        outcome.needless(entry.line, &entry.key, "it is no prefix");
    }
    let prefix = prefix.filter(|_| !path.is_empty());
    let addresses = ["management.tcp.ip", "management.listener.ip"].into_iter().find_map(|key| gathered.entry(key));
    let address = addresses.and_then(|entry| Place::read(&format!("{}:1", entry.value))).map(|place| place.bind());
    let apart = prefix.is_some() || address.as_ref().is_some_and(|address| address != bind);
    if let Some(entry) = addresses {
        let text = if apart { "the listener http" } else { "bind" };
        outcome.moved(entry.line, &entry.key, text);
    }
    if apart {
        let port = plain.and_then(|entry| entry.value.parse().ok()).unwrap_or(15672);
        let path = prefix.map(|_| ("path_prefix", toml::Value::String(format!("/{path}"))));
        for entry in plain.into_iter().chain(prefix) {
            outcome.moved(entry.line, &entry.key, "the listener http");
        }
        outcome.put("ports.http", "0");
        let fields = path.into_iter().collect();
        outcome.listen(Listener { name: "http".to_owned(), protocols: vec!["http"], bind: address, port, fields });
    } else if let Some(entry) = plain {
        outcome.set(entry.line, &entry.key, "ports.http", entry.value.clone());
    }
    match secure {
        Some(entry) if !own.is_empty() => {
            let port = entry.value.parse().unwrap_or(15671);
            outcome.moved(entry.line, &entry.key, "the listener https");
            outcome.listen(Listener {
                name: "https".to_owned(),
                protocols: vec!["http"],
                bind: None,
                port,
                fields: own,
            });
        }
        Some(entry) if tls == Tls::Possible => outcome.set(entry.line, &entry.key, "ports.https", entry.value.clone()),
        Some(entry) => outcome.left_out(entry.line, &entry.key, "there is no certificate to open it with"),
        None => {}
    }
    if tls == Tls::Possible && (secure.is_none() || outcome.setting("ports.https").is_none()) {
        outcome.put("ports.https", "0");
    }
    if plain.is_none() && secure.is_some() && !apart {
        outcome.put("ports.http", "0");
        outcome.warn("HTTP is open over TLS only, as before: health checks and Prometheus ask there, too");
    }
}

/// The fields of a listener with the certificate that management alone has; none if it is that of
/// the others.
fn own_certificate(gathered: &Gathered, outcome: &mut Outcome<'_>) -> Vec<(&'static str, toml::Value)> {
    let mut fields = Vec::new();
    for prefix in ["management.ssl.", "management.listener.ssl_opts."] {
        let certificate = gathered.value(&format!("{prefix}certfile"));
        let differs = certificate.is_some() && certificate != gathered.value("ssl_options.certfile");
        let asks = gathered.value(&format!("{prefix}verify")) == Some("verify_peer");
        for (key, field) in [("certfile", "certificates"), ("keyfile", "keys"), ("cacertfile", "ca")] {
            let Some(entry) = gathered.entry(&format!("{prefix}{key}")) else { continue };
            if !differs {
                outcome.needless(entry.line, &entry.key, "the certificate is that of ssl_options");
                continue;
            }
            if field == "ca" && !asks {
                outcome.needless(entry.line, &entry.key, "clients are not asked for certificates");
                continue;
            }
            outcome.moved(entry.line, &entry.key, "the listener https");
            let value = toml::Value::String(entry.value.clone());
            fields.push((field, if field == "ca" { value } else { toml::Value::Array(vec![value]) }));
        }
        let whose = if differs { Whose::Own } else { Whose::Shared };
        verify_of_management(gathered, prefix, whose, &mut fields, outcome);
    }
    fields
}

fn verify_of_management(
    gathered: &Gathered,
    prefix: &str,
    whose: Whose,
    fields: &mut Vec<(&'static str, toml::Value)>,
    outcome: &mut Outcome<'_>,
) {
    let verify = gathered.entry(&format!("{prefix}verify"));
    let fail = gathered.entry(&format!("{prefix}fail_if_no_peer_cert"));
    let verified = verify.is_some_and(|entry| entry.value == "verify_peer");
    let asked = match fail.is_some_and(|entry| entry.value == "true") {
        true if verified => "required",
        _ if verified => "peer",
        _ => "none",
    };
    for entry in [verify, fail].into_iter().flatten() {
        if whose == Whose::Own {
            outcome.moved(entry.line, &entry.key, "the listener https");
        } else {
            outcome.needless(entry.line, &entry.key, "certificates of clients are asked for as by ssl_options");
        }
    }
    if whose == Whose::Own {
        fields.push(("verify", toml::Value::String(asked.to_owned())));
    }
}

/// A port for metrics alone.
fn metrics(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    if let Some(Entry { line, key, value }) = gathered.entry("prometheus.path") {
        match value.trim_end_matches('/') {
            "/metrics" => outcome.needless(*line, key, "metrics are there"),
            _ => outcome.left_out(*line, key, "metrics are at /metrics"),
        }
    }
    let Some(entry) = gathered.entry("prometheus.tcp.port") else { return };
    let Ok(port) = entry.value.parse() else {
        return outcome.left_out(entry.line, &entry.key, "its value is no port");
    };
    let address = gathered.entry("prometheus.tcp.ip");
    let bind = address.and_then(|entry| Place::read(&format!("{}:1", entry.value))).map(|place| place.bind());
    for entry in [Some(entry), address].into_iter().flatten() {
        outcome.moved(entry.line, &entry.key, "the listener metrics");
    }
    outcome.listen(Listener { name: "metrics".to_owned(), protocols: vec!["metrics"], bind, port, fields: Vec::new() });
}

/// The PROXY protocol: RabbitMQ takes its headers from everyone.
fn proxies(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    for entry in ["proxy_protocol", "mqtt.proxy_protocol"].into_iter().filter_map(|key| gathered.entry(key)) {
        if entry.value == "true" {
            let text =
                "write a listener with proxy_protocol = [NETWORK]; headers are taken from the proxies' networks only";
            outcome.left_out(entry.line, &entry.key, text);
        } else {
            outcome.needless(entry.line, &entry.key, "it is off, as by default");
        }
    }
}
