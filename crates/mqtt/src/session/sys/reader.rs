//! What one session reads of `$SYS`: its filters, and the values that it has got.

use std::sync::Arc;
use std::task::Waker;

use broker::Client;

use super::{Sys, Values, View};
use crate::codec::Reason;
use crate::limits;
use crate::session::failure::Failure;
use crate::session::filters::{Filters, Subscription};
use crate::session::store;

/// See the module.
pub(in crate::session) struct SysReader {
    sys: Arc<Sys>,
    waker: Waker,
    watch: Option<Box<Watch>>,
}

/// A session that has such filters.
struct Watch {
    sys: Arc<Sys>,
    listener: u64,
    view: View,
    filters: Vec<String>,
    /// Those that have got nothing yet, and want what there is.
    fresh: Filters,
    /// The last publication of any view when this session looked.
    latest: u64,
    /// What was published when it looked last; `None` before that.
    seen: Option<Values>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.sys.leave(self.listener);
    }
}

/// Values that a session has not got yet.
pub(in crate::session) struct News {
    values: Values,
    /// Those before; nothing has changed without them.
    before: Option<Values>,
    /// The filters that get all that they match.
    pub(in crate::session) fresh: Filters,
}

impl News {
    /// Each topic, its value, and whether that has changed.
    pub(in crate::session) fn iter(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.values.iter().enumerate().map(|(place, value)| {
            let is_changed = self.before.as_ref().is_some_and(|before| before.get(place) != Some(value));
            (&*value.0, value.1.as_str(), is_changed)
        })
    }
}

fn view_of(client: &Client) -> View {
    if client.monitors() { View::Broker } else { View::Vhost(client.vhost().into()) }
}

impl SysReader {
    /// Of a session whose connection `waker` wakes.
    pub(in crate::session) fn new(sys: &Arc<Sys>, waker: &Waker) -> Self {
        Self { sys: Arc::clone(sys), waker: waker.clone(), watch: None }
    }

    /// Adds a filter, whose user may read it. `fresh` is its subscription if it wants what there
    /// is.
    ///
    /// # Errors
    /// If there are too many.
    pub(in crate::session) fn add(
        &mut self,
        filter: &str,
        fresh: Option<Subscription>,
        client: &Client,
    ) -> Result<(), Failure> {
        client.check_filters(&[store::topic_filter(filter)])?;
        let watch = self.watch.get_or_insert_with(|| {
            let view = view_of(client);
            let listener = self.sys.listen(view.clone(), self.waker.clone());
            let (filters, fresh) = (Vec::new(), Filters::default());
            Box::new(Watch { sys: Arc::clone(&self.sys), listener, view, filters, fresh, latest: 0, seen: None })
        });
        if !watch.filters.iter().any(|known| known == filter) {
            if watch.filters.len() >= limits::SYS_FILTERS {
                let text = format!("the session has {} filters of $SYS, the most that it may", limits::SYS_FILTERS);
                return Err(Failure::new(Reason::QuotaExceeded, text));
            }
            watch.filters.push(filter.to_owned());
        }
        if let Some(subscription) = fresh {
            watch.fresh.put(filter, subscription);
            watch.latest = 0;
        }
        Ok(())
    }

    /// Removes a filter, if it is one of these.
    pub(in crate::session) fn remove(&mut self, filter: &str) {
        let Some(watch) = &mut self.watch else { return };
        watch.filters.retain(|known| known != filter);
        watch.fresh.remove(filter);
        self.watch.take_if(|watch| watch.filters.is_empty());
    }

    /// What is new, for a session that can send it now.
    ///
    /// # Errors
    /// If its user may not read one of its filters any more.
    pub(in crate::session) fn news(&mut self, client: &Client) -> Result<Option<News>, Failure> {
        let Some(watch) = &mut self.watch else { return Ok(None) };
        let latest = self.sys.latest();
        if latest == watch.latest {
            return Ok(None);
        }
        for filter in &watch.filters {
            client.check_filters(&[store::topic_filter(filter)]).map_err(|_| {
                let text = format!("{filter} has ended: its user may not read there any more");
                Failure::new(Reason::AdministrativeAction, text)
            })?;
        }
        let view = view_of(client);
        if view != watch.view {
            self.sys.change_view(watch.listener, &view);
            (watch.view, watch.seen) = (view, Some(Arc::default()));
        }
        watch.latest = latest;
        let Some(values) = self.sys.published(&watch.view) else { return Ok(None) };
        let before = watch.seen.replace(Arc::clone(&values));
        Ok(Some(News { values, before, fresh: std::mem::take(&mut watch.fresh) }))
    }
}
