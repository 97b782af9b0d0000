//! What the confirms of a suite's targets are worth, found out before they are measured. Each
//! target is audited by itself, once for a run and for all that go on with it.

use std::collections::BTreeMap;

use crate::resume::ResumeLog;

use crate::durability_audit::{self, Finding, SCHEMES};
use crate::progress::Progress;
use bench_record::failure::Failure;
use bench_record::suite::Audited;

/// What an audit takes, seconds: a peer's start, two watches, and kills with all that belongs to
/// them.
const SECONDS: f64 = 45.0;

/// What was found, by the names of the targets.
#[derive(Debug)]
pub(super) struct Audits(BTreeMap<String, Finding>);

/// What a target's audit is called in a journal.
fn noted(name: &str) -> String {
    format!("audit of {name}")
}

impl Audits {
    /// What earlier runs found out of the targets that `texts` mean.
    pub(super) fn known(journal: Option<&ResumeLog>, texts: &[String]) -> Result<Self, Failure> {
        let mut found = BTreeMap::new();
        for name in texts.iter().map(|text| peers::label(text)) {
            let name = name?;
            if let Some(finding) = journal.map_or(Ok(None), |journal| journal.noted(&noted(&name)))? {
                found.insert(name, finding);
            }
        }
        Ok(Self(found))
    }

    /// The audits that are missing: names of targets, and the text that means each by a protocol
    /// whose confirms can be audited; none where it speaks none.
    pub(super) fn missing(&self, texts: &[String]) -> Result<Vec<(String, Option<String>)>, Failure> {
        let all = texts.iter().map(|text| Ok((peers::label(text)?, peers::spoken(text, &SCHEMES)?)));
        all.filter(|one| !one.as_ref().is_ok_and(|(name, _)| self.0.contains_key(name))).collect()
    }

    /// Does those. One that fails is told and left to who goes on with the run.
    pub(super) fn fill(
        &mut self,
        missing: Vec<(String, Option<String>)>,
        mut journal: Option<&mut ResumeLog>,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        for (name, text) in missing {
            if progress.interrupted() {
                break;
            }
            progress.within(format!("audit of {name}: "));
            let Some(text) = text else {
                progress.done(&format!("left out, for it speaks none of {}", SCHEMES.join(", ")));
                continue;
            };
            match durability_audit::finding(&text, progress) {
                Ok(finding) => {
                    if let Some(journal) = journal.as_mut() {
                        journal.note(&noted(&name), &finding)?;
                    }
                    progress.done(&finding.to_string());
                    self.0.insert(name, finding);
                }
                Err(failure) => progress.done(&format!("failed: {failure}")),
            }
        }
        progress.within(String::new());
        Ok(())
    }

    /// What is to be said of a target that is measured by the protocol `scheme`.
    pub(super) fn of(&self, name: &str, scheme: &str) -> Option<Audited> {
        self.0.get(name)?.told(scheme)
    }
}

/// Seconds that audits may take.
pub(super) fn seconds(missing: &[(String, Option<String>)]) -> f64 {
    missing.iter().filter(|(_, text)| text.is_some()).count() as f64 * SECONDS
}
