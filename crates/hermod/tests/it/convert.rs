//! `hermod config convert`: what it writes starts a broker, which lets in who was let in before and
//! has what was declared.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::api::json;
use crate::server::{Ports, Server, hermod, run};

const RABBITMQ: &str = "\
listeners.tcp.default = 5672
default_user = ops
default_pass = 's3cret'
default_vhost = shop
heartbeat = 30 # less traffic
vm_memory_high_watermark.relative = 0.5
disk_free_limit.absolute = 50MB
log.console.level = warning
consumer_timeout = 3600000
cluster_partition_handling = autoheal
";
const ARTEMIS: &str = r##"<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<acceptors><acceptor name="amqp">tcp://127.0.0.1:5672?protocols=AMQP</acceptor>
<acceptor name="any">tcp://127.0.0.1:61616?protocols=CORE,AMQP,STOMP</acceptor></acceptors>
<max-disk-usage>99</max-disk-usage>
<security-settings><security-setting match="#">
<permission type="send" roles="amq"/><permission type="consume" roles="amq"/><permission type="manage" roles="amq"/>
<permission type="createDurableQueue" roles="amq"/><permission type="deleteDurableQueue" roles="amq"/>
<permission type="createNonDurableQueue" roles="amq"/><permission type="deleteNonDurableQueue" roles="amq"/>
</security-setting><security-setting match="hr.#"><permission type="consume" roles="hr"/></security-setting></security-settings>
<addresses><address name="orders"><anycast><queue name="orders"/></anycast></address>
<address name="news"><multicast><queue name="reader"/></multicast></address></addresses>
<address-settings><address-setting match="#"><dead-letter-address>DLQ</dead-letter-address>
<expiry-address>ExpiryQueue</expiry-address><redelivery-delay>1000</redelivery-delay></address-setting>
<address-setting match="pay.#"><max-delivery-attempts>4</max-delivery-attempts></address-setting></address-settings>
</core></configuration>"##;
const ACTIVEMQ: &str = r#"<beans><broker xmlns="http://activemq.apache.org/schema/core" brokerName="localhost">
<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;" prioritizedMessages="true"/>
<policyEntry queue="own.>" gcInactiveDestinations="true" inactiveTimoutBeforeGC="10000"/></policyEntries></policyMap></destinationPolicy>
<plugins><simpleAuthenticationPlugin><users><authenticationUser username="ops" password="s3cret" groups="staff"/></users>
</simpleAuthenticationPlugin><authorizationPlugin><map><authorizationMap><authorizationEntries>
<authorizationEntry queue=">" read="staff" write="staff" admin="staff"/><authorizationEntry topic="news.>" read="staff"/>
</authorizationEntries></authorizationMap></map></authorizationPlugin></plugins>
<destinations><queue physicalName="orders"/></destinations>
<transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:61613?maximumConnections=1000"/></transportConnectors>
</broker></beans>"#;
/// `ops` with the password `s3cret`.
const OPS: &str = "Authorization: Basic b3BzOnMzY3JldA==\r\n";

/// Converts `source`, starts a broker with what was written, and hands over the report as well.
fn moved(dir: &Path, source: &str, more: &[&str]) -> (Server, String) {
    let file = dir.join("source");
    let output = dir.join("moved");
    std::fs::write(&file, source).unwrap();
    let (code, report, error) = run(convert().arg(&file).args(more).arg("--output").arg(&output));
    assert_eq!(code, 0, "{error}");
    assert!(!report.contains("s3cret"), "{report}");
    let config = output.join("hermod.toml");
    let config = config.to_str().unwrap();
    (Server::start_on(Ports::free(), &dir.join("data"), &["--config", config]), report)
}

/// The command takes no setting, so it gets no data directory.
fn convert() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermod"));
    command.args(["config", "convert"]);
    command
}

#[test]
fn settings_of_rabbitmq_start_a_broker() {
    let dir = tempfile::tempdir().unwrap();
    let (server, report) = moved(dir.path(), RABBITMQ, &[]);
    assert!(report.contains("source:5 heartbeat is now limits.heartbeat"), "{report}");
    assert!(report.contains("cluster_partition_handling: of a cluster"), "{report}");
    assert_eq!(json(&server, "/api/vhosts/shop", OPS)["name"], "shop");
    let node = json(&server, "/api/nodes", OPS);
    assert_eq!(node[0]["disk_free_limit"], json!(50_000_000));
}

#[test]
fn a_broker_xml_of_artemis_starts_a_broker() {
    let dir = tempfile::tempdir().unwrap();
    let (users, roles) = (dir.path().join("users"), dir.path().join("roles"));
    std::fs::write(&users, "ops = s3cret\nop = ENC(1024:00)\n").unwrap();
    std::fs::write(&roles, "amq = ops\n").unwrap();
    let files = ["--users", users.to_str().unwrap(), "--roles", roles.to_str().unwrap()];
    // Two listeners of its own need free ports, so that its own one is at a free one.
    let source = ARTEMIS.replace("61616", &crate::server::free_port().to_string());
    let (server, _) = moved(dir.path(), &source, &files);
    let queue = |name: &str| json(&server, &format!("/api/queues/%2F/{name}"), OPS);
    assert_eq!(queue("orders")["type"], "quorum");
    assert_eq!(queue("orders")["policy"], "#");
    assert_eq!(queue("DLQ")["policy"], "# of dead letters");
    let bindings = json(&server, "/api/queues/%2F/reader/bindings", OPS);
    assert!(bindings.as_array().unwrap().iter().any(|binding| binding["source"] == "amq.topic"), "{bindings}");
    // The narrow right counts alone: the role of all addresses may not read those of hr.
    let say =
        |name: &str| run(hermod("explain", &dir.path().join("data")).args(["access", "ops", "/", "queue", name])).1;
    assert!(say("orders").contains("of role 'amq' is found in it"), "{}", say("orders"));
    assert!(say("hr.pay").contains("of role 'amq' is not found in it"), "{}", say("hr.pay"));
}

#[test]
fn an_activemq_xml_starts_a_broker() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = moved(dir.path(), ACTIVEMQ, &[]);
    let say = |arguments: &[&str]| run(hermod(arguments[0], &dir.path().join("data")).args(&arguments[1..]));
    let (_, queues, _) = say(&["queues", "--json"]);
    assert!(queues.contains("orders") && queues.contains("ActiveMQ.DLQ"), "{queues}");
    let (_, explained, _) = say(&["explain", "access", "ops", "/", "queue", "orders"]);
    assert!(explained.contains("of role 'staff' is found in it"), "{explained}");
    drop(server);
}

#[test]
fn nothing_is_written_over_and_only_the_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rabbitmq.conf");
    std::fs::write(&file, RABBITMQ).unwrap();
    let output = dir.path().join("out");
    let once = || run(convert().arg(&file).arg("--output").arg(&output));
    assert_eq!(once().0, 0);
    let written = output.join("hermod.toml");
    assert_eq!(std::fs::metadata(&written).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, _, error) = once();
    assert!(code == 73 && error.contains("is there already"), "{code} {error}");
    // Without a place nothing is written, and what can't be read is named.
    let (code, report, _) = run(convert().arg(&file));
    assert!(code == 0 && report.contains("Nothing was written"), "{report}");
    let (code, _, error) = run(convert().arg(dir.path().join("missing")));
    assert!(code == 66 && error.contains("cannot read"), "{code} {error}");
    std::fs::File::create(&file).unwrap().set_len(100 << 20).unwrap();
    let (code, _, error) = run(convert().arg(&file));
    assert!(code == 78 && error.contains("at most 4194304 bytes"), "{code} {error}");
}
