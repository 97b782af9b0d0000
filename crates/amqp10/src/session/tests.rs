//! Conversations with a broker in memory, frame by frame. Each step sends something and expects
//! exactly the frames that follow, in order.

mod chaos;
mod links;
mod management;
mod opening;
mod public_cases;
mod publishing;
mod receiving;
mod resumption;
mod scene;
mod sessions;
mod subscriptions;
mod transactions;
