//! What clients and tools of RabbitMQ look for among its feature flags.

/// What Hermod has.
const FEATURES: [(&str, &str); 2] = [
    ("quorum_queue", "Queues of the type quorum"),
    ("user_limits", "Limits on the connections and channels of a user"),
];
/// What clients of RabbitMQ refuse to start without, and need nothing of: each of its releases has
/// it enabled. Who declares a stream is refused.
const INSISTED_ON: (&str, &str) = ("stream_queue", "Queues of the type stream; Hermod refuses to declare them");

/// Names and meanings of the flags that a broker shows which announces itself as `product`. All of
/// them are enabled.
pub fn feature_flags(product: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FEATURES.into_iter().chain((product == "RabbitMQ").then_some(INSISTED_ON))
}
