//! Which replies are fences. A fence comes when everything that the connection settled before is
//! durable, so that no later crash can undo it. One table has every method with a reply. Each is
//! tried with a slow disk and with a kill.

use std::collections::BTreeSet;

use testkit::sim_disk::SimDisk;

use super::*;
use crate::codec::methods::method_name;

/// What the reply to a method waits for, besides the change that the method makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    /// Earlier settlements.
    Fence,
    /// Nothing.
    AtOnce,
}
use Reply::{AtOnce, Fence};

/// A method, the channel that it is sent on, and its reply.
type Row<'a> = (u16, Method<'a>, String, Reply);

fn ok(channel: u16, name: &str) -> String {
    format!("{channel} {name}")
}

/// Methods of queues; the settled message is in a queue that they do not use.
fn queues() -> Vec<Row<'static>> {
    let declare = |queue| QueueDeclare { queue, durable: true, ..Default::default() };
    let bind = |queue, routing_key| QueueBind { queue, exchange: "x", routing_key, ..Default::default() };
    let unbind = |routing_key| QueueUnbind { queue: "e", exchange: "x", routing_key, ..Default::default() };
    let deleted = "1 QueueDeleteOk { message_count: 0 }".to_owned();
    vec![
        (1, declare("new").into(), declared(1, "new", 0, 0), Fence),
        (1, declare("e").into(), declared(1, "e", 0, 1), Fence),
        (1, QueueDeclare { passive: true, ..declare("e") }.into(), declared(1, "e", 0, 1), Fence),
        (1, QueueDeclare { durable: false, ..declare("t") }.into(), declared(1, "t", 0, 0), Fence),
        (1, declare("amq.rabbitmq.reply-to").into(), declared(1, "amq.rabbitmq.reply-to", 0, 1), Fence),
        (1, bind("e", "new").into(), ok(1, "QueueBindOk"), Fence),
        (1, bind("e", "k").into(), ok(1, "QueueBindOk"), Fence),
        (1, unbind("k").into(), ok(1, "QueueUnbindOk"), Fence),
        (1, unbind("never").into(), ok(1, "QueueUnbindOk"), Fence),
        (1, QueuePurge { queue: "e", ..Default::default() }.into(), ok(1, "QueuePurgeOk { message_count: 0 }"), Fence),
        (1, QueueDelete { queue: "spare", ..Default::default() }.into(), deleted.clone(), Fence),
        (1, QueueDelete { queue: "never", ..Default::default() }.into(), deleted, Fence),
    ]
}

fn exchanges() -> Vec<Row<'static>> {
    let declare = |exchange| ExchangeDeclare { exchange, kind: "topic", durable: true, ..Default::default() };
    let bind = |routing_key| ExchangeBind { destination: "x", source: "amq.topic", routing_key, ..Default::default() };
    let unbind =
        |routing_key| ExchangeUnbind { destination: "x", source: "amq.topic", routing_key, ..Default::default() };
    let (declared, bound, unbound) = (ok(1, "ExchangeDeclareOk"), ok(1, "ExchangeBindOk"), ok(1, "ExchangeUnbindOk"));
    vec![
        (1, declare("new").into(), declared.clone(), Fence),
        (1, declare("x").into(), declared.clone(), Fence),
        (1, ExchangeDeclare { passive: true, ..declare("x") }.into(), declared.clone(), Fence),
        (1, ExchangeDeclare { passive: true, ..declare("amq.fanout") }.into(), declared.clone(), Fence),
        (1, ExchangeDeclare { passive: true, ..declare("amq.rabbitmq.trace") }.into(), declared.clone(), Fence),
        (1, ExchangeDeclare { durable: false, ..declare("t") }.into(), declared, Fence),
        (1, bind("new").into(), bound.clone(), Fence),
        (1, bind("k").into(), bound, Fence),
        (1, unbind("k").into(), unbound.clone(), Fence),
        (1, unbind("never").into(), unbound, Fence),
        (1, ExchangeDelete { exchange: "spare", ..Default::default() }.into(), ok(1, "ExchangeDeleteOk"), Fence),
        (1, ExchangeDelete { exchange: "never", ..Default::default() }.into(), ok(1, "ExchangeDeleteOk"), Fence),
    ]
}

/// Methods of neither queues nor exchanges. Channel 2 is transactional; channel 3 is not open.
fn others() -> Vec<Row<'static>> {
    let consume = BasicConsume { queue: "e", consumer_tag: "d", ..Default::default() };
    let consuming = ok(1, "BasicConsumeOk { consumer_tag: \"d\" }");
    let cancelled = |tag: &str| ok(1, &format!("BasicCancelOk {{ consumer_tag: {tag:?} }}"));
    vec![
        (1, BasicCancel { consumer_tag: "c", nowait: false }.into(), cancelled("c"), Fence),
        (1, BasicCancel { consumer_tag: "never", nowait: false }.into(), cancelled("never"), Fence),
        (1, BasicRecover { requeue: true }.into(), ok(1, "BasicRecoverOk"), Fence),
        (2, TxCommit {}.into(), ok(2, "TxCommitOk"), Fence),
        (1, ChannelClose::default().into(), ok(1, "ChannelCloseOk"), Fence),
        (2, ChannelClose::default().into(), ok(2, "ChannelCloseOk"), Fence),
        (0, ConnectionClose::default().into(), ok(0, "ConnectionCloseOk"), Fence),
        (3, ChannelOpen::default().into(), ok(3, "ChannelOpenOk { channel_id: [] }"), AtOnce),
        (1, ChannelFlow { active: true }.into(), ok(1, "ChannelFlowOk { active: true }"), AtOnce),
        (1, AccessRequest::default().into(), ok(1, "AccessRequestOk { ticket: 1 }"), AtOnce),
        (1, BasicQos::default().into(), ok(1, "BasicQosOk"), AtOnce),
        (1, consume.into(), consuming, AtOnce),
        (1, BasicGet { queue: "e", ..Default::default() }.into(), ok(1, "BasicGetEmpty { cluster_id: \"\" }"), AtOnce),
        (1, ConfirmSelect::default().into(), ok(1, "ConfirmSelectOk"), AtOnce),
        (1, TxSelect {}.into(), ok(1, "TxSelectOk"), AtOnce),
        (2, TxRollback {}.into(), ok(2, "TxRollbackOk"), AtOnce),
        (0, ConnectionUpdateSecret::default().into(), ok(0, "ConnectionUpdateSecretOk"), AtOnce),
    ]
}

fn table() -> Vec<Row<'static>> {
    queues().into_iter().chain(exchanges()).chain(others()).collect()
}

/// A connection that has just settled the only message of the durable queue `q`. Nothing of that is
/// on the disk yet.
fn settled(server: &Server) -> Peer {
    let mut peer = server.channel();
    peer.open(2);
    peer.send(2, TxSelect {});
    for queue in ["q", "e", "spare"] {
        peer.send(1, QueueDeclare { queue, durable: true, nowait: true, ..Default::default() });
    }
    for exchange in ["x", "spare"] {
        let kind = "topic";
        peer.send(1, ExchangeDeclare { exchange, kind, durable: true, nowait: true, ..Default::default() });
    }
    let bind =
        ExchangeBind { destination: "x", source: "amq.topic", routing_key: "k", nowait: true, ..Default::default() };
    peer.send(1, bind);
    peer.send(1, QueueBind { queue: "e", exchange: "x", routing_key: "k", nowait: true, ..Default::default() });
    peer.send(1, BasicConsume { queue: "e", consumer_tag: "c", nowait: true, ..Default::default() });
    peer.publish(1, BasicPublish { routing_key: "q", ..Default::default() }, &[0x10, 0, 2], b"once");
    server.test.flush();
    peer.send(1, BasicGet { queue: "q", ..Default::default() });
    server.test.flush();
    peer.wait_for(4);
    assert_eq!(peer.lines.pop().as_deref(), Some("1 body once"));
    peer.lines.clear();
    peer.send(1, BasicAck { delivery_tag: 1, multiple: false });
    peer.pump();
    peer
}

/// The messages in `q` after a kill and a new start.
fn left_after_kill(server: Server, peer: Peer, disk: &SimDisk) -> u64 {
    let setup = server.test.setup.clone();
    disk.power_cut();
    drop((server, peer));
    let server = server_with(Settings::default(), setup);
    let queues = server.test.broker.queues();
    queues.iter().find(|queue| queue.name == "q").map_or(0, |queue| queue.ready)
}

#[test]
fn each_reply_is_the_fence_that_it_is_said_to_be() {
    for (channel, method, reply, kind) in table() {
        let disk = SimDisk::new(0, 1 << 30);
        let server = server_with(Settings::default(), Setup::stepped(&disk, 64 << 20));
        let mut peer = settled(&server);
        peer.send(channel, method);
        peer.pump();
        let expected = if kind == Fence { vec![] } else { vec![reply.clone()] };
        assert_eq!(std::mem::take(&mut peer.lines), expected, "before the flush: {method:?}");
        if kind == Fence {
            server.test.flush();
            peer.expect(&[&reply]);
        }
        let left = left_after_kill(server, peer, &disk);
        assert_eq!(left, u64::from(kind == AtOnce), "after a kill behind the reply: {method:?}");
    }
}

/// Before the reply, a crash may undo the settlement. This shows that nothing else makes it durable
/// earlier, so the test of fences can fail.
#[test]
fn what_is_settled_may_come_back_as_long_as_there_is_no_reply() {
    for (channel, method, ..) in table() {
        let disk = SimDisk::new(0, 1 << 30);
        let server = server_with(Settings::default(), Setup::stepped(&disk, 64 << 20));
        let mut peer = settled(&server);
        peer.send(channel, method);
        assert_eq!(left_after_kill(server, peer, &disk), 1, "{method:?}");
    }
}

/// A change by one connection is visible to another one at once. Replies to the other one wait
/// until no crash can undo the change.
#[test]
fn what_another_connection_has_changed_is_told_when_it_is_on_the_disk() {
    let queue = |queue| QueueDeclare { queue, durable: true, ..Default::default() };
    let exchange = |exchange| ExchangeDeclare { exchange, kind: "topic", durable: true, ..Default::default() };
    let bind = || QueueBind { queue: "old", exchange: "amq.topic", routing_key: "k", ..Default::default() };
    let declared: [(Method<'_>, Method<'_>); 8] = [
        (queue("new").into(), queue("new").into()),
        (queue("new").into(), QueueDeclare { passive: true, ..queue("new") }.into()),
        (exchange("new").into(), exchange("new").into()),
        (exchange("new").into(), ExchangeDeclare { passive: true, ..exchange("new") }.into()),
        (bind().into(), bind().into()),
        (queue("new").into(), QueueUnbind { queue: "new", exchange: "amq.topic", ..Default::default() }.into()),
        (
            QueueDelete { queue: "old", ..Default::default() }.into(),
            QueueDelete { queue: "old", ..Default::default() }.into(),
        ),
        (
            ExchangeDelete { exchange: "old", ..Default::default() }.into(),
            ExchangeDelete { exchange: "old", ..Default::default() }.into(),
        ),
    ];
    for (change, look) in declared {
        let disk = SimDisk::new(0, 1 << 30);
        let server = server_with(Settings::default(), Setup::stepped(&disk, 64 << 20));
        let (mut one, mut other) = (server.channel(), server.channel());
        one.send(1, QueueDeclare { nowait: true, ..queue("old") });
        one.send(1, ExchangeDeclare { nowait: true, ..exchange("old") });
        one.pump();
        server.test.flush();
        one.send(1, change);
        one.pump();
        other.send(1, look);
        other.pump();
        assert_eq!(other.lines, [""; 0], "{look:?} before the flush of {change:?}");
        server.test.flush();
        other.wait_for(1);
        assert_eq!(other.lines.len(), 1, "{look:?} behind the flush of {change:?}");
    }
}

/// A method that is added to the protocol must be added to the table.
#[test]
fn the_table_has_every_method_that_is_answered() {
    let names = |class: u16| (0..=200).filter_map(move |id| method_name(class, id));
    let all: BTreeSet<&str> = (0..=100).flat_map(names).collect();
    let answered = all.iter().copied().filter(|name| all.contains(format!("{name}_ok").as_str()));
    // Methods that the server sends, and the one that opens the connection.
    let before = ["connection.start", "connection.secure", "connection.tune", "connection.open"];
    let listed: BTreeSet<&str> =
        table().iter().filter_map(|(_, method, ..)| method_name(method.id().0, method.id().1)).chain(before).collect();
    assert_eq!(listed, answered.collect());
}
