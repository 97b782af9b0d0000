//! A diagnosis of a queue in words and numbers, for the API, the command line and the console: all
//! three say the same, from the causes that the broker found.

use broker::{Cause, ConsumerReport, Diagnosis, Readiness, Standing};
use serde::{Deserialize, Serialize};

use crate::quantity::{grouped, lasting, several};
use crate::source::alarms;

/// Consumers that a diagnosis names: those that hold most.
const NAMED: usize = 20;

/// Why a queue moves or does not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiagnosisRow {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub queue: String,
    /// `stuck`, `waiting`, `moving`, `delivered` or `empty`.
    pub state: String,
    /// The same as a sentence.
    pub sentence: String,
    /// What the sentence rests on.
    pub evidence: String,
    /// What to do about it; empty for nothing.
    pub advice: String,
    /// Why it does not move, the gravest cause first.
    pub causes: Vec<CauseRow>,
    /// The figures behind it.
    #[serde(flatten)]
    pub figures: FiguresRow,
    /// The consumers that hold most.
    pub consumer_details: Vec<HolderRow>,
}

/// One cause.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CauseRow {
    /// Its name, which stays.
    pub cause: String,
    /// In a few words.
    pub sentence: String,
    /// What it rests on.
    pub evidence: String,
    /// What to do.
    pub advice: String,
}

/// The figures behind a diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FiguresRow {
    /// Messages that are ready.
    pub messages_ready: u64,
    /// Messages that are with consumers.
    pub messages_unacknowledged: u64,
    /// Messages that wait for their time.
    pub messages_delayed: u64,
    /// Consumers.
    pub consumers: u64,
    /// Milliseconds since the next message was published.
    pub oldest_ready_age_ms: Option<u64>,
    /// Milliseconds since the oldest message was published that consumers hold.
    pub oldest_unacknowledged_age_ms: Option<u64>,
    /// Milliseconds until the first message is due that waits for its time.
    pub next_due_in_ms: Option<u64>,
    /// Milliseconds since anything happened to the queue.
    pub idle_ms: u64,
    /// Dead letters dropped since the start because their exchange or queue was not there.
    #[serde(default)]
    pub dead_letters_unroutable: u64,
}

/// One consumer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HolderRow {
    /// Its client's name for it.
    pub consumer_tag: String,
    /// The user of its connection.
    pub user: String,
    /// Both ends of its connection.
    pub connection: String,
    /// Its protocol's number for its session.
    pub channel: u32,
    /// `ready`, `waits its turn`, `out of credit` or `not reading`.
    pub state: String,
    /// Deliveries that it has not settled.
    pub messages_unacknowledged: u32,
    /// Its prefetch; 0 for no limit.
    pub prefetch_count: u32,
    /// Bytes of deliveries that its connection has not read.
    pub waiting_bytes: u64,
}

/// What a consumer does, in a few words.
pub(crate) fn readiness(consumer: &ConsumerReport) -> &'static str {
    match consumer.readiness {
        Readiness::Ready => "ready",
        Readiness::NotActive => "waits its turn",
        Readiness::OutOfCredit => "out of credit",
        Readiness::NotReading { .. } => "not reading",
    }
}

/// What stops a queue, in a few words.
pub(crate) fn short(cause: Cause) -> &'static str {
    match cause {
        Cause::Damaged => "damaged",
        Cause::DeadLettersWait => "dead letters wait",
        Cause::NoConsumers => "no consumers",
        Cause::SingleActive => "active consumer takes nothing",
        Cause::OutOfCredit => "consumers out of credit",
        Cause::SlowReader => "consumers do not read",
        Cause::NotSelected => "no selector matches",
        Cause::GroupHeld => "message group held",
        Cause::RedeliveryLoop => "redelivered again and again",
        Cause::Delayed => "messages wait for their time",
        Cause::WaitsForDisk => "waits for the disk",
        Cause::Full => "full",
        Cause::Alarm => "publishers stopped by an alarm",
        Cause::NoTarget => "dead letters have nowhere to go",
        Cause::NoPublishes => "nothing is published",
    }
}

impl DiagnosisRow {
    /// The causes that its sentence does not tell of.
    pub fn others(&self) -> impl Iterator<Item = &CauseRow> {
        self.causes.iter().filter(|cause| cause.evidence != self.evidence)
    }

    /// A diagnosis in words.
    pub(crate) fn of(found: &Diagnosis) -> Self {
        let queue = &found.queue;
        let since = |at: u64| found.at.saturating_sub(at);
        let mut holders: Vec<&ConsumerReport> = found.consumers.iter().collect();
        holders.sort_by_key(|consumer| std::cmp::Reverse(consumer.unsettled));
        let (sentence, evidence, told) = in_short(found);
        Self {
            vhost: queue.vhost.clone(),
            queue: queue.name.clone(),
            state: state(found.standing()).to_owned(),
            sentence,
            evidence,
            advice: told.map(advice).unwrap_or_default().to_owned(),
            causes: found.causes().map(|cause| cause_row(cause, found)).collect(),
            figures: FiguresRow {
                messages_ready: queue.ready,
                messages_unacknowledged: queue.unacked,
                messages_delayed: queue.delayed,
                consumers: queue.consumers,
                oldest_ready_age_ms: found.ages.oldest_ready.map(since),
                oldest_unacknowledged_age_ms: found.ages.oldest_unsettled.map(since),
                next_due_in_ms: found.ages.next_due.map(|due| due.saturating_sub(found.at)),
                idle_ms: since(found.ages.active),
                dead_letters_unroutable: queue.figures.totals.targetless,
            },
            consumer_details: holders.into_iter().take(NAMED).map(holder_row).collect(),
        }
    }
}

/// The name of a standing for programs.
fn state(standing: Standing) -> &'static str {
    match standing {
        Standing::Stuck => "stuck",
        Standing::Waits => "waiting",
        Standing::Moves => "moving",
        Standing::Delivered => "delivered",
        Standing::Empty => "empty",
    }
}

fn holder_row(consumer: &ConsumerReport) -> HolderRow {
    let waiting = if let Readiness::NotReading { bytes } = consumer.readiness { bytes } else { 0 };
    HolderRow {
        consumer_tag: consumer.tag.clone(),
        user: consumer.holder.user.clone(),
        connection: consumer.holder.peer.clone(),
        channel: consumer.session,
        state: readiness(consumer).to_owned(),
        messages_unacknowledged: consumer.unsettled,
        prefetch_count: consumer.prefetch,
        waiting_bytes: waiting,
    }
}

/// The sentence above everything else, what it rests on, and the cause that both tell of.
fn in_short(found: &Diagnosis) -> (String, String, Option<Cause>) {
    let first = found.causes().next();
    let start = match (found.standing(), first) {
        (Standing::Stuck, Some(Cause::Damaged)) => "It is damaged",
        (Standing::Stuck, Some(Cause::Full)) => "It takes nothing",
        (Standing::Stuck, _) => "It does not move",
        (Standing::Waits, _) => "It waits",
        _ => return in_order(found),
    };
    let Some(cause) = first else { return in_order(found) };
    let sentence = if cause == Cause::Damaged { start.to_owned() } else { format!("{start}: {}", short(cause)) };
    (sentence, evidence(cause, found), first)
}

/// The same for a queue that is well.
fn in_order(found: &Diagnosis) -> (String, String, Option<Cause>) {
    let have = several(found.queue.consumers, "consumer", "consumers");
    let silent = found.causes().find(|cause| *cause == Cause::NoPublishes);
    let (sentence, evidence) = match found.standing() {
        Standing::Moves => ("It moves", format!("{} ready; {have} can take more.", grouped(found.queue.ready))),
        Standing::Delivered => {
            let (unacked, oldest) = (grouped(found.queue.unacked), oldest(found.ages.oldest_unsettled, found));
            ("All is delivered", format!("{unacked} unacknowledged, held by its consumers{oldest}."))
        }
        _ if found.queue.consumers == 0 => ("It is empty", "No messages, and no consumers.".to_owned()),
        _ => match silent {
            Some(silent) => return ("It is empty".to_owned(), evidence(silent, found), Some(silent)),
            None => ("It is empty", format!("{have} for the messages that come.")),
        },
    };
    (sentence.to_owned(), evidence, None)
}

/// `, the oldest published 41 min ago`.
fn oldest(published: Option<u64>, found: &Diagnosis) -> String {
    let ago = |at: u64| format!(", the oldest published {} ago", lasting(found.at.saturating_sub(at)));
    published.map(ago).unwrap_or_default()
}

fn cause_row(cause: Cause, found: &Diagnosis) -> CauseRow {
    CauseRow {
        cause: cause.name().to_owned(),
        sentence: short(cause).to_owned(),
        evidence: evidence(cause, found),
        advice: advice(cause).to_owned(),
    }
}

/// What a cause rests on.
fn evidence(cause: Cause, found: &Diagnosis) -> String {
    let queue = &found.queue;
    let ready = grouped(queue.ready);
    let waiting = format!("{ready} ready{}", oldest(found.ages.oldest_ready, found));
    let of = |state: fn(&Readiness) -> bool| found.consumers.iter().filter(move |one| state(&one.readiness));
    match cause {
        Cause::Damaged => queue.damaged.clone().unwrap_or_default(),
        Cause::DeadLettersWait => {
            let why = found.unmade.as_deref().unwrap_or_default();
            format!("Messages that died wait, since their dead-letter queue can't be made: {why}.")
        }
        Cause::NoConsumers => format!("{waiting}, and no client consumes from it."),
        Cause::SingleActive => {
            let waits = of(|one| *one == Readiness::NotActive).count() as u64;
            format!("{waiting}. {} until the active one goes.", several(waits, "consumer waits", "consumers wait"))
        }
        Cause::OutOfCredit => out_of_credit(found),
        Cause::SlowReader => {
            let slow = of(|one| matches!(one, Readiness::NotReading { .. }));
            let names: Vec<_> = slow.take(3).map(|one| format!("'{}' of {}", one.tag, peer(one))).collect();
            format!("{waiting}. Deliveries wait until the client reads its socket: {}.", names.join(", "))
        }
        Cause::NotSelected => {
            let looked = |one: &broker::SelectorReport| {
                format!("{} of {} match {}", grouped(one.selected), grouped(one.looked_at), one.selector)
            };
            let selectors: Vec<_> = queue.selectors.iter().take(3).map(looked).collect();
            format!("{waiting}, and no consumer asks for one of them. {}", selectors.join("; ")).trim_end().to_owned()
        }
        Cause::GroupHeld => format!("{waiting}. Their groups belong to consumers that take nothing now."),
        Cause::RedeliveryLoop => {
            let totals = &queue.figures.totals;
            format!(
                "Its oldest message came back again. Since the start, {} were redelivered and {} acknowledged.",
                grouped(totals.redelivered),
                grouped(totals.acknowledged)
            )
        }
        Cause::Delayed => {
            let due = found.ages.next_due.map(|due| due.saturating_sub(found.at));
            let next = due.map(|due| format!(", the first for {}", lasting(due))).unwrap_or_default();
            format!("{} wait for their time{next}.", grouped(queue.delayed))
        }
        Cause::WaitsForDisk => format!("{waiting}. The next is read from the disk, or its delivery mark is flushed."),
        Cause::Full => format!("It holds {ready} and may hold no more: new messages are refused."),
        Cause::Alarm => {
            let names = alarms(found.alarms).join(" and ");
            format!("The broker is low on {names}: publishers wait, consumers are served.")
        }
        Cause::NoTarget => no_target(found),
        Cause::NoPublishes => {
            let idle = lasting(found.at.saturating_sub(found.ages.active));
            let all = several(queue.figures.totals.published, "message has come", "messages have come");
            format!("Nothing has happened for {idle}. Since the start {all}.")
        }
    }
}

/// What dead letters should have gone to.
fn no_target(found: &Diagnosis) -> String {
    let count = several(found.queue.figures.totals.targetless, "dead letter", "dead letters");
    let Some(missing) = &found.missing else { return format!("{count} dropped since the start.") };
    let ago = lasting(found.at.saturating_sub(missing.at));
    let what = match (missing.exchange.as_str(), &missing.routing_key) {
        (exchange, None) => format!("there is no exchange '{exchange}'"),
        ("", Some(queue)) => format!("there is no queue '{queue}'"),
        (exchange, Some(key)) => format!("exchange '{exchange}' has no queue for the routing key '{key}'"),
    };
    format!("{count} dropped since the start, the last {ago} ago, since {what}.")
}

/// Which consumers hold as much as they may, and who of them most.
fn out_of_credit(found: &Diagnosis) -> String {
    let full: Vec<_> = found.consumers.iter().filter(|one| one.readiness == Readiness::OutOfCredit).collect();
    let most = full.iter().max_by_key(|one| one.unsettled);
    let most = most.map(|one| format!(" Most are held by '{}' of {}.", one.tag, peer(one))).unwrap_or_default();
    let (hold, may) = if full.len() == 1 { ("consumer holds", "it may") } else { ("consumers hold", "they may") };
    let held: u64 = full.iter().map(|one| u64::from(one.unsettled)).sum();
    let oldest = oldest(found.ages.oldest_unsettled, found);
    format!(
        "{} {hold} {} unacknowledged{oldest}, as many as {may}. {} wait until some are settled.{most}",
        grouped(full.len() as u64),
        grouped(held),
        grouped(found.queue.ready)
    )
}

/// The client's end of a consumer's connection.
fn peer(consumer: &ConsumerReport) -> &str {
    consumer.holder.peer.split(" -> ").next().unwrap_or_default()
}

/// What to do about a cause.
fn advice(cause: Cause) -> &'static str {
    match cause {
        Cause::Damaged => "hermod repair shows which messages can't be read, and lets the queue go on without them.",
        Cause::DeadLettersWait => {
            "Make room for one more queue, or declare it by hand: the messages move within a second."
        }
        Cause::NoConsumers => "Start a consumer, or look for why the last one went.",
        Cause::SingleActive => {
            "Look at what the active consumer does. When its connection is closed, the next takes over."
        }
        Cause::OutOfCredit => {
            "Look at what these consumers do. A larger prefetch helps slow ones; closing a connection brings its \
             messages back."
        }
        Cause::SlowReader => "Look at the client: it is stopped, overloaded, or behind a slow network.",
        Cause::NotSelected => {
            "Compare the selectors with the properties of the messages, or add a consumer without one."
        }
        Cause::GroupHeld => "Look at the consumers that hold the groups. A group moves when its consumer has gone.",
        Cause::RedeliveryLoop => {
            "Set a delivery limit and a dead letter exchange, and look at why consumers return it."
        }
        Cause::Delayed => "Nothing: they come at their time.",
        Cause::WaitsForDisk => "Nothing, if it passes. If it stays, look at the disk.",
        Cause::Full => "Add consumers, or raise its limit.",
        Cause::NoTarget => "Declare what is missing, or change where dead letters go: until then they are lost.",
        Cause::Alarm => "Let consumers make room, or raise the limit: docs/manual/alarms.md.",
        Cause::NoPublishes => "If messages should come, look at the exchange and its bindings.",
    }
}

#[cfg(test)]
mod tests {
    use broker::{Ages, Causes, MissingTarget, QueueReport};

    use super::*;

    fn found(cause: Option<Cause>, ready: u64) -> Diagnosis {
        let mut queue =
            QueueReport { name: "q".into(), vhost: "/".into(), ready, consumers: 1, ..QueueReport::default() };
        queue.figures.causes = cause.into_iter().collect::<Causes>();
        let ages = Ages { oldest_ready: Some(1_000), active: 4_000, ..Ages::default() };
        Diagnosis {
            queue,
            consumers: Vec::new(),
            ages,
            unmade: None,
            missing: None,
            alarms: broker::AlarmsUp::default(),
            at: 2_461_000,
        }
    }

    #[test]
    fn every_cause_has_its_words() {
        for cause in Cause::ALL {
            let row = DiagnosisRow::of(&found(Some(cause), 7));
            assert_eq!(row.causes.len(), 1);
            let one = &row.causes[0];
            assert_eq!(one.cause, cause.name());
            for text in [&one.sentence, &one.advice, &row.sentence] {
                assert!(!text.is_empty() && !text.contains("  "), "{cause:?}: {text:?}");
            }
            assert!(cause == Cause::Damaged || one.evidence.ends_with('.'), "{cause:?}: {:?}", one.evidence);
        }
    }

    #[test]
    fn the_sentence_names_the_cause_and_the_evidence_the_age() {
        let row = DiagnosisRow::of(&found(Some(Cause::NoConsumers), 7));
        assert_eq!((row.state.as_str(), row.sentence.as_str()), ("stuck", "It does not move: no consumers"));
        assert_eq!(row.evidence, "7 ready, the oldest published 41 min ago, and no client consumes from it.");
        assert_eq!(row.figures.oldest_ready_age_ms, Some(2_460_000));
        let row = DiagnosisRow::of(&found(None, 7));
        assert_eq!((row.state.as_str(), row.sentence.as_str()), ("moving", "It moves"));
        let row = DiagnosisRow::of(&found(Some(Cause::NoPublishes), 0));
        assert_eq!((row.state.as_str(), row.sentence.as_str()), ("empty", "It is empty"));
    }

    #[test]
    fn what_dead_letters_lack_is_named_beside_how_the_queue_is() {
        for (exchange, key, what) in [
            ("dlx", None, "there is no exchange 'dlx'"),
            ("", Some("dead"), "there is no queue 'dead'"),
            ("dlx", Some("k"), "exchange 'dlx' has no queue for the routing key 'k'"),
        ] {
            let mut found = found(Some(Cause::NoTarget), 7);
            found.queue.figures.totals.targetless = 3;
            let (exchange, routing_key) = (exchange.to_owned(), key.map(str::to_owned));
            found.missing = Some(MissingTarget { at: 2_401_000, exchange, routing_key });
            let row = DiagnosisRow::of(&found);
            assert_eq!((row.state.as_str(), row.figures.dead_letters_unroutable), ("moving", 3));
            let others: Vec<_> = row.others().map(|cause| cause.evidence.as_str()).collect();
            assert_eq!(others, [format!("3 dead letters dropped since the start, the last 1 min ago, since {what}.")]);
        }
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row = DiagnosisRow::of(&found(Some(Cause::Full), 7));
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<DiagnosisRow>(&text).unwrap(), row);
        assert!(text.contains("\"messages_ready\":7"), "{text}");
    }
}
