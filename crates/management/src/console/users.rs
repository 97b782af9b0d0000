//! Users and their permissions, for administrators.

use std::sync::Arc;

use auth::{Permission, User};
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use maud::{Markup, html};

use super::form::Fields;
use super::frame::{Notice, Part, View};
use super::parts::{Column, Form, ask, facts, table, top_place};
use super::trouble::{Shown, Trouble};
use super::visitor::Visitor;
use super::{figure, seen};
use crate::api;
use crate::change::Changes;
use crate::resources::{PermissionChange, Secret, UserChange};
use crate::source::Source;

type Shared = State<Arc<Source>>;
type Named = Path<String>;

pub(super) fn router() -> Router<Arc<Source>> {
    Router::new()
        .route("/users", get(list).post(create))
        .route("/users/{name}", get(show))
        .route("/users/{name}/permission", post(permit))
        .route("/users/{name}/revoke", post(revoke))
        .route("/users/{name}/password", post(change_password))
        .route("/users/{name}/tags", post(change_tags))
        .route("/users/{name}/roles", post(change_roles))
        .route("/users/{name}/delete", get(ask_delete).post(delete))
}

async fn list(visitor: Visitor, State(source): Shared) -> Shown {
    page(&visitor, &source, &Fields::default(), Notice::None).await
}

async fn page(visitor: &Visitor, source: &Arc<Source>, sent: &Fields, notice: Notice) -> Shown {
    if !visitor.asker.is_administrator() {
        let body = html! {
            p .hint { "Users are managed by administrators. You are '" (visitor.asker.user()) "', with the tags "
                (tags(visitor.asker.identity().tags().iter())) "." }
        };
        return Ok(View::new(Part::Users, "Users", body).show(visitor, source));
    }
    let users = source.broker.authority().users();
    let columns = [
        Column::text("Name"),
        Column::text("Tags"),
        Column::text("Virtual hosts"),
        Column::text("Password"),
        Column::number("Memory held"),
    ];
    let rows: Vec<Vec<Markup>> = users.iter().map(|user| row(source, user)).collect();
    let body = html! {
        (table("users", &columns, &rows, html! { "no users" }))
        (creation(sent))
    };
    Ok(View::new(Part::Users, "Users", body).with(notice).show(visitor, source))
}

fn tags<'a>(tags: impl Iterator<Item = &'a str>) -> String {
    let tags: Vec<&str> = tags.collect();
    if tags.is_empty() { "none".to_owned() } else { tags.join(", ") }
}

fn row(source: &Source, user: &User) -> Vec<Markup> {
    let vhosts: Vec<&str> = user.permissions.keys().map(|vhost| &**vhost).collect();
    vec![
        html! { a href=(top_place("users", &user.name)) { (user.name) } },
        html! { (tags(user.tags.iter())) },
        html! { (if vhosts.is_empty() { "none".to_owned() } else { vhosts.join(", ") }) },
        html! { (if user.password.is_some() { "yes" } else { "none" }) },
        figure::bytes(source.broker.user_held_bytes(&user.name)),
    ]
}

const TAGS: &str = "separated by commas: administrator, monitoring, policymaker, management";

fn creation(sent: &Fields) -> Markup {
    let form = Form::of("create", sent);
    let fields = html! {
        (form.field("name", "Name", "text", ""))
        (form.field("password", "Password", "password", ""))
        (form.field("tags", "Tags", "text", TAGS))
    };
    form.folded("Create a user", "/users", fields, "Create user")
}

async fn create(visitor: Visitor, State(source): Shared, fields: Fields) -> Shown {
    visitor.asker.administers()?;
    match created(&visitor, &source, &fields).await {
        Ok(done) => Ok(done),
        Err(trouble) => page(&visitor, &source, &fields, Notice::Refused(trouble.text)).await,
    }
}

async fn created(visitor: &Visitor, source: &Arc<Source>, fields: &Fields) -> Result<Response, Trouble> {
    let name = fields.needed("name", "Name")?.to_owned();
    let change = UserChange::Add { name: name.clone(), secret: password(fields)?, tags: list_of(fields) };
    api::make(source, &visitor.asker, change).await?;
    let line = format!("User '{name}' is created. It may enter a virtual host once it has permissions there.");
    Ok(visitor.done(source, line, &top_place("users", &name)))
}

fn password(fields: &Fields) -> Result<Secret, String> {
    match fields.text("password") {
        "" => Err("Password is empty.".to_owned()),
        password => Ok(Secret::Password(password.to_owned())),
    }
}

fn list_of(fields: &Fields) -> Vec<String> {
    let tags = fields.text("tags").split([',', ' ']).map(str::trim).filter(|tag| !tag.is_empty());
    tags.map(str::to_owned).collect()
}

async fn show(visitor: Visitor, State(source): Shared, Path(name): Named) -> Shown {
    one(&visitor, &source, &name, &Fields::default(), Notice::None).await
}

async fn one(visitor: &Visitor, source: &Arc<Source>, name: &str, sent: &Fields, notice: Notice) -> Shown {
    visitor.asker.administers()?;
    let user = source.broker.authority().user(name).ok_or_else(|| Trouble::missing("user", name))?;
    let here = top_place("users", name);
    let vhosts = seen::vhosts(&visitor.asker, source);
    let limit = |limit: Option<u32>| html! { @if let Some(limit) = limit { (limit) } @else { "none" } };
    let known = user.tags.iter().collect::<Vec<_>>().join(", ");
    let body = html! {
        (facts(&[
            ("Tags", html! { (tags(user.tags.iter())) }),
            ("Roles", html! { (tags(user.roles.iter().map(|role| &**role))) }),
            ("Password", html! { (if user.password.is_some() { "yes" } else { "none: it can't log in by password" }) }),
            ("Most connections", limit(user.limits.connections)),
            ("Most sessions", limit(user.limits.sessions)),
            ("Memory held", figure::bytes(source.broker.user_held_bytes(name))),
        ]))
        h2 { "Permissions" }
        (permissions(&user, &here))
        (permission(&here, &vhosts, sent))
        h2 { "Log-in" }
        (new_password(&here))
        (new_tags(&here, &known))
        (new_roles(&here, &user.roles.iter().map(|role| &**role).collect::<Vec<_>>().join(", ")))
        p .buttons {
            a .button href={ (here) "/explain" } { "Explain access…" }
            a .button href={ (here) "/delete" } { "Delete user…" }
        }
    };
    let page = View::new(Part::Users, name, body).below("Users", "/users");
    Ok(page.with(notice).show(visitor, source))
}

fn permissions(user: &User, path: &str) -> Markup {
    let columns = [
        Column::text("Virtual host"),
        Column::text("Configure"),
        Column::text("Write"),
        Column::text("Read"),
        Column::text("Action"),
    ];
    let row = |vhost: &str, permission: &Permission| {
        vec![
            html! { (vhost) },
            html! { code { (permission.configure.as_str()) } },
            html! { code { (permission.write.as_str()) } },
            html! { code { (permission.read.as_str()) } },
            html! {
                form method="post" action={ (path) "/revoke" } {
                    input type="hidden" name="vhost" value=(vhost);
                    button .small aria-label={ "Revoke permissions in " (vhost) } { "Revoke" }
                }
            },
        ]
    };
    let rows: Vec<Vec<Markup>> = user.permissions.iter().map(|(vhost, permission)| row(vhost, permission)).collect();
    table("permissions", &columns, &rows, html! { "no permissions: it can't enter any virtual host" })
}

fn permission(path: &str, vhosts: &[String], sent: &Fields) -> Markup {
    let form = Form::of("permission", sent).with(&[("configure", ".*"), ("write", ".*"), ("read", ".*")]);
    let fields = html! {
        (form.vhosts(vhosts))
        (form.field("configure", "Configure", "text", "names that it may declare and delete"))
        (form.field("write", "Write", "text", "names that it may write messages to"))
        (form.field("read", "Read", "text", "names that it may read messages from"))
        p .field.wide.hint {
            "Each is a regular expression that is looked for in names. Empty is none; " code { ".*" } " is all."
        }
    };
    form.folded("Set permissions in a virtual host", &format!("{path}/permission"), fields, "Set permissions")
}

fn new_password(path: &str) -> Markup {
    let form = Form::of("password", &Fields::default());
    let fields = form.field("password", "Password", "password", "");
    form.folded("Change the password", &format!("{path}/password"), fields, "Change password")
}

fn new_tags(path: &str, known: &str) -> Markup {
    let form = Form::of("tags", &Fields::default()).with(&[("tags", known)]);
    form.folded("Change the tags", &format!("{path}/tags"), form.field("tags", "Tags", "text", TAGS), "Change tags")
}

fn new_roles(path: &str, known: &str) -> Markup {
    let form = Form::of("roles", &Fields::default()).with(&[("roles", known)]);
    let field = form.field("roles", "Roles", "text", "users whose permissions it has, too, separated by commas");
    form.folded("Change the roles", &format!("{path}/roles"), field, "Change roles")
}

/// Makes a change of a user and leads back to its page. `made` is the change and the line that
/// tells of it, or what is wrong with the form.
async fn change<C: Changes + Send + 'static>(
    visitor: &Visitor,
    source: &Arc<Source>,
    name: &str,
    fields: &Fields,
    made: Result<(C, String), String>,
) -> Shown {
    visitor.asker.administers()?;
    let done = async {
        let (change, line) = made?;
        api::make(source, &visitor.asker, change).await?;
        Ok::<Response, Trouble>(visitor.done(source, line, &top_place("users", name)))
    };
    match done.await {
        Ok(done) => Ok(done),
        Err(trouble) => one(visitor, source, name, fields, Notice::Refused(trouble.text)).await,
    }
}

async fn permit(visitor: Visitor, State(source): Shared, Path(name): Named, fields: Fields) -> Shown {
    let [vhost, configure, write, read] =
        ["vhost", "configure", "write", "read"].map(|field| fields.text(field).to_owned());
    let line = format!("The permissions of '{name}' in virtual host '{vhost}' are set.");
    let made = PermissionChange::Set { user: name.clone(), vhost, configure, write, read };
    change(&visitor, &source, &name, &fields, Ok((made, line))).await
}

async fn revoke(visitor: Visitor, State(source): Shared, Path(name): Named, fields: Fields) -> Shown {
    let vhost = fields.text("vhost").to_owned();
    let line = format!("'{name}' may no longer enter virtual host '{vhost}'.");
    let made = PermissionChange::Clear { user: name.clone(), vhost };
    change(&visitor, &source, &name, &fields, Ok((made, line))).await
}

async fn change_password(visitor: Visitor, State(source): Shared, Path(name): Named, fields: Fields) -> Shown {
    let line = format!("The password of '{name}' is changed. Its sessions of this console are over.");
    let made = password(&fields).map(|secret| (UserChange::ChangePassword { name: name.clone(), secret }, line));
    change(&visitor, &source, &name, &fields, made).await
}

async fn change_tags(visitor: Visitor, State(source): Shared, Path(name): Named, fields: Fields) -> Shown {
    let made = UserChange::SetTags { name: name.clone(), tags: list_of(&fields) };
    change(&visitor, &source, &name, &fields, Ok((made, format!("The tags of '{name}' are changed.")))).await
}

async fn change_roles(visitor: Visitor, State(source): Shared, Path(name): Named, fields: Fields) -> Shown {
    let roles = fields.text("roles").split(',').map(str::trim).filter(|role| !role.is_empty());
    let made = UserChange::SetRoles { name: name.clone(), roles: roles.map(str::to_owned).collect() };
    change(&visitor, &source, &name, &fields, Ok((made, format!("The roles of '{name}' are changed.")))).await
}

async fn ask_delete(visitor: Visitor, State(source): Shared, Path(name): Named) -> Shown {
    visitor.asker.administers()?;
    source.broker.authority().user(&name).ok_or_else(|| Trouble::missing("user", &name))?;
    let here = top_place("users", &name);
    let question = format!("User '{name}' goes with its permissions, and its connections are closed.");
    let body = ask(&format!("{here}/delete"), &question, "Delete user", &here, &[]);
    let page = View::new(Part::Users, "Delete user", body).below("Users", "/users").below(name, here);
    Ok(page.show(&visitor, &source))
}

async fn delete(visitor: Visitor, State(source): Shared, Path(name): Named) -> Shown {
    visitor.asker.administers()?;
    let line = format!("User '{name}' is deleted.");
    api::make(&source, &visitor.asker, UserChange::Delete { name }).await?;
    Ok(visitor.done(&source, line, "/users"))
}
