//! The web console: pages that a browser shows to an operator, at `/` of the HTTP port.
//!
//! Every page is an HTML document that the server writes, and works as plain links and forms. A
//! small script refreshes figures, and filters lists as their filter is typed; nothing needs it.
//! What a page shows and does is what its user may see and do, by the same functions as the API's.
//! The policy of each page lets a browser load the console's own style and script only,
//! so that no name or message that a client chose can act in an operator's name.

mod about;
mod assets;
mod bindings;
mod chart;
mod connections;
mod consumers;
mod elsewhere;
mod exchanges;
mod explained;
mod figure;
mod form;
mod frame;
mod keeping;
mod limits;
mod log;
mod login;
mod messages;
mod node;
mod overview;
mod parts;
mod policies;
mod queue;
mod queues;
mod reading;
mod seen;
mod sessions;
mod shovels;
pub(crate) mod standby;
mod subscriptions;
mod tasks;
mod trouble;
mod users;
mod vhosts;
mod visitor;

use std::sync::Arc;

use axum::Router;

use crate::source::Source;
pub(crate) use assets::router as assets;

/// All pages.
pub(crate) fn router() -> Router<Arc<Source>> {
    Router::new()
        .merge(assets())
        .merge(login::router())
        .merge(elsewhere::router())
        .merge(overview::router())
        .merge(connections::router())
        .merge(consumers::router())
        .merge(queues::router())
        .merge(queue::router())
        .merge(exchanges::router())
        .merge(explained::router())
        .merge(policies::router())
        .merge(shovels::router())
        .merge(subscriptions::router())
        .merge(tasks::router())
        .merge(users::router())
        .merge(vhosts::router())
        .merge(sessions::router())
        .merge(limits::router())
        .merge(node::router())
        .merge(log::router())
        .merge(about::router())
}
