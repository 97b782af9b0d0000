//! Sends an alert with a routing key.

use lapin::{
    BasicProperties, Confirmation, Connection, ConnectionProperties, ExchangeKind, options::*, types::FieldTable,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("AMQP_URL").unwrap_or("amqp://guest:guest@localhost:5672/%2f".into());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let mut arguments = std::env::args().skip(1);
    let key = arguments.next().ok_or("what is the routing key?")?;
    let text = arguments.next().ok_or("what is the text?")?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel.exchange_declare("alerts".into(), ExchangeKind::Topic, options, FieldTable::default()).await?;
    let properties = BasicProperties::default();
    let options = BasicPublishOptions::default();
    let sent =
        channel.basic_publish("alerts".into(), key.as_str().into(), options, text.as_bytes(), properties).await?;
    match sent.await? {
        Confirmation::Ack(_) => {}
        refused => return Err(format!("{refused:?}").into()),
    }
    println!("sent to {key}: {text}");
    connection.close(200, "done".into()).await?;
    Ok(())
}
