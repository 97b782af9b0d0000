//! Prints the alerts whose routing keys match one of its patterns.

use futures_lite::StreamExt;
use lapin::{Connection, ConnectionProperties, ExchangeKind, options::*, types::FieldTable};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel.exchange_declare("alerts".into(), ExchangeKind::Topic, options, FieldTable::default()).await?;
    let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
    let queue = channel.queue_declare("".into(), options, FieldTable::default()).await?;
    let queue = queue.name().clone();
    for pattern in std::env::args().skip(1) {
        let options = QueueBindOptions::default();
        channel.queue_bind(queue.clone(), "alerts".into(), pattern.into(), options, FieldTable::default()).await?;
    }
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut messages = channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
    println!("waiting, Ctrl-C ends it");
    while let Some(message) = messages.next().await {
        let message = message?;
        println!("received {}: {}", message.routing_key, String::from_utf8_lossy(&message.data));
    }
    Ok(())
}
