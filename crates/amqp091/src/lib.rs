//! amqp091
