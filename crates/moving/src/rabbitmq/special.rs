//! Keys of RabbitMQ that mean something together, or whose value is read in its own way.

use super::table::{self, Form};
use super::{Entry, Gathered, last};
use crate::limits::largest_message;
use crate::outcome::Outcome;
use crate::units;

/// How much memory RabbitMQ takes the machine to have.
const TOTAL_MEMORY: &str = "total_memory_available_override_value";
const ABSOLUTE_COUNTS: &str = "the absolute limit counts, in RabbitMQ too";

/// A value with `$(…)` is of the environment or of another file.
pub(super) fn unresolved(entry: &Entry, outcome: &mut Outcome<'_>) {
    let Entry { line, key, value } = entry;
    let file = value.strip_prefix("$(<").and_then(|rest| rest.strip_suffix(')'));
    let advice = match (key.as_str(), file) {
        ("default_user", Some(file)) => return outcome.set(*line, key, "default_user_file", file),
        ("default_pass", Some(file)) => return outcome.set(*line, key, "default_pass_file", file),
        ("default_user" | "default_pass", None) => format!("set {key}_file, or HERMOD_{}", key.to_ascii_uppercase()),
        _ => "write its value by hand".to_owned(),
    };
    outcome.left_out(*line, key, format!("its value comes from elsewhere, where no one looked; {advice}"));
}

pub(super) fn convert(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    cut(gathered, outcome);
    who(gathered, outcome);
    limits(gathered, outcome);
    memory(gathered, outcome);
    disk(gathered, outcome);
    queue_type(gathered, outcome);
    shovels(gathered, outcome);
    log(gathered, outcome);
    definitions(gathered, outcome);
    mqtt(gathered, outcome);
    plugins(gathered, outcome);
}

fn resolved<'a>(gathered: &'a Gathered, key: &str) -> Option<&'a Entry> {
    gathered.entry(key).filter(|entry| !entry.value.contains("$("))
}

fn cut(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    for entry in gathered.below("cut.") {
        let Entry { line, key, .. } = entry;
        outcome.warn(match key.as_str() {
            "cut.backslash" => format!(
                "line {line}: a backslash in a text of Erlang is an escape, so that a path with it is not what it looks like"
            ),
            key => format!(
                "line {line}: a # begins a comment, so that the value of {} ends before it, as in RabbitMQ",
                key.trim_start_matches("cut.")
            ),
        });
    }
}

fn who(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    mechanisms(gathered, outcome);
    backends(gathered, outcome);
    console(gathered, outcome);
    directory(gathered, outcome);
    loopback(gathered, outcome);
    anonymous(gathered, outcome);
    peers_of_clients(gathered, outcome);
    let tags = gathered.below("default_user_tags.").filter(|entry| entry.value == "true");
    let names: Vec<_> = tags.map(|entry| last(&entry.key)).collect();
    for entry in gathered.below("default_user_tags.") {
        outcome.set(entry.line, &entry.key, "default_user_tags", names.join(","));
    }
    if let Some(entry) = gathered.entry("ssl_cert_login_from") {
        let kind = gathered.entry("ssl_cert_login_san_type");
        let field = match (entry.value.as_str(), kind.map(|kind| kind.value.as_str())) {
            ("distinguished_name", _) => Some("distinguished_name"),
            ("common_name", _) => Some("common_name"),
            ("subject_alternative_name" | "subject_alt_name", None | Some("dns")) => Some("san_dns"),
            ("subject_alternative_name" | "subject_alt_name", Some("email")) => Some("san_email"),
            ("subject_alternative_name" | "subject_alt_name", Some("uri")) => Some("san_uri"),
            _ => None,
        };
        for entry in [Some(entry), kind].into_iter().flatten() {
            match field {
                Some(field) => outcome.set(entry.line, &entry.key, "tls.login_from", field),
                None => outcome.left_out(entry.line, &entry.key, "tls.login_from has no such field"),
            }
        }
    }
    tokens(gathered, outcome);
}

/// What is asked of tokens.
fn tokens(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let claims = gathered.numbered("auth_oauth2.preferred_username_claims.");
    let names: Vec<_> = claims.iter().map(|entry| entry.value.as_str()).collect();
    for entry in &claims {
        let setting = "auth_oauth2.preferred_username_claims";
        outcome.set(entry.line, &entry.key, setting, names.join(","));
    }
    let setting = "auth_oauth2.algorithms";
    let listed = gathered.numbered("auth_oauth2.algorithms.");
    let (taken, others): (Vec<&Entry>, Vec<_>) = listed.iter().partition(|entry| outcome.takes(setting, &entry.value));
    let names: Vec<_> = taken.iter().map(|entry| entry.value.as_str()).collect();
    for entry in &taken {
        outcome.set(entry.line, &entry.key, setting, names.join(","));
    }
    for entry in &others {
        outcome.left_out(entry.line, &entry.key, "tokens of this algorithm are not taken; see auth_oauth2.algorithms");
    }
    if taken.is_empty() && !others.is_empty() {
        outcome.warn("no algorithm of tokens that the file names is taken here: those by default are, if the issuer has keys for them");
    }
}

/// What stands in the way of a log-in at the issuer's pages.
const NO_TOKENS: &str = "auth_backends has no oauth2, or its keys are not known: what the issuer gives lets no user in";

/// The console's log-in at the issuer's pages.
fn console(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let entry = |key: &str| gathered.below("management.oauth_").find(|entry| entry.key == key);
    let (client, provider) = (entry("management.oauth_client_id"), entry("management.oauth_provider_url"));
    let is_on = gathered.value("management.oauth_enabled") == Some("true");
    let issuer = gathered.value("auth_oauth2.issuer");
    let takes_tokens =
        has_keys(gathered) && gathered.below("auth_backends.").any(|entry| entry.value.contains("oauth2"));
    let console = [
        ("management.oauth_client_id", "auth_oauth2.client_id"),
        ("management.oauth_client_secret", "auth_oauth2.client_secret"),
        ("management.oauth_scopes", "auth_oauth2.scopes"),
    ];
    for (entry, setting) in console.iter().filter_map(|(key, setting)| Some((entry(key)?, *setting))) {
        match (is_on, client, issuer.or(provider.map(|provider| &*provider.value))) {
            (false, ..) => outcome.needless(entry.line, &entry.key, "management.oauth_enabled is not true"),
            (_, None, _) => outcome.left_out(entry.line, &entry.key, "management.oauth_client_id is not there"),
            (_, _, None) => outcome.left_out(entry.line, &entry.key, "set auth_oauth2.issuer, where people log in"),
            _ if !takes_tokens => outcome.left_out(entry.line, &entry.key, NO_TOKENS),
            _ => outcome.set(entry.line, &entry.key, setting, entry.value.clone()),
        }
    }
    if let Some(provider) = provider {
        match issuer {
            _ if !is_on => outcome.needless(provider.line, &provider.key, "management.oauth_enabled is not true"),
            Some(issuer) if issuer == provider.value => {
                outcome.needless(provider.line, &provider.key, "it is the issuer")
            }
            Some(_) => outcome.left_out(provider.line, &provider.key, "people log in at auth_oauth2.issuer"),
            None if !takes_tokens => outcome.left_out(provider.line, &provider.key, NO_TOKENS),
            None => outcome.set(provider.line, &provider.key, "auth_oauth2.issuer", provider.value.clone()),
        }
    }
    if is_on && takes_tokens && client.is_some() {
        outcome.warn("the issuer must know the console's address: that of Hermod, with /login/back behind it");
    }
}

/// The numbers of mechanisms are sorted as texts, in RabbitMQ too.
fn mechanisms(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let known = |entry: &&Entry| matches!(entry.value.as_str(), "PLAIN" | "AMQPLAIN" | "EXTERNAL" | "ANONYMOUS");
    let names: Vec<_> = gathered.below("auth_mechanisms.").filter(known).map(|entry| entry.value.as_str()).collect();
    for entry in gathered.below("auth_mechanisms.") {
        if known(&entry) {
            outcome.set(entry.line, &entry.key, "auth_mechanisms", names.join(","));
        } else {
            outcome.left_out(entry.line, &entry.key, "Hermod has no such mechanism; see auth_mechanisms");
        }
    }
}

/// A name of a backend as Hermod's.
fn backend(name: &str, gathered: &Gathered) -> Option<&'static str> {
    let name = name.strip_prefix("rabbit_auth_backend_").unwrap_or(name);
    Some(match name {
        "internal" => "internal",
        // Queries are not read, so that rights are permissions of this broker.
        "ldap" => "ldap/internal",
        "oauth2" | "oauth" if !has_keys(gathered) => return None,
        "oauth2" | "oauth" => "oauth2",
        "http" if has_own_rights(gathered) => "http/internal",
        "http" => "http",
        "cache" => return gathered.value("auth_cache.cached_backend").and_then(|cached| backend(cached, gathered)),
        _ => return None,
    })
}

/// Whether what users of other backends may do are permissions of this broker.
fn has_own_rights(gathered: &Gathered) -> bool {
    let entries = gathered.numbered("auth_backends.");
    entries.iter().any(|entry| entry.key.ends_with(".authz") && entry.value == "internal")
}

/// Whether it is said where the keys of tokens are.
fn has_keys(gathered: &Gathered) -> bool {
    ["auth_oauth2.issuer", "auth_oauth2.jwks_url", "auth_oauth2.jwks_uri"]
        .iter()
        .any(|key| gathered.value(key).is_some())
}

fn backends(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let entries = gathered.numbered("auth_backends.");
    let mut names: Vec<&str> = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.key.ends_with(".authz")) {
        match backend(&entry.value, gathered) {
            Some(name) if !names.contains(&name) => names.push(name),
            Some(_) => {}
            None => outcome.left_out(
                entry.line,
                &entry.key,
                "Hermod has no such backend, or it lacks an address; see auth_backends",
            ),
        }
    }
    for entry in &entries {
        match backend(&entry.value, gathered) {
            Some(_) if entry.key.ends_with(".authz") => {
                let text = "rights come from where the user comes from; NAME/internal takes them from this broker";
                outcome.left_out(entry.line, &entry.key, text);
            }
            Some(_) => outcome.set(entry.line, &entry.key, "auth_backends", names.join(",")),
            None => {}
        }
    }
    if let Some(entry) = gathered.entry("auth_cache.cached_backend") {
        outcome.moved(entry.line, &entry.key, "auth_backends, all of which are cached");
    }
    service(gathered, &names, outcome);
}

/// Where a web service is asked what its users may do. A path that is not set is RabbitMQ's
/// default.
fn service(gathered: &Gathered, backends: &[&str], outcome: &mut Outcome<'_>) {
    let asks = backends.contains(&"http");
    let line = gathered.numbered("auth_backends.").first().map_or(0, |entry| entry.line);
    let mut absent = Vec::new();
    const PATHS: [(&str, &str); 4] = [
        ("auth_http.user_path", "http://localhost:8000/auth/user"),
        ("auth_http.vhost_path", "http://localhost:8000/auth/vhost"),
        ("auth_http.resource_path", "http://localhost:8000/auth/resource"),
        ("auth_http.topic_path", "http://localhost:8000/auth/topic"),
    ];
    for (key, default) in PATHS {
        match gathered.entry(key) {
            // It is in the table.
            Some(_) if key == PATHS[0].0 => {}
            Some(entry) if asks => outcome.set(entry.line, &entry.key, key, entry.value.as_str()),
            Some(entry) => outcome.left_out(
                entry.line,
                &entry.key,
                "the web service says who one is; what one may do are permissions here",
            ),
            None if asks => {
                outcome.set(line, "auth_backends", key, default);
                absent.push(key);
            }
            None => {}
        }
    }
    if !absent.is_empty() {
        outcome.warn(format!("{} not set: RabbitMQ asks localhost:8000 then, and so it is now", absent.join(" and ")));
    }
}

fn directory(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let encrypted = gathered.is_true("auth_ldap.use_ssl");
    let port = gathered.value("auth_ldap.port").unwrap_or(if encrypted { "636" } else { "389" });
    let scheme = if encrypted { "ldaps" } else { "ldap" };
    let entries = gathered.numbered("auth_ldap.servers.");
    let urls: Vec<_> = entries.iter().map(|entry| format!("{scheme}://{}:{port}", entry.value)).collect();
    let with = ["auth_ldap.port", "auth_ldap.use_ssl"].into_iter().filter_map(|key| gathered.entry(key));
    for entry in entries.iter().copied().chain(with) {
        outcome.set(entry.line, &entry.key, "auth_ldap.servers", urls.join(","));
    }
    if !entries.is_empty() && !encrypted && !gathered.is_true("auth_ldap.use_starttls") {
        outcome
            .warn("passwords go to the directory unencrypted; Hermod does that for a directory on this machine only");
    }
}

fn loopback(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let none = gathered.entry("loopback_users").filter(|entry| entry.value == "none");
    let entries: Vec<_> = gathered.below("loopback_users.").collect();
    let names: Vec<_> = match none {
        Some(_) => Vec::new(),
        None => entries.iter().filter(|entry| entry.value == "true").map(|entry| last(&entry.key)).collect(),
    };
    for entry in none.into_iter().chain(entries.iter().copied()) {
        outcome.set(entry.line, &entry.key, "loopback_users", names.join(","));
    }
    if (none.is_some() || !entries.is_empty()) && !names.contains(&"guest") {
        outcome.warn("loopback_users has no guest: if there is a user guest, it may log in from anywhere, as before");
    }
}

/// Clients without log-in. RabbitMQ's word for none of them is `none`.
fn anonymous(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let Some(Entry { line, key, value }) = resolved(gathered, "anonymous_login_user") else { return };
    match value.as_str() {
        "none" => outcome.needless(*line, key, "clients without log-in are let in only if anonymous_user is set"),
        user => outcome.set(*line, key, "anonymous_user", user),
    }
}

/// Servers that are asked who someone is show a certificate, which is always checked.
fn peers_of_clients(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    for (asked, authority) in [
        ("auth_http.ssl_options.verify", "auth_http.https.cacertfile"),
        ("auth_oauth2.https.peer_verification", "auth_oauth2.https.cacertfile"),
    ] {
        let Some(Entry { line, key, value }) = resolved(gathered, asked) else { continue };
        match value.as_str() {
            "verify_peer" => outcome.needless(*line, key, "the server's certificate is always checked"),
            _ => {
                let text = format!("the server's certificate is always checked; name who issued it, as {authority}");
                outcome.left_out(*line, key, text);
            }
        }
    }
}

fn limits(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    if let Some(Entry { line, key, value }) = resolved(gathered, "channel_max") {
        outcome.set(*line, key, "limits.channel_max", if value == "0" { "65535" } else { value });
    }
    if let Some(Entry { line, key, value }) = resolved(gathered, "frame_max") {
        match units::binary(value) {
            Some(0) => outcome.left_out(*line, key, "frames without limit are not taken; the default is 128 KiB"),
            Some(bytes) => outcome.set(*line, key, "limits.frame_max", bytes.to_string()),
            None => outcome.left_out(*line, key, "its value is no size"),
        }
    }
    if let Some(Entry { line, key, value }) = resolved(gathered, "max_message_size") {
        match units::binary(value) {
            Some(bytes) => largest_message(*line, key, bytes, outcome),
            None => outcome.left_out(*line, key, "its value is no size"),
        }
    }
}

/// The memory that shares are of, if the file says how much there is.
fn total_memory(gathered: &Gathered) -> Option<u64> {
    resolved(gathered, TOTAL_MEMORY).and_then(|entry| units::decimal(&entry.value))
}

fn memory(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let total = total_memory(gathered);
    let absolute = resolved(gathered, "vm_memory_high_watermark.absolute");
    if let Some(Entry { line, key, value }) = absolute {
        match units::decimal(value) {
            Some(bytes) => outcome.set(*line, key, "memory.limit", bytes.to_string()),
            None => outcome.left_out(*line, key, "its value is no size that RabbitMQ takes; set memory.limit"),
        }
    }
    let relative = resolved(gathered, "vm_memory_high_watermark.relative");
    let share = relative.and_then(|entry| units::thousandths(&entry.value)).filter(|share| *share > 0);
    if let Some(Entry { line, key, .. }) = relative {
        match (share.map(|share| share.min(1000)), total) {
            _ if absolute.is_some() => outcome.needless(*line, key, ABSOLUTE_COUNTS),
            (Some(share), Some(total)) => outcome.set(*line, key, "memory.limit", scaled(total, share)),
            (Some(share), None) => outcome.set(*line, key, "memory.limit", units::per_cent(share)),
            (None, _) => outcome.left_out(*line, key, "its value is no share of memory; set memory.limit"),
        }
    }
    if let Some(Entry { line, key, .. }) = resolved(gathered, TOTAL_MEMORY) {
        match total {
            _ if absolute.is_some() => outcome.needless(*line, key, ABSOLUTE_COUNTS),
            Some(_) if share.is_some() => outcome.moved(*line, key, "memory.limit, a share of it in bytes"),
            // RabbitMQ's share was 40 % before it was 60 %; Hermod's is the smaller one, too.
            Some(total) if relative.is_none() => outcome.set(*line, key, "memory.limit", scaled(total, 400)),
            _ => outcome.left_out(*line, key, "write memory.limit in bytes"),
        }
    }
}

/// So many thousandths of a size.
fn scaled(bytes: u64, thousandths: u64) -> String {
    (u128::from(bytes) * u128::from(thousandths) / 1000).to_string()
}

fn disk(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let absolute = resolved(gathered, "disk_free_limit.absolute");
    if let Some(Entry { line, key, value }) = absolute {
        match units::decimal(value) {
            Some(bytes) => outcome.set(*line, key, "disk.free_limit", bytes.to_string()),
            None => outcome.left_out(*line, key, "its value is no size that RabbitMQ takes; set disk.free_limit"),
        }
    }
    let Some(Entry { line, key, value }) = resolved(gathered, "disk_free_limit.relative") else { return };
    let times = match units::thousandths(value) {
        _ if absolute.is_some() => return outcome.needless(*line, key, ABSOLUTE_COUNTS),
        Some(times) => times,
        None => return outcome.left_out(*line, key, "its value is no multiple of memory; set disk.free_limit"),
    };
    let limit = match total_memory(gathered) {
        Some(total) => scaled(total, times),
        None => format!("{} x memory", units::factor(times)),
    };
    outcome.set(*line, key, "disk.free_limit", limit);
    if times < 1000 {
        outcome.warn(format!("{key} is a multiple of the memory, as in RabbitMQ, and not a share of the disk"));
    }
}

/// Queues whose declaration names no type.
fn queue_type(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let Some(Entry { line, key, value }) = resolved(gathered, "default_queue_type") else { return };
    match value.as_str() {
        "classic" | "rabbit_classic_queue" => outcome.needless(*line, key, "queues without a type are classic queues"),
        _ => outcome.left_out(*line, key, "set the default type of each vhost: hermod vhosts, or definitions"),
    }
}

/// Shovels of the file itself. Those that were set while the broker ran are in definitions.
fn shovels(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    for Entry { line, key, value } in gathered.below("shovel.") {
        match value.as_str() {
            "none" => outcome.needless(*line, key, "there is none"),
            _ => outcome.left_out(*line, key, "set each shovel once, by hermod shovels set: it survives restarts"),
        }
    }
}

fn log(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let set = |key: &str, setting, form: Form, outcome: &mut Outcome<'_>| {
        let Some(Entry { line, key, value }) = resolved(gathered, key) else { return };
        match form.read(value) {
            Some(value) => outcome.set(*line, key, setting, value),
            None => outcome.left_out(*line, key, format!("its value is no {}", form.noun())),
        }
    };
    // There is one level for all outputs: the last that is set counts, and the console's is.
    for key in ["log.default.level", "log.file.level", "log.console.level"] {
        set(key, "log.level", Form::Level, outcome);
    }
    let levels: std::collections::BTreeSet<_> = ["log.file.level", "log.console.level"]
        .into_iter()
        .filter_map(|key| gathered.value(key))
        .filter_map(table::level)
        .collect();
    if levels.len() > 1 {
        outcome.warn("the log has one level for all outputs: that of the console");
    }
    for key in ["log.file.formatter", "log.console.formatter"] {
        let Some(entry) = gathered.entry(key) else { continue };
        let format = if entry.value == "json" { "json" } else { "text" };
        outcome.set(entry.line, &entry.key, "log.format", format);
    }
    log_file(gathered, outcome);
    for key in ["log.exchange", "log.syslog"] {
        let Some(entry) = gathered.entry(key) else { continue };
        match entry.value.as_str() {
            "false" => outcome.needless(entry.line, &entry.key, "it is off"),
            _ => outcome.left_out(entry.line, &entry.key, "lines go to standard error and to log.file only"),
        }
    }
}

fn log_file(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let directory = resolved(gathered, "log.dir");
    let file = resolved(gathered, "log.file");
    match file.map(|entry| (entry, entry.value.as_str())) {
        Some((entry, "true" | "false")) => {
            outcome.needless(entry.line, &entry.key, "lines go to standard error, which the service manager keeps");
        }
        Some((entry, name)) => {
            let path = match directory {
                Some(directory) if !name.starts_with('/') => {
                    format!("{}/{name}", directory.value.trim_end_matches('/'))
                }
                _ => name.to_owned(),
            };
            outcome.set(entry.line, &entry.key, "log.file", path);
        }
        None => {}
    }
    if let Some(entry) = directory {
        match outcome.setting("log.file").is_some() {
            true => outcome.moved(entry.line, &entry.key, "log.file"),
            false => outcome.left_out(entry.line, &entry.key, "name the file, as log.file"),
        }
    }
    if let Some(Entry { line, key, value }) = resolved(gathered, "log.file.rotation.size") {
        match units::binary(value) {
            Some(bytes) => outcome.set(*line, key, "log.file_size", bytes.to_string()),
            None => outcome.left_out(*line, key, "its value is no size"),
        }
    }
    if let Some(Entry { line, key, value }) = resolved(gathered, "log.file.rotation.date") {
        match value.as_str() {
            day if day.starts_with("$D") => outcome.set(*line, key, "log.file_age", "24 h"),
            week if week.starts_with("$W") => outcome.set(*line, key, "log.file_age", "168 h"),
            _ => outcome.left_out(*line, key, "set log.file_age"),
        }
    }
    if let Some(entry) = gathered.entry("log.console") {
        // Without a file, lines must go somewhere.
        let off = entry.value == "false" && outcome.setting("log.file").is_some();
        outcome.set(entry.line, &entry.key, "log.console", if off { "false" } else { "true" });
    }
}

fn definitions(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let local = gathered.value("definitions.import_backend").is_none_or(|backend| backend == "local_filesystem");
    if let Some(Entry { line, key, .. }) = gathered.entry("definitions.import_backend") {
        match local {
            true => outcome.needless(*line, key, "definitions come from files"),
            false => outcome.left_out(*line, key, "definitions come from files; fetch them before the start"),
        }
    }
    for key in ["management.load_definitions", "load_definitions", "definitions.local.path"] {
        let Some(Entry { line, key, value }) = resolved(gathered, key) else { continue };
        outcome.set(*line, key, "definitions", value.clone());
        if gathered.entry("default_user").is_some() {
            outcome.warn("with definitions, default_user and default_pass have no effect, in RabbitMQ neither");
        }
    }
}

fn mqtt(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    let anonymous = gathered.value("mqtt.allow_anonymous") != Some("false");
    for key in ["mqtt.default_user", "mqtt.default_pass"] {
        let Some(Entry { line, key, value }) = resolved(gathered, key) else { continue };
        let setting = if key == "mqtt.default_user" { "mqtt.default_user" } else { "mqtt.default_pass" };
        match anonymous {
            true => outcome.set(*line, key, setting, value.clone()),
            false => outcome.needless(*line, key, "clients without a user are not let in (mqtt.allow_anonymous)"),
        }
    }
    if let Some(Entry { line, key, .. }) = gathered.entry("mqtt.allow_anonymous") {
        outcome.needless(*line, key, "clients without a user are let in only if mqtt.default_user is set");
    }
    for (key, default) in [("mqtt.vhost", "/"), ("mqtt.exchange", "amq.topic")] {
        let Some(Entry { line, key, value }) = gathered.entry(key) else { continue };
        match value == default {
            true => outcome.needless(*line, key, "it is the same here"),
            false => outcome.left_out(*line, key, format!("MQTT uses {default}, or the vhost that the user name says")),
        }
    }
}

/// What `enabled_plugins` says besides STOMP and MQTT.
fn plugins(gathered: &Gathered, outcome: &mut Outcome<'_>) {
    const BUILT_IN: [&str; 10] = [
        "rabbitmq_management",
        "rabbitmq_management_agent",
        "rabbitmq_prometheus",
        "rabbitmq_amqp1_0",
        "rabbitmq_delayed_message_exchange",
        "rabbitmq_consistent_hash_exchange",
        "rabbitmq_auth_backend_http",
        "rabbitmq_auth_backend_ldap",
        "rabbitmq_auth_backend_oauth2",
        "rabbitmq_auth_mechanism_ssl",
    ];
    for entry in gathered.below("plugin.") {
        let name = last(&entry.key);
        match name {
            "rabbitmq_stomp" | "rabbitmq_mqtt" => {}
            "rabbitmq_web_stomp" => outcome.set(entry.line, &entry.key, "ports.web_stomp", "15674"),
            "rabbitmq_web_mqtt" => outcome.set(entry.line, &entry.key, "ports.web_mqtt", "15675"),
            built_in if BUILT_IN.contains(&built_in) => outcome.needless(entry.line, &entry.key, "it is built in"),
            shovel if shovel.starts_with("rabbitmq_shovel") => {
                outcome.needless(entry.line, &entry.key, "shovels are built in");
            }
            peers if peers.starts_with("rabbitmq_peer_discovery") => {
                outcome.not_built(entry.line, &entry.key, "of a cluster; Hermod has one node so far");
            }
            stream if stream.starts_with("rabbitmq_stream") => {
                outcome.not_built(entry.line, &entry.key, "streams are not built");
            }
            federation if federation.starts_with("rabbitmq_federation") => {
                let text = "brokers are not federated; a shovel moves messages between two queues";
                outcome.not_built(entry.line, &entry.key, text);
            }
            _ => outcome.left_out(entry.line, &entry.key, "of a plugin of RabbitMQ that Hermod does not have"),
        }
    }
}
