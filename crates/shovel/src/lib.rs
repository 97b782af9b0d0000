//! Shovels: messages taken from a queue of one broker, and given to another one or to the same.
//!
//! A [`Spec`] says from where to where. [`run`] carries it out: it takes messages in order, gives
//! them on in that order, and acknowledges those that the destination has confirmed, and no other.
//! So after a crash of either side messages may come twice, and none is lost. Both ends are reached
//! as a client reaches them, by AMQP 0-9-1 or 1.0; nothing here knows the broker that it runs in.
//! Where the ends speak different protocols, messages are translated by what its user hands in.

mod annotations;
mod carry;
mod definition;
mod destination;
mod dial;
mod headers;
mod peer;
mod progress;
mod run;
mod source;
mod spec;
mod status;
mod translate;
mod uri;
mod window;

pub use definition::{About, parse, without_secrets};
pub use dial::{Dial, Dialing, Network, Reach, Stream};
pub use progress::Order;
pub use run::{Ended, Job, run};
pub use spec::{
    AckMode, Destination, Extent, GiveTo, Missing, Overrides, Protocol, Queue, Source, Spec, TakeFrom, TextProperty,
    Timestamp,
};
pub use status::{Figures, State, Status};
pub use translate::{Translate, Translated};
pub use uri::{BadUri, Uri};
