//! The metrics of a scrape. A figure that RabbitMQ has too has RabbitMQ's name, so that dashboards
//! made for RabbitMQ work. Figures of Hermod alone start with `hermod_`. A figure that is not known
//! is left out.

use broker::{Broker, DEAD_LETTERS_DROPPED, Durations, Held, Left, Overview, QueueReport, Sizes, Totals};

use crate::counters::{ALL_LENGTHS, CHURN, Counter, LENGTHS, OF_QUEUES, TRAFFIC, counter};
use crate::exposition::Exposition;
use crate::facts::{Facts, Socket};
use crate::memory::{Kept, Memory};
use crate::process::Process;
use crate::scrape::{Metric, Scrape, Stalls};

/// The causes of death, in the order of their counters.
const REASONS: [&str; 4] = ["rejected", "expired", "maxlen", "delivery_limit"];

/// The scrape that dashboards read: sums over all queues.
pub(crate) fn aggregated(
    origin: &Origin<'_>,
    overview: &Overview,
    logins: [(&str, u64); 3],
    refused: &[(&str, u64)],
    (sockets, long_turns): (&[Socket], &[(&str, u64)]),
    (process, kept, turns): (Process, Kept, u64),
) -> String {
    let mut out = Exposition::default();
    identity(&mut out, origin, "aggregated");
    objects(&mut out, overview);
    out.family("hermod_logins_total", "counter", "Log-ins by how they ended");
    for (outcome, count) in logins {
        out.sample("hermod_logins_total", &[("outcome", outcome)], count);
    }
    out.family(
        "hermod_pattern_matches_given_up_total",
        "counter",
        "Matches of patterns that took too much work, and so were none",
    );
    out.sample("hermod_pattern_matches_given_up_total", &[], auth::pattern::given_up());
    out.family("hermod_connections_refused_total", "counter", "Connections that a limit refused, by the limit");
    for (reason, count) in refused {
        out.sample("hermod_connections_refused_total", &[("reason", reason)], *count);
    }
    messages(&mut out, overview);
    resources(&mut out, overview, process);
    not_alarming(&mut out, overview, kept);
    journal(&mut out, overview);
    traffic(&mut out, sockets);
    out.family(
        "hermod_long_turns_total",
        "counter",
        "Pieces of work that held up others of their thread for 100 ms or longer, by kind",
    );
    for (kind, count) in long_turns {
        out.sample("hermod_long_turns_total", &[("kind", kind)], *count);
    }
    out.counter("hermod_http_turns_total", "Turns that publishes and fetches over HTTP had with the broker", turns);
    out.into_text()
}

/// A scrape of the figures of each queue; `now` is in milliseconds since 1970.
pub(crate) fn of_queues(now: u64) -> Scrape {
    const OTHERS: [Counter<QueueReport>; 3] = [
        counter(
            [
                "",
                "rabbitmq_queue_messages_ram_bytes",
                "Bytes that the queue takes in memory, of what waits and of what is unacked",
            ],
            |queue| queue.bytes,
        ),
        counter(["", "rabbitmq_queue_consumers", "Consumers of the queue"], |queue| queue.consumers),
        counter(["", "hermod_queue_messages_delayed", "Messages of the queue that are not due yet"], |queue| {
            queue.delayed
        }),
    ];
    let lengths = LENGTHS.iter().map(|counter| (format!("rabbitmq_{}", counter.metric), counter));
    let gauges = lengths.chain(OTHERS.iter().map(|counter| (counter.metric.to_owned(), counter)));
    let gauges = gauges
        .map(|(name, counter)| Metric::new(name, ["gauge", counter.help], |queue| Some((counter.read)(queue) as f64)));
    let counters = OF_QUEUES.iter().filter(|counter| !counter.metric.is_empty()).map(|counter| {
        let name = format!("rabbitmq_{}_total", counter.metric);
        Metric::new(name, ["counter", counter.help], |queue| Some((counter.read)(&queue.figures.totals) as f64))
    });
    let metrics = gauges.chain(counters).chain(ages(now)).collect();
    Scrape::new(Exposition::default(), metrics, Stalls::Told)
}

/// How old the oldest messages of each queue are.
fn ages(now: u64) -> impl Iterator<Item = Metric> {
    type Age = (&'static str, &'static str, fn(&QueueReport) -> Option<u64>);
    const AGES: [Age; 2] = [
        (
            "hermod_queue_oldest_ready_seconds",
            "Seconds since the next message of the queue was published, if memory has it",
            |queue| queue.figures.oldest_ready,
        ),
        (
            "hermod_queue_oldest_unacked_seconds",
            "Seconds since the oldest message was published that consumers of the queue hold",
            |queue| queue.figures.oldest_unsettled,
        ),
    ];
    AGES.into_iter().map(move |(name, help, published)| {
        let age = move |queue: &QueueReport| published(queue).map(|at| now.saturating_sub(at) as f64 / 1000.0);
        Metric::new(name.to_owned(), ["gauge", help], age)
    })
}

/// What takes the memory of the process.
pub(crate) fn memory(origin: &Origin<'_>, memory: &Memory) -> String {
    let mut out = Exposition::default();
    identity(&mut out, origin, "memory-breakdown");
    for (name, help, bytes) in [
        ("classic_queue_erlang_process", "Bytes of queued messages in memory", memory.queued),
        ("client_connection_other", "Bytes of large messages that are arriving or wait for a flush", memory.arriving),
        ("other_system", "Everything else of the process", memory.rest()),
    ] {
        out.gauge(&format!("rabbitmq_memory_{name}_bytes"), help, bytes);
    }
    out.into_text()
}

/// Who serves metrics.
pub(crate) struct Origin<'a> {
    facts: &'a Facts,
    cluster: String,
}

impl<'a> Origin<'a> {
    pub(crate) fn of(facts: &'a Facts, broker: &Broker) -> Self {
        Self { facts, cluster: broker.cluster_name() }
    }
}

/// Dashboards join all metrics with these two on `instance` and `job`, so each has one sample.
pub(crate) fn identity(out: &mut Exposition, origin: &Origin<'_>, endpoint: &str) {
    let Origin { facts, cluster } = origin;
    let Facts { product, compat_version, version, .. } = facts;
    out.family("rabbitmq_identity_info", "gauge", "Who serves these metrics");
    let node = [("rabbitmq_node", facts.node.as_str()), ("rabbitmq_cluster", cluster), ("rabbitmq_endpoint", endpoint)];
    out.sample("rabbitmq_identity_info", &node, 1);
    out.family("rabbitmq_build_info", "gauge", "What serves these metrics");
    let build =
        [("rabbitmq_version", compat_version.as_str()), ("product_name", product), ("product_version", compat_version)];
    out.sample("rabbitmq_build_info", &build, 1);
    out.family("hermod_build_info", "gauge", "The version of Hermod");
    let build = [("version", version.as_str()), ("durability", &facts.durability)];
    out.sample("hermod_build_info", &build, 1);
    out.gauge("rabbitmq_erlang_uptime_seconds", "Seconds since the start", facts.started.elapsed().as_secs());
}

fn objects(out: &mut Exposition, overview: &Overview) {
    out.gauge("rabbitmq_connections", "Authenticated connections", overview.objects.connections);
    out.gauge("rabbitmq_channels", "Sessions of all connections", overview.objects.sessions);
    out.gauge("rabbitmq_consumers", "Consumers", overview.objects.consumers);
    out.gauge("rabbitmq_queues", "Queues", overview.objects.queues);
    let unattended = "Queues with messages that wait and no consumer";
    out.gauge("hermod_queues_unattended", unattended, overview.objects.unattended_queues);
    out.gauge("hermod_exchanges", "Exchanges", overview.objects.exchanges);
    out.gauge("hermod_bindings", "Bindings", overview.objects.bindings);
    let Left { subscriptions, offline_subscriptions, retained, wills } = &overview.objects.left;
    for (name, help, count) in [
        ("hermod_subscriptions", "Subscriptions, stored sessions of MQTT included", *subscriptions),
        ("hermod_subscriptions_offline", "Subscriptions without a consumer", *offline_subscriptions),
        ("hermod_retained_messages", "Retained messages", retained.messages),
        ("hermod_retained_bytes", "Bytes of retained messages", retained.bytes),
        ("hermod_wills", "Wills", wills.wills),
        ("hermod_wills_waiting", "Wills of clients that are gone, which wait for their time", wills.waiting),
        ("hermod_wills_held_up", "Wills that were due and wait for the end of an alarm", wills.held_up),
        ("hermod_wills_in_memory", "Wills that a kill would lose, since the log has no room", wills.in_memory),
    ] {
        out.gauge(name, help, count);
    }
    for counter in &CHURN {
        out.counter(&format!("rabbitmq_{}_total", counter.metric), counter.help, (counter.read)(overview));
    }
}

fn messages(out: &mut Exposition, overview: &Overview) {
    for counter in &ALL_LENGTHS {
        out.gauge(&format!("rabbitmq_{}", counter.metric), counter.help, (counter.read)(overview));
    }
    out.gauge("hermod_messages_delayed", "Messages that are not due yet", overview.messages.delayed);
    out.gauge("rabbitmq_global_consumers", "Consumers", overview.objects.consumers);
    out.gauge("rabbitmq_global_publishers", "Sessions that have published", overview.objects.publishers);
    out.gauge("rabbitmq_queue_consumers", "Consumers", overview.objects.consumers);
    for counter in &TRAFFIC {
        let name = format!("rabbitmq_global_messages_{}_total", counter.metric);
        out.counter(&name, counter.help, (counter.read)(overview));
    }
    let Totals { publishes, deliveries, deaths, .. } = &overview.totals;
    for (name, count) in [
        ("rabbitmq_channel_messages_unroutable_dropped_total", &publishes.unroutable_dropped),
        ("rabbitmq_channel_messages_unroutable_returned_total", &publishes.unroutable_returned),
    ] {
        out.counter(name, "Messages no queue was bound for, under the name that older alert rules have", count.get());
    }
    for (reason, count) in REASONS.iter().zip(&deaths.dead_lettered) {
        let name = format!("rabbitmq_global_messages_dead_lettered_{reason}_total");
        out.counter(&name, "Messages that died and went to a dead-letter exchange", count.get());
    }
    out.family("hermod_dropped_total", "counter", "Messages given up without a queue or a client to tell");
    for (reason, count) in [
        ("unroutable", &publishes.unroutable_dropped),
        ("alarm", &publishes.parked_dropped),
        ("unread", &deliveries.unread_dropped),
    ] {
        out.sample("hermod_dropped_total", &[("reason", reason)], count.get());
    }
    for (reason, count) in DEAD_LETTERS_DROPPED.iter().zip(&deaths.dead_letters_dropped) {
        out.sample("hermod_dropped_total", &[("reason", reason)], count.get());
    }
    for (reason, count) in REASONS.iter().zip(&deaths.lost) {
        out.sample("hermod_dropped_total", &[("reason", reason)], count.get());
    }
    for (name, help, count) in [
        ("refused", "Publishes refused by a full queue or an alarm", &publishes.refused),
        ("duplicates", "Messages not taken since they had come before", &publishes.duplicates),
        ("redriven_messages", "Dead letters sent back to where they came from", &deaths.redriven),
        ("superseded", "Messages that newer ones of their keys took the place of", &deaths.superseded),
        ("received_body_bytes", "Bytes of the bodies received", &publishes.received_bytes),
    ] {
        out.counter(&format!("hermod_{name}_total"), help, count.get());
    }
    // As RabbitMQ writes its bounds: dashboards name them.
    let bound = |bound: u64| {
        if bound < 1_000_000 { format!("{bound}.0") } else { format!("{:e}", bound as f64).replace('e', "e+0") }
    };
    out.histogram(
        ["rabbitmq_message_size_bytes", "Sizes of the bodies received"],
        Sizes::BOUNDS.into_iter().map(bound),
        &publishes.sizes.counts(),
        publishes.received_bytes.get(),
    );
    let help = "Seconds from the end of the turn that took a publish to its confirm";
    durations(out, ["hermod_confirm_seconds", help], &publishes.confirm_times);
}

/// Durations in seconds.
fn durations(out: &mut Exposition, about: [&str; 2], times: &Durations) {
    let bounds = Durations::BOUNDS.into_iter().map(|microseconds| (microseconds as f64 / 1e6).to_string());
    out.histogram(about, bounds, &times.counts(), times.total().as_secs_f64());
}

fn resources(out: &mut Exposition, overview: &Overview, process: Process) {
    let known = [
        ("rabbitmq_process_open_fds", "Open files and sockets", process.open_files),
        ("rabbitmq_process_max_fds", "Most open files and sockets", process.max_files),
        ("rabbitmq_process_resident_memory_bytes", "Memory of the process", process.resident_bytes),
    ];
    for (name, help, value) in known {
        if let Some(value) = value {
            out.gauge(name, help, value);
        }
    }
    let held: u64 = overview.memory.held.iter().sum();
    let queued = overview.memory.used.saturating_sub(overview.memory.arriving + held);
    out.gauge("hermod_queued_memory_bytes", "Bytes of queued messages in memory", queued);
    let arriving = "Bytes of large messages that are arriving or wait for a flush";
    out.gauge("hermod_arriving_memory_bytes", arriving, overview.memory.arriving);
    for ((_, kind, what), bytes) in Held::ALL.iter().zip(overview.memory.held) {
        out.gauge(&format!("hermod_{kind}_memory_bytes"), &format!("Bytes of {what}"), bytes);
    }
    out.gauge("rabbitmq_resident_memory_limit_bytes", "Where the memory alarm rises", overview.memory.limit);
    out.gauge("rabbitmq_disk_space_available_bytes", "Bytes free on the journal's disk", overview.journal.free_bytes);
    let blocks = overview.journal.free_bytes.saturating_sub(overview.journal.room_bytes);
    let help = "Bytes free on the journal's disk at which publishers would be stopped by now, by disk or log";
    out.gauge("rabbitmq_disk_space_available_limit_bytes", help, blocks.max(overview.disk.least_free));
    if overview.disk.most_stored > 0 {
        out.gauge("hermod_store_bytes", "Bytes of log, segments and spilled messages", overview.disk.stored);
        out.gauge("hermod_store_limit_bytes", "Where the disk alarm rises by disk.limit", overview.disk.most_stored);
    }
    let alarm = "1 while the alarm stops publishers";
    out.gauge("rabbitmq_alarms_memory_used_watermark", alarm, u8::from(overview.alarms.memory));
    out.gauge("rabbitmq_alarms_free_disk_space_watermark", alarm, u8::from(overview.alarms.disk));
}

/// What raises no alarm, or not by itself.
fn not_alarming(out: &mut Exposition, overview: &Overview, kept: Kept) {
    for (kind, what, bytes) in [
        ("declarations", "of memory of queues, exchanges and bindings", kept.declared),
        ("clients", "of memory of connections, sessions and consumers", kept.clients),
        ("http", "of answers and documents under way over HTTP, and of the samples of rates and charts", kept.http),
        ("strangers", "in buffers of connections that have not authenticated", kept.strangers),
    ] {
        out.gauge(&format!("hermod_{kind}_memory_bytes"), &format!("Bytes {what}"), bytes);
    }
    let uncounted = "Bytes of the process that nothing counts; beyond the limit they count for the alarm";
    out.gauge("hermod_uncounted_memory_bytes", uncounted, kept.uncounted(&overview.memory));
    let logged = "Bytes of the log that durable declarations take";
    out.gauge("hermod_declarations_journal_bytes", logged, overview.memory.logged);
}

fn journal(out: &mut Exposition, overview: &Overview) {
    let journal = &overview.journal;
    out.gauge("hermod_journal_files", "Files of the journal", journal.files);
    out.gauge("hermod_journal_used_bytes", "Bytes of the journal's files", journal.used_bytes);
    out.gauge("hermod_journal_max_bytes", "Most bytes the journal may take", journal.max_bytes);
    out.gauge("hermod_journal_live_bytes", "Bytes of bodies that are still needed, estimated", journal.live_bytes);
    out.counter("hermod_journal_written_bytes_total", "Bytes written to the journal", journal.written_bytes);
    out.counter("hermod_journal_flushes_total", "Flushes of the journal", journal.flushes);
    let help = "Seconds that a run of batches took to be written and flushed";
    durations(out, ["hermod_journal_flush_seconds", help], &journal.flush_times);
    out.gauge("hermod_journal_room_bytes", "Bytes that can be taken before publishers are stopped", journal.room_bytes);
    out.counter(
        "hermod_journal_ready_failures_total",
        "Journal files that could not be readied",
        journal.ready_failures,
    );
    out.gauge("hermod_queues_damaged", "Queues with messages that can't be read", overview.objects.damaged_queues);
    out.gauge("hermod_spill_bytes", "Bytes of transient messages on disk, for want of memory", journal.spill.bytes);
    out.counter(
        "hermod_spill_written_bytes_total",
        "Bytes of transient messages written to disk",
        journal.spill.written_bytes,
    );
    out.counter("hermod_spill_failures_total", "Times that the disk took none", journal.spill.failures);
    out.gauge("hermod_segments", "Files of messages outside the log", journal.segments.files);
    out.gauge("hermod_segment_bytes", "Bytes of these files", journal.segments.bytes);
    out.gauge(
        "hermod_segment_live_bytes",
        "Bytes in them that are still needed, estimated",
        journal.segments.live_bytes,
    );
    out.counter(
        "hermod_scrub_bytes_total",
        "Bytes of segments read to see whether they still can be",
        journal.segments.scrubbed_bytes,
    );
    out.counter(
        "hermod_scrub_rounds_total",
        "Times that all segments were read that way",
        journal.segments.scrub_rounds,
    );
    out.gauge("hermod_scrub_damaged", "Segments found damaged that way", journal.segments.damaged);
    let totals = [
        ("adopted_files", "Log files that became segments where they lie", journal.segments.adopted_files),
        ("evacuated_bytes", "Bytes of messages copied to segments", journal.segments.evacuated_bytes),
        ("merges", "Segments written in place of others", journal.segments.merges),
        ("failures", "Segments that could not be written or read, and were tried again", journal.segments.failures),
    ];
    for (name, help, value) in totals {
        out.counter(&format!("hermod_segment_{name}_total"), help, value);
    }
}

/// Sums by protocol, over the sockets that are open now. Sums that include closed sockets would
/// have to be kept.
fn traffic(out: &mut Exposition, sockets: &[Socket]) {
    let mut by_protocol = std::collections::BTreeMap::<&str, (u64, u64, u64)>::new();
    for socket in sockets {
        let name = if socket.protocol.is_empty() { "unknown" } else { socket.protocol };
        let sums = by_protocol.entry(name).or_default();
        *sums = (sums.0 + 1, sums.1 + socket.bytes_in, sums.2 + socket.bytes_out);
    }
    out.family("hermod_sockets", "gauge", "Open sockets");
    for (protocol, (count, _, _)) in &by_protocol {
        out.sample("hermod_sockets", &[("protocol", protocol)], *count);
    }
    out.family("hermod_sockets_incoming_bytes", "gauge", "Bytes received on the sockets open now");
    for (protocol, (_, bytes, _)) in &by_protocol {
        out.sample("hermod_sockets_incoming_bytes", &[("protocol", protocol)], *bytes);
    }
    out.family("hermod_sockets_outgoing_bytes", "gauge", "Bytes sent on the sockets open now");
    for (protocol, (_, _, bytes)) in &by_protocol {
        out.sample("hermod_sockets_outgoing_bytes", &[("protocol", protocol)], *bytes);
    }
}
