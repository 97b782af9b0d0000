//! The firehose: copies of messages that are published and delivered while a vhost is traced, and
//! of no others.

use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;
use crate::restart::{ALL, check_each};

#[test]
fn what_is_published_and_delivered_is_copied_while_the_vhost_is_traced() {
    check(&[
        ("t queue all; queue out; bind amq.rabbitmq.trace # all; bind amq.rabbitmq.trace deliver.* out", "0 0, 0 0"),
        ("a queue q durable; queue r; bind amq.direct k q; bind amq.direct k r; publish - q 0", "0 0, 0 0"),
        ("* trace on", ""),
        ("a publish amq.direct k 1 persistent h=5 CC=also; publish amq.direct nowhere 2", ""),
        ("b consume q c", "c:1=0, c:2=1"),
        ("b nack 2", "c:3=1!"),
        ("c get r no-ack", ":1=1 left 0"),
        ("a begin; tx-publish - r 3", ""),
        ("* browse all", "1 2 0 1 1 1"),
        ("a commit", "committed"),
        ("* browse all", "1 2 0 1 1 1 3"),
        ("* browse all x-selector=exchange_name='amq.direct'", "1 2 1 1 1"),
        ("* browse all x-selector=amqp.routing_key='publish.amq.direct'", "1 2"),
        ("* browse all x-selector=amqp.routing_key='publish.'", "3"),
        ("* browse out x-selector=redelivered=1", "1"),
        ("* browse out x-selector=amqp.routing_key='deliver.r'", "1"),
        ("* browse all x-selector=user='guest'", "1 2 0 1 1 1 3"),
        ("* browse all x-selector=vhost='/'", "1 2 0 1 1 1 3"),
        ("* browse all x-selector=node='hermod'", "1 2 0 1 1 1 3"),
        ("* trace off", ""),
        ("a publish amq.direct k 4", ""),
        ("b", "c:4=4"),
        ("* counts all", "7 0"),
    ]);
}

#[test]
fn copies_are_not_traced_and_cost_no_publisher_anything() {
    check(&[
        ("t queue all x-max-length=2; bind amq.rabbitmq.trace # all; consume all c no-ack", "0 0"),
        ("* trace on", ""),
        ("a confirm; publish - nowhere 1 mandatory; publish - all 2", "returned 1 1, +2"),
        ("t", "c:1=1, c:2=2, c:3=2, c:4=2"),
        (
            "a publish amq.rabbitmq.trace k 3",
            "403 cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'",
        ),
    ]);
}

#[test]
fn the_exchange_is_there_when_it_is_asked_for_and_stays() {
    check_each(
        ALL,
        &[
            ("a passive-exchange amq.rabbitmq.trace; queue q durable; bind amq.rabbitmq.trace # q", "0 0"),
            ("a exchange amq.rabbitmq.trace topic durable internal", ""),
            (
                "a delete-exchange amq.rabbitmq.trace",
                "403 deletion of system exchange 'amq.rabbitmq.trace' in vhost '/' not allowed",
            ),
            ("* trace on", ""),
            ("* END", ""),
            // The binding is durable, tracing is not.
            ("a publish - nowhere 1", ""),
            ("* counts q", "0 0"),
            ("* trace on", ""),
            ("a publish - nowhere 2", ""),
            ("* counts q", "1 0"),
        ],
    );
}

#[test]
fn nothing_is_traced_while_an_alarm_stops_publishers() {
    let disk = SimDisk::new(1, 64 << 20);
    let mut script = Script::stepped(&disk, 8 << 20);
    script.check(&[("t queue all; bind amq.rabbitmq.trace # all", "0 0"), ("* trace on", "")]);
    script.broker().broker.force_alarm("memory", broker::Switch::On).unwrap();
    script.say("a confirm; publish - nowhere 1");
    script.check(&[("* counts all", "0 0")]);
    script.broker().broker.force_alarm("memory", broker::Switch::Off).unwrap();
    script.say("a");
    script.check(&[("a", ""), ("* browse all", "1")]);
}
