//! Rights of connected users that a backend elsewhere is asked about again, without their secrets.
//!
//! Each identity with such rights is listed here from its log-in until it is gone. A new answer
//! takes the place of the old one for all copies of an identity at once. It never lasts longer than
//! the old one would have: that is for a new log-in, where the user shows a secret.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::backend::{Backend, Grant, No, RightsOf, Step};
use crate::{Scopes, Tags};

/// The rights that all copies of an identity share.
pub(crate) type Held = RwLock<Arc<Grant>>;

/// So many are listed at least before those that are gone are looked for.
const FEW: usize = 1024;

/// Who is connected by rights that can be asked about again.
#[derive(Debug, Default)]
pub(crate) struct Connected {
    backends: Vec<Arc<dyn Backend>>,
    listed: Mutex<Listed>,
}

/// By the names of backend and user.
#[derive(Debug, Default)]
struct Listed {
    by_user: BTreeMap<(&'static str, Arc<str>), Vec<Weak<Held>>>,
    count: usize,
    /// Those that are gone are looked for when so many are listed.
    most: usize,
}

impl Connected {
    pub(crate) fn new(steps: &[Step]) -> Self {
        let backends = steps.iter().filter_map(|step| match step {
            Step::Elsewhere { backend, rights: RightsOf::Backend } if backend.asked_again_every().is_some() => {
                Some(Arc::clone(backend))
            }
            Step::Elsewhere { .. } | Step::Internal => None,
        });
        Self { backends: backends.collect(), listed: Mutex::default() }
    }

    /// How often backends are asked; `None` if none is.
    pub(crate) fn every(&self) -> Option<Duration> {
        self.backends.iter().filter_map(|backend| backend.asked_again_every()).min()
    }

    /// Lists an identity that holds these rights, if its backend is asked again.
    pub(crate) fn list(&self, held: &Arc<Held>) {
        let (backend, user) = {
            let grant = held.read();
            (grant.backend, Arc::clone(&grant.user))
        };
        if self.find(backend).is_some() {
            let mut listed = self.listed.lock();
            if listed.count >= listed.most {
                listed.prune();
            }
            listed.by_user.entry((backend, user)).or_default().push(Arc::downgrade(held));
            listed.count += 1;
        }
    }

    /// Backend and name of each user that is connected.
    pub(crate) fn users(&self) -> Vec<(&'static str, Arc<str>)> {
        let mut listed = self.listed.lock();
        listed.prune();
        listed.by_user.keys().cloned().collect()
    }

    /// Asks what a user may do now; nothing, if the backend knows the user no more.
    ///
    /// # Errors
    /// When the backend can't be asked.
    pub(crate) fn ask(&self, backend: &str, user: &Arc<str>) -> Result<Option<Grant>, String> {
        let Some(asked) = self.find(backend) else { return Ok(None) };
        match asked.again(user) {
            Ok(grant) => Ok(Some(grant)),
            Err(No::Refused(_)) => Ok(Some(Grant {
                user: Arc::clone(user),
                backend: asked.name(),
                tags: Tags::default(),
                scopes: Scopes::default(),
                expires: None,
            })),
            Err(No::Unavailable(why)) => Err(crate::backend::reason(asked.name(), &why)),
        }
    }

    /// Gives the identities of this user these rights. False if they have them already.
    pub(crate) fn give(&self, user: &Arc<str>, now: &Grant) -> bool {
        let listed = self.listed.lock();
        let of_user = listed.by_user.get(&(now.backend, Arc::clone(user)));
        let mut changed = false;
        // Most have logged in with one answer, and go on to share one.
        let mut last: Option<Arc<Grant>> = None;
        for held in of_user.into_iter().flatten().filter_map(Weak::upgrade) {
            let mut held = held.write();
            if (&held.scopes, &held.tags) == (&now.scopes, &now.tags) {
                continue;
            }
            let fits = |grant: &Arc<Grant>| grant.expires == held.expires && grant.user == held.user;
            let new = last.filter(fits).unwrap_or_else(|| {
                Arc::new(Grant { user: Arc::clone(&held.user), expires: held.expires, ..now.clone() })
            });
            *held = Arc::clone(&new);
            (last, changed) = (Some(new), true);
        }
        changed
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn Backend>> {
        self.backends.iter().find(|backend| backend.name() == name)
    }
}

impl Listed {
    fn prune(&mut self) {
        self.by_user.retain(|_, held| {
            held.retain(|held| held.strong_count() > 0);
            !held.is_empty()
        });
        self.count = self.by_user.values().map(Vec::len).sum();
        self.most = FEW.max(2 * self.count);
    }
}
