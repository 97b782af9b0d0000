//! The real program, started on free ports with a data directory of its own, and tested from
//! outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a failed test")]
#![cfg(unix)]

mod administration;
mod amqp10;
mod any;
mod api;
mod attacks;
mod backup;
mod console;
mod control;
mod convert;
mod damage;
mod definitions;
mod direct_consumers;
mod durability;
mod http;
mod listeners;
mod manual;
mod matrix;
mod memory;
mod migration;
mod native;
#[cfg(target_os = "linux")]
mod notify;
mod oauth2;
mod rabbitmqctl;
mod refusals;
mod reload;
mod remote;
mod roles;
mod scrub;
mod server;
mod service;
mod shovels;
mod shutdown;
mod sign_on;
mod standby;
mod stomp;
mod tls;
mod trial;
mod upgrade;
mod web_mqtt;
mod web_stomp;
