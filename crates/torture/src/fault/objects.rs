//! D8: the broker is killed while queues are declared and deleted as fast as it answers. What was
//! answered is true after the restart: declared is there, deleted is gone.

use std::time::Duration;

use super::catalog::Catalog;
use super::rig::Rig;
use super::{Scene, Stop};
use crate::random::Random;
use crate::server::{Launch, Sizes};
use crate::stage::Stage;
use crate::talk::{Broken, Control};

/// Kills if nothing else is said.
const KILLS: u64 = 10;
/// Connections that declare and delete, each its own queues.
const HANDS: usize = 4;
/// The most queues of each at a time: the looks after a restart cost a question each.
const QUEUES: u64 = 300;
/// How long it lasts before each kill, from and to, in milliseconds.
const LOAD: (u64, u64) = (100, 1000);

pub(super) fn kill(scene: &Scene) -> Result<String, Stop> {
    let mut rig = Rig::new(scene)?;
    let small = Launch::plain(Sizes::Small);
    let mut server = rig.start_new(&small)?;
    let mut catalogs: Vec<Catalog> = (0..HANDS).map(|_| Catalog::default()).collect();
    let kills = scene.count.unwrap_or(KILLS);
    let mut answered = 0;
    for kill in 1..=kills {
        let load = Duration::from_millis(rig.random.within(LOAD.0..=LOAD.1));
        let mut seeds: Vec<Random> = (0..HANDS as u64).map(|hand| rig.random.fork(hand)).collect();
        let stage = &rig.stage;
        answered += std::thread::scope(|scope| -> Result<u64, String> {
            let hands = catalogs.iter_mut().zip(&mut seeds).enumerate();
            let threads: Vec<_> = hands
                .map(|(hand, (catalog, random))| scope.spawn(move || change(stage, hand, catalog, random)))
                .collect();
            std::thread::sleep(load);
            stage.begin_dying();
            server.kill()?;
            let answers = threads.into_iter().map(|thread| thread.join());
            answers.map(|answer| answer.unwrap_or_else(|_| Err("a thread panicked".to_owned()))).sum()
        })?;
        rig.buried();
        server = rig.start(&small)?;
        for catalog in &catalogs {
            catalog.check(&rig.stage).map_err(|error| rig.with_log(format!("kill {kill}: {error}")))?;
        }
    }
    rig.kill(&mut server)?;
    Ok(format!("{kills} kills, {answered} declares and deletes answered; all declared are there, all deleted are gone"))
}

/// Declares and deletes until the broker dies. Returns how many answers there were.
fn change(stage: &Stage, hand: usize, catalog: &mut Catalog, random: &mut Random) -> Result<u64, String> {
    let mut answered = 0;
    let outcome: Result<(), Broken> = Control::open(stage.ports.amqp).and_then(|mut control| {
        loop {
            let name = format!("fault.{hand}.{}", random.below(QUEUES));
            if random.chance(60) {
                catalog.declare(&mut control, &name)?;
            } else {
                catalog.delete(&mut control, &name)?;
            }
            answered += 1;
        }
    });
    match outcome {
        Err(Broken::Refused(error)) => Err(error),
        _ if stage.is_dying() => Ok(answered),
        _ => Err("a connection to a live broker was lost".to_owned()),
    }
}
