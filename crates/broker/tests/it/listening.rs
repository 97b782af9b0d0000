//! Subscribers without a queue: messages go to the mailbox of their client, at most once; what it
//! leaves unread beyond a bound is dropped and counted.

use broker::{ConsumerReport, ConsumerSource, Held};
use testkit::broker::Setup;
use testkit::peer::Peer;
use testkit::script::Script;
use testkit::sim_disk::SimDisk;

use crate::check;

fn dropped(script: &Script) -> u64 {
    script.broker().broker.overview().totals.deliveries.unread_dropped.get()
}

#[test]
fn a_subscriber_without_a_queue_gets_what_its_filters_match_once_and_in_order() {
    check(&[
        ("s consume direct:amq.topic/a.*,amq.topic/*.b,amq.direct/k t no-ack", ""),
        ("p confirm", ""),
        ("p publish amq.topic a.b 1 confirm=1 mandatory; publish amq.topic x.b 2 confirm=2 mandatory", "+2"),
        ("p publish amq.direct k 3 confirm=3; publish amq.topic c 4 confirm=4 mandatory", "+3, returned 4 4"),
        ("s", "t:1=1, t:2=2, t:3=3"),
        // Beside a queue, and on a route that is known by now.
        ("q queue q; bind amq.topic a.* q", "0 0"),
        ("p publish amq.topic a.b 5 persistent confirm=5; publish amq.topic a.b 6 confirm=6", "+6"),
        ("s", "t:4=5, t:5=6"),
        ("* counts q", "2 0"),
        ("p begin; tx-publish amq.topic a.b 8; tx-publish amq.topic x.b 9", ""),
        ("s", ""),
        ("p commit", "committed"),
        ("s", "t:6=8, t:7=9"),
        ("s cancel t", "cancelled"),
        ("p publish amq.topic x.b 7 confirm=7 mandatory", "returned 7 7"),
    ]);
}

#[test]
fn exchanges_of_every_type_lead_to_it() {
    check(&[
        ("s consume direct:amq.fanout h no-ack; consume direct:amq.headers h2 no-ack kind=a", ""),
        ("p publish amq.fanout any 1; publish amq.headers - 2 kind=a; publish amq.headers - 3 kind=b", ""),
        ("s", "h:1=1, h2:2=2"),
        // Over a binding between exchanges, over an alternate exchange, and as the only choice.
        ("p exchange e topic; bind amq.direct k exchange:e; exchange a fanout alternate-exchange=e", ""),
        ("p exchange c x-consistent-hash; exchange m x-modulus-hash", ""),
        ("s consume direct:e/k,e/spare,c/1,m t no-ack", ""),
        ("p publish amq.direct k 4; publish a spare 5; publish c x 6; publish m y 7", ""),
        ("s", "t:3=4, t:4=5, t:5=6, t:6=7"),
        ("p publish e k 8 CC=spare; delete-exchange e; publish c z 9 mandatory", ""),
        ("s", "t:7=8, t:8=9"),
    ]);
}

#[test]
fn it_is_reported_with_what_it_asks_for_while_it_is_there() {
    let mut script = Script::memory();
    let reported = |script: &Script| -> Vec<String> {
        let shown = |consumer: ConsumerReport| {
            let ConsumerReport { tag, session, source, holder, .. } = consumer;
            let source = match source {
                ConsumerSource::Queue(name) => name,
                ConsumerSource::Filters(filters) => filters
                    .iter()
                    .map(|filter| format!("{}/{}", filter.exchange, filter.key))
                    .collect::<Vec<_>>()
                    .join(","),
                ConsumerSource::Replies => "replies".to_owned(),
            };
            format!("{tag} of {}/{session} from {source}", holder.user)
        };
        script.broker().broker.consumers().into_iter().map(shown).collect()
    };
    script.check(&[
        ("a queue q; consume q c", "0 0"),
        ("a/7 consume direct:amq.topic/a.*,amq.direct/k d no-ack", ""),
        ("b consume direct:amq.fanout/ e no-ack", ""),
    ]);
    let [of_queue, with_filters] = ["c of guest/1 from q", "d of guest/7 from amq.topic/a.*,amq.direct/k"];
    assert_eq!(reported(&script), [with_filters, "e of guest/1 from amq.fanout/", of_queue]);
    script.check(&[("b close", ""), ("a/7 cancel d", "cancelled")]);
    assert_eq!(reported(&script), [of_queue]);
    let mut asking = Peer::attach(script.broker(), "guest").expect("it may attach");
    let session = asking.session(3);
    let now = script.broker().now();
    asking.client.consume_replies(session, "r", "reply.", now).expect("it may");
    assert_eq!(reported(&script), ["r of guest/3 from replies", of_queue]);
    asking.client.close(now);
    assert_eq!(reported(&script), [of_queue]);
}

/// No queue is there in which it could wait.
#[test]
fn a_delayed_message_does_not_come_early() {
    check(&[
        ("s consume direct:amq.topic/#,d/k t no-ack", "404 no exchange 'd' in vhost '/'"),
        ("p exchange d x-delayed-message x-delayed-type=direct; queue q; bind amq.topic q q", "0 0"),
        ("s consume direct:amq.topic/#,d/k t no-ack", ""),
        (
            "p publish d k 1 x-delay=500 mandatory; publish d k 2; publish amq.topic q 3 x-opt-delivery-delay=500",
            "returned 1",
        ),
        ("p publish d k 4 x-delay=0 mandatory", ""),
        ("s", "t:1=2, t:2=4"),
        ("* tick 1000", ""),
        ("s", ""),
        ("* counts q", "1 0"),
    ]);
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_subscriber() {
    check(&[
        ("s exchange e topic auto-delete; consume direct:e/a,e/b,amq.topic/c t no-ack", ""),
        ("s cancel t", "cancelled"),
        ("s passive-exchange e", "404 no exchange 'e' in vhost '/'"),
    ]);
}

/// A cut or a restart leaves nothing of it, and the log has no word of it.
#[test]
fn it_is_never_logged() {
    let disk = SimDisk::new(11, 64 << 20);
    let mut script = Script::stepped(&disk, 4 << 20);
    script.say("p queue q durable; bind amq.topic b q");
    let logged = |script: &Script| script.broker().broker.overview().journal.written_bytes;
    let before = logged(&script);
    script.check(&[
        ("s consume direct:amq.topic/#,amq.fanout t no-ack", ""),
        ("p confirm; publish amq.topic a 1 persistent confirm=1", "+1"),
        ("s", "t:1=1"),
    ]);
    assert_eq!(logged(&script), before);
    script.check(&[
        ("* cut", ""),
        ("p publish amq.topic a 2 mandatory; publish amq.fanout - 3 mandatory", "returned 2, returned 3"),
        ("s consume direct:amq.topic/# t no-ack", ""),
        ("* restart", ""),
        ("p publish amq.topic a 4 mandatory", "returned 4"),
    ]);
}

/// Not twice, nor what was refused in between.
#[test]
fn what_waits_behind_an_alarm_comes_when_it_passes() {
    let mut setup = Setup::memory();
    setup.settings.memory_limit = 11_300;
    let mut script = Script::open(setup, None);
    script.check(&[
        ("a queue q; queue r; consume r c; confirm", "0 0, 0 0"),
        ("s consume direct:amq.topic/# t no-ack", ""),
    ]);
    for number in 0..12 {
        script.say(&format!("a publish - q {number} size=1000"));
    }
    script.check(&[
        ("a publish amq.topic k one; publish amq.topic k two", ""),
        ("s", ""),
        ("b purge q", "12"),
        ("* tick 50", ""),
    ]);
    script.say("a");
    script.check(&[("s", "t:1=one, t:2=two")]);
}

/// What was found for a publisher names subscribers that have gone, and lets go of them.
#[test]
fn thousands_come_and_go_beside_a_publisher() {
    let mut script = Script::memory();
    let before = script.broker().broker.overview().memory.clients;
    for round in 0..2000 {
        script.check(&[
            (&format!("s consume direct:amq.topic/a,amq.topic/*.{round} t no-ack"), ""),
            ("p publish amq.topic a x", ""),
            ("s", &format!("t:{}=x", round + 1)),
            ("s cancel t", "cancelled"),
            ("p publish amq.topic a y mandatory", "returned y"),
        ]);
    }
    script.check(&[("s close", ""), ("p close", "")]);
    assert_eq!(script.broker().broker.overview().memory.clients, before);
}

#[test]
fn it_ends_with_its_session_and_with_its_client() {
    check(&[
        ("s/2 consume direct:amq.topic/# t no-ack", ""),
        ("s/2 end", ""),
        ("p publish amq.topic a 1 mandatory", "returned 1"),
        ("s consume direct:amq.topic/# t no-ack", ""),
        ("s close", ""),
        ("p publish amq.topic a 2 mandatory", "returned 2"),
    ]);
}

#[test]
fn what_only_a_queue_can_do_is_refused_and_leaves_nothing() {
    check(&[
        (
            "s consume direct:amq.topic/# t",
            "406 invalid arg 'no-ack' for queue '' in vhost '/': its deliveries have no queue to come back to: consume without settling",
        ),
        (
            "s consume direct:amq.topic/# t no-ack credit=5",
            "406 invalid arg 'credit' for queue '' in vhost '/': messages have no queue in which they could wait for it",
        ),
        (
            "s consume direct:amq.topic/# t no-ack x-selector=a>1",
            "406 invalid arg 'x-selector' for queue '' in vhost '/': a subscriber without a queue has no selector",
        ),
        ("s consume direct:none/# t no-ack", "404 no exchange 'none' in vhost '/'"),
        ("s consume direct:amq.topic/a,none/b t no-ack", "404 no exchange 'none' in vhost '/'"),
        ("p publish amq.topic a 1 mandatory", "returned 1"),
        ("s consume direct:amq.topic/a t no-ack no-local", ""),
        ("s publish amq.topic a own mandatory; publish amq.topic b other", "returned own"),
        ("p publish amq.topic a 2", ""),
        ("s", "t:1=2"),
    ]);
}

#[test]
fn what_is_left_unread_is_bounded_counted_and_charged() {
    let mut setup = Setup::memory();
    setup.settings.mailbox_bytes = 10_000;
    let mut script = Script::open(setup, None);
    script.check(&[("s consume direct:amq.topic/# t no-ack; mute", "")]);
    for _ in 0..30 {
        script.say("p publish amq.topic a x size=1000");
    }
    let held = script.broker().broker.overview().memory.held;
    assert!(dropped(&script) >= 19, "{}", dropped(&script));
    let rows = script.broker().broker.clients();
    assert_eq!(rows.iter().map(|row| row.dropped).max(), Some(dropped(&script)));
    assert!((9_000..15_000).contains(&held[Held::Replies as usize]), "{held:?}");
    script.say("s listen");
    let heard = script.say("s");
    assert!(heard.is_empty() || heard.starts_with("t:"), "{heard}");
    script.say("p publish amq.topic a last");
    let heard = script.say("s cancel t");
    assert!(heard.ends_with("=last, cancelled"), "{heard}");
}

#[test]
fn retained_messages_come_first_and_wait_for_a_client_that_does_not_read() {
    let mut setup = Setup::memory();
    setup.settings.mailbox_bytes = 20_000;
    let mut script = Script::open(setup, None);
    for topic in 0..1000 {
        script.say(&format!("p publish amq.topic t.{topic:03} old x-retain=true size=200"));
    }
    script.say("s mute; consume direct:amq.topic/# t no-ack retained");
    script.say("* flush");
    assert!(!script.broker().wants_housekeeping(), "the client does not read");
    let first = script.say("s listen");
    assert!(script.broker().wants_housekeeping(), "the client has read, and there are more");
    let of_topics = |heard: &str| heard.split(", ").filter(|one| one.starts_with("t:")).count();
    let mut heard = of_topics(&first);
    for _ in 0..50 {
        heard += of_topics(&script.say("s listen"));
        script.say("* tick 60");
        script.say("* flush");
    }
    assert_eq!((heard, dropped(&script)), (1000, 0));
}

/// A topic's values come to a listener in their order, however publishers and rounds of the
/// housekeeping alternate.
#[test]
fn no_older_value_of_a_topic_comes_after_a_newer_one() {
    let mut whole = 0;
    for seed in 1..20_u64 {
        let mut setup = Setup::memory();
        setup.settings.mailbox_bytes = 30_000;
        let mut script = Script::open(setup, None);
        let mut state = seed;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let publishes: Vec<_> =
            (0..900).map(|topic| format!("publish amq.topic t.{topic} {topic}_0 size=60 x-retain=true")).collect();
        script.say(&format!("p {}", publishes.join("; ")));
        script.say("s consume direct:amq.topic/# t no-ack retained; mute");
        let (mut latest, mut heard) = (vec![0; 900], vec![None; 900]);
        for round in 1..120 {
            let said = match next(4) {
                0 => script.say("s listen"),
                1 => script.say("s mute"),
                2 => script.say("* tick 60"),
                _ => {
                    let topic = next(900);
                    latest[topic as usize] = round;
                    script.say(&format!("p publish amq.topic t.{topic} {topic}_{round} size=60 x-retain=true"))
                }
            };
            hear(&said, &mut heard);
            hear(&script.say("s"), &mut heard);
        }
        for _ in 0..40 {
            script.say("* tick 60");
            hear(&script.say("s listen"), &mut heard);
            hear(&script.say("s"), &mut heard);
        }
        // What comes while pieces of the retained ones fill the mailbox is dropped.
        let missed = heard.iter().zip(&latest).filter(|(heard, latest)| **heard != Some(**latest)).count() as u64;
        assert!(missed <= dropped(&script), "seed {seed}: {missed} of {}", dropped(&script));
        whole += u32::from(dropped(&script) == 0);
    }
    assert!(whole > 5, "{whole} listeners got all of it");
}

/// Notes the last value of each topic, of `t:TAG=TOPIC_ROUND…`.
fn hear(said: &str, heard: &mut [Option<u64>]) {
    for body in said.split(", ").filter_map(|one| one.split_once('=')) {
        let (topic, round) = body.1.trim_end_matches('.').split_once('_').expect("a topic and a round");
        let (topic, round) = (topic.parse::<usize>().unwrap(), round.parse().unwrap());
        assert!(heard[topic] <= Some(round), "{} after {:?}", body.1, heard[topic]);
        heard[topic] = Some(round);
    }
}
