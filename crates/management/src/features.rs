//! The feature flags that clients and tools of RabbitMQ look for.

/// Flags of features that Hermod has.
const FEATURES: [(&str, &str); 2] = [
    ("quorum_queue", "Queues of the type quorum"),
    ("user_limits", "Limits on the connections and channels of a user"),
];
/// Some clients of RabbitMQ refuse to start without this flag, because each of its releases has it
/// enabled. They need nothing of the feature. A declaration of a stream is refused.
const INSISTED_ON: (&str, &str) = ("stream_queue", "Queues of the type stream; Hermod refuses to declare them");

/// Names and meanings of the flags that a broker shows if it announces itself as `product`. All of
/// them are enabled.
pub fn feature_flags(product: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    FEATURES.into_iter().chain((product == "RabbitMQ").then_some(INSISTED_ON))
}
