//! Answers each number with its square.

use futures_lite::StreamExt;
use lapin::{BasicProperties, Connection, ConnectionProperties, options::*, types::FieldTable};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("square".into(), durable, FieldTable::default()).await?;
    channel.basic_qos(1, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut messages = channel.basic_consume("square".into(), "".into(), options, FieldTable::default()).await?;
    println!("waiting, Ctrl-C ends it");
    while let Some(message) = messages.next().await {
        let message = message?;
        let number: i64 = std::str::from_utf8(&message.data)?.parse()?;
        let asked = &message.properties;
        let reply_to = asked.reply_to().clone().ok_or("no reply_to")?;
        let id = asked.correlation_id().clone().ok_or("no correlation_id")?;
        let reply = BasicProperties::default().with_correlation_id(id);
        let body = (number * number).to_string();
        channel.basic_publish("".into(), reply_to, BasicPublishOptions::default(), body.as_bytes(), reply).await?;
        message.ack(BasicAckOptions::default()).await?;
        println!("answered: {number}");
    }
    Ok(())
}
