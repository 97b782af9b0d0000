//! Works on orders; those that fail come back, and at last are dead letters.

use futures_lite::StreamExt;
use lapin::{Connection, ConnectionProperties, options::*, types::AMQPValue, types::FieldTable};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("orders.dead".into(), durable, FieldTable::default()).await?;
    let mut arguments = FieldTable::default();
    let text = |text: &str| AMQPValue::LongString(text.into());
    arguments.insert("x-delayed-retry-type".into(), text("all")); // a failed order comes back
    arguments.insert("x-delayed-retry-min".into(), AMQPValue::LongInt(1000)); // after a second
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(3)); // three times; then it dies
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text("orders.dead"));
    channel.queue_declare("orders".into(), durable, arguments).await?;
    channel.basic_qos(1, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut messages = channel.basic_consume("orders".into(), "".into(), options, FieldTable::default()).await?;
    println!("waiting, Ctrl-C ends it");
    while let Some(message) = messages.next().await {
        let message = message?;
        let order = String::from_utf8_lossy(&message.data);
        if order.contains("broken") {
            println!("failed: {order}");
            message.reject(BasicRejectOptions { requeue: true }).await?; // again in a second
        } else {
            println!("done: {order}");
            message.ack(BasicAckOptions::default()).await?;
        }
    }
    Ok(())
}
