//! The checks that every request passes, and the paths outside `/api`, in one table. These paths
//! only read. Names of users' objects are shown only to users that may see them.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Query, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use axum::response::{IntoResponse, Response as Answer};
use axum::routing::get;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use crate::api::{Asker, Failure};
use crate::checks::{Checks, tell_browsers};
use crate::console;
use crate::control;
use crate::detailed::{self, Asked};
use crate::exposition::EXPOSITION;
use crate::front;
use crate::hosts::Hosts;
use crate::http_listener::Pages;
use crate::manual;
use crate::memory::Memory;
use crate::metrics::{self, Origin};
use crate::native;
use crate::per_queue::{self, Reader};
use crate::process::Process;
use crate::resources;
use crate::source::{Source, alarms};
use crate::standby;
use crate::visit::{Carried, Visit};

/// The parameters of a request; a name may be there several times.
type Pairs = Vec<(String, String)>;

/// Paths that may be asked for in a reserved place.
const HEALTH: [&str; 2] = ["/health/", "/api/health/checks/"];

/// Who may read the figures of each queue. They contain its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerObject {
    /// Users that see the queue.
    Users,
    /// Every peer that reaches the port.
    Everybody,
}

/// All paths, and the checks before them.
#[derive(Clone)]
pub(crate) struct Paths {
    checks: Checks,
    service: TowerToHyperService<Router>,
}

impl Paths {
    pub(crate) fn new(source: &Arc<Source>, hosts: Arc<Hosts>, per_object: PerObject) -> Self {
        let service = TowerToHyperService::new(router(Arc::clone(source), per_object));
        Self { checks: Checks::new(hosts), service }
    }

    /// The same paths as one listener answers them.
    pub(crate) fn at(&self, pages: Pages, prefix: &str) -> Self {
        Self { checks: self.checks.at(pages, prefix), ..self.clone() }
    }

    /// Answers a request. The bytes of the answer are charged; if the budget has no room for them,
    /// the request is refused.
    pub(crate) async fn answer(&self, visit: Visit, mut request: Request<Incoming>) -> Response<Carried> {
        let refused = self.checks.refusal(&mut request, visit.peer().ip());
        let answer = match refused.or_else(|| unkept(&visit, request.uri().path())) {
            Some(refusal) => refusal.into_response(),
            None => {
                request.extensions_mut().insert(visit.clone());
                request.extensions_mut().insert(self.checks.prefix().clone());
                self.service.call(request).await.unwrap_or_else(|never| match never {})
            }
        };
        let answer = self.checks.prefix().before(answer).await;
        let is_charged = visit.charge_body(answer.body()).is_ok();
        let mut answer = if is_charged { answer } else { Failure::busy().into_response() };
        tell_browsers(&mut answer);
        if visit.is_kept() {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer.map(|body| visit.carry(body))
    }
}

/// Why a request in a reserved place is not answered.
fn unkept(visit: &Visit, path: &str) -> Option<Failure> {
    (visit.is_kept() && !HEALTH.iter().any(|prefix| path.starts_with(prefix))).then(|| {
        let reason = "connections are as many as there may be: the last places are for health checks";
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", reason)
    })
}

fn router(source: Arc<Source>, per_object: PerObject) -> Router {
    let (per_object, families) = match per_object {
        PerObject::Users => (get(per_object_of), get(families_of)),
        PerObject::Everybody => (get(per_object_open), get(families_open)),
    };
    Router::new()
        .route("/metrics", get(aggregated))
        .route("/metrics/per-object", per_object)
        .route("/metrics/detailed", families)
        .route("/metrics/memory-breakdown", get(memory))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/health/writable", get(writable))
        .merge(resources::routes())
        .merge(control::routes())
        .merge(native::routes(&source))
        .merge(console::router())
        .merge(manual::router())
        .fallback(nothing)
        .with_state(source)
}

/// Lists the paths that exist.
async fn nothing(uri: Uri, headers: HeaderMap) -> Answer {
    front::nothing(uri.path(), &headers).into_response()
}

async fn aggregated(State(source): State<Arc<Source>>) -> Answer {
    let reader = Arc::clone(&source);
    let figures = source.scrapes.usual.read("", move || {
        let source = reader;
        let counts = source.broker.authority().login_counts();
        let logins = [("succeeded", counts.succeeded), ("refused", counts.refused), ("throttled", counts.throttled)];
        let overview = source.broker.overview();
        let refused = source.refused_connections(&overview);
        metrics::aggregated(
            &Origin::of(&source.facts, &source.broker),
            &overview,
            logins,
            &refused,
            (&source.sockets(), &source.long_turns()),
            (Process::look(), source.kept(&overview.memory), source.pool.turns()),
        ) + &standby::of_cluster(&source.cluster())
    });
    exposed(figures.await)
}

async fn per_object_of(asker: Asker, State(source): State<Arc<Source>>) -> Answer {
    per_queue::all(source, Reader::User(asker)).await
}

async fn per_object_open(Extension(visit): Extension<Visit>, State(source): State<Arc<Source>>) -> Answer {
    per_queue::all(source, Reader::Everybody(visit)).await
}

fn exposed(figures: Result<impl IntoResponse, String>) -> Answer {
    match figures {
        Ok(text) => ([(header::CONTENT_TYPE, EXPOSITION)], text).into_response(),
        Err(error) => Failure::failed(error).into_response(),
    }
}

/// Families that contain names of queues need a user, which gets the queues that it sees.
async fn families_of(State(source): State<Arc<Source>>, Query(asked): Query<Pairs>, mut parts: Parts) -> Answer {
    let asked = match Asked::of(asked) {
        Ok(asked) => asked,
        Err(reason) => return Failure::bad_request(reason).into_response(),
    };
    if !asked.is_about_queues() {
        return families(source, asked).await;
    }
    match Asker::from_request_parts(&mut parts, &source).await {
        Ok(asker) => per_queue::families(source, Reader::User(asker), asked).await,
        Err(refusal) => refusal,
    }
}

async fn families_open(
    Extension(visit): Extension<Visit>,
    State(source): State<Arc<Source>>,
    Query(asked): Query<Pairs>,
) -> Answer {
    match Asked::of(asked) {
        Ok(asked) if asked.is_about_queues() => per_queue::families(source, Reader::Everybody(visit), asked).await,
        Ok(asked) => families(source, asked).await,
        Err(reason) => Failure::bad_request(reason).into_response(),
    }
}

/// Families of the broker as a whole are built like its other figures.
async fn families(source: Arc<Source>, asked: Asked) -> Answer {
    let (reader, key) = (Arc::clone(&source), format!("{asked:?}"));
    let build = move || {
        detailed::scrape(&Origin::of(&reader.facts, &reader.broker), &reader.broker.overview(), &asked).into_text()
    };
    exposed(source.scrapes.rare.read(key, build).await)
}

async fn memory(State(source): State<Arc<Source>>) -> Answer {
    let reader = Arc::clone(&source);
    let figures = source.scrapes.rare.read("memory", move || {
        metrics::memory(
            &Origin::of(&reader.facts, &reader.broker),
            &Memory::of(&reader.broker.overview(), Process::look()),
        )
    });
    exposed(figures.await)
}

/// The process runs, and its management thread answers.
async fn live() -> &'static str {
    "live\n"
}

/// Clients can connect. An alarm does not change this, because consumers must reach a broker that
/// stops publishers.
async fn ready(State(source): State<Arc<Source>>) -> Answer {
    if source.is_ready() {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n").into_response()
    }
}

/// No alarm stops publishers.
async fn writable(State(source): State<Arc<Source>>) -> Answer {
    let alarms = alarms(source.broker.alarms());
    if !source.is_ready() {
        (StatusCode::SERVICE_UNAVAILABLE, "starting or stopping\n").into_response()
    } else if alarms.is_empty() {
        "writable\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("low on {}\n", alarms.join(" and "))).into_response()
    }
}
