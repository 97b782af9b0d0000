//! What a node that follows another says of itself: over the control socket, and over HTTP to
//! probes, to Prometheus and to operators, who can have it serve from now on. It needs no broker.
//!
//! Invariants: connections are bounded in number and in time, as those to a broker are. Only an
//! administrator among the users that it has from the leader promotes it over HTTP.

mod asked;
mod entrance;
mod figures;
mod page;
mod promotion;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use auth::Authority;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request as HttpRequest, Response, StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::api::Failure;
use crate::checks::{Checks, tell_browsers};
use crate::control::{Answer, Request};
use crate::hosts::Hosts;
use crate::http_listener::{Handshake, HttpListener, Introduce};
use crate::report::{Promotion, StandbyRow};
use crate::sessions::Sessions;
use crate::source::OPERATOR;
use crate::visit::Transport;

use self::entrance::Peer;
pub(crate) use self::figures::of_cluster;
pub use self::promotion::lost_at_most;

/// Most HTTP connections at one time.
const MOST: usize = 32;
/// How long the head of a request may take, and a connection on which nothing is answered.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));
/// How long answers may take to be read, when the node is promoted or stops.
const LAST: Duration = Duration::from_secs(1);

/// What the node does that is asked.
pub struct StandbyHooks {
    /// How it follows.
    pub status: Box<dyn Fn() -> StandbyRow + Send + Sync>,
    /// Promotes it. Waits until it is, or can't be: an error is a text for the operator.
    pub promote: Box<dyn Fn(Promotion) -> Result<String, String> + Send + Sync>,
    /// The users that it has from the leader; none before there is a whole copy.
    pub authority: Box<dyn Fn() -> Option<Arc<Authority>> + Send + Sync>,
}

impl StandbyHooks {
    /// The answer to a request over the control socket. The audit log calls the one who asks so.
    #[cfg_attr(not(unix), expect(dead_code, reason = "no control socket asks"))]
    fn answer(&self, request: &Request, asker: &str) -> Answer {
        match request {
            Request::Standby => Answer::Standby(Box::new((self.status)())),
            Request::Promote(promotion) => {
                let node = (self.status)().node;
                let made = (self.promote)(*promotion);
                promotion::tell((OPERATOR, asker), &node, *promotion, &made);
                made.map_or_else(Answer::Refused, Answer::Promoted)
            }
            _ => Answer::Error(self.refusal()),
        }
    }

    /// Why what needs a broker is not done.
    fn refusal(&self) -> String {
        let StandbyRow { node, leader, .. } = (self.status)();
        format!(
            "{node} follows {leader} and serves no clients: ask that node, or promote this one (hermod promote); \
             hermod cluster status says how it follows"
        )
    }
}

/// What requests over HTTP are answered from.
pub(crate) struct Node {
    hooks: StandbyHooks,
    /// Who is logged in to the page.
    sessions: Sessions,
}

/// What every route gets.
type Shared = State<Arc<Node>>;

/// The server while the node follows.
pub struct StandbyServer {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    control: Option<PathBuf>,
}

impl StandbyServer {
    /// Serves at these listeners, which go by these names, and at the control socket, if there is
    /// one.
    ///
    /// # Errors
    /// When a thread or the control socket is not to be had.
    pub fn start(
        http: Vec<HttpListener>,
        hosts: Hosts,
        control: Option<PathBuf>,
        hooks: StandbyHooks,
    ) -> io::Result<Self> {
        let node = Arc::new(Node { hooks, sessions: Sessions::default() });
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().max_blocking_threads(8).build()?;
        let inside = runtime.enter();
        let room = Arc::new(Semaphore::new(MOST));
        let (stop, stopped) = watch::channel(false);
        let (router, checks) = (router(&node), Checks::new(Arc::new(hosts)));
        for HttpListener { socket, tls, introduce, pages, prefix, .. } in http {
            socket.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(socket)?;
            let (service, checks) = (TowerToHyperService::new(router.clone()), checks.at(pages, &prefix));
            let serving = Serving { service, checks, tls, introduce, stopped: stopped.clone() };
            drop(runtime.spawn(serving.accept(listener, Arc::clone(&room))));
        }
        #[cfg(unix)]
        if let Some(path) = &control {
            let listener = crate::control::bind(path)?;
            let asked = Arc::clone(&node);
            let answer = Arc::new(move |request: &Request, asker: &str| asked.hooks.answer(request, asker));
            drop(runtime.spawn(crate::control::serve_by(listener, answer)));
        }
        drop(inside);
        let mut stopped = stopped;
        let thread = std::thread::Builder::new().name("hermod-standby".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                let _ = stopped.wait_for(|stop| *stop).await;
                // All of the room is free again when the last connection has ended.
                let _ = tokio::time::timeout(LAST, room.acquire_many(MOST as u32)).await;
            });
            runtime.shutdown_timeout(LAST);
        })?;
        Ok(Self { stop, thread: Some(thread), control })
    }

    /// Stops serving once requests under way are answered, and removes the control socket.
    pub fn stop(mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(path) = self.control.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What serves one listener.
#[derive(Clone)]
struct Serving {
    service: TowerToHyperService<Router>,
    checks: Checks,
    tls: Option<Handshake>,
    introduce: Option<Arc<Introduce>>,
    stopped: watch::Receiver<bool>,
}

impl Serving {
    async fn accept(mut self, listener: tokio::net::TcpListener, room: Arc<Semaphore>) {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            let accepted = tokio::select! {
                _ = self.stopped.wait_for(|stop| *stop) => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((socket, peer)) = accepted else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let serving = self.clone();
            drop(tokio::spawn(async move {
                serving.converse(socket, peer).await;
                drop(permit);
            }));
        }
    }

    async fn converse(self, socket: TcpStream, peer: SocketAddr) {
        let introduced = match &self.introduce {
            None => Ok((socket, peer)),
            Some(introduce) => tokio::time::timeout(PATIENCE.0, introduce(socket, peer))
                .await
                .unwrap_or_else(|_| Err("the header of its proxy took too long".to_owned())),
        };
        let (socket, peer) = match introduced {
            Ok(introduced) => introduced,
            Err(why) => return tracing::warn!(%peer, "HTTP connection refused: {why}"),
        };
        let Some(Handshake { config, patience }) = self.tls.clone() else {
            return self.answer(socket, Peer { address: peer, transport: Transport::Plain }).await;
        };
        match tokio::time::timeout(patience, TlsAcceptor::from(config()).accept(socket)).await {
            Ok(Ok(stream)) => self.answer(stream, Peer { address: peer, transport: Transport::Tls }).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
    }

    /// Answers requests one after the other, until the peer ends or the node does not follow any
    /// more. A promotion may take long.
    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: Peer) {
        let mut stopped = self.stopped.clone();
        let busy = AtomicUsize::new(0);
        let service = service_fn(|request: HttpRequest<Incoming>| {
            let (serving, busy) = (&self, &busy);
            async move {
                busy.fetch_add(1, Ordering::Relaxed);
                let answer = answer(&serving.service, &serving.checks, request, peer).await;
                busy.fetch_sub(1, Ordering::Relaxed);
                Ok::<_, std::convert::Infallible>(answer)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE.0)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let mut is_last = false;
        loop {
            tokio::select! {
                _ = connection.as_mut() => return,
                () = tokio::time::sleep(PATIENCE.1) => {
                    if busy.load(Ordering::Relaxed) == 0 {
                        return;
                    }
                }
                _ = stopped.wait_for(|stop| *stop), if !is_last => {
                    is_last = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// The answer to a request of this peer.
async fn answer<B>(
    service: &TowerToHyperService<Router>,
    checks: &Checks,
    mut request: HttpRequest<B>,
    peer: Peer,
) -> Response<Body>
where
    B: axum::body::HttpBody<Data = axum::body::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let answer = match checks.refusal(&mut request, peer.address.ip()) {
        Some(refusal) => refusal.into_response(),
        None => {
            request.extensions_mut().insert(peer);
            service.call(request).await.unwrap_or_else(|never| match never {})
        }
    };
    let mut answer = checks.prefix().before(answer).await;
    tell_browsers(&mut answer);
    answer
}

/// All paths.
fn router(node: &Arc<Node>) -> Router {
    Router::new()
        .route("/health/live", get(async || "alive\n"))
        .route("/health/ready", get(unready))
        .route("/health/writable", get(unready))
        .route("/metrics", get(metrics))
        .route("/hermod/v1/standby", get(async |State(node): Shared| axum::Json((node.hooks.status)())))
        .merge(asked::routes())
        .merge(promotion::routes())
        .merge(page::routes())
        .fallback(nothing)
        .with_state(Arc::clone(node))
}

async fn unready(State(node): Shared) -> impl IntoResponse {
    let row = (node.hooks.status)();
    (StatusCode::SERVICE_UNAVAILABLE, format!("{} follows {} and serves no clients\n", row.node, row.leader))
}

async fn metrics(State(node): Shared) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], figures::metrics(&(node.hooks.status)()))
}

/// What programs ask a broker for is refused as such; people learn what there is.
async fn nothing(State(node): Shared, uri: Uri) -> Response<Body> {
    if uri.path().starts_with("/api/") {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Failure::new(status, "service_unavailable", node.hooks.refusal()).into_response();
    }
    let text = "This node follows another one. There are / (a page, with the promotion), /hermod/v1/cluster, \
                /hermod/v1/standby, /metrics, /health/live, /health/ready and /health/writable.\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

/// No user can log in yet.
fn without_users() -> Failure {
    let reason = "this node knows no users yet: they come with the copy of its leader";
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", reason)
}

#[cfg(test)]
mod tests {
    use auth::{AuthoritySettings, Cost, PasswordHash, Tags, User};

    use super::*;
    use crate::hosts::Names;

    const ADA: &str = "Basic YWRhOm9uZQ==";
    const BOB: &str = "Basic Ym9iOm9uZQ==";

    /// A node that has a whole copy or none, with the administrator ada and the monitoring bob.
    fn node(state: &'static str) -> TowerToHyperService<Router> {
        let whole = state == "following";
        let row = StandbyRow {
            node: "b".into(),
            leader: "a:1".into(),
            state: state.into(),
            lag_entries: 7,
            lag_bytes: 1536,
            lag_ms: Some(1250),
            whole,
            ..StandbyRow::default()
        };
        let authority = Arc::new(Authority::new(AuthoritySettings::new([7; 32])).unwrap());
        let hash = PasswordHash::create(b"one", [1; 16], Cost::default()).unwrap();
        for (name, tag) in [("ada", "administrator"), ("bob", "monitoring")] {
            let tags = Tags::new([tag]);
            authority.put(User { tags, ..User::new(name, Some(hash.clone())) }).unwrap();
        }
        let hooks = StandbyHooks {
            status: Box::new(move || row.clone()),
            promote: Box::new(|promotion| match promotion {
                Promotion::Planned => Ok("it serves from now on".to_owned()),
                Promotion::Now => Err("not now".to_owned()),
            }),
            authority: Box::new(move || whole.then(|| Arc::clone(&authority))),
        };
        TowerToHyperService::new(router(&Arc::new(Node { hooks, sessions: Sessions::default() })))
    }

    /// The status, the cookie or the way on, and the body.
    async fn ask(
        node: &TowerToHyperService<Router>,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String, String) {
        let checks = Checks::new(Arc::new(Hosts::new("b", Names::Unset)));
        let mut request = HttpRequest::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let peer = Peer { address: "127.0.0.1:9".parse().unwrap(), transport: Transport::Plain };
        let answer = answer(node, &checks, request.body(Body::from(body.to_owned())).unwrap(), peer).await;
        let said = |name| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let on = said(header::SET_COOKIE).or_else(|| said(header::LOCATION)).unwrap_or_default();
        let status = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, on, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn probes_learn_that_a_standby_lives_and_serves_no_client() {
        let node = node("following");
        for (path, code, words) in [
            ("/health/live", 200, "alive"),
            ("/health/ready", 503, "b follows a:1"),
            ("/health/writable", 503, "b follows a:1"),
            ("/metrics", 200, "\nhermod_standby_following 1\n"),
            ("/metrics", 200, "\nhermod_standby_heard_seconds NaN\n"),
            ("/hermod/v1/standby", 200, r#""state":"following""#),
            ("/api/overview", 503, r#""reason":"b follows a:1 and serves no clients"#),
            ("/else", 404, "follows another one"),
            ("/", 200, "It follows its leader."),
            ("/", 200, "Log in to promote"),
            ("/login", 200, "those of the leader"),
        ] {
            let (status, _, body) = ask(&node, ("GET", path), &[], "").await;
            assert_eq!(status, code, "{path}");
            assert!(body.contains(words), "{path}: {body}");
        }
        let (status, ..) = ask(&node, ("GET", "/"), &[("host", "evil.example")], "").await;
        assert_eq!(status, 400, "two names");
    }

    #[tokio::test]
    async fn only_an_administrator_promotes_and_is_told_what_is_lost_before() {
        let (follows, copies) = (node("following"), node("copying"));
        let path = "/hermod/v1/cluster/promote";
        let (ada, bob) = (("authorization", ADA), ("authorization", BOB));
        let (planned, accepts) = (r#"{"planned": true}"#, r#"{"accept_loss": true}"#);
        for (node, headers, document, code, words) in [
            (&follows, &[][..], planned, 401, "Login failed"),
            (&follows, &[("authorization", "Basic YWRhOnR3bw==")], planned, 401, "Login failed"),
            (&follows, &[bob], planned, 403, "not authorised"),
            (&follows, &[ada], "", 409, "7 entries (1.5 KiB) were known to be missing"),
            (&follows, &[ada], r#"{"planned": false}"#, 409, r#"\"accept_loss\": true"#),
            (&follows, &[ada], r#"{"planned": true, "accept_loss": true}"#, 400, "leave accept_loss out"),
            (&follows, &[ada], r#"{"plan": true}"#, 400, "unknown field"),
            (&follows, &[ada], accepts, 409, "not now"),
            (&follows, &[ada, ("sec-fetch-site", "cross-site")], planned, 403, "another site"),
            (&follows, &[ada, ("origin", "http://evil.example")], planned, 403, "another site"),
            (&follows, &[ada], planned, 200, "it serves from now on"),
            (&copies, &[ada], planned, 503, "no users yet"),
        ] {
            let (status, _, body) = ask(node, ("POST", path), headers, document).await;
            assert!(status == code && body.contains(words), "{document} {headers:?}: {status} {body}");
        }
        let (status, _, body) = ask(&follows, ("GET", "/hermod/v1/cluster"), &[bob], "").await;
        assert!(status == 200 && body.contains(r#""role":"standby""#) && body.contains(r#""lag_entries":7"#), "{body}");
        assert_eq!(ask(&follows, ("GET", "/hermod/v1/cluster"), &[], "").await.0, 401);
    }

    #[tokio::test]
    async fn the_page_asks_before_it_promotes() {
        let node = node("following");
        let form = ("content-type", "application/x-www-form-urlencoded");
        let log_in = async |user: &str, password: &str| {
            ask(&node, ("POST", "/login"), &[form], &format!("user={user}&password={password}")).await
        };
        let (status, _, body) = log_in("ada", "two").await;
        assert!(status == 403 && body.contains("User or password is wrong."), "{body}");
        let (_, cookie, _) = log_in("ada", "one").await;
        let (_, bobs, _) = log_in("bob", "one").await;
        let (ada, bob) = (("cookie", cookie.as_str()), ("cookie", bobs.as_str()));
        assert_eq!(ask(&node, ("GET", "/promote?how=now"), &[], "").await.1, "/login");
        assert_eq!(ask(&node, ("POST", "/promote"), &[form], "how=planned").await.1, "/login");
        for (what, headers, fields, code, words) in [
            (("GET", "/"), &[ada][..], "", 200, "Promote at once…"),
            (("GET", "/"), &[bob], "", 200, "An administrator can promote"),
            (("GET", "/promote?how=now"), &[ada], "", 200, "type the name of this node"),
            (("GET", "/promote?how=now"), &[ada], "", 200, "7 entries (1.5 KiB) were known to be missing"),
            (("GET", "/promote?how=planned"), &[ada], "", 200, "nothing is lost"),
            (("GET", "/promote"), &[bob], "", 403, "not authorised"),
            (("POST", "/promote"), &[bob, form], "how=planned", 403, "not authorised"),
            (("POST", "/promote"), &[ada, form], "how=now&name=a", 400, "not the name of this node"),
            (("POST", "/promote"), &[ada, form], "how=now&name=b", 409, "not now"),
            (("POST", "/promote"), &[ada, form, ("sec-fetch-site", "same-site")], "how=planned", 403, "another site"),
            (("POST", "/promote"), &[ada], "how=planned", 415, "takes forms"),
            (("POST", "/promote"), &[ada, form], "how=planned", 200, "it serves from now on"),
        ] {
            let (status, _, body) = ask(&node, what, headers, fields).await;
            assert!(status == code && body.contains(words), "{what:?} {fields}: {status} {body}");
        }
        assert!(ask(&node, ("POST", "/logout"), &[ada, form], "").await.1.starts_with("hermod=;"));
        assert_eq!(ask(&node, ("POST", "/promote"), &[ada, form], "how=planned").await.1, "/login");
    }

    #[tokio::test]
    async fn the_command_line_is_answered_over_http_before_there_are_users_and_promotes_nothing() {
        let long = format!("\"{}\"", "x".repeat(2000));
        for node in [node("copying"), node("following")] {
            for (request, words) in [
                (r#""standby""#, r#"{"standby":{"node":"b","leader":"a:1""#),
                (r#""status""#, r#"{"error":"b follows a:1 and serves no clients"#),
                (r#"{"promote":"now"}"#, r#"{"error":"b follows a:1 and serves no clients"#),
                ("nonsense", r#"{"error":"b follows a:1 and serves no clients"#),
                (&long, r#"{"error":"b follows a:1 and serves no clients"#),
            ] {
                let (status, _, body) = ask(&node, ("POST", crate::control::PATH), &[], request).await;
                assert!(status == 200 && body.starts_with(words), "{request}: {status} {body}");
            }
        }
    }

    #[test]
    fn what_needs_a_broker_is_refused_by_name() {
        let hooks = StandbyHooks {
            status: Box::new(|| StandbyRow { node: "b".into(), leader: "a:1".into(), ..StandbyRow::default() }),
            promote: Box::new(|_| Err("not now".to_owned())),
            authority: Box::new(|| None),
        };
        let Answer::Error(text) = hooks.answer(&Request::Status, "me") else { panic!("it is refused") };
        assert!(text.starts_with("b follows a:1 and serves no clients"), "{text}");
        let promoted = hooks.answer(&Request::Promote(Promotion::Now), "me");
        assert!(matches!(promoted, Answer::Refused(text) if text == "not now"));
    }
}
