//! Listeners as they are written, and what they come to beside those of `ports.*`.

use std::collections::BTreeMap;

use super::*;
use crate::config::Config;

/// The error of this file, or its listeners: those of their own, each on a line.
fn outcome(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.toml");
    std::fs::write(&path, text).unwrap();
    let loaded = Config::load(&BTreeMap::new(), Some(&path), &BTreeMap::new());
    match loaded {
        Err(error) => error.to_string().replace(&path.display().to_string(), "h.toml"),
        Ok(config) => {
            let all = config.settings.listen.all.iter().filter(|one| one.is_own());
            all.map(|one| format!("{}: {}", one.name, one.summary())).collect::<Vec<_>>().join("\n")
        }
    }
}

fn all_of(text: &str) -> Vec<Listening> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.toml");
    std::fs::write(&path, text).unwrap();
    Config::load(&BTreeMap::new(), Some(&path), &BTreeMap::new()).unwrap().settings.listen.all
}

#[test]
fn listeners_are_what_is_written() {
    for (text, expected) in [
        ("", ""),
        ("[[listeners]]\nprotocols = 'amqp'\nport = 7000\n", "amqp:7000: amqp at 127.0.0.1:7000 and [::1]:7000"),
        (
            "bind = '10.0.0.1'\nport_offset = 5\n[[listeners]]\nname = 'shop'\nprotocols = ['stomp', 'amqp', 'amqp10']\nport = 7000\n",
            "shop: stomp/amqp/amqp10 at 10.0.0.1:7005",
        ),
        (
            "[[listeners]]\nprotocols = 'http'\nport = 7000\nbind = '*'\npath_prefix = '/mq'\nmax_connections = 3\n",
            "http:7000: http at [::]:7000, at most 3 connections, below /mq",
        ),
        (
            "[[listeners]]\nprotocols = 'metrics'\nport = 7000\nbind = '::1'\nproxy_protocol = ['10.0.0.0/8', '::1']\n",
            "metrics:7000: metrics at [::1]:7000, PROXY protocol from 10.0.0.0/8 and ::1/128",
        ),
        (
            "[[listeners]]\nprotocols = 'web_stomp'\nport = 7000\nbind = '::1'\ncertificates = ['a', 'b']\nkeys = ['c', 'd']\nverify = 'required'\nca = 'e'\n",
            "web-stomps:7000: web-stomps at [::1]:7000, TLS, client certificates required",
        ),
        (
            "tls.certificate = 'a'\ntls.ca = 'b'\ntls.verify = 'peer'\n[[listeners]]\nprotocols = 'amqp'\nport = 7000\nbind = '::1'\ntls = true\n",
            "amqps:7000: amqps at [::1]:7000, TLS, client certificates verified",
        ),
        (
            "tls.certificate = 'a'\ntls.ca = 'b'\ntls.verify = 'peer'\n[[listeners]]\nprotocols = 'amqp'\nport = 7000\nbind = '::1'\ntls = true\nverify = 'none'\n",
            "amqps:7000: amqps at [::1]:7000, TLS",
        ),
        (
            "[[listeners]]\nprotocols = 'any'\nport = 7000\nbind = '::1'\n",
            "any:7000: amqp/amqp10/stomp/mqtt at [::1]:7000, WebSocket or none",
        ),
        (
            "tls.certificate = 'a'\n[[listeners]]\nprotocols = 'any'\nport = 7000\nbind = '::1'\n",
            "any:7000: amqp/amqp10/stomp/mqtt at [::1]:7000, TLS or none, WebSocket or none",
        ),
        (
            "tls.certificate = 'a'\n[[listeners]]\nprotocols = 'any'\nport = 7000\nbind = '::1'\ntls = false\n",
            "any:7000: amqp/amqp10/stomp/mqtt at [::1]:7000, WebSocket or none",
        ),
        (
            "tls.certificate = 'a'\n[[listeners]]\nprotocols = 'any'\nport = 7000\nbind = '::1'\ntls = true\n",
            "any:7000: amqps/amqp10s/stomps/mqtts at [::1]:7000, TLS, WebSocket or none",
        ),
        // Plain bytes would be a way around the certificates that are required.
        (
            "[[listeners]]\nprotocols = 'any'\nport = 7000\nbind = '::1'\ncertificates = 'a'\nca = 'b'\nverify = 'required'\n",
            "any:7000: amqps/amqp10s/stomps/mqtts at [::1]:7000, TLS, client certificates required, WebSocket or none",
        ),
    ] {
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn what_contradicts_itself_is_refused_by_name() {
    let good = "[[listeners]]\nprotocols = 'amqp'\nport = 7000\n";
    for (more, expected) in [
        ("protocl = 'amqp'\n", "h.toml:4: there is no setting listeners.protocl; did you mean listeners.protocols?"),
        (
            "[[listeners]]\nport = 1\n",
            "h.toml:5: listeners.protocols: a listener serves something; write one of amqp, amqp10, stomp",
        ),
        ("[[listeners]]\nprotocols = 'stomp'\n", "h.toml:5: listeners.port: a listener has a port"),
        (
            "[[listeners]]\nprotocols = 'coap'\nport = 1\n",
            "h.toml:5: listeners.protocols: 'coap' is none of amqp, amqp10, stomp, mqtt, web_amqp, web_stomp, web_mqtt, http,",
        ),
        (
            "[[listeners]]\nprotocols = ['amqp', 'amqp']\nport = 1\n",
            "h.toml:5: listeners.protocols: 'amqp' is there already",
        ),
        (
            "[[listeners]]\nprotocols = ['amqp', 'http']\nport = 1\n",
            "h.toml:5: listeners.protocols: amqp and http cannot share a port",
        ),
        (
            "[[listeners]]\nprotocols = ['any', 'amqp']\nport = 1\n",
            "h.toml:5: listeners.protocols: any and amqp cannot share a port",
        ),
        (
            "[[listeners]]\nprotocols = 'stomp'\nport = 7000\n",
            "h.toml:5: listeners.port: 127.0.0.1:7000 is served by amqp:7000 already",
        ),
        (
            "[[listeners]]\nname = 'amqp:7000'\nprotocols = 'stomp'\nport = 7001\n",
            "h.toml:5: listeners.name: 'amqp:7000' is the name of that at h.toml:2 already",
        ),
        ("path_prefix = '/x'\n", "h.toml:2: listeners.path_prefix: only HTTP has paths"),
        ("path_prefix = 'x'\n", "h.toml:4: listeners.path_prefix: 'x' is no prefix of paths; write it as /hermod"),
        ("tls = true\n", "h.toml:2: listeners.tls: there is no TLS without a certificate"),
        ("keys = 'a'\n", "h.toml:2: listeners.keys: this listener is without TLS"),
        ("tls = false\ncertificates = 'a'\n", "h.toml:2: listeners.certificates: this listener is without TLS"),
        ("ca = 'a'\n", "h.toml:2: listeners.ca: this listener is without TLS"),
        ("verify = 'none'\n", "h.toml:2: listeners.verify: this listener is without TLS"),
        ("certificates = 'a'\nkeys = ['b', 'c']\n", "h.toml:2: listeners.keys: there are not as many as certificates"),
        ("certificates = 'a'\nverify = 'peer'\n", "h.toml:2: listeners.verify: no certificates would be trusted"),
        ("certificates = 'a'\nca = 'b'\n", "h.toml:2: listeners.ca: clients are not asked for certificates"),
        ("max_connections = 0\n", "h.toml:4: listeners.max_connections: 0 is too little"),
        (
            "proxy_protocol = '10.0.0.1/8'\n",
            "h.toml:4: listeners.proxy_protocol: '10.0.0.1/8' has bits after the first 8; write 10.0.0.0/8",
        ),
        ("proxy_protocol = 'haproxy'\n", "h.toml:4: listeners.proxy_protocol: 'haproxy' is no network"),
        ("bind = ''\n", "h.toml:4: listeners.bind: there is no address to listen on; write at least one"),
    ] {
        let told = outcome(&format!("{good}{more}"));
        assert!(told.starts_with(expected), "{more}: {told}");
    }
    let many: String = (1..=257).map(|port| format!("[[listeners]]\nprotocols = 'amqp'\nport = {port}\n")).collect();
    assert_eq!(outcome(&many), "[[listeners]]: there are 257; the most is 256");
    let above = "port_offset = 1\n[[listeners]]\nprotocols = 'amqp'\nport = 65535\n";
    assert!(outcome(above).starts_with("h.toml:3: listeners.port: with port_offset it is above 65535"));
}

#[test]
fn a_listener_takes_the_place_of_a_port_that_is_open_by_default_only() {
    let names = |text: &str| all_of(text).into_iter().map(|one| (one.name, one.addresses.len())).collect::<Vec<_>>();
    let own = |name: &str, count| (name.to_owned(), count);
    let others = [own("ports.stomp", 2), own("ports.mqtt", 2), own("ports.http", 2)];
    assert_eq!(names(""), [&[own("ports.amqp", 2)], &others[..]].concat());
    let at =
        |address: &str| format!("[[listeners]]\nname = 'a'\nprotocols = 'amqp'\nport = 5672\nbind = '{address}'\n");
    assert_eq!(names(&at("10.0.0.1")), [&[own("ports.amqp", 2)], &others[..], &[own("a", 1)]].concat());
    assert_eq!(names(&at("0.0.0.0")), [&[own("ports.amqp", 1)], &others[..], &[own("a", 1)]].concat());
    assert_eq!(names(&at("*")), [&others[..], &[own("a", 1)]].concat());
    let asked = format!("ports.amqp = 5672\n{}", at("0.0.0.0"));
    assert_eq!(
        outcome(&asked),
        "h.toml:3: listeners.port: 0.0.0.0:5672 is served by ports.amqp already; choose another port or address"
    );
}

#[test]
fn the_short_form_serves_what_it_says() {
    let all = all_of("tls.certificate = 'a'\nports.web_stomp = 15674\nports.web_stomps = 15673\nbind = '*'\n");
    let shown: Vec<_> =
        all.iter().map(|one| (one.protocol.as_str(), one.addresses[0].port(), one.tls.is_some())).collect();
    assert_eq!(
        shown,
        [
            ("amqp", 5672, false),
            ("stomp", 61613, false),
            ("mqtt", 1883, false),
            ("amqps", 5671, true),
            ("stomps", 61614, true),
            ("mqtts", 8883, true),
            ("web-stomp", 15674, false),
            ("web-stomps", 15673, true),
            ("http", 15672, false),
            ("https", 15671, true)
        ]
    );
    let served: Vec<_> = all.iter().map(|one| one.serves.clone()).collect();
    let own = [vec![0, 1], vec![2], vec![3]].map(Serves::Protocols);
    assert_eq!((&served[..3], &served[3..6]), (&own[..], &own[..]));
    // A protocol that is turned off is served nowhere, except at the port that is for everything.
    let all = all_of("ports.amqp = 0\nports.any = 443\n");
    assert_eq!(all[0].serves, Serves::Protocols(vec![2]));
    let any = |text: &str| all_of(text).pop().map(|one| (one.name, one.protocol, one.serves, one.tls.is_some()));
    let all_plain = "amqp/amqp10/stomp/mqtt".to_owned();
    let name = || "ports.any".to_owned();
    assert_eq!(any("ports.any = 443\n"), Some((name(), all_plain.clone(), Serves::Any(Plain::Served), false)));
    let tls = "ports.any = 443\ntls.certificate = 'a'\n";
    assert_eq!(any(tls), Some((name(), all_plain, Serves::Any(Plain::Served), true)));
    let required = format!("{tls}tls.ca = 'b'\ntls.verify = 'required'\n");
    assert_eq!(any(&required).map(|(.., serves, tls)| (serves, tls)), Some((Serves::Any(Plain::Refused), true)));
}

#[test]
fn every_default_is_valid_and_described() {
    let described = describe_listener();
    assert_eq!(described.len(), 12);
    assert!(described.iter().all(|setting| !setting.doc.is_empty() && setting.name.starts_with("listeners.")));
}

/// As for the other settings: a word is never taken for something else.
#[test]
fn every_setting_of_a_listener_refuses_wrong_values() {
    let remedies = ["; write", "is none of ", "the least is", "the most is", "write at least one"];
    for setting in describe_listener() {
        let key = setting.name.strip_prefix("listeners.").unwrap();
        for wrong in crate::config::tests::wrong_values(setting.kind) {
            let others = [("protocols", "'http'"), ("port", "7000")].into_iter().filter(|(name, _)| *name != key);
            let others: String = others.map(|(name, value)| format!("{name} = {value}\n")).collect();
            let told = outcome(&format!("[[listeners]]\n{others}{key} = {}\n", toml::Value::String(wrong.to_owned())));
            assert!(told.contains(&format!(": {}: ", setting.name)), "{key} {wrong:?}: {told}");
            assert!(remedies.iter().any(|remedy| told.contains(remedy)), "{key} {wrong:?}: {told}");
        }
    }
}
