//! The three parts of the stock exchange: the gateway sends orders by a schedule and times their
//! answers, the engine matches them, the reporter collects what both say about their rates.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::book::Book;
use super::message::{Message, Progressed, Side, Who};
use crate::driver::link::Interest;
use crate::driver::{Event, Line};
use crate::load::{Run, RunPhase, Tally};
use crate::measure::schedule::Schedule;
use bench_record::failure::Failure;
use bench_record::latency::Latency;
use bench_record::statistics::random::Random;
use machine::clock::now;
use machine::wait::sharpen_timer;

/// Orders between two samples, as in the study.
pub(crate) const SAMPLE: u32 = 10_000;
/// Silence after which the phase of the run is looked at.
const GLANCE: Duration = Duration::from_millis(20);
/// Looks that the engine takes after the end, a [`GLANCE`] each.
const LAST_GLANCES: usize = 25;
/// Prices of orders are this far around the middle.
const MIDDLE: u16 = 512;
const AROUND: usize = 20;
/// Largest volume of an order.
const VOLUME: usize = 100;
/// Orders gathered into one write when the gateway is late.
const MOST_AT_ONCE: usize = 1000;
/// Answers that have not come after this long are lost.
const LOST_AFTER_NS: u64 = 10_000_000_000;

/// What the gateway saw.
pub(crate) struct GatewayResult {
    /// Order sent (by schedule) until its answer.
    pub(crate) completion: Latency,
    /// Order sent minus intended.
    pub(crate) lateness: Latency,
    pub(crate) sent: u32,
    pub(crate) answered: u32,
    pub(crate) quotes: u32,
    /// Answers to no order, or to one answered before.
    pub(crate) unknown: u32,
    /// Kept open until all parts have ended.
    #[expect(dead_code, reason = "a broker may drop what a closed connection still had to say")]
    pub(crate) line: Line,
}

/// A part's line, and the one for its statistics.
pub(crate) struct Lines {
    pub(crate) main: Line,
    pub(crate) statistics: Line,
}

struct Gateway<'a> {
    run: &'a Run,
    tally: &'a Tally,
    lines: Lines,
    /// By order: when it was meant to leave; 0: answered.
    intended: Vec<u64>,
    random: Random,
    body: Vec<u8>,
    begin: u64,
    seen: GatewayCounts,
}

#[derive(Default)]
struct GatewayCounts {
    sent: u32,
    answered: u32,
    quotes: u32,
    unknown: u32,
    ended: bool,
}

/// Sends `orders` orders by `schedule`, or until the run drains, and waits for all answers.
pub(crate) fn gateway(
    lines: Lines,
    mut schedule: Schedule,
    orders: u32,
    run: &Run,
    tally: &Tally,
) -> Result<GatewayResult, Failure> {
    sharpen_timer();
    lines.main.link.set_nonblocking()?;
    let (mut completion, mut lateness) = (Latency::new()?, Latency::new()?);
    let (random, begin, seen) = (Random::new(u64::from(orders)), now(), GatewayCounts::default());
    let mut gateway = Gateway { run, tally, lines, intended: Vec::new(), random, body: Vec::new(), begin, seen };
    let (mut closing, mut last_heard) = (false, now());
    while !gateway.seen.ended && run.phase() != RunPhase::End {
        let mut wait = GLANCE;
        if !closing && gateway.seen.sent < orders && run.phase() == RunPhase::Run {
            wait = gateway.send(&mut schedule, orders, &mut lateness)?;
        } else if !closing && gateway.seen.answered == gateway.seen.sent {
            // The end goes the way of the orders and comes back behind the last answer.
            closing = true;
            gateway.report()?;
            gateway.say(Message::End)?;
        } else if now() - last_heard > LOST_AFTER_NS {
            break;
        }
        let Line { link, talk } = &mut gateway.lines.main;
        let blocked = !link.write(talk.output())?;
        let interest = if blocked { Interest::ReadAndWrite } else { Interest::Read };
        if link.wait(interest, wait)?.read && gateway.listen(&mut completion)? {
            last_heard = now();
        }
    }
    let Gateway { seen, lines, .. } = gateway;
    let GatewayCounts { sent, answered, quotes, unknown, .. } = seen;
    Ok(GatewayResult { completion, lateness, sent, answered, quotes, unknown, line: lines.main })
}

impl Gateway<'_> {
    /// Sends the orders that are due; returns how long there is nothing to send.
    fn send(&mut self, schedule: &mut Schedule, orders: u32, lateness: &mut Latency) -> Result<Duration, Failure> {
        let at = now();
        for _ in 0..MOST_AT_ONCE {
            let intended = schedule.next();
            if intended > at || self.seen.sent == orders {
                break;
            }
            schedule.advance();
            let side = if self.random.below(2) == 0 { Side::Buy } else { Side::Sell };
            let price = MIDDLE - AROUND as u16 + self.random.below(2 * AROUND) as u16;
            let volume = 1 + self.random.below(VOLUME) as u16;
            let id = self.seen.sent;
            self.intended.push(intended.max(1));
            self.seen.sent += 1;
            lateness.record(at - intended);
            self.say(Message::Order { side, id, price, volume })?;
            if self.seen.sent.is_multiple_of(SAMPLE) {
                self.report()?;
            }
        }
        self.tally.sent.store(u64::from(self.seen.sent), Relaxed);
        let left = schedule.next().saturating_sub(now());
        Ok(Duration::from_nanos(left).min(GLANCE))
    }

    fn say(&mut self, message: Message) -> Result<(), Failure> {
        message.encode(&mut self.body);
        self.lines.main.talk.publish(&self.body)
    }

    fn report(&mut self) -> Result<(), Failure> {
        let GatewayCounts { sent: orders, answered, quotes, .. } = self.seen;
        let after_ns = now() - self.begin;
        let progressed = Progressed { who: Who::Gateway, orders, answers: answered + quotes, after_ns };
        tell(&mut self.lines.statistics, Message::Progressed(progressed))
    }

    /// Takes the answers that have come; true when there were any.
    fn listen(&mut self, completion: &mut Latency) -> Result<bool, Failure> {
        let Self { lines, intended, seen, run, tally, .. } = self;
        let (mut at, before) = (0, seen.answered);
        let came = lines.main.receive(&mut |event| {
            let Event::Delivery { body, .. } = event else { return };
            at = if at == 0 { now() } else { at };
            let id = match Message::decode(body) {
                Some(Message::Trade { id, .. } | Message::Accepted { id }) => id,
                Some(Message::Quote(_)) => return seen.quotes += 1,
                Some(Message::End) => return seen.ended = true,
                _ => return seen.unknown += 1,
            };
            let meant = intended.get_mut(id as usize).map_or(0, std::mem::take);
            if meant == 0 {
                return seen.unknown += 1;
            }
            seen.answered += 1;
            if run.measures(meant) {
                completion.record(at.saturating_sub(meant));
            }
        })?;
        if seen.answered > before {
            tally.received.store(u64::from(seen.answered), Relaxed);
            tally.moved.store(at, Relaxed);
        }
        Ok(came)
    }
}

/// Sends one message at once.
fn tell(line: &mut Line, message: Message) -> Result<(), Failure> {
    let mut body = Vec::new();
    message.encode(&mut body);
    line.talk.publish(&body)?;
    line.link.write_all(line.talk.output())
}

/// Matches orders until the end of them, or of the run.
pub(crate) fn engine(lines: Lines, run: &Run) -> Result<(), Failure> {
    sharpen_timer();
    let Lines { mut main, mut statistics } = lines;
    main.link.set_read_timeout(GLANCE)?;
    let (mut book, mut body, mut quote) = (Book::new(), Vec::new(), Book::new().quote());
    let (mut orders, mut answers, mut ended, begin) = (0u32, 0u32, false, now());
    let mut pending: Vec<Message> = Vec::new();
    while !ended && run.phase() != RunPhase::End {
        main.receive(&mut |event| {
            if let Event::Delivery { body, .. } = event {
                pending.extend(Message::decode(body));
            }
        })?;
        for message in pending.drain(..) {
            match message {
                Message::Order { side, id, price, volume } => {
                    let answer = book.take(id, side, price, volume);
                    orders += 1;
                    answers += 1;
                    answer.encode(&mut body);
                    main.talk.publish(&body)?;
                    let now_quoted = book.quote();
                    if (now_quoted.bid, now_quoted.ask) != (quote.bid, quote.ask) {
                        quote = now_quoted;
                        answers += 1;
                        Message::Quote(quote).encode(&mut body);
                        main.talk.publish(&body)?;
                    }
                    if orders.is_multiple_of(SAMPLE) {
                        let after_ns = now() - begin;
                        let progressed = Progressed { who: Who::Engine, orders, answers, after_ns };
                        tell(&mut statistics, Message::Progressed(progressed))?;
                    }
                }
                Message::End => {
                    ended = true;
                    let progressed = Progressed { who: Who::Engine, orders, answers, after_ns: now() - begin };
                    tell(&mut statistics, Message::Progressed(progressed))?;
                    tell(&mut statistics, Message::End)?;
                    Message::End.encode(&mut body);
                    main.talk.publish(&body)?;
                }
                _ => {}
            }
        }
        main.link.write_all(main.talk.output())?;
    }
    // The connection stays open until the gateway has what was said.
    for _ in 0..LAST_GLANCES {
        if run.phase() != RunPhase::End {
            main.receive(&mut |_| {})?;
        }
    }
    Ok(())
}

/// Collects what the other parts say about themselves, until the engine's end or that of the run.
pub(crate) fn reporter(mut line: Line, run: &Run) -> Result<Vec<Progressed>, Failure> {
    line.link.set_read_timeout(GLANCE)?;
    let (mut heard, mut ended) = (Vec::new(), false);
    while !ended && run.phase() != RunPhase::End {
        line.receive(&mut |event| {
            let Event::Delivery { body, .. } = event else { return };
            match Message::decode(body) {
                Some(Message::Progressed(progressed)) => heard.push(progressed),
                Some(Message::End) => ended = true,
                _ => {}
            }
        })?;
        line.link.write_all(line.talk.output())?;
    }
    Ok(heard)
}
