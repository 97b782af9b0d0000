//! Prints the news that come while it runs.

use futures_lite::StreamExt;
use lapin::{Connection, ConnectionProperties, ExchangeKind, options::*, types::FieldTable};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel.exchange_declare("news".into(), ExchangeKind::Fanout, options, FieldTable::default()).await?;
    let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
    let queue = channel.queue_declare("".into(), options, FieldTable::default()).await?; // the broker picks the name
    let queue = queue.name().clone();
    channel
        .queue_bind(queue.clone(), "news".into(), "".into(), QueueBindOptions::default(), FieldTable::default())
        .await?;
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let mut messages = channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
    println!("waiting, Ctrl-C ends it");
    while let Some(message) = messages.next().await {
        println!("received: {}", String::from_utf8_lossy(&message?.data));
    }
    Ok(())
}
