//! The verbs of `rabbitmqctl` and `rabbitmq-diagnostics` about the node.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use management::{Listed, ServerStatus, Status};
use serde_json::{Value as Json, json};

use super::call::Call;
use super::plugins::built_in;
use super::{Output, Refusal, SOFTWARE, told, words};
use crate::cli::Server;

/// How long connecting to a listener may take.
const PATIENCE: Duration = Duration::from_secs(5);

type Said = Result<(String, Output), Refusal>;

fn port_of(address: &str) -> Option<u16> {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}

fn said(banner: &str, text: impl Into<String>) -> Said {
    Ok((banner.to_owned(), Output::Text(text.into())))
}

pub(super) fn status(_: &Call, server: &Server) -> Said {
    let status = told(server)?;
    let vhosts = crate::cli::list(server, Listed::Vhosts, None)?.len();
    let banner = format!("Status of node {} ...", status.server.node);
    Ok((banner, Output::Object { document: document(&status, vhosts), text: for_people(&status, vhosts) }))
}

/// The status as text. Scripts look for the version under RabbitMQ's name.
fn for_people(status: &Status, vhosts: usize) -> String {
    let server = &status.server;
    let alarms = if server.alarms.is_empty() { "(none)".to_owned() } else { server.alarms.join("\n") };
    let listeners: String = status
        .server
        .listeners
        .iter()
        .map(|listener| format!("Interface: {}, protocol: {}\n", listener.address, listener.protocol))
        .collect();
    format!(
        "Runtime\n\nOS PID: {}\nUptime (seconds): {}\nIs under maintenance?: false\nRabbitMQ version: {}\nHermod version: {}\n\
         Node name: {}\nData directory: {}\n\nAlarms\n\n{alarms}\n\nTotals\n\nConnection count: {}\nQueue count: {}\n\
         Virtual host count: {vhosts}\n\nListeners\n\n{listeners}",
        server.pid,
        server.uptime_seconds,
        server.compat_version,
        server.version,
        server.node,
        server.data_dir,
        status.connections.connections,
        status.objects.queues
    )
}

/// The status as JSON with RabbitMQ's keys, without those about Erlang.
fn document(status: &Status, vhosts: usize) -> Json {
    let server = &status.server;
    let listeners = server.listeners.iter().map(|listener| {
        let interface = listener.address.rsplit_once(':').map_or("", |(host, _)| host);
        json!({
            "node": server.node,
            "interface": interface.trim_matches(['[', ']']),
            "port": port_of(&listener.address),
            "protocol": listener.protocol,
            "purpose": listener.protocol,
        })
    });
    let alarms = server.alarms.iter().map(|resource| json!({ "node": server.node, "resource": resource }));
    json!({
        "rabbitmq_version": server.compat_version,
        "product_name": server.product,
        "product_version": server.compat_version,
        "hermod_version": server.version,
        "cluster_name": server.cluster,
        "pid": server.pid,
        "os": std::env::consts::OS,
        "uptime": server.uptime_seconds,
        "is_under_maintenance": false,
        "alarms": alarms.collect::<Vec<_>>(),
        "tags": [],
        "listeners": listeners.collect::<Vec<_>>(),
        "active_plugins": built_in(),
        "config_files": [],
        "log_files": [],
        "data_directory": server.data_dir,
        "disk_free": status.storage.disk_free_bytes,
        "disk_free_limit": status.storage.disk_free_limit_bytes,
        "vm_memory_high_watermark_limit": status.storage.memory_limit_bytes,
        "vm_memory_high_watermark_setting": { "absolute": status.storage.memory_limit_bytes },
        "memory": { "queue_procs": status.storage.memory_used_bytes },
        "totals": { "connection_count": status.connections.connections, "queue_count": status.objects.queues, "virtual_host_count": vhosts },
    })
}

pub(super) fn cluster_status(_: &Call, server: &Server) -> Said {
    let status = told(server)?;
    let ServerStatus { node, cluster, .. } = &status.server;
    let alarms: Vec<_> =
        status.server.alarms.iter().map(|resource| json!({ "node": node, "resource": resource })).collect();
    let document = json!({
        "cluster_name": cluster,
        "disk_nodes": [node],
        "ram_nodes": [],
        "running_nodes": [node],
        "partitions": {},
        "alarms": alarms,
        "versions": { (node.as_str()): { "rabbitmq_name": status.server.product, "rabbitmq_version": status.server.compat_version } },
        "maintenance_status": { (node.as_str()): "not under maintenance" },
    });
    let alarms = if status.server.alarms.is_empty() { "(none)".to_owned() } else { status.server.alarms.join("\n") };
    let text = format!(
        "Basics\n\nCluster name: {cluster}\n\nDisk Nodes\n\n{node}\n\nRunning Nodes\n\n{node}\n\nVersions\n\n{node}: {} {}\n\n\
         Alarms\n\n{alarms}\n\nNetwork Partitions\n\n(none)\n",
        status.server.product, status.server.compat_version
    );
    Ok((format!("Cluster status of node {node} ..."), Output::Object { document, text }))
}

pub(super) fn server_version(_: &Call, server: &Server) -> Said {
    let status = told(server)?;
    said("Asking node for its version ...", format!("{}\n", status.server.compat_version))
}

/// The version of the tool. Tool and server are one program.
pub(super) fn version(_: &Call, server: &Server) -> Said {
    said("", format!("{}\n", server.settings.compat.version))
}

pub(super) fn is_running(_: &Call, server: &Server) -> Said {
    let status = told(server)?;
    said("Asking node for its status ...", format!("Node {} is running\n", status.server.node))
}

/// A broker that answers has booted.
pub(super) fn is_booting(_: &Call, server: &Server) -> Said {
    let status = told(server)?;
    said("Asking node for its boot status ...", format!("Node {} is fully booted\n", status.server.node))
}

/// Connects to every listener.
pub(super) fn check_connectivity(_: &Call, server: &Server) -> Said {
    let status = told(server)?;
    let reached = |address: &str| {
        address.parse().is_ok_and(|at: SocketAddr| TcpStream::connect_timeout(&here(at), PATIENCE).is_ok())
    };
    let lost: Vec<_> = status.server.listeners.iter().filter(|row| !reached(&row.address)).collect();
    if let Some(first) = lost.first() {
        let text = format!("Connection attempts failed for some listeners: {} on {}", first.protocol, first.address);
        return Err(Refusal::new(SOFTWARE, text));
    }
    let banner = format!("Testing TCP connections to all active listeners on node {} ...", status.server.node);
    said(&banner, format!("Successfully connected to ports {} on node {}.\n", ports(&status), status.server.node))
}

/// The address to connect to: a listener on all addresses is reached at the loopback address.
fn here(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    address
}

fn ports(status: &Status) -> String {
    let mut ports: Vec<u16> = status.server.listeners.iter().filter_map(|row| port_of(&row.address)).collect();
    ports.sort_unstable();
    ports.dedup();
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn check_port(call: &Call, server: &Server) -> Said {
    let [port] = words(call)?;
    let wanted: u16 = port.parse().map_err(|_| Refusal::usage(format!("'{port}' is no port")))?;
    let status = told(server)?;
    if !status.server.listeners.iter().any(|row| port_of(&row.address) == Some(wanted)) {
        let text = format!("No listener on port {wanted} on node {}; there are {}", status.server.node, ports(&status));
        return Err(Refusal::new(SOFTWARE, text));
    }
    let banner = format!("Asking node {} if there's an active listener on port {wanted} ...", status.server.node);
    said(&banner, format!("A listener is running on port {wanted}\n"))
}

/// In a broker that answers, every vhost is up.
pub(super) fn check_vhosts(_: &Call, server: &Server) -> Said {
    let status = told(server)?;
    let banner = format!("Checking if all vhosts are running on node {} ...", status.server.node);
    said(&banner, format!("Node {} reported all vhosts as running\n", status.server.node))
}

/// Checks that can fail only in a cluster.
pub(super) fn check_members(_: &Call, server: &Server) -> Said {
    let status = told(server)?;
    let banner = format!("Checking if node {} is critical for quorum of any quorum queues ...", status.server.node);
    said(&banner, format!("Node {} reported no queues that it is critical for\n", status.server.node))
}

pub(super) fn feature_flags(_: &Call, server: &Server) -> Said {
    let columns = ["name", "state"].map(str::to_owned).to_vec();
    let status = told(server)?;
    let rows = management::feature_flags(&status.server.product)
        .map(|(name, _)| vec![name.into(), "enabled".into()])
        .collect();
    Ok(("Listing feature flags ...".to_owned(), Output::Rows { columns, rows }))
}
