//! Asks for the square of a number.

use std::time::Duration;

use futures_lite::StreamExt;
use lapin::{BasicProperties, Connection, ConnectionProperties, options::*, types::FieldTable};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let number = std::env::args().nth(1).ok_or("what is the number?")?;
    // First listen for replies on this channel, then ask.
    let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let reply_to = "amq.rabbitmq.reply-to";
    let mut replies = channel.basic_consume(reply_to.into(), "".into(), options, FieldTable::default()).await?;
    let id = std::process::id().to_string();
    let question = BasicProperties::default()
        .with_reply_to(reply_to.into())
        .with_correlation_id(id.as_str().into())
        .with_expiration("5000".into());
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), "square".into(), options, number.as_bytes(), question).await?;
    let five_seconds = Duration::from_secs(5);
    while let Some(reply) = tokio::time::timeout(five_seconds, replies.next()).await? {
        let reply = reply?;
        if reply.properties.correlation_id().as_ref().is_some_and(|other| other.as_str() == id) {
            println!("{number} squared is {}", String::from_utf8_lossy(&reply.data));
            break;
        }
    }
    connection.close(200, "done".into()).await?;
    Ok(())
}
