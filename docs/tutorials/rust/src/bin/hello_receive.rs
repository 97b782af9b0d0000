//! Prints each message of the queue `hello`.

use futures_lite::StreamExt;
use lapin::{Connection, ConnectionProperties, options::*, types::FieldTable};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("hello".into(), durable, FieldTable::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut messages = channel.basic_consume("hello".into(), "".into(), options, FieldTable::default()).await?;
    println!("waiting, Ctrl-C ends it");
    while let Some(message) = messages.next().await {
        let message = message?;
        println!("received: {}", String::from_utf8_lossy(&message.data));
        message.ack(BasicAckOptions::default()).await?;
    }
    Ok(())
}
