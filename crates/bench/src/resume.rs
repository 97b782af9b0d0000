//! What a run has finished, one line for each piece as soon as it is done, so that a run that was
//! interrupted goes on where it stopped. The first line says what the run is, and notes between the
//! pieces what was known only later; a run that asks for something else, or finds something else,
//! may not continue it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use bench_record::failure::{Context, Failure};

/// The journal's name in the directory of a run.
const NAME: &str = "slices.jsonl";
/// What the time is noted as at which a run began.
const STARTED: &str = "started";
/// Version of the first line.
const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
    /// Repeats every random order of the run.
    seed: u64,
    /// Everything that the finished pieces depend on.
    plan: Value,
}

/// A line about what the pieces depend on, or what was found out once for all of them.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    noted: String,
    is: Value,
}

/// A journal that takes further entries.
#[derive(Debug)]
pub(crate) struct ResumeLog {
    file: File,
    path: PathBuf,
    notes: BTreeMap<String, Value>,
}

/// A journal that an earlier run began.
#[derive(Debug)]
pub(crate) struct Resumed<E> {
    pub(crate) journal: ResumeLog,
    /// The seed of the earlier run.
    pub(crate) seed: u64,
    /// What it finished, in order.
    pub(crate) entries: Vec<E>,
}

impl ResumeLog {
    /// Begins a journal in the directory `dir`, which is made and may hold none yet.
    pub(crate) fn create(dir: &Path, seed: u64, plan: &impl Serialize) -> Result<Self, Failure> {
        fs::create_dir_all(dir).context(dir.display())?;
        let path = dir.join(NAME);
        if path.exists() {
            let dir = dir.display();
            return Err(Failure::new(format!("{dir} holds a run already: go on with --resume {dir}, or name another")));
        }
        let file = OpenOptions::new().append(true).create_new(true).open(&path).context(path.display())?;
        let mut journal = Self { file, path, notes: BTreeMap::new() };
        journal.append(&Head { version: VERSION, seed, plan: written(plan)? })?;
        Ok(journal)
    }

    /// Opens the journal in `dir` to go on with it. A last line that was not written whole is cut
    /// off.
    pub(crate) fn resume<E: DeserializeOwned>(dir: &Path, plan: &impl Serialize) -> Result<Resumed<E>, Failure> {
        let path = dir.join(NAME);
        let text = fs::read_to_string(&path).context(path.display())?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let nothing = || Failure::new(format!("{}: no run was begun here", path.display()));
        let head: Head = serde_json::from_str(lines.next().ok_or_else(nothing)?).context(path.display())?;
        if head.version != VERSION {
            let version = head.version;
            return Err(Failure::new(format!("{}: version {version} is not known here", path.display())));
        }
        let mut plan = written(plan)?;
        if let (Value::Object(old), Value::Object(new)) = (&head.plan, &mut plan) {
            // What the program that began it did not write down can't be compared.
            new.retain(|key, _| old.contains_key(key));
        }
        agree(&path, &head.plan, &plan, "")?;
        let (mut entries, mut notes) = (Vec::new(), BTreeMap::new());
        for (at, line) in lines.enumerate() {
            if let Ok(Note { noted, is }) = serde_json::from_str(line) {
                notes.insert(noted, is);
            } else {
                entries.push(serde_json::from_str(line).context(format!("{}, line {}", path.display(), at + 2))?);
            }
        }
        let file = OpenOptions::new().append(true).open(&path).context(path.display())?;
        file.set_len(whole as u64).context(path.display())?;
        Ok(Resumed { journal: Self { file, path, notes }, seed: head.seed, entries })
    }

    /// Notes what the pieces depend on, where that is not noted yet. Refuses what is not as it was
    /// noted under this name.
    pub(crate) fn note(&mut self, noted: &str, is: &impl Serialize) -> Result<(), Failure> {
        let is = written(is)?;
        if let Some(known) = self.notes.get(noted) {
            return agree(&self.path, known, &is, noted);
        }
        let note = Note { noted: noted.to_owned(), is };
        self.append(&note)?;
        self.notes.insert(note.noted, note.is);
        Ok(())
    }

    /// When the run began, by the clock of the first program that kept this journal: `now`, where
    /// that is this one.
    pub(crate) fn begun(&mut self, now: u64) -> Result<u64, Failure> {
        match self.noted(STARTED)? {
            Some(started) => Ok(started),
            None => self.note(STARTED, &now).map(|()| now),
        }
    }

    /// What was noted under this name; none: nothing was.
    pub(crate) fn noted<T: DeserializeOwned>(&self, noted: &str) -> Result<Option<T>, Failure> {
        let Some(is) = self.notes.get(noted) else { return Ok(None) };
        T::deserialize(is).map(Some).context(format!("{}, {noted}", self.path.display()))
    }

    /// Adds a finished piece. It is on the disk when this returns.
    pub(crate) fn append(&mut self, entry: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_string(entry).context("writing the journal")? + "\n";
        let done = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        done.context(self.path.display())
    }
}

/// A value as it reads when it was written and read back.
fn written(plan: &impl Serialize) -> Result<Value, Failure> {
    let text = serde_json::to_string(plan).context("writing the plan")?;
    serde_json::from_str(&text).context("writing the plan")
}

/// Refuses what differs from what is in the journal at `path`, and names the first place below
/// `place`.
fn agree(path: &Path, there: &Value, here: &Value, place: &str) -> Result<(), Failure> {
    match difference(there, here, place.to_owned()) {
        Some(place) => {
            let path = path.display();
            Err(Failure::new(format!("{path}: another run was begun here ({place}); give it the same options")))
        }
        None => Ok(()),
    }
}

/// The first place where two values differ, with both.
fn difference(there: &Value, here: &Value, place: String) -> Option<String> {
    match (there, here) {
        (Value::Object(old), Value::Object(new)) => {
            let keys = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key)));
            keys.into_iter().find_map(|key| {
                let inner = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                difference(&of(old), &of(new), inner)
            })
        }
        _ => (there != here).then(|| format!("{place}: {there} there, {here} here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Plan {
        size: usize,
        rate: f64,
    }

    const PLAN: Plan = Plan { size: 64, rate: 0.1 };

    fn resume(dir: &Path, plan: &Plan) -> Result<Resumed<(u32, String)>, String> {
        ResumeLog::resume(dir, plan).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_run_goes_on_with_its_seed_and_with_what_it_finished() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = ResumeLog::create(dir.path(), 77, &PLAN).unwrap();
        journal.append(&(1, "a")).unwrap();
        drop(journal);
        let mut again = resume(dir.path(), &PLAN).unwrap();
        assert_eq!((again.seed, again.entries), (77, vec![(1, "a".to_owned())]));
        again.journal.append(&(2, "b")).unwrap();
        assert_eq!(resume(dir.path(), &PLAN).unwrap().entries.len(), 2);
    }

    #[test]
    fn what_is_noted_later_is_compared_as_the_plan_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = ResumeLog::create(dir.path(), 77, &PLAN).unwrap();
        journal.note("row A", &Plan { size: 64, rate: 0.5 }).unwrap();
        journal.append(&(1, "a")).unwrap();
        drop(journal);
        let mut again = resume(dir.path(), &PLAN).unwrap();
        assert_eq!(again.entries.len(), 1);
        let before = fs::read(dir.path().join(NAME)).unwrap();
        again.journal.note("row A", &Plan { size: 64, rate: 0.5 }).unwrap();
        let text = again.journal.note("row A", &Plan { size: 65, rate: 0.5 }).unwrap_err().to_string();
        assert!(text.contains("row A.size: 64 there, 65 here"), "{text}");
        assert_eq!(fs::read(dir.path().join(NAME)).unwrap(), before, "what is known is not written again");
        again.journal.note("row B", &Plan { size: 65, rate: 0.5 }).unwrap();
    }

    #[test]
    fn a_run_that_is_gone_on_with_began_when_it_began() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(ResumeLog::create(dir.path(), 1, &PLAN).unwrap().begun(1000).unwrap(), 1000);
        assert_eq!(resume(dir.path(), &PLAN).unwrap().journal.begun(2000).unwrap(), 1000);
    }

    #[test]
    fn what_an_older_program_did_not_write_down_is_not_compared() {
        let dir = tempfile::tempdir().unwrap();
        ResumeLog::create(dir.path(), 1, &serde_json::json!({ "size": 64 })).unwrap();
        assert!(resume(dir.path(), &PLAN).is_ok());
        let text = resume(dir.path(), &Plan { size: 65, ..PLAN }).unwrap_err();
        assert!(text.contains("size: 64 there, 65 here"), "{text}");
    }

    #[test]
    fn a_line_that_was_cut_anywhere_is_as_if_it_had_never_been_begun() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = ResumeLog::create(dir.path(), 1, &PLAN).unwrap();
        journal.append(&(1, "a")).unwrap();
        let path = dir.path().join(NAME);
        let kept = fs::read(&path).unwrap();
        journal.append(&(2, "b")).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in kept.len()..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut again = resume(dir.path(), &PLAN).unwrap();
            assert_eq!(again.entries.len(), 1, "cut at {cut}");
            again.journal.append(&(2, "b")).unwrap();
            assert_eq!(fs::read(&path).unwrap(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn another_run_is_refused_by_what_differs() {
        let dir = tempfile::tempdir().unwrap();
        assert!(resume(dir.path(), &PLAN).is_err());
        ResumeLog::create(dir.path(), 1, &PLAN).unwrap();
        let text = resume(dir.path(), &Plan { size: 65, ..PLAN }).unwrap_err();
        assert!(text.contains("size: 64 there, 65 here"), "{text}");
        let text = ResumeLog::create(dir.path(), 1, &PLAN).unwrap_err().to_string();
        assert!(text.contains("--resume"), "{text}");
    }
}
