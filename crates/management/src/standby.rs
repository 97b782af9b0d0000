//! What a node that follows another says of itself: over the control socket, and over HTTP to
//! probes and Prometheus. It serves nothing else, and needs no broker.
//!
//! Invariant: connections are bounded in number and in time, as those to a broker are.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::http::{Request as HttpRequest, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, watch};

use crate::control::{Answer, Request};
use crate::exposition::Exposition;
use crate::report::{ClusterStatus, FollowerRow, Promotion, StandbyRow};

/// Most HTTP connections at one time.
const MOST: usize = 32;
/// How long the head of a request may take, and a whole connection.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

/// What the node does that is asked.
pub struct StandbyHooks {
    /// How it follows.
    pub status: Box<dyn Fn() -> StandbyRow + Send + Sync>,
    /// Promotes it. Waits until it is, or can't be: an error is a text for the operator.
    pub promote: Box<dyn Fn(Promotion) -> Result<String, String> + Send + Sync>,
}

impl StandbyHooks {
    /// The answer to a request over the control socket.
    #[cfg_attr(not(unix), expect(dead_code, reason = "no control socket asks"))]
    fn answer(&self, request: &Request) -> Answer {
        match request {
            Request::Standby => Answer::Standby(Box::new((self.status)())),
            Request::Promote(promotion) => match (self.promote)(*promotion) {
                Ok(text) => Answer::Promoted(text),
                Err(text) => Answer::Refused(text),
            },
            _ => {
                let StandbyRow { node, leader, .. } = (self.status)();
                Answer::Error(format!(
                    "{node} follows {leader} and serves no clients: ask that node, or promote this one (hermod promote); \
                     hermod cluster status says how it follows"
                ))
            }
        }
    }
}

/// The server while the node follows.
pub struct StandbyServer {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    control: Option<PathBuf>,
}

impl StandbyServer {
    /// Serves on these bound sockets, and at the control socket, if there is one.
    ///
    /// # Errors
    /// When a thread or the control socket is not to be had.
    pub fn start(http: Vec<TcpListener>, control: Option<PathBuf>, hooks: StandbyHooks) -> io::Result<Self> {
        let hooks = Arc::new(hooks);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().max_blocking_threads(8).build()?;
        let inside = runtime.enter();
        let room = Arc::new(Semaphore::new(MOST));
        for socket in http {
            socket.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(socket)?;
            drop(runtime.spawn(accept(listener, Arc::clone(&room), Arc::clone(&hooks))));
        }
        #[cfg(unix)]
        if let Some(path) = &control {
            let listener = crate::control::bind(path)?;
            let asked = Arc::clone(&hooks);
            drop(runtime.spawn(crate::control::serve_by(listener, Arc::new(move |request| asked.answer(request)))));
        }
        drop(inside);
        let (stop, mut stopped) = watch::channel(false);
        let thread = std::thread::Builder::new().name("hermod-standby".to_owned());
        let thread = thread.spawn(move || {
            let _ = runtime.block_on(stopped.wait_for(|stop| *stop));
            runtime.shutdown_timeout(Duration::from_secs(1));
        })?;
        Ok(Self { stop, thread: Some(thread), control })
    }

    /// Stops serving, and removes the control socket.
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

async fn accept(listener: tokio::net::TcpListener, room: Arc<Semaphore>, hooks: Arc<StandbyHooks>) {
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((socket, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let hooks = Arc::clone(&hooks);
        drop(tokio::spawn(async move {
            let service = service_fn(|request: HttpRequest<Incoming>| {
                let answer = answer(&hooks, request.uri().path());
                async move { Ok::<_, std::convert::Infallible>(answer) }
            });
            let serving = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE.0)
                .serve_connection(TokioIo::new(socket), service);
            let _ = tokio::time::timeout(PATIENCE.1, serving).await;
            drop(permit);
        }));
    }
}

/// The answer at a path.
fn answer(hooks: &StandbyHooks, path: &str) -> Response<String> {
    let row = (hooks.status)();
    let (status, kind, text) = match path {
        "/health/live" => (StatusCode::OK, "text/plain", "alive\n".to_owned()),
        "/health/ready" | "/health/writable" => {
            let text = format!("{} follows {} and serves no clients\n", row.node, row.leader);
            (StatusCode::SERVICE_UNAVAILABLE, "text/plain", text)
        }
        "/metrics" => (StatusCode::OK, "text/plain; version=0.0.4", metrics(&row)),
        "/hermod/v1/standby" => (StatusCode::OK, "application/json", serde_json::to_string(&row).unwrap_or_default()),
        _ => {
            let text = "This node follows another one. There are /hermod/v1/standby, /metrics, /health/live, /health/ready \
                        and /health/writable.\n";
            (StatusCode::NOT_FOUND, "text/plain", text.to_owned())
        }
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// The figures of a node that serves, and of those that follow it, for Prometheus.
pub(crate) fn of_cluster(cluster: &ClusterStatus) -> String {
    let mut out = Exposition::default();
    let (rows, waited) = (&cluster.followers, cluster.confirms_waited_ms as f64 / 1000.0);
    let alone = u8::from(cluster.confirms == "alone");
    out.gauge("hermod_confirms_alone", "Whether confirms rest on this node alone, although they should not", alone);
    let about = "How long the oldest confirm has waited for a node that follows";
    out.gauge("hermod_confirms_waiting_seconds", about, waited);
    let connected = rows.iter().filter(|row| row.state != "away").count();
    out.gauge("hermod_followers", "Nodes that follow this one and are connected", connected);
    for (name, help, value) in [
        ("hermod_follower_kept_bytes", "Bytes of the log that are kept for it", 3),
        ("hermod_follower_lag_entries", "Entries that are flushed here and not there, at most", 0),
        ("hermod_follower_lag_bytes", "Bytes that are flushed here and were not sent, at most", 1),
        ("hermod_follower_lag_seconds", "All that was flushed here so long ago is flushed there", 2),
    ] {
        out.family(name, "gauge", help);
        // While a copy is on its way, the lag says nothing; of one that is away, entries are not
        // counted.
        let shown = |row: &&FollowerRow| match row.state.as_str() {
            "copying" => value == 3,
            "away" => value != 0,
            _ => true,
        };
        for row in rows.iter().filter(shown) {
            let seconds = (row.lag_ms as f64 / 1000.0).to_string();
            let figures = [row.lag_entries.to_string(), row.lag_bytes.to_string(), seconds, row.kept_bytes.to_string()];
            out.sample(name, &[("name", &row.name), ("node", &row.node)], &figures[value]);
        }
    }
    out.into_text()
}

/// Its figures, for Prometheus.
fn metrics(row: &StandbyRow) -> String {
    let seconds = |ms: Option<u64>| ms.map_or(f64::NAN, |ms| ms as f64 / 1000.0);
    let figures = [
        (
            "hermod_standby_following",
            "Whether entries of the leader come.",
            f64::from(u8::from(row.state == "following")),
        ),
        (
            "hermod_standby_whole",
            "Whether there is a whole copy, which could be promoted.",
            f64::from(u8::from(row.whole)),
        ),
        ("hermod_standby_lag_entries", "Entries that the leader had flushed and not sent.", row.lag_entries as f64),
        ("hermod_standby_lag_bytes", "The bytes of these.", row.lag_bytes as f64),
        ("hermod_standby_lag_seconds", "All that the leader had flushed so long ago is here.", seconds(row.lag_ms)),
        ("hermod_standby_heard_seconds", "Time since the leader was heard.", seconds(row.heard_ms)),
        ("hermod_standby_term", "How often a node of the cluster was promoted.", row.term as f64),
        ("hermod_standby_copied_bytes", "Bytes of the copy that came.", row.copied_bytes as f64),
        ("hermod_standby_copy_bytes", "Size of the copy.", row.copy_bytes as f64),
    ];
    let totals = [
        ("hermod_standby_entries_total", "Entries taken.", row.entries as f64),
        ("hermod_standby_copies_total", "Copies begun.", row.copies as f64),
    ];
    let of = |kind: &'static str| {
        move |(name, help, value): (&str, &str, f64)| {
            let value = if value.is_nan() { "NaN".to_owned() } else { value.to_string() };
            format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n")
        }
    };
    figures.into_iter().map(of("gauge")).chain(totals.into_iter().map(of("counter"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks() -> StandbyHooks {
        let row =
            StandbyRow { node: "b".into(), leader: "a:1".into(), state: "following".into(), ..Default::default() };
        StandbyHooks { status: Box::new(move || row.clone()), promote: Box::new(|_| Err("not now".to_owned())) }
    }

    #[test]
    fn probes_learn_that_a_standby_lives_and_serves_no_client() {
        for (path, code, words) in [
            ("/health/live", 200, "alive"),
            ("/health/ready", 503, "b follows a:1"),
            ("/health/writable", 503, "b follows a:1"),
            ("/metrics", 200, "\nhermod_standby_following 1\n"),
            ("/metrics", 200, "\nhermod_standby_lag_seconds NaN\n"),
            ("/hermod/v1/standby", 200, r#""state":"following""#),
            ("/api/overview", 404, "follows another one"),
        ] {
            let answer = answer(&hooks(), path);
            assert_eq!(answer.status().as_u16(), code, "{path}");
            assert!(answer.body().contains(words), "{path}: {}", answer.body());
        }
    }

    #[test]
    fn followers_are_shown_with_their_lag_once_they_follow() {
        let row = FollowerRow {
            name: "b".into(),
            node: "7".into(),
            state: "copying".into(),
            lag_ms: 1500,
            kept_bytes: 7000,
            ..Default::default()
        };
        let shown = |row: FollowerRow| of_cluster(&ClusterStatus { followers: vec![row], ..ClusterStatus::default() });
        let text = shown(row.clone());
        assert!(text.contains("hermod_followers 1\n") && !text.contains("hermod_follower_lag_seconds{"), "{text}");
        assert!(text.contains("hermod_follower_kept_bytes{name=\"b\",node=\"7\"} 7000\n"), "{text}");
        let away = shown(FollowerRow { state: "away".into(), ..row.clone() });
        assert!(away.contains("hermod_followers 0\n") && away.contains("hermod_follower_lag_seconds{"), "{away}");
        assert!(!away.contains("hermod_follower_lag_entries{"), "{away}");
        let text = shown(FollowerRow { state: "following".into(), ..row });
        assert!(text.contains("hermod_follower_lag_seconds{name=\"b\",node=\"7\"} 1.5\n"), "{text}");
    }

    #[test]
    fn confirms_that_rest_on_one_node_are_an_alarm() {
        for (confirms, alone, alarm) in
            [("local", 0, None), ("replicated", 0, None), ("waiting", 0, Some("wait for")), ("alone", 1, Some("alone"))]
        {
            let confirms = confirms.to_owned();
            let cluster = ClusterStatus { confirms, confirms_waited_ms: 2500, ..ClusterStatus::default() };
            assert!(of_cluster(&cluster).contains(&format!("\nhermod_confirms_alone {alone}\n")), "{cluster:?}");
            assert!(of_cluster(&cluster).contains("\nhermod_confirms_waiting_seconds 2.5\n"), "{cluster:?}");
            assert_eq!(cluster.alarm().is_some_and(|text| text.contains(alarm.unwrap())), alarm.is_some());
        }
    }

    #[test]
    fn what_needs_a_broker_is_refused_by_name() {
        let Answer::Error(text) = hooks().answer(&Request::Status) else { panic!("it is refused") };
        assert!(text.starts_with("b follows a:1 and serves no clients"), "{text}");
        assert!(
            matches!(hooks().answer(&Request::Promote(Promotion::Now)), Answer::Refused(text) if text == "not now")
        );
    }
}
