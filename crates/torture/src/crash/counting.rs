//! What the queues hold behind a kill, before anybody consumes: the broker's own counts, for the
//! checker to judge.

use std::time::{Duration, Instant};

use crate::history::Event;
use crate::stage::Stage;
use crate::talk::{Broken, Control};
use crate::topology::{QUEUES, source_of};

/// How long what was under way at the kill may take: dead letters to move on, and the too many and
/// the too old to die.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the counts are asked for meanwhile.
const GLANCE: Duration = Duration::from_millis(5);

/// Counts all queues.
pub(crate) fn all(stage: &Stage) -> Result<(), Broken> {
    let mut control = Control::open(stage.ports.amqp)?;
    for queue in (0..QUEUES.len()).filter(|queue| source_of(*queue).is_none()) {
        let begin = Instant::now();
        let (ready, moved) = loop {
            let ready = control.depth(QUEUES[queue].name)?;
            let moved = QUEUES[queue].dead_letter.map_or(Ok(0), |target| control.depth(QUEUES[target].name))?;
            if stage.checker().agrees(queue, ready, moved) || begin.elapsed() > PATIENCE {
                break (ready, moved);
            }
            std::thread::sleep(GLANCE);
        };
        stage.tell(&[Event::Counted { queue, ready, moved }]);
    }
    Ok(())
}
