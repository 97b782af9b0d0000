//! Works on the tasks of the queue `tasks`, one after the other.

use std::time::Duration;

use futures_lite::StreamExt;
use lapin::{Connection, ConnectionProperties, options::*, types::FieldTable};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("tasks".into(), durable, FieldTable::default()).await?;
    channel.basic_qos(1, BasicQosOptions::default()).await?; // one task at a time
    let options = BasicConsumeOptions::default();
    let mut messages = channel.basic_consume("tasks".into(), "".into(), options, FieldTable::default()).await?;
    println!("waiting, Ctrl-C ends it");
    while let Some(message) = messages.next().await {
        let message = message?;
        let task = String::from_utf8_lossy(&message.data);
        println!("started: {task}");
        let dots = task.matches('.').count() as u64;
        tokio::time::sleep(Duration::from_secs(dots)).await; // stands for real work: a second for each dot
        println!("done: {task}");
        message.ack(BasicAckOptions::default()).await?; // only now is the task off the queue
    }
    Ok(())
}
