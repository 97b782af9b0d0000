//! The web console as a browser meets it, without its script: plain pages, links and forms.

use serde_json::Value;

use crate::api::{GUEST, json};
use crate::native::with_will;
use crate::server::{Reply, Server, hermod, run, until};
use crate::stomp::Stomp;

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// What a browser keeps of a server: its cookie.
pub(crate) struct Browser<'a> {
    server: &'a Server,
    cookie: String,
}

impl<'a> Browser<'a> {
    fn new(server: &'a Server) -> Self {
        Self { server, cookie: String::new() }
    }

    /// A browser in which this user has logged in.
    pub(crate) fn of(server: &'a Server, user: &str, password: &str) -> Self {
        let mut browser = Self::new(server);
        let reply = browser.post("/login", &[("user", user), ("password", password), ("to", "/")]);
        assert_eq!((reply.status, reply.header("location")), (303, "/"), "{}", reply.body);
        browser
    }

    fn get(&self, path: &str) -> Reply {
        self.server.send("GET", path, &format!("Cookie: a=b; {}\r\n", self.cookie), "")
    }

    fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let headers = format!("Cookie: {}\r\n{FORM}Origin: http://localhost\r\n", self.cookie);
        let reply = self.server.send("POST", path, &headers, &form);
        if let Some((cookie, _)) = reply.header("set-cookie").split_once(';') {
            cookie.clone_into(&mut self.cookie);
        }
        reply
    }

    /// Sends a form that must succeed, and gives the page that it leads to.
    fn done(&mut self, path: &str, fields: &[(&str, &str)]) -> String {
        let reply = self.post(path, fields);
        assert_eq!(reply.status, 303, "{path} {fields:?}: {}", reply.body);
        let page = self.get(reply.header("location"));
        assert_eq!(page.status, 200, "{}", page.body);
        page.body
    }

    /// The text of a page that is there.
    pub(crate) fn page(&self, path: &str) -> String {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.body
    }
}

pub(crate) fn has(page: &str, words: &[&str]) {
    for said in words {
        assert!(page.contains(said), "'{said}' is missing in {page}");
    }
}

#[test]
fn console_command_and_api_give_one_diagnosis() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    Stomp::connect(&server).publish("orders", "one");
    let without_times = |mut row: Value| {
        for name in ["evidence", "idle_ms", "oldest_ready_age_ms", "causes"] {
            row.as_object_mut().unwrap().remove(name);
        }
        row
    };
    let (code, text, _) = run(hermod("why", dir.path()).args(["orders", "--json"]));
    let told: Value = serde_json::from_str(&text).unwrap();
    let answered = json(&server, "/api/queues/%2F/orders/diagnosis", GUEST);
    assert_eq!((code, &told["causes"][0]["cause"]), (0, &"no_consumers".into()));
    assert!(answered["oldest_ready_age_ms"].is_u64(), "{answered}");
    assert_eq!(without_times(told), without_times(answered.clone()));
    let sentence = answered["sentence"].as_str().unwrap();
    let page = Browser::of(&server, "guest", "guest").page("/queues/%2F/orders");
    has(&page, &[sentence, "1 ready, the oldest published", answered["advice"].as_str().unwrap()]);
    let (_, text, _) = run(hermod("why", dir.path()).arg("orders"));
    assert!(text.starts_with(&format!("{sentence}\n1 ready, the oldest published ")), "{text}");
    let (code, _, error) = run(hermod("why", dir.path()).arg("none"));
    assert!(code == 66 && error.contains("no queue 'none' in vhost '/'"), "{code} {error}");
    assert_eq!(server.ask("GET", "/api/queues/%2F/none/diagnosis", GUEST).0, 404);
    assert_eq!(server.ask("GET", "/api/queues/%2F/orders/diagnosis", "").0, 401);
}

#[test]
fn a_will_that_an_alarm_holds_up_is_in_the_console_the_api_and_the_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let browser = Browser::of(&server, "guest", "guest");
    let socket = with_will(&server);
    let held_up = || json(&server, "/hermod/v1/wills/%2F/guest/native", GUEST)["held_up"].clone();
    has(&browser.page("/wills"), &["native", "client is connected"]);
    assert_eq!((held_up(), run(hermod("alarms", dir.path()).args(["set", "memory"])).0), (0.into(), 0));
    drop(socket);
    until("a will that an alarm holds up", || held_up() == 1);
    has(&browser.page("/wills"), &["was due, and waits for the end of an alarm"]);
    let (_, metrics) = server.ask("GET", "/metrics", "");
    has(&metrics, &["\nhermod_wills_held_up 1\n", "\nhermod_wills_waiting 0\n", "\nhermod_wills_in_memory 0\n"]);
    assert_eq!(run(hermod("alarms", dir.path()).args(["clear", "memory"])).0, 0);
    let (_, text, _) = run(hermod("wills", dir.path()).arg("--json"));
    until("its end", || server.ask("GET", "/hermod/v1/wills/%2F/guest/native", GUEST).0 == 404);
    assert!(text.contains("\"kept\"") || text.trim() == "[]", "{text}");
}

#[test]
fn command_and_api_give_one_explanation_and_only_to_whom_it_is_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    Stomp::connect(&server).publish("orders", "one");
    let explain = |words: &[&str]| {
        let (code, text, error) = run(hermod("explain", dir.path()).args(words).arg("--json"));
        assert_eq!((code, error.as_str()), (0, ""), "{words:?}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    for (words, path) in [
        (&["access", "guest", "/", "queue", "orders"][..], "access?user=guest&vhost=%2F&kind=queue&name=orders"),
        (
            &["access", "guest", "/", "exchange", "t", "--key", "k"],
            "access?user=guest&vhost=%2F&kind=exchange&name=t&key=k",
        ),
        (&["route", "", "orders"], "route?vhost=%2F&exchange=&routing_key=orders"),
        (
            &["route", "amq.headers", "k", "a=1"],
            "route?vhost=%2F&exchange=amq.headers&routing_key=k&headers=%7B%22a%22%3A1%7D",
        ),
        (&["policy", "orders"], "policies?vhost=%2F&queue=orders"),
        (&["error", "no queue 'x' in vhost '/'"], "error?text=no%20queue%20%27x%27%20in%20vhost%20%27%2F%27"),
    ] {
        assert_eq!(explain(words), json(&server, &format!("/api/explain/{path}"), GUEST), "{words:?}");
    }
    assert_eq!(
        explain(&["access", "guest", "/", "queue", "orders"])["result"],
        serde_json::json!(["configure", "write", "read"])
    );
    assert_eq!(explain(&["route", "", "orders"])["result"], serde_json::json!(["orders"]));
    assert_eq!(explain(&["route", "", "none"])["result"], serde_json::json!([]));
    let (code, _, error) = run(hermod("explain", dir.path()).args(["policy", "none"]));
    assert!(code == 66 && error.contains("no queue 'none'"), "{code} {error}");
    assert_eq!(server.ask("GET", "/api/explain/access?user=guest&vhost=%2F&kind=table&name=x", GUEST).0, 400);
    let add = ["add", "alice", "--password", "one", "--tags", "management"];
    assert_eq!(run(hermod("users", dir.path()).args(add)).0, 0);
    let alice = "Authorization: Basic YWxpY2U6b25l\r\n";
    for (path, status) in [
        ("access?user=alice&vhost=%2F&kind=queue&name=orders", 200),
        ("access?user=guest&vhost=%2F&kind=queue&name=orders", 401),
        ("route?vhost=%2F&exchange=&routing_key=orders", 401),
        ("policies?vhost=%2F&queue=orders", 401),
        ("policy-preview?vhost=%2F&name=p&pattern=x&definition=%7B%22max-length%22%3A1%7D", 401),
    ] {
        assert_eq!(server.ask("GET", &format!("/api/explain/{path}"), alice).0, status, "{path}");
    }
}

#[test]
fn a_visitor_is_led_to_the_log_in_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut browser = Browser::new(&server);
    for (path, login) in [
        ("/", "/login"),
        ("/queues?name=a&page=2", "/login?to=%2Fqueues%3Fname%3Da%26page%3D2"),
        ("/users/guest", "/login?to=%2Fusers%2Fguest"),
    ] {
        let reply = browser.get(path);
        assert_eq!((reply.status, reply.header("location")), (303, login), "{path}");
    }
    let page = browser.page("/login?to=%2Fqueues");
    has(&page, &["User", "Password", "Log in", env!("CARGO_PKG_VERSION"), "Ready: clients are served.", "/metrics"]);
    has(&page, &["name=\"to\" value=\"/queues\""]);
    assert!(!browser.page("/login?to=https://evil.example").contains("evil"));

    let reply = browser.post("/login", &[("user", "guest"), ("password", "wrong"), ("to", "/queues")]);
    assert_eq!(reply.status, 403);
    has(&reply.body, &["User or password is wrong.", "value=\"guest\"", "name=\"to\" value=\"/queues\""]);
    assert!(!reply.body.contains("wrong\""), "a password is not shown again");
    assert_eq!((reply.header("www-authenticate"), reply.header("set-cookie")), ("", ""));

    let reply = browser.post("/login", &[("user", "guest"), ("password", "guest"), ("to", "/queues")]);
    assert_eq!((reply.status, reply.header("location")), (303, "/queues"));
    has(reply.header("set-cookie"), &["; Path=/; HttpOnly; SameSite=Strict; "]);
    for (path, words) in [
        ("/", ["Overview", "Log out"]),
        ("/connections", ["No clients are connected", "Log out"]),
        ("/queues", ["There are no queues here yet", "Declare queue"]),
        ("/exchanges", ["amq.topic", "Declare exchange"]),
        ("/policies", ["no operator policies", "Add policy"]),
        ("/users", ["guest", "Create user"]),
        ("/vhosts", ["Virtual hosts", "Create virtual host"]),
        ("/shovels", ["no shovels", "Set shovel"]),
    ] {
        let reply = browser.get(path);
        has(&reply.body, &words);
        has(&reply.body, &["<nav", "href=\"/queues\"", "href=\"/vhosts\""]);
        let policy = reply.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert!(!reply.body.contains("<style") && !reply.body.contains(" style="), "{path}");
    }
    assert_eq!(browser.get("/queues/%2F/none").status, 404);
    assert_eq!(run(hermod("alarms", dir.path()).args(["set", "memory"])).0, 0);
    has(&browser.page("/queues"), &["Low on memory:"]);
}

#[test]
fn a_session_is_the_browsers_that_logged_in_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    // A token that was planted is not taken over.
    let mut browser = Browser::new(&server);
    "hermod=planted".clone_into(&mut browser.cookie);
    assert_eq!(browser.get("/").status, 303);
    assert_eq!(browser.post("/login", &[("user", "guest"), ("password", "guest")]).status, 303);
    assert_ne!(browser.cookie, "hermod=planted");
    let first = browser.cookie.clone();
    assert_eq!(browser.post("/login", &[("user", "guest"), ("password", "guest")]).status, 303);
    assert_ne!(browser.cookie, first, "each log-in has a token of its own");

    let before = browser.cookie.clone();
    assert_eq!(browser.post("/logout", &[]).header("location"), "/login");
    before.clone_into(&mut browser.cookie);
    assert_eq!(browser.get("/").status, 303, "it is over on the server, too");

    let mut operator = Browser::of(&server, "guest", "guest");
    operator.done("/users", &[("name", "ada"), ("password", "one"), ("tags", "monitoring")]);
    for (path, field) in [("/users/ada/tags", ("tags", "management")), ("/users/ada/password", ("password", "two"))] {
        let password = "one";
        let ada = Browser::of(&server, "ada", password);
        assert_eq!(ada.get("/queues").status, 200);
        operator.done(path, &[field]);
        assert_eq!(ada.get("/queues").status, 303, "after {path}");
    }
    operator.done("/users/ada/tags", &[("tags", "")]);
    let reply = Browser::new(&server).post("/login", &[("user", "ada"), ("password", "two")]);
    assert_eq!(reply.status, 403);
    has(&reply.body, &["may not use the console"]);
}

#[test]
fn queues_are_declared_filled_looked_into_purged_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut browser = Browser::of(&server, "guest", "guest");
    let queue = [
        ("vhost", "/"),
        ("name", "orders"),
        ("type", "classic"),
        ("ttl", "60 000"),
        ("dead-letter-exchange", "dlx"),
        ("arguments", r#"{"x-max-priority": 5}"#),
    ];
    has(&browser.done("/queues", &queue), &["Queue 'orders' is declared.", "It is empty", "no consumers"]);
    let row: Value = json(&server, "/api/queues/%2F/orders", GUEST);
    let expected = serde_json::json!({ "x-message-ttl": 60_000, "x-dead-letter-exchange": "dlx", "x-max-priority": 5 });
    assert_eq!(row["arguments"], expected);

    // What is refused is shown again as it was written, with the reason.
    let reply = browser.post("/queues", &[("vhost", "/"), ("name", "orders"), ("type", "classic"), ("ttl", "7")]);
    assert_eq!(reply.status, 400);
    has(&reply.body, &["inequivalent arg", "value=\"orders\"", "value=\"7\"", "<details class=\"card\" open"]);
    let reply = browser.post("/queues", &[("vhost", "/"), ("name", "q"), ("arguments", "{")]);
    has(&reply.body, &["Arguments must be a JSON object"]);
    has(&browser.post("/queues", &[("vhost", "/"), ("name", " ")]).body, &["Name is empty."]);

    has(&browser.done("/exchanges", &[("vhost", "/"), ("name", "news"), ("type", "topic")]), &["'news' is declared"]);
    let bind = [("form", "bind"), ("source", "news"), ("routing_key", "eu.#")];
    has(&browser.done("/queues/%2F/orders/bind", &bind), &["bound to 'news'", "eu.#", "Unbind"]);
    let message = [
        ("form", "publish"),
        ("routing_key", "eu.new"),
        ("delivery_mode", "2"),
        ("payload", "hello\r\n<b>"),
        ("headers", r#"{"region": "eu"}"#),
    ];
    has(&browser.done("/exchanges/%2F/news/publish", &message), &["published and confirmed"]);
    let reply =
        browser.post("/exchanges/%2F/news/publish", &[("form", "publish"), ("routing_key", "us"), ("payload", "x")]);
    assert_eq!(reply.status, 400);
    has(&reply.body, &["reached no queue", "value=\"us\""]);
    browser.done("/queues/%2F/orders/publish", &[("form", "publish"), ("payload", "second"), ("delivery_mode", "1")]);

    has(
        &browser.page("/queues/%2F/orders"),
        &["It does not move: no consumers", "2 ready, the oldest published", "and no client consumes from it."],
    );
    has(&browser.page("/queues?name=ORD"), &["orders", "no consumers"]);
    has(&browser.page("/queues?name=none"), &["name contains 'none'"]);
    has(&browser.page("/"), &["1 queue does not move", "orders"]);
    let page = browser.page("/queues/%2F/orders/messages?count=5&selector=region+%3D+%27eu%27");
    has(&page, &["eu.new", "header region", "hello", "&lt;b&gt;"]);
    assert!(!page.contains("second"));
    has(&browser.page("/queues/%2F/orders/messages"), &["second"]);
    assert_eq!(browser.get("/queues/%2F/orders/messages?selector=region+is+what").status, 400);
    assert_eq!(json(&server, "/api/queues/%2F/orders", GUEST)["messages_ready"], 2, "browsing takes nothing");

    // A purge asks first; asking, or cancelling, does nothing.
    let asked = browser.page("/queues/%2F/orders/purge");
    has(&asked, &["Purge 2 ready messages", "Cancel", "href=\"/queues/%2F/orders\""]);
    assert_eq!(json(&server, "/api/queues/%2F/orders", GUEST)["messages_ready"], 2);
    has(&browser.done("/queues/%2F/orders/purge", &[]), &["Purged 2 messages"]);
    assert_eq!(json(&server, "/api/queues/%2F/orders", GUEST)["messages_ready"], 0);

    let unbind = [
        ("back", "/queues/%2F/orders"),
        ("vhost", "/"),
        ("source", "news"),
        ("destination", "orders"),
        ("destination_type", "queue"),
        ("routing_key", "eu.#"),
        ("arguments", ""),
    ];
    has(&browser.done("/bindings/delete", &unbind), &["no longer bound"]);
    has(&browser.page("/exchanges/%2F/news/delete"), &["Delete exchange", "0 bindings"]);
    has(&browser.done("/exchanges/%2F/news/delete", &[]), &["'news' is deleted"]);
    has(&browser.done("/queues/%2F/orders/delete", &[]), &["'orders' is deleted"]);
    assert_eq!(server.ask("GET", "/api/queues/%2F/orders", GUEST).0, 404);
}

/// Console and API compare with each other's readings of a queue. The console's once had no
/// lengths, and the API then told that a queue which grew did not.
#[test]
fn what_the_console_has_read_is_what_the_api_compares_with() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let browser = Browser::of(&server, "guest", "guest");
    let mut client = Stomp::connect(&server);
    client.publish("grows", "x");
    has(&browser.page("/queues"), &["grows"]);
    client.publish("grows", "x");
    let row = &json(&server, "/api/queues?name=grows", GUEST)[0];
    assert_eq!(row["messages"], 2);
    for rate in [&row["messages_details"]["rate"], &row["message_stats"]["publish_details"]["rate"]] {
        assert!(rate.as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn users_policies_vhosts_and_connections_are_managed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut browser = Browser::of(&server, "guest", "guest");
    browser.done("/vhosts", &[("name", "shop"), ("description", "orders"), ("tags", "a, b")]);
    has(&browser.page("/vhosts"), &["shop", "orders", "a, b"]);
    has(&browser.post("/vhosts", &[("name", "shop")]).body, &["There is a virtual host 'shop' already."]);

    has(
        &browser.done("/users", &[("name", "ada"), ("password", "secret"), ("tags", "management")]),
        &["no permissions"],
    );
    let rights = [("form", "permission"), ("vhost", "shop"), ("configure", "^ada"), ("write", ".*"), ("read", "")];
    has(&browser.done("/users/ada/permission", &rights), &["^ada", "Revoke"]);
    let wrong = [("form", "permission"), ("vhost", "shop"), ("configure", "("), ("write", ""), ("read", "")];
    let reply = browser.post("/users/ada/permission", &wrong);
    assert_eq!(reply.status, 400);
    has(&reply.body, &["value=\"(\""]);
    has(
        &browser.post("/users", &[("name", "bob"), ("password", ""), ("tags", "")]).body,
        &["Password is empty.", "bob"],
    );
    has(&browser.done("/users/ada/revoke", &[("vhost", "shop")]), &["may no longer enter"]);

    let policy = [
        ("vhost", "shop"),
        ("kind", ""),
        ("name", "short"),
        ("pattern", "^o"),
        ("apply-to", "queues"),
        ("priority", "3"),
        ("definition", r#"{"max-length": 10}"#),
    ];
    has(&browser.done("/policies", &policy), &["short", "max-length", "queues"]);
    has(&browser.page("/policies/delete?vhost=shop&name=short&kind="), &["Delete policy", "Cancel"]);
    let which = [("vhost", "shop"), ("name", "short"), ("kind", "")];
    has(&browser.done("/policies/delete", &which), &["no policies"]);

    let away =
        r#"{"src-uri": "amqp://u:veiled@192.0.2.1", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "q"}"#;
    let shovel = [("form", "add"), ("vhost", "shop"), ("name", "bring"), ("definition", away)];
    let mut page = browser.done("/shovels", &shovel);
    // Its thread says where it leads once it has read it.
    until("the shovel is read", || {
        page = browser.page("/shovels");
        page.contains("amqp://192.0.2.1:5672")
    });
    has(&page, &["bring", "shop"]);
    assert!(!page.contains("veiled"), "{page}");
    has(&browser.page("/shovels/clear?vhost=shop&name=bring"), &["Clear shovel", "Cancel"]);
    has(&browser.done("/shovels/clear", &[("vhost", "shop"), ("name", "bring")]), &["no shovels"]);

    let mut client = Stomp::connect(&server);
    client.publish("orders", "x");
    let page = browser.page("/connections");
    has(&page, &["guest", "STOMP", "running"]);
    let row: Value = json(&server, "/api/connections", GUEST);
    let name = row[0]["name"].as_str().unwrap().to_owned();
    let path = format!(
        "/connections/{}",
        form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
    );
    has(&browser.page(&path), &["Close connection", "Sessions"]);
    has(&browser.done(&format!("{path}/close"), &[("reason", "enough")]), &["is closed"]);
    assert!(client.is_closed() || client.frame_or_end().is_none_or(|frame| frame.contains("enough")));

    has(&browser.page("/users/ada/delete"), &["Delete user", "Cancel"]);
    browser.done("/users/ada/delete", &[]);
    assert_eq!(server.ask("GET", "/api/users/ada", GUEST).0, 404);
    has(&browser.page("/vhosts/shop/delete"), &["goes with 0 queues"]);
    browser.done("/vhosts/shop/delete", &[]);
    assert_eq!(server.ask("GET", "/api/vhosts/shop", GUEST).0, 404);
}

/// Every text that a client can choose is shown as text.
#[test]
fn recent_endings_say_who_ended_what_and_why_to_whom_it_concerns() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let guest = Browser::of(&server, "guest", "guest");
    has(&guest.page("/endings"), &["No connection that had logged in has ended since the start."]);
    assert_eq!(run(hermod("users", dir.path()).args(["add", "ada", "--password", "a", "--tags", "management"])).0, 0);
    let mut told = Stomp::connect(&server);
    let close = ["close", "--all", "--reason", "we move <house>"];
    assert_eq!(run(hermod("connections", dir.path()).args(close)).0, 0);
    assert!(told.frame().contains("we move"));
    drop(told);
    until("the first ending", || guest.page("/endings").contains("we move"));
    drop(Stomp::connect(&server));
    let mut page = String::new();
    until("both endings", || {
        page = guest.page("/endings");
        page.contains("we move &lt;house&gt;") && page.contains("the socket was closed without a close of its protocol")
    });
    has(&page, &["1–2 of 2", "guest in /", "stomp", "href=\"/docs/manual/how-disconnected.html\""]);
    assert_eq!(server.ask("GET", "/docs/manual/how-disconnected.html", "").0, 200);
    has(&guest.page("/connections"), &["href=\"/endings\""]);
    // The newest comes first, and a filter looks at all that a row says.
    assert!(page.find("the socket was closed") < page.find("we move"), "{page}");
    let found = guest.page("/endings?name=MOVE");
    assert!(found.contains("1–1 of 1") && !found.contains("the socket was closed"), "{found}");
    has(&guest.page("/endings?name=nothing"), &["No connection that ended lately has 'nothing'"]);

    let columns = ["ended", "--columns", "user,protocol,by,told", "--where", "by=protocol"];
    let (code, rows, _) = run(hermod("connections", dir.path()).args(columns));
    assert_eq!(code, 0);
    assert!(rows.starts_with("user\tprotocol\tby\ttold\nguest\tstomp\tprotocol\t"), "{rows}");
    assert!(rows.ends_with("we move <house>\n"), "{rows}");
    // Who does not see the connections of others does not see their ends.
    let ada = Browser::of(&server, "ada", "a");
    has(&ada.page("/endings"), &["No connection that had logged in has ended"]);
    let of_ada = json(&server, "/hermod/v1/endings", "Authorization: Basic YWRhOmE=\r\n");
    assert_eq!((&of_ada["total"], json(&server, "/hermod/v1/endings", GUEST)["total"].as_u64()), (&0.into(), Some(2)));
}

#[test]
fn nothing_that_a_client_chose_acts_in_a_page() {
    const EVIL: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>";
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut browser = Browser::of(&server, "guest", "guest");
    let json_of = |text: &str| serde_json::json!({ text: text }).to_string();
    let arguments = json_of(EVIL);
    for (path, fields) in [
        ("/queues", vec![("vhost", "/"), ("name", EVIL), ("type", "classic")]),
        ("/exchanges", vec![("vhost", "/"), ("name", EVIL), ("type", "headers")]),
        ("/users", vec![("name", "eve"), ("password", EVIL), ("tags", EVIL)]),
        ("/vhosts", vec![("name", "v"), ("description", EVIL), ("tags", EVIL)]),
    ] {
        browser.done(path, &fields);
    }
    let encoded: String = form_urlencoded::byte_serialize(EVIL.as_bytes()).collect::<String>().replace('+', "%20");
    let (queue, exchange) = (format!("/queues/%2F/{encoded}"), format!("/exchanges/%2F/{encoded}"));
    let bind = [("form", "bind"), ("source", EVIL), ("routing_key", EVIL), ("arguments", arguments.as_str())];
    browser.done(&format!("{queue}/bind"), &bind);
    let properties = serde_json::json!({ "message_id": EVIL, "content_type": EVIL }).to_string();
    let message =
        [("form", "publish"), ("payload", EVIL), ("headers", arguments.as_str()), ("properties", properties.as_str())];
    browser.done(&format!("{queue}/publish"), &message);
    let policy = [
        ("vhost", "/"),
        ("name", EVIL),
        ("pattern", "script"),
        ("apply-to", "queues"),
        ("definition", r#"{"max-length": 10}"#),
    ];
    browser.done("/policies", &policy);
    for path in [
        "/".to_owned(),
        "/queues".to_owned(),
        format!("/queues?name={encoded}"),
        queue.clone(),
        format!("{queue}/messages"),
        format!("{queue}/purge"),
        format!("{queue}/delete"),
        "/exchanges".to_owned(),
        exchange.clone(),
        format!("{exchange}/delete"),
        "/policies".to_owned(),
        format!("/policies/delete?vhost=%2F&name={encoded}&kind="),
        "/shovels".to_owned(),
        format!("/shovels/clear?vhost=%2F&name={encoded}"),
        "/users".to_owned(),
        "/users/eve".to_owned(),
        "/vhosts".to_owned(),
        format!("/queues/%2F/none{encoded}"),
        format!("/login?to=/{encoded}"),
    ] {
        let reply = browser.get(&path);
        let tags = reply.body.matches("<script").count();
        assert_eq!(tags, 1, "{path}: the console's own script alone: {}", reply.body);
        assert!(!reply.body.contains("<img src=x") && !reply.body.contains("onerror=alert(2)>\""), "{path}");
    }
    has(&browser.page(&format!("{queue}/messages")), &["&lt;script&gt;alert(1)"]);
}

#[test]
fn a_user_sees_and_does_what_its_tags_and_permissions_allow() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut operator = Browser::of(&server, "guest", "guest");
    operator.done("/vhosts", &[("name", "own")]);
    operator.done("/queues", &[("vhost", "/"), ("name", "secret"), ("type", "classic")]);
    operator.done("/queues", &[("vhost", "own"), ("name", "readable"), ("type", "classic")]);
    operator.done("/queues", &[("vhost", "own"), ("name", "other"), ("type", "classic")]);
    operator.done("/users", &[("name", "ada"), ("password", "a"), ("tags", "management")]);
    let rights = [("form", "permission"), ("vhost", "own"), ("configure", "^read"), ("write", ""), ("read", "^read")];
    operator.done("/users/ada/permission", &rights);

    let mut ada = Browser::of(&server, "ada", "a");
    let page = ada.page("/queues");
    has(&page, &["readable", "other"]);
    assert!(!page.contains("secret") && !ada.page("/").contains("secret"));
    assert!(!ada.page("/vhosts").contains("Create virtual host"));
    has(&ada.page("/users"), &["managed by administrators"]);
    // What is hidden and what is not there are answered alike.
    let hidden = ada.get("/queues/%2F/secret");
    assert_eq!((hidden.status, ada.get("/queues/%2F/absent").status), (404, 404));
    assert_eq!(hidden.body.replace("secret", "absent"), ada.get("/queues/%2F/absent").body);
    for (path, status) in [
        ("/queues/own/other/messages", 403),
        ("/queues/own/readable/messages", 200),
        ("/users/guest", 403),
        ("/users/guest/delete", 403),
        ("/vhosts/own/delete", 403),
        ("/policies/delete?vhost=own&name=p&kind=", 403),
        ("/shovels/clear?vhost=own&name=s", 403),
    ] {
        assert_eq!(ada.get(path).status, status, "{path}");
    }
    for (path, fields) in [
        ("/queues/%2F/secret/purge", &[][..]),
        ("/queues/%2F/secret/delete", &[]),
        ("/queues/own/other/delete", &[]),
        ("/queues/own/other/publish", &[("form", "publish"), ("payload", "x")]),
        ("/queues", &[("vhost", "/"), ("name", "readable"), ("type", "classic")]),
        ("/queues", &[("vhost", "own"), ("name", "not"), ("type", "classic")]),
        ("/users", &[("name", "eve"), ("password", "x"), ("tags", "administrator")]),
        ("/users/ada/tags", &[("tags", "administrator")]),
        ("/users/guest/password", &[("password", "x")]),
        ("/vhosts", &[("name", "w")]),
        ("/vhosts/own/delete", &[]),
        ("/policies", &[("vhost", "own"), ("name", "p"), ("pattern", "."), ("apply-to", "all"), ("definition", "{}")]),
        ("/shovels", &[("vhost", "own"), ("name", "s"), ("definition", "{}")]),
        ("/policies", &[("vhost", "own"), ("kind", "operator"), ("name", "p"), ("definition", "{}")]),
    ] {
        let reply = ada.post(path, fields);
        assert!(matches!(reply.status, 400 | 403 | 404), "{path} {fields:?}: {}", reply.status);
    }
    assert_eq!(json(&server, "/api/queues", GUEST).as_array().unwrap().len(), 3);
    assert_eq!(json(&server, "/api/users", GUEST).as_array().unwrap().len(), 2);
    ada.done("/queues", &[("vhost", "own"), ("name", "reader"), ("type", "classic")]);
}

#[test]
fn another_sites_page_can_send_no_form_and_show_no_page() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut browser = Browser::of(&server, "guest", "guest");
    browser.done("/queues", &[("vhost", "/"), ("name", "q"), ("type", "classic")]);
    for foreign in
        ["Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"]
    {
        for path in ["/queues/%2F/q/delete", "/logout", "/login", "/theme"] {
            let headers = format!("Cookie: {}\r\n{FORM}{foreign}\r\n", browser.cookie);
            let reply = server.send("POST", path, &headers, "user=guest&password=guest");
            assert_eq!((reply.status, reply.header("set-cookie")), (403, ""), "{path} {foreign}");
        }
    }
    assert_eq!(server.ask("GET", "/api/queues/%2F/q", GUEST).0, 200);
    has(browser.get("/").header("content-security-policy"), &["frame-ancestors 'none'", "form-action 'self'"]);
    // A session opens the API too, and no other site's page acts with it there.
    let session = format!("Cookie: {}\r\n", browser.cookie);
    assert_eq!(server.send("GET", "/api/whoami", &session, "").status, 200);
    let foreign = format!("{session}Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(server.send("DELETE", "/api/queues/%2F/q", &foreign, "").status, 403);

    // Forms alone, and a stranger's are short.
    let json = format!("Cookie: {}\r\nContent-Type: application/json\r\n", browser.cookie);
    assert_eq!(server.send("POST", "/queues", &json, "{}").status, 415);
    let long = format!("user=guest&password={}", "x".repeat(10_000));
    assert_eq!(server.send("POST", "/login", FORM, &long).status, 413);
    assert_eq!(server.send("POST", "/queues/%2F/q/delete", FORM, "").header("location"), "/login");
    assert_eq!(server.ask("GET", "/api/queues/%2F/q", GUEST).0, 200);
}

#[test]
fn the_style_and_the_script_are_kept_by_their_contents() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let page = Browser::new(&server).page("/login");
    for (begins, kind) in [
        ("/console/style.css?v=", "text/css; charset=utf-8"),
        ("/console/console.js?v=", "text/javascript; charset=utf-8"),
    ] {
        let from = page.find(begins).unwrap_or_else(|| panic!("{begins} is missing in {page}"));
        let path = page[from..].split('"').next().unwrap();
        let reply = server.send("GET", path, "", "");
        assert_eq!((reply.status, reply.header("content-type")), (200, kind));
        has(reply.header("cache-control"), &["immutable"]);
    }
}
