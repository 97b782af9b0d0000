//! The layers, a folder after the other.
//!
//! A line is a layer, the lowest first. A module that must know one above it is a fault of the cut:
//! move what it uses down. An exception needs a reason that holds for good.

use super::{Allowed, Folder};

/// The folders whose modules are in layers.
#[rustfmt::skip] // A line is a layer.
pub(super) const FOLDERS: &[Folder] = &[
    Folder {
        path: "crates/wire/src",
        layers: &[
            &["network", "output", "proxy", "reader", "subnet"],
            &["connection"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/selector/src",
        layers: &[
            &["error", "pattern", "value"],
            &["node", "token"],
            &["evaluate", "parse"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/shovel/src",
        layers: &[
            &["status", "uri", "window"],
            &["dial", "spec"],
            &["annotations", "definition", "headers", "peer", "progress"],
            &["destination", "source"],
            &["carry"],
            &["run"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/auth/src",
        layers: &[
            &["members", "sasl", "shown", "sign_on", "throttle", "pattern"],
            &["password", "permission", "topic"],
            &["user"],
            &["ruling", "scopes"],
            &["backend"],
            &["identity", "login"],
            &["authority"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/backends/src",
        layers: &[
            &["trust"],
            &["fetch"],
            &["http", "ldap", "oauth2"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/backends/src/ldap",
        layers: &[
            &["template"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/backends/src/oauth2",
        layers: &[
            &["claims", "discovery", "keys", "signatures"],
            &["code"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/moving/src",
        layers: &[
            &["address", "definitions", "source", "units"],
            &["outcome", "xml"],
            &["doors", "kind", "limits", "people", "report", "stores"],
            &["rights"],
            &["activemq", "artemis", "rabbitmq"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/moving/src/rabbitmq",
        layers: &[&["conf", "table", "terms"], &["environment", "listen", "special"]],
        allowed: &[],
    },
    Folder {
        path: "crates/testkit/src",
        layers: &[
            &["certificates", "driver", "rights", "sim_disk"],
            &["broker"],
            &["lines", "peer"],
            &["script"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/journal/src",
        layers: &[
            &["admission", "checksum", "durations", "group", "layout", "log", "progress"],
            &["options"],
            &["stats"],
            &["disk", "error", "ticket"],
            &["file_header", "memory", "record", "reference"],
            &["entry", "read", "replay"],
            &["cold", "held", "spill"],
            &["wal"],
            &["recovery"],
            &["verify"],
            &["engine"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/journal/src/cold",
        layers: &[&["count", "plan"], &["index", "segment"], &["merge"]],
        allowed: &[],
    },
    Folder {
        path: "crates/journal/src/wal",
        layers: &[
            &["batch", "file", "identity", "received", "table"],
            &["entries"],
            &["tails"],
            &["buffer"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/journal/src/engine",
        layers: &[
            &["appender", "writer"],
            &["owners", "scrub"],
            &["recycle"],
            &["journal"],
            &["backup", "feed", "follower", "threads"],
            &["snapshot"],
            &["receiving"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src",
        layers: &[
            &["alarms", "clock", "error", "names", "settings", "stats", "value"],
            &["encoding", "memory"],
            &["message"],
            &["routing"],
            &["arguments", "store"],
            // One queue and its lock: it knows no client and no catalog.
            &["queue"],
            &["catalog"],
            // What happens by itself.
            &["engine"],
            // What clients ask for.
            &["session"],
            &["tasks"],
            &["broker"],
            // What operators ask for.
            &["admin", "browse", "redrive", "repair", "report", "standby", "tracing"],
            &["explain"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src/memory",
        layers: &[
            &["ingress", "ledger", "uncounted"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src/routing",
        layers: &[
            &["binding", "envelope", "pattern"],
            &["reached", "sought"],
            &["hash", "headers", "targets"],
            &["direct", "fanout", "topic"],
            &["parts"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src/message",
        layers: &[
            &["annotations", "cc", "id", "publisher", "scheduling"],
            &["layout", "properties"],
            &["body", "dialect"],
            &["overlay", "retained"],
            &["selected"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src/arguments",
        layers: &[
            &["consumer", "copies", "dead_letters", "deduplication", "equivalence", "groups", "idle", "retry"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src/store",
        layers: &[
            &["facts", "owners", "runs"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src/catalog",
        layers: &[
            &["definitions", "direct", "facts", "listed", "policies", "published", "retained", "search", "shovels", "subscriptions", "tasks", "versions", "wills"],
            &["change", "declaration", "system"],
            &["vhost_settings"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src/engine",
        layers: &[
            &["disk_watch"],
            &["admission", "alarms", "bounds", "clients", "declarations", "delay", "open_error", "pager", "pages", "replies", "walk", "wills"],
            &["recovery"],
            &["follow"],
            &["checkpoint", "connections", "ending", "rights", "sealed", "system", "tracing"],
            &["dead_letter", "expiry", "policies", "retained", "users", "verify"],
            &["housekeeping"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src/admin",
        layers: &[
            &["checks"],
            &["policies", "shovels", "tasks", "users", "vhosts"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/broker/src/tasks",
        layers: &[
            &["way"],
            &["run"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/net/src",
        layers: &[
            &["encryption", "handshake_threads", "heavy", "listener", "log_throttle", "proxy", "settings", "spin", "timer", "upgrade", "wakeup"],
            &["registry"],
            &["stream"],
            &["flush", "input", "linger", "screen"],
            &["detect", "tls", "web"],
            &["any"],
            &["handshake"],
            &["drive"],
            &["accept"],
            &["server"],
        ],
        allowed: &[Allowed {
            from: "stream",
            to: "web",
            reason: "a WebSocket is a stream over a stream: the type has itself in it",
        }],
    },
    Folder {
        path: "crates/bench-record/src",
        layers: &[
            &["arrivals", "check", "command", "durability", "exchange", "failure", "statistics", "totals", "usage", "verdict"],
            &["integrity", "latency", "output", "over_time", "scenario", "span", "target"],
            &["machine", "preset"],
            &["slice"],
            &["rules", "run", "suite"],
            &["metric", "summary"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/bench-report/src",
        layers: &[
            &["standing", "table"],
            &["html", "single", "suites"],
            &["file"],
            &["compare"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/machine/src",
        layers: &[
            &["clock", "command", "descriptors", "directory", "identity", "interrupt", "java", "packets", "process", "wait"],
            &["disk", "freeze", "netns", "quiet"],
            &["facts"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/peers/src",
        layers: &[
            &["directory", "licence", "process", "template"],
            &["recipe"],
            &["source"],
            &["card", "instance"],
            &["guard"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/bench/src",
        layers: &[
            &["disk", "load_options", "measure", "progress", "relay", "resume"],
            &["driver"],
            &["load", "simulate"],
            &["durability_audit", "scorecard"],
            &["blocks", "capacity"],
            &["exchange", "run", "saturate"],
            &["suite"],
            &["cli"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/bench/src/suite",
        layers: &[
            &["audits", "figures", "knobs", "point"],
            &["predicate"],
            &["study"],
            &["choice", "claim"],
            &["cells"],
            &["runner"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/bench/src/driver",
        layers: &[
            &["jvm", "kafka", "link", "nats"],
            &["amqp10", "mqtt", "session", "stomp"],
            &["amqp"],
            &["relay"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/bench/src/load",
        layers: &[
            &["consumer", "metrics", "producer", "sample"],
            &["audit", "exchange", "generator", "pingpong", "threads"],
            &["remote"],
            &["slice"],
            &["judge"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/torture/src",
        layers: &[
            &["fence", "gauge", "ledger", "random", "server", "stamp", "topology", "violation"],
            &["history", "properties"],
            &["checker", "talk"],
            &["stage"],
            &["part"],
            &["crash", "fault", "tenants"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/torture/src/fault",
        layers: &[
            &["catalog", "disk", "group", "hand", "ledger", "mount", "rig"],
            &["filesystem", "script"],
            &["full", "inject"],
            &["clock", "copy", "crowd", "damage", "delays", "gone", "large", "limits", "names", "objects"],
            &["power", "store", "sweep", "torn"],
            &["list"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/book/src",
        layers: &[
            &["source"],
            &["link"],
            &["page"],
            &["check", "frame", "search"],
            &["site"],
        ],
        allowed: &[],
    },
    Folder {
        path: "xtask/src",
        layers: &[
            &["book", "interop", "licences", "screenshots"],
            &["console", "monitoring", "package", "release", "tidy"],
        ],
        allowed: &[],
    },
    Folder {
        path: "xtask/src/tidy",
        layers: &[
            &["files", "source"],
            &["test_files", "tokens"],
            &["paths"],
            &["documents", "edges", "errors", "glossary", "layers", "printed", "prose", "ratchet", "references", "rust", "shape", "words"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/front/src",
        layers: &[&["entrance", "keep_alive"], &["sasl", "turn"]],
        allowed: &[],
    },
    Folder {
        path: "crates/amqp091/src",
        layers: &[
            &["limits"],
            &["codec"],
            &["client", "dialect"],
            &["session"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/amqp091/src/codec",
        layers: &[
            &["frame", "table"],
            &["content", "fields", "properties"],
            &["methods"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/amqp091/src/session",
        layers: &[
            &["error", "incoming", "last"],
            &["link"],
            &["context"],
            &["events"],
            &["channel"],
            &["basic", "confirm", "content", "exchange", "publish", "queue"],
            &["running"],
            &["connection"],
            &["close", "handshake"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/amqp10/src",
        layers: &[&["limits"], &["codec"], &["delivery", "dialect"], &["client", "session"]],
        allowed: &[],
    },
    Folder {
        path: "crates/amqp10/src/session",
        layers: &[
            &["containers", "error", "frames", "names", "numbered", "responses", "window"],
            &["address", "outcome", "subscription"],
            &["sender", "target", "termini"],
            &["receiver", "source"],
            &["link"],
            &["deliver"],
            &["begun"],
            &["transactions"],
            &["flow", "relay", "sessions", "settle"],
            &["events"],
            &["running"],
            &["coordinator", "management", "unsubscribe"],
            &["attach", "connection", "transfer"],
            &["close", "open", "sasl"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/amqp10/src/dialect",
        layers: &[&["address", "stored", "values"], &["neutral"], &["publish", "write"]],
        allowed: &[],
    },
    Folder {
        path: "crates/amqp10/src/codec",
        layers: &[
            &["format"],
            &["encode"],
            &["value"],
            &["descriptor", "frame", "owned"],
            &["composite"],
            &["error", "message", "symbols"],
            &["state"],
            &["terminus"],
            &["performative", "sasl"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/mqtt/src",
        layers: &[
            &["codec", "limits"],
            &["address"],
            &["dialect"],
            &["session"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/mqtt/src/session",
        layers: &[
            &["claims", "failure", "filters"],
            &["incoming", "store"],
            &["enhanced", "fences", "outgoing", "sys", "will"],
            &["connect"],
            &["open"],
            &["opening", "publish", "subscribe"],
            &["connection"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/mqtt/src/codec",
        layers: &[
            &["kind", "version"],
            &["reason"],
            &["violation"],
            &["fields", "topic"],
            &["property"],
            &["packet"],
            &["decode", "encode"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/stomp/src",
        layers: &[
            &["limits"],
            &["codec"],
            &["client", "dialect"],
            &["session"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/stomp/src/codec",
        layers: &[
            &["command", "heart_beat"],
            &["encoder", "error"],
            &["headers"],
            &["frame"],
            &["decoder"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/stomp/src/session",
        layers: &[
            &["error", "heart_beat"],
            &["destination", "receipt", "transaction"],
            &["deliver", "durable"],
            &["open"],
            &["ack", "connect", "declare", "send", "temporary"],
            &["subscribe"],
            &["connection"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/fuzzing/src",
        layers: &[
            &["amqp", "amqp10_client", "amqp10_codec", "disk", "login", "messages", "mqtt_packets", "proxy_header", "selectors", "stomp_frames"],
            &["recovery"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/management/src",
        layers: &[
            &["budget", "counters", "door", "exposition", "features", "figures", "foreign", "glance", "hosts", "http_listener", "journeys", "json", "pace", "pool", "prefix", "process", "quantity", "rates", "recent", "report", "watch"],
            &["audit", "facts", "memory", "pieces", "sessions", "visit"],
            &["change", "cookies", "front", "history", "scrape"],
            &["metrics"],
            &["detailed"],
            &["source"],
            &["courier", "diagnosis", "listing", "messages", "sampling"],
            &["api"],
            &["resources"],
            &["console", "control", "manual", "native", "per_queue"],
            &["http"],
            &["serving"],
            &["server"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/management/src/api",
        layers: &[
            &["answer"],
            &["asker", "document", "page"],
            &["list"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/management/src/console",
        layers: &[
            &["assets", "figure", "form"],
            &["seen", "visitor"],
            &["chart", "frame", "parts"],
            &["bindings", "trouble"],
            &["keeping", "reading"],
            &["login", "messages", "tasks"],
            &["about", "connections", "elsewhere", "exchanges", "limits", "log", "node", "policies", "queues", "sessions", "shovels", "subscriptions", "users", "vhosts"],
            &["explained", "overview", "queue"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/management/src/control",
        layers: &[
            &["answering"],
            &["remote"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/management/src/native",
        layers: &[
            &["field"],
            &["resource"],
            &["list", "rows"],
            &["operations"],
            &["guard", "openapi"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/management/src/resources",
        layers: &[
            &["channels", "consumers", "exchanges", "health", "limits", "log", "login", "losses", "nodes", "parameters", "permissions", "policies", "shovels"],
            &["connections", "explain", "queues", "retained", "subscriptions", "users", "vhosts", "wills"],
            &["bindings", "overview"],
            &["definitions", "tasks"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/management/src/resources/definitions",
        layers: &[
            &["export", "fields"],
            &["document"],
            &["plan"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/hermod/src",
        layers: &[
            &["allocator", "backup", "machine", "manual", "spare", "worker"],
            &["notify"],
            &["config", "housekeeper", "pager", "tasks"],
            &["exit", "protocols", "tls"],
            &["data_dir", "listeners", "log", "logins", "secrets", "shovels", "signals"],
            &["serve"],
            &["cli"],
            &["rabbitmqctl"],
        ],
        allowed: &[Allowed {
            from: "config",
            to: "protocols",
            reason: "a protocol's row declares its ports and settings, and the settings hold what it read",
        }],
    },
    Folder {
        path: "crates/hermod/src/cli",
        layers: &[
            &["arguments", "counted", "output", "password", "remote", "service", "shell", "table", "usage"],
            &["ask"],
            &["alarms", "config", "definitions", "health", "list", "messages", "redrive", "repair", "status"],
            &["backup", "browse", "connections", "context", "convert", "explain", "licenses", "log", "migrate", "objects", "policies", "retained", "shovels", "tasks", "top", "trace", "trial", "users", "verify", "vhosts", "why", "wills"],
            &["upgrade"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/hermod/src/config",
        layers: &[
            &["nearest", "value"],
            &["log_levels", "reader"],
            &["ldap"],
            &["backends", "disk", "file", "first_user", "http", "logging", "manual", "ports"],
            &["users"],
            &["tls"],
            &["listeners"],
            &["settings"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/hermod/src/rabbitmqctl",
        layers: &[
            &["call", "terms"],
            &["format", "limits", "lists", "parameters", "plugins", "policies"],
            &["node"],
            &["verbs"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/hermod/src/protocols",
        layers: &[
            &["amqp091", "amqp10", "mqtt", "stomp"],
        ],
        allowed: &[],
    },
    Folder {
        path: "crates/hermod/src/tls",
        layers: &[
            &["names", "readable", "store"],
            &["pem"],
        ],
        allowed: &[],
    },
];
