//! The server side as its clients see it.

mod attacks;
mod cases;
mod connecting;
mod messages;
mod quality_0;
mod quality_2;
mod retained;
mod rights;
mod scene;
mod sessions;
mod sharing;
mod sys;
mod wills;
