//! L10, messages that are not due yet: a million for the next day take no memory, a kill loses
//! none, and those that come due by the thousand come in the order of their times, none early and
//! hardly any late.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::rig::{Rig, demand};
use super::{Scene, Stop};
use crate::gauge;
use crate::history::Outcome;
use crate::server::{Launch, Sizes};
use crate::talk::{self, Broken, Control, Heard, Numbers, Protocol, Publish, Purpose, Settlement, Talk};
use crate::topology::{PLAIN, straight};

const MIB: u64 = 1 << 20;
const HOUR: u64 = 3_600_000;
/// Messages for the next day if nothing else is said, and their bodies.
const COUNT: u64 = 1_000_000;
const BODY: usize = 200;
/// What queues may keep of messages that are on disk.
const BUDGET: (&str, u64) = ("32MiB", 32 * MIB);
/// What the broker may have in memory besides that.
const BESIDES: u64 = 64 * MIB;
/// Messages that come due within the run: so many, one each millisecond, from so many milliseconds
/// ahead on.
const DUE: u64 = 10_000;
const AHEAD: u64 = 40_000;
/// How late 99 of 100 of them may be.
const LATE: u64 = 50;
const WINDOW: u64 = 2000;
const PREFETCH: u16 = 500;
const PATIENCE: Duration = Duration::from_secs(60);

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// See the module.
pub(super) fn delayed(scene: &Scene) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let launch =
        Launch { variables: vec![("HERMOD_MEMORY_BUDGET", BUDGET.0.to_owned())], ..Launch::plain(Sizes::Default) };
    let mut server = rig.start_new(&launch)?;
    let count = scene.count.unwrap_or(COUNT);
    let mut random = rig.random.clone();
    let begin = Instant::now();
    let open = |purpose| talk::open(rig.stage.ports, Protocol::Amqp, purpose);
    let failed = |broken: Broken| rig.with_log(broken.to_string());
    let mut sender = open(Purpose::Publish).map_err(failed)?;
    // Nothing of these comes due while this lasts.
    publish(sender.as_mut(), 0, count, || now_ms() + HOUR + random.within(0..=24 * HOUR)).map_err(failed)?;
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    let filled = gauge::peak_resident(server.id())?;
    let first = now_ms() + AHEAD;
    // Every third, then those between: out of order, each once.
    let mut dues = (0..3).flat_map(|part| (part..DUE).step_by(3)).map(|at| first + at);
    publish(sender.as_mut(), count, DUE, || dues.next().unwrap_or(first)).map_err(failed)?;
    drop(sender);
    rig.kill(&mut server)?;
    let mut server = rig.program.start(&launch)?;
    let start = server.wait_until_ready(rig.stage.ports).map_err(|error| rig.with_log(error))?;
    rig.stage.control(Control::verify)?;
    demand(now_ms() < first, || "the kill and the start took too long".to_owned())?;
    let mut late = take_due(open(Purpose::Consume).map_err(failed)?.as_mut()).map_err(failed)?;
    let resident = gauge::peak_resident(server.id())?.max(filled);
    let left = rig.stage.control(Control::purge_plain)?;
    rig.kill(&mut server)?;
    demand(left == count, || format!("{left} of {count} messages were left"))?;
    let most = BUDGET.1 + BESIDES;
    demand(resident < most, || format!("{} MiB were resident, more than {}", resident / MIB, most / MIB))?;
    late.sort_unstable();
    let at = |percent: usize| late[(late.len() - 1) * percent / 100];
    demand(at(99) <= LATE, || format!("1 % came more than {} ms late, one {} ms", at(99), at(100)))?;
    Ok(format!(
        "{count} messages of {BODY} B for the next day in at {rate:.0}/s; peak {} MiB resident; start after a kill {} ms; all \
         left; {DUE} due at 1000/s after the start came in order, none early, {} / {} / {} ms late (median, 99 %, most)",
        resident / MIB,
        start.as_millis(),
        at(50),
        at(99),
        at(100)
    ))
}

/// Publishes `count` messages after `before` others, each with when it is due in front of its body,
/// and waits for all confirms.
fn publish(talk: &mut dyn Talk, before: u64, count: u64, mut due: impl FnMut() -> u64) -> Result<(), Broken> {
    let (mut sent, mut confirmed) = (0, 0);
    let end = Instant::now() + PATIENCE * 10;
    while confirmed < count {
        while sent < count && sent - confirmed < WINDOW {
            let due = due();
            let mut body = due.to_be_bytes().to_vec();
            body.resize(BODY, b'.');
            let route = straight(PLAIN);
            talk.publish(&Publish { due: Some(due), ..Publish::persistent(route, &body) });
            sent += 1;
        }
        talk.exchange(Duration::from_millis(5), &mut |heard| match heard {
            Heard::Confirmed(Numbers::UpTo(number)) => confirmed = number - before,
            Heard::Confirmed(Numbers::One(_)) => confirmed += 1,
            _ => {}
        })?;
        if Instant::now() > end {
            return Err(Broken::Refused(format!("{confirmed} of {count} confirmed")));
        }
    }
    Ok(())
}

/// Takes what comes due. Returns how late each was.
fn take_due(talk: &mut dyn Talk) -> Result<Vec<u64>, Broken> {
    talk.subscribe(PLAIN, PREFETCH);
    let mut late = Vec::new();
    let mut last = 0;
    let mut wrong = None;
    let end = Instant::now() + Duration::from_millis(AHEAD) + PATIENCE;
    while (late.len() as u64) < DUE && wrong.is_none() {
        let mut handles = Vec::new();
        talk.exchange(Duration::from_millis(1), &mut |heard| {
            let Heard::Delivered { body, handle, .. } = heard else { return };
            let due = body.first_chunk().map_or(0, |due| u64::from_be_bytes(*due));
            let now = now_ms();
            if due > now || due < last {
                wrong = Some(format!("what is due at {due} came at {now} behind what was due at {last}"));
            }
            last = due;
            late.push(now.saturating_sub(due));
            handles.push(handle);
        })?;
        for handle in &handles {
            talk.settle(&Settlement { handle, outcome: Outcome::Accepted, transaction: None, fence: None });
        }
        if Instant::now() > end {
            wrong = Some(format!("{} of {DUE} came", late.len()));
        }
    }
    talk.exchange(Duration::from_millis(50), &mut |_| {})?;
    wrong.map_or(Ok(late), |wrong| Err(Broken::Refused(wrong)))
}
