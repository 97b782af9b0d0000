//! Sends one message to the queue `hello`.

use lapin::{BasicProperties, Confirmation, Connection, ConnectionProperties, options::*, types::FieldTable};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("hello".into(), durable, FieldTable::default()).await?;
    let properties = BasicProperties::default().with_delivery_mode(2); // persistent
    let options = BasicPublishOptions::default();
    let sent = channel.basic_publish("".into(), "hello".into(), options, b"Hello, world", properties).await?;
    match sent.await? {
        // waits until the broker has stored the message
        Confirmation::Ack(_) => {}
        refused => return Err(format!("{refused:?}").into()),
    }
    println!("sent: Hello, world");
    connection.close(200, "done".into()).await?;
    Ok(())
}
