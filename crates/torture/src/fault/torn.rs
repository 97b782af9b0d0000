//! D5, the torn tail: the last write of the log is cut at every length, as a power cut may leave
//! it. The broker starts, has everything from before, and the last message as a whole or not at
//! all.

use super::catalog::Catalog;
use super::damage::{Files, IDLE, Original, Start, read, restore, start};
use super::hand::Publisher;
use super::mount::Mount;
use super::rig::Rig;
use super::{Scene, Stop, script};
use crate::talk::Protocol;
use crate::topology::{PLAIN, straight};

/// Lengths that are tried if nothing else is said.
const LENGTHS: u64 = 200;
/// The last message's body: its batch takes two blocks.
const BODY: usize = 5000;
const BEFORE: u64 = 10;
const ROOM: u64 = 64 << 20;

pub(super) fn tear(scene: &Scene) -> Result<String, Stop> {
    let rig = Rig::new(scene)?;
    let data = rig.program.data();
    let _mount = Mount::tmpfs(&data, ROOM).ok();
    let mut server = rig.start_new(&script::launch())?;
    let mut publisher = Publisher::open(&rig.stage, Protocol::Amqp).map_err(|error| error.to_string())?;
    publisher.publish_all(straight(PLAIN), BEFORE, BODY, 1).map_err(|error| error.to_string())?;
    std::thread::sleep(IDLE);
    let before = read(&data)?;
    publisher.publish(straight(PLAIN), BODY);
    // Nothing is promised of the last message: the history ends before its confirm.
    let checker = rig.stage.checker().clone();
    while publisher.waiting() > 0 {
        publisher.exchange().map_err(|error| error.to_string())?;
    }
    rig.kill(&mut server)?;
    let after = read(&data)?;
    let (file, from, to) = difference(&before, &after)?;
    let mut catalog = Catalog::default();
    catalog.load_is_declared();
    let original = Original { files: before, older: Vec::new(), checker, catalog };
    let lengths = to - from;
    let wanted = scene.count.unwrap_or(LENGTHS).min(lengths as u64) as usize;
    for number in 0..=wanted {
        let length = lengths * number / wanted;
        let mut files = original.files.clone();
        files[file].1[from..from + length].copy_from_slice(&after[file].1[from..from + length]);
        restore(&data, &files)?;
        match start(&rig, &original)
            .map_err(|error| format!("{length} of {lengths} bytes of the last write: {error}"))?
        {
            Start::Harmless => {}
            Start::Refused | Start::Stopped => {
                let what = format!("{length} of {lengths} bytes of the last write: the broker took it for damage");
                return Err(Stop::Failed(rig.with_log(what)));
            }
        }
    }
    Ok(format!("the last write of {lengths} bytes cut at {} lengths: each start had all from before", wanted + 1))
}

/// The file and the bytes in it that the last write has changed.
fn difference(before: &Files, after: &Files) -> Result<(usize, usize, usize), String> {
    let mut found = None;
    for (number, ((_, old), (_, new))) in before.iter().zip(after).enumerate() {
        let changed = |at: &usize| old.get(*at) != new.get(*at);
        if let (Some(first), Some(last)) = ((0..new.len()).find(changed), (0..new.len()).rev().find(changed)) {
            if found.is_some() {
                return Err("the last message has changed more than one file".to_owned());
            }
            found = Some((number, first, last + 1));
        }
    }
    found.ok_or_else(|| "the last message has changed nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_from_the_first_to_the_last_changed_byte() {
        let files = |bytes: [&[u8]; 2]| bytes.iter().map(|bytes| ("x".into(), bytes.to_vec())).collect::<Files>();
        let before = files([b"abcdef", b"xyz"]);
        assert_eq!(difference(&before, &files([b"aXcdYf", b"xyz"])), Ok((0, 1, 5)));
        assert!(difference(&before, &before).is_err());
        assert!(difference(&before, &files([b"Xbcdef", b"Xyz"])).is_err());
    }
}
