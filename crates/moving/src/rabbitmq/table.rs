//! What each key of RabbitMQ becomes here. The manual's page and the tests read the same table.

/// What becomes of a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// It is this setting.
    Set(&'static str, Form),
    /// It is decided together with others, in `listen` or `special`.
    Together,
    /// Nothing has to be done.
    Needless(&'static str),
    /// It is left out.
    Lacking(&'static str),
    /// It is of a part that is not built.
    NotBuilt(&'static str),
}

/// How a value is written there, and here.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Text,
    Number,
    Seconds,
    Milliseconds,
    Flag,
    Port,
    /// `true` keeps the default of a time span.
    Time,
    /// The levels of a log.
    Level,
}

impl Form {
    pub(super) fn read(self, value: &str) -> Option<String> {
        let number = || value.parse::<u64>().ok();
        match self {
            Self::Text => Some(value.to_owned()),
            Self::Number => number().map(|number| number.to_string()),
            Self::Seconds => number().map(|number| format!("{number} s")),
            Self::Milliseconds if matches!(value, "false" | "undefined" | "infinity") => Some("0".to_owned()),
            Self::Milliseconds => number().map(|number| format!("{number} ms")),
            Self::Flag => matches!(value, "true" | "false").then(|| value.to_owned()),
            Self::Port => value.parse::<u16>().ok().map(|port| port.to_string()),
            Self::Time => match value {
                "true" => Some("60 s".to_owned()),
                "false" => Some("0".to_owned()),
                _ => None,
            },
            Self::Level => level(value).map(str::to_owned),
        }
    }

    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number | Self::Seconds | Self::Milliseconds => "number",
            Self::Flag | Self::Time => "true or false",
            Self::Port => "port",
            Self::Level => "level",
        }
    }
}

/// RabbitMQ's word for a level as Hermod's.
pub(super) fn level(value: &str) -> Option<&'static str> {
    Some(match value {
        "debug" => "debug",
        "info" | "notice" => "info",
        "warning" | "warn" => "warn",
        "error" | "critical" | "alert" | "emergency" => "error",
        "none" | "false" => "off",
        _ => return None,
    })
}

const SELF_TUNING: &str = "Hermod tunes this by itself";
const ERLANG: &str = "of Erlang and its schema database; there is none here";
const CIPHERS: &str = "weak ciphers and renegotiation are not offered, so that there is no choice of them";
const ONE_NODE: &str = "of a cluster; Hermod has one node so far";
const STATISTICS: &str = "statistics cost next to nothing here, and are always on";
const PLUGIN_OF_RABBIT: &str = "of a plugin of RabbitMQ that Hermod does not have";
const OTHER_BROKERS: &str = "brokers are not federated; a shovel moves messages between two queues";
const OBSOLETE: &str = "a setting that RabbitMQ itself dropped";
const OF_MQTT: &str = "MQTT is served without it: topics are keys of amq.topic, in the vhost of the log-in";
const TUNING_OF_TCP: &str = "buffers and backlogs are the kernel's";

/// Keys and what they become. A `*` stands for one part of a key, `**` for the rest. The first that
/// fits counts.
#[rustfmt::skip] // A line is a key.
pub(super) const TABLE: &[(&str, Rule)] = &[
    ("listeners.tcp", Rule::Together),
    ("listeners.tcp.*", Rule::Together),
    ("listeners.ssl", Rule::Together),
    ("listeners.ssl.*", Rule::Together),
    ("ssl_options", Rule::Together),
    ("ssl_options.certfile", Rule::Together),
    ("ssl_options.keyfile", Rule::Together),
    ("ssl_options.cacertfile", Rule::Together),
    ("ssl_options.password", Rule::Together),
    ("ssl_options.verify", Rule::Together),
    ("ssl_options.fail_if_no_peer_cert", Rule::Together),
    ("ssl_options.versions.*", Rule::Together),
    ("ssl_options.**", Rule::Needless(CIPHERS)),
    ("ssl_handshake_timeout", Rule::Set("tls.handshake_timeout", Form::Milliseconds)),
    ("ssl_allow_poodle_attack", Rule::Needless(CIPHERS)),
    ("env.NODE_IP_ADDRESS", Rule::Together),
    ("env.run.**", Rule::Lacking("its value is a command of the shell, which is never run; write the value by hand")),
    ("env.ANONYMOUS_LOGIN", Rule::Lacking("name a user for those without log-in, as anonymous_user")),
    ("env.PLUGINS", Rule::Lacking("plugins are not loaded; protocols are opened by ports")),
    ("env.ENABLED_PLUGINS_FILE", Rule::Needless("protocols are opened by ports, not by plugins")),
    ("env.CONFIG_FILE", Rule::Lacking("convert that file together with this one")),
    ("env.CONFIG_FILES", Rule::Lacking("convert these files together with this one")),
    ("env.ADVANCED_CONFIG_FILE", Rule::Lacking("convert that file together with this one")),
    ("env.*", Rule::Needless("of Erlang, of its nodes, or of directories; data_dir is one directory")),
    ("cut.*", Rule::Together),
    ("cut.**", Rule::Together),
    ("include", Rule::Lacking("other files are not looked for; name them on the command line, too")),
    ("plugin.*", Rule::Together),

    ("management.tcp.port", Rule::Together),
    ("management.tcp.ip", Rule::Together),
    ("management.ssl.port", Rule::Together),
    ("management.ssl.ip", Rule::Together),
    ("management.ssl.certfile", Rule::Together),
    ("management.ssl.keyfile", Rule::Together),
    ("management.ssl.cacertfile", Rule::Together),
    ("management.ssl.verify", Rule::Together),
    ("management.ssl.fail_if_no_peer_cert", Rule::Together),
    ("management.listener.port", Rule::Together),
    ("management.listener.ip", Rule::Together),
    ("management.listener.ssl", Rule::Together),
    ("management.listener.ssl_opts.certfile", Rule::Together),
    ("management.listener.ssl_opts.keyfile", Rule::Together),
    ("management.listener.ssl_opts.cacertfile", Rule::Together),
    ("management.ssl.**", Rule::Needless(CIPHERS)),
    ("management.listener.ssl_opts.**", Rule::Needless(CIPHERS)),
    ("management.listener.server.**", Rule::Needless(SELF_TUNING)),
    ("management.tcp.**", Rule::Needless(SELF_TUNING)),
    ("management.path_prefix", Rule::Together),
    ("management.load_definitions", Rule::Together),
    ("management.rates_mode", Rule::Needless(STATISTICS)),
    ("management.sample_retention_policies.**", Rule::Needless(STATISTICS)),
    ("management.http_log_dir", Rule::Lacking("requests are not written to a file of their own; changes are in the audit log")),
    ("management.cors.**", Rule::Lacking("other sites' pages may not call the API")),
    ("management.csp.**", Rule::Needless("the console has a strict policy of its own")),
    ("management.hsts.**", Rule::Lacking("set the header at the proxy before it")),
    ("management.oauth_enabled", Rule::Needless("the console leads to the issuer's pages once auth_oauth2.client_id is set")),
    ("management.oauth_client_id", Rule::Together),
    ("management.oauth_client_secret", Rule::Together),
    ("management.oauth_scopes", Rule::Together),
    ("management.oauth_provider_url", Rule::Together),
    ("management.oauth_**", Rule::Lacking("set auth_oauth2.client_id, client_secret and scopes by hand: the console then leads to the issuer's pages, which must know its address /login/back")),
    ("management.disable_stats", Rule::Needless(STATISTICS)),
    ("management.login_session_timeout", Rule::Lacking("sessions of the console have an end of their own")),
    ("management.**", Rule::Lacking("this part of the management plugin is not there")),
    ("management_agent.**", Rule::Needless(STATISTICS)),
    ("collect_statistics", Rule::Needless(STATISTICS)),
    ("collect_statistics_interval", Rule::Needless(STATISTICS)),
    ("prometheus.tcp.port", Rule::Together),
    ("prometheus.tcp.ip", Rule::Together),
    ("prometheus.return_per_object_metrics", Rule::Needless("those of each queue are at /metrics/per-object")),
    ("prometheus.path", Rule::Together),
    ("prometheus.**", Rule::Lacking("metrics are at /metrics of ports.http")),

    ("auth_mechanisms.*", Rule::Together),
    ("ssl_cert_login_from", Rule::Together),
    ("ssl_cert_login_san_type", Rule::Together),
    ("ssl_cert_login_san_index", Rule::Needless("the first name of its kind counts")),
    ("auth_backends.**", Rule::Together),
    ("auth_cache.cached_backend", Rule::Together),
    ("auth_cache.cache_ttl", Rule::Set("auth_cache.ttl", Form::Milliseconds)),
    ("auth_cache.**", Rule::Needless(SELF_TUNING)),
    ("auth_http.http_method", Rule::Set("auth_http.http_method", Form::Text)),
    ("auth_http.user_path", Rule::Set("auth_http.user_path", Form::Text)),
    ("auth_http.ssl_options.cacertfile", Rule::Set("auth_http.https.cacertfile", Form::Text)),
    ("auth_http.ssl_options.verify", Rule::Together),
    ("auth_http.ssl_options.**", Rule::Lacking("Hermod shows the web service no certificate; of its TLS it sets auth_http.https.cacertfile alone")),
    ("auth_http.request_timeout", Rule::Set("auth_http.timeout", Form::Milliseconds)),
    ("auth_http.connection_timeout", Rule::Needless("auth_http.timeout bounds the whole request")),
    ("auth_http.vhost_path", Rule::Together),
    ("auth_http.resource_path", Rule::Together),
    ("auth_http.topic_path", Rule::Together),
    ("auth_oauth2.resource_server_id", Rule::Set("auth_oauth2.resource_server_id", Form::Text)),
    ("auth_oauth2.issuer", Rule::Set("auth_oauth2.issuer", Form::Text)),
    ("auth_oauth2.jwks_url", Rule::Set("auth_oauth2.jwks_uri", Form::Text)),
    ("auth_oauth2.jwks_uri", Rule::Set("auth_oauth2.jwks_uri", Form::Text)),
    ("auth_oauth2.scope_prefix", Rule::Set("auth_oauth2.scope_prefix", Form::Text)),
    ("auth_oauth2.additional_scopes_key", Rule::Set("auth_oauth2.additional_scopes_key", Form::Text)),
    ("auth_oauth2.https.cacertfile", Rule::Set("auth_oauth2.https.cacertfile", Form::Text)),
    ("auth_oauth2.preferred_username_claims.*", Rule::Together),
    ("auth_oauth2.algorithms.*", Rule::Together),
    ("auth_oauth2.https.peer_verification", Rule::Together),
    ("auth_oauth2.default_key", Rule::Needless("a token without the name of its key is tried with every key")),
    ("auth_oauth2.signing_keys.*", Rule::Lacking("keys are one file: make them a JSON Web Key Set, and name it as auth_oauth2.jwks_file")),
    ("auth_oauth2.**", Rule::Lacking("see the settings auth_oauth2 for what Hermod asks of tokens")),
    ("auth_ldap.servers.*", Rule::Together),
    ("auth_ldap.port", Rule::Together),
    ("auth_ldap.use_ssl", Rule::Together),
    ("auth_ldap.use_starttls", Rule::Set("auth_ldap.use_starttls", Form::Flag)),
    ("auth_ldap.user_dn_pattern", Rule::Set("auth_ldap.user_dn_pattern", Form::Text)),
    ("auth_ldap.dn_lookup_attribute", Rule::Set("auth_ldap.dn_lookup_attribute", Form::Text)),
    ("auth_ldap.dn_lookup_base", Rule::Set("auth_ldap.dn_lookup_base", Form::Text)),
    ("auth_ldap.dn_lookup_bind.user_dn", Rule::Set("auth_ldap.dn_lookup_bind.user_dn", Form::Text)),
    ("auth_ldap.dn_lookup_bind.password", Rule::Set("auth_ldap.dn_lookup_bind.password", Form::Text)),
    ("auth_ldap.group_lookup_base", Rule::Set("auth_ldap.group_lookup_base", Form::Text)),
    ("auth_ldap.ssl_options.cacertfile", Rule::Set("auth_ldap.ssl_options.cacertfile", Form::Text)),
    ("auth_ldap.timeout", Rule::Set("auth_ldap.timeout", Form::Milliseconds)),
    ("auth_ldap.**", Rule::Lacking("queries are not read; give groups scopes in auth_ldap.groups")),
    ("default_user", Rule::Set("default_user", Form::Text)),
    ("default_pass", Rule::Set("default_pass", Form::Text)),
    ("default_vhost", Rule::Set("default_vhost", Form::Text)),
    ("default_permissions.configure", Rule::Set("default_permissions.configure", Form::Text)),
    ("default_permissions.write", Rule::Set("default_permissions.write", Form::Text)),
    ("default_permissions.read", Rule::Set("default_permissions.read", Form::Text)),
    ("default_user_tags.*", Rule::Together),
    ("default_users.**", Rule::Lacking("one user is made at the first start; the others belong into definitions")),
    ("default_policies.**", Rule::Lacking("write the policy into definitions")),
    ("default_limits.**", Rule::Lacking("limits of vhosts belong into definitions")),
    ("default_queue_type", Rule::Together),
    ("anonymous_login_user", Rule::Together),
    ("anonymous_login_pass", Rule::Needless("anonymous_user needs no password")),
    ("loopback_users", Rule::Together),
    ("loopback_users.*", Rule::Together),
    ("load_definitions", Rule::Together),
    ("definitions.local.path", Rule::Together),
    ("definitions.import_backend", Rule::Together),
    ("definitions.skip_if_unchanged", Rule::Needless("definitions that are there cost nothing at a start")),
    ("definitions.**", Rule::Lacking("definitions come from a file or a directory")),

    ("heartbeat", Rule::Set("limits.heartbeat", Form::Seconds)),
    ("channel_max", Rule::Together),
    ("channel_max_per_node", Rule::Lacking("channels are bounded by connection")),
    ("consumer_max_per_channel", Rule::Set("limits.consumers_per_channel", Form::Number)),
    ("connection_max", Rule::Set("limits.connections", Form::Number)),
    ("max_connections", Rule::Set("limits.connections", Form::Number)),
    ("vhost_max", Rule::Set("limits.vhosts", Form::Number)),
    ("cluster_queue_limit", Rule::Set("limits.queues", Form::Number)),
    ("session_max_per_connection", Rule::Set("limits.channel_max", Form::Number)),
    ("link_max_per_session", Rule::Lacking("links are bounded by what they hold in memory")),
    ("frame_max", Rule::Together),
    ("initial_frame_max", Rule::Needless(SELF_TUNING)),
    ("max_message_size", Rule::Together),
    ("handshake_timeout", Rule::Set("limits.handshake_timeout", Form::Milliseconds)),
    ("consumer_timeout", Rule::Set("flow.consumer_timeout", Form::Milliseconds)),
    ("vm_memory_high_watermark.absolute", Rule::Together),
    ("vm_memory_high_watermark.relative", Rule::Together),
    ("vm_memory_high_watermark_paging_ratio", Rule::Needless(SELF_TUNING)),
    ("vm_memory_calculation_strategy", Rule::Needless(SELF_TUNING)),
    ("memory_monitor_interval", Rule::Needless(SELF_TUNING)),
    ("total_memory_available_override_value", Rule::Together),
    ("disk_free_limit.absolute", Rule::Together),
    ("disk_free_limit.relative", Rule::Together),
    ("disk_monitor.**", Rule::Needless(SELF_TUNING)),

    ("log.console", Rule::Together),
    ("log.console.level", Rule::Together),
    ("log.console.formatter", Rule::Together),
    ("log.file", Rule::Together),
    ("log.dir", Rule::Together),
    ("log.file.level", Rule::Together),
    ("log.default.level", Rule::Together),
    ("log.file.formatter", Rule::Together),
    ("log.file.rotation.size", Rule::Together),
    ("log.file.rotation.count", Rule::Set("log.files", Form::Number)),
    ("log.file.rotation.date", Rule::Together),
    ("log.exchange", Rule::Together),
    ("log.exchange.**", Rule::Lacking("log lines are not published as messages")),
    ("log.syslog", Rule::Together),
    ("log.syslog.**", Rule::Lacking("the journal of the system takes standard error; see the page about the log")),
    ("log.*.level", Rule::Lacking("the parts of the log have other names; see log.level")),
    ("log.**", Rule::Lacking("see the settings log")),

    ("tcp_listen_options.nodelay", Rule::Set("tcp.nodelay", Form::Flag)),
    ("tcp_listen_options.keepalive", Rule::Set("tcp.keepalive", Form::Time)),
    ("tcp_listen_options.send_timeout", Rule::Set("tcp.write_timeout", Form::Milliseconds)),
    ("tcp_listen_options.**", Rule::Needless(TUNING_OF_TCP)),
    ("num_acceptors.**", Rule::Needless(SELF_TUNING)),
    ("socket_writer.**", Rule::Needless(SELF_TUNING)),
    ("reverse_dns_lookups", Rule::Needless("the log has addresses; no name is looked up for a connection")),
    ("proxy_protocol", Rule::Together),

    ("stomp.listeners.tcp.*", Rule::Together),
    ("stomp.listeners.tcp", Rule::Together),
    ("stomp.listeners.ssl.*", Rule::Together),
    ("stomp.listeners.ssl", Rule::Together),
    ("stomp.default_user", Rule::Set("stomp.default_user", Form::Text)),
    ("stomp.default_pass", Rule::Set("stomp.default_pass", Form::Text)),
    ("stomp.trailing_lf", Rule::Set("stomp.trailing_lf", Form::Flag)),
    ("stomp.implicit_connect", Rule::Lacking("a client of STOMP begins with CONNECT")),
    ("stomp.ssl_cert_login", Rule::Needless("EXTERNAL is for STOMP, too")),
    ("stomp.tcp_listen_options.**", Rule::Needless(TUNING_OF_TCP)),
    ("stomp.**", Rule::Lacking("see the settings stomp")),
    ("web_stomp.tcp.port", Rule::Set("ports.web_stomp", Form::Port)),
    ("web_stomp.listener.port", Rule::Set("ports.web_stomp", Form::Port)),
    ("web_stomp.ssl.port", Rule::Set("ports.web_stomps", Form::Port)),
    ("web_stomp.**", Rule::Needless("certificates and buffers are those of the other listeners")),
    ("mqtt.listeners.tcp.*", Rule::Together),
    ("mqtt.listeners.tcp", Rule::Together),
    ("mqtt.listeners.ssl.*", Rule::Together),
    ("mqtt.listeners.ssl", Rule::Together),
    ("mqtt.default_user", Rule::Together),
    ("mqtt.default_pass", Rule::Together),
    ("mqtt.allow_anonymous", Rule::Together),
    ("mqtt.prefetch", Rule::Set("mqtt.max_inflight", Form::Number)),
    ("mqtt.max_session_expiry_interval_seconds", Rule::Set("mqtt.session_expiry", Form::Seconds)),
    ("mqtt.subscription_ttl", Rule::Set("mqtt.session_expiry", Form::Milliseconds)),
    ("mqtt.exchange", Rule::Together),
    ("mqtt.vhost", Rule::Together),
    ("mqtt.tcp_listen_options.**", Rule::Needless(TUNING_OF_TCP)),
    ("mqtt.num_acceptors.**", Rule::Needless(SELF_TUNING)),
    ("mqtt.proxy_protocol", Rule::Together),
    ("mqtt.ssl_cert_login", Rule::Lacking("clients of MQTT log in by passwords or tokens")),
    ("mqtt.**", Rule::Needless(OF_MQTT)),
    ("web_mqtt.tcp.port", Rule::Set("ports.web_mqtt", Form::Port)),
    ("web_mqtt.ssl.port", Rule::Set("ports.web_mqtts", Form::Port)),
    ("web_mqtt.**", Rule::Needless("certificates and buffers are those of the other listeners")),
    ("amqp1_0.default_user", Rule::Needless("without SASL no client of AMQP 1.0 is let in; ANONYMOUS is by anonymous_user")),
    ("amqp1_0.**", Rule::Needless("AMQP 1.0 is on the ports of AMQP")),

    ("cluster_name", Rule::Set("cluster_name", Form::Text)),
    ("cluster_**", Rule::NotBuilt(ONE_NODE)),
    ("cluster_formation.**", Rule::NotBuilt(ONE_NODE)),
    ("autocluster.**", Rule::NotBuilt(ONE_NODE)),
    ("queue_master_locator", Rule::NotBuilt(ONE_NODE)),
    ("queue_leader_locator", Rule::NotBuilt(ONE_NODE)),
    ("mirroring_sync_batch_size", Rule::NotBuilt(ONE_NODE)),
    ("quorum_cluster_size", Rule::NotBuilt(ONE_NODE)),
    ("quorum_queue.**", Rule::NotBuilt(ONE_NODE)),
    ("raft.**", Rule::NotBuilt(ONE_NODE)),
    ("kernel.**", Rule::NotBuilt(ONE_NODE)),
    ("net_ticktime", Rule::NotBuilt(ONE_NODE)),
    ("distribution.**", Rule::NotBuilt(ONE_NODE)),
    ("erlang.**", Rule::Needless(ERLANG)),
    ("hipe_compile", Rule::Needless(OBSOLETE)),
    ("queue_index_embed_msgs_below", Rule::Needless(SELF_TUNING)),
    ("queue_index_max_journal_entries", Rule::Needless(SELF_TUNING)),
    ("msg_store_**", Rule::Needless(SELF_TUNING)),
    ("classic_queue.**", Rule::Needless(SELF_TUNING)),
    ("lazy_queue_**", Rule::Needless(SELF_TUNING)),
    ("background_gc_**", Rule::Needless(ERLANG)),
    ("delegate_count", Rule::Needless(ERLANG)),
    ("fhc_**", Rule::Needless(ERLANG)),
    ("credit_flow_**", Rule::Needless(SELF_TUNING)),
    ("mnesia_**", Rule::Needless(ERLANG)),
    ("password_hashing_module", Rule::Needless("passwords are hashed by Argon2id, or for SCRAM")),
    ("credential_validator.**", Rule::Lacking("passwords are not judged")),
    ("deprecated_features.**", Rule::Needless("what RabbitMQ gives up stays here")),
    ("feature_flags.**", Rule::NotBuilt(ONE_NODE)),
    ("product.**", Rule::Lacking("see compat.product")),
    ("motd_file", Rule::Needless(ERLANG)),
    ("trace_vhosts", Rule::Lacking("turn tracing on by hermod trace")),
    ("rabbitmq_delayed_message_exchange.**", Rule::Needless("delays are built in")),
    ("stream.**", Rule::NotBuilt("streams are not built")),
    ("federation.**", Rule::NotBuilt(OTHER_BROKERS)),
    ("shovel.**", Rule::Together),
    ("app.**", Rule::Lacking(PLUGIN_OF_RABBIT)),
];

/// What becomes of `key`.
pub(super) fn rule(key: &str) -> Option<&'static Rule> {
    TABLE.iter().find(|(pattern, _)| fits(pattern, key)).map(|(_, rule)| rule)
}

fn fits(pattern: &str, key: &str) -> bool {
    if let Some(prefix) = pattern.strip_suffix("**") {
        return key.starts_with(prefix) && key.len() > prefix.len();
    }
    let (mut parts, mut words) = (pattern.split('.'), key.split('.'));
    loop {
        match (parts.next(), words.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(part), Some(word)) if part == word => {}
            _ => return false,
        }
    }
}

/// What to say of a key that is in no line.
pub(super) fn unknown(key: &str) -> String {
    let name = |(pattern, _): &(&'static str, Rule)| (!pattern.contains('*')).then_some(*pattern);
    let distance = |other: &str| distance(key, other);
    let nearest = TABLE.iter().filter_map(name).filter(|name| distance(name) <= 3).min_by_key(|name| distance(name));
    match nearest {
        Some(name) => format!("this is no setting of RabbitMQ that is known; did it mean {name}?"),
        None => "this is no setting of RabbitMQ that is known".to_owned(),
    }
}

/// How many letters must change to make one of the other, up to 4: both are short.
fn distance(one: &str, other: &str) -> usize {
    if one.len().abs_diff(other.len()) > 3 || one.len() > 100 {
        return 4;
    }
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = index + 1;
        for (at, wanted) in other.iter().enumerate() {
            let changed = before + usize::from(letter != *wanted);
            before = row[at + 1];
            row[at + 1] = changed.min(before + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}
