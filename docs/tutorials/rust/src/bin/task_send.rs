//! Sends a task to the queue `tasks`.

use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties, options::*, types::FieldTable};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let task = std::env::args().nth(1).ok_or("what is the task?")?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("tasks".into(), durable, FieldTable::default()).await?;
    let properties = BasicProperties::default().with_delivery_mode(2); // persistent
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish("".into(), "tasks".into(), options, task.as_bytes(), properties).await?;
    match sent.await? {
        Confirmation::Ack(_) => {}
        refused => return Err(format!("{refused:?}").into()),
    }
    println!("sent: {task}");
    connection.close(200, "done".into()).await?;
    Ok(())
}
