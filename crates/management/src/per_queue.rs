//! Scrapes of the figures of each queue: which queues a reader gets, and the places and the charge
//! of an answer.

use std::sync::Arc;

use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::api::{Asker, Failure};
use crate::detailed::{self, Asked};
use crate::exposition::EXPOSITION;
use crate::listing::{self, Part};
use crate::metrics::{self, Origin};
use crate::pieces::{self, UNDER_WAY};
use crate::pool::Work;
use crate::sampling::now;
use crate::scrape::Scrape;
use crate::source::Source;
use crate::visit::Visit;

/// Who reads a scrape.
pub(crate) enum Reader {
    /// A user gets the queues that it sees.
    User(Asker),
    /// Everybody gets all, where the settings say so.
    Everybody(Visit),
}

impl Reader {
    fn user(&self) -> &str {
        match self {
            Self::User(asker) => asker.user(),
            Self::Everybody(_) => "",
        }
    }

    fn charge(&self, bytes: usize) -> Result<(), Failure> {
        match self {
            Self::User(asker) => Ok(asker.charge(bytes)?),
            Self::Everybody(visit) => Ok(visit.charge(bytes)?),
        }
    }

    fn sees(&self, source: &Source, vhost: &str) -> bool {
        match self {
            Self::User(asker) if !asker.monitors() => source.broker.authority().enter(asker.identity(), vhost).is_ok(),
            Self::User(_) | Self::Everybody(_) => true,
        }
    }
}

/// All figures of each queue.
pub(crate) async fn all(source: Arc<Source>, reader: Reader) -> Response {
    answer(source, reader, Asked::default(), |_, _| metrics::of_queues(now())).await
}

/// The families that a scrape asks for.
pub(crate) async fn families(source: Arc<Source>, reader: Reader, asked: Asked) -> Response {
    let begin = |source: &Source, asked: &Asked| {
        detailed::scrape(&Origin::of(&source.facts, &source.broker), &source.broker.overview(), asked)
    };
    answer(source, reader, asked, begin).await
}

async fn answer(
    source: Arc<Source>,
    reader: Reader,
    asked: Asked,
    begin: impl FnOnce(&Source, &Asked) -> Scrape + Send + 'static,
) -> Response {
    let places = (Arc::clone(&source.pool), reader.user().to_owned());
    let made = places.0.run(Work::List, &places.1, move || {
        let mut scrape = begin(&source, &asked);
        fill(&mut scrape, &source, &reader, &asked)?;
        let (mut text, more) = pieces::next(&mut scrape);
        // A short one is charged by its length.
        text.shrink_to_fit();
        if more {
            reader.charge(UNDER_WAY)?;
        }
        Ok((text, more.then_some(scrape)))
    });
    match made.await.map_err(Failure::failed).and_then(|made| made) {
        Ok((text, None)) => ([(header::CONTENT_TYPE, EXPOSITION)], text).into_response(),
        Ok((text, Some(rest))) => {
            ([(header::CONTENT_TYPE, EXPOSITION)], pieces::body(text, rest, places)).into_response()
        }
        Err(failure) => failure.into_response(),
    }
}

/// Adds the queues that are asked for and that the reader sees.
fn fill(scrape: &mut Scrape, source: &Source, reader: &Reader, asked: &Asked) -> Result<(), Failure> {
    let parts = listing::named(source, None, |vhost| source.broker.queue_names(vhost));
    for part in parts {
        let Part::Named(vhost, mut names) = part else { continue };
        if !asked.wants_vhost(&vhost) || !reader.sees(source, &vhost) {
            continue;
        }
        names.retain(|name| asked.wants_queue(name));
        reader.charge(scrape.weight(names.len()))?;
        let mut of = names.iter();
        for report in source.broker.some_queues(&vhost, &names) {
            // Both are in one order; queues that have gone have no report.
            let Some(name) = of.find(|name| ***name == report.name) else { break };
            if !scrape.add(&vhost, name, &report) {
                return Ok(());
            }
        }
    }
    Ok(())
}
