//! The RabbitMQ tutorials' patterns with lapin, each as a function that asserts what it gets.
//!
//! The program panics where an assertion fails, so its exit status is the verdict.

use std::future::Future;
use std::time::Duration;

use futures_lite::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ExchangeKind};

const WAIT: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_millis(300);
const STORED: &str = "interop.lapin.stored";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(run(&std::env::args().nth(1).unwrap_or_default()))
}

async fn run(phase: &str) -> Result<(), Failure> {
    let connection = Connection::connect(&std::env::var("AMQP_URL")?, ConnectionProperties::default()).await?;
    match phase {
        "patterns" => {
            step("work_queue", work_queue(&connection)).await?;
            step("publish_subscribe", publish_subscribe(&connection)).await?;
            step("routing", routing(&connection)).await?;
            step("topics", topics(&connection)).await?;
            step("rpc", rpc(&connection)).await?;
            step("confirms", confirms(&connection)).await?;
            step("refusals", refusals(&connection)).await?;
        }
        "extensions" => step("direct_reply_to", direct_reply_to(&connection)).await?,
        "store" => step("store", store(&connection)).await?,
        "fetch" => step("fetch", fetch(&connection)).await?,
        other => return Err(format!("no such phase: {other:?}").into()),
    }
    connection.close(200, "done".into()).await?;
    Ok(())
}

async fn step(name: &str, work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    match tokio::time::timeout(3 * WAIT, work).await {
        Ok(Ok(())) => println!("ok {name}"),
        Ok(Err(error)) => return Err(format!("{name}: {error}").into()),
        Err(_) => return Err(format!("{name}: nothing happened for {:?}", 3 * WAIT).into()),
    }
    Ok(())
}

fn unique(name: &str) -> String {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("interop.lapin.{name}.{}", time.as_nanos())
}

async fn own(channel: &Channel) -> Result<ShortString, Failure> {
    let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
    Ok(channel.queue_declare("".into(), options, FieldTable::default()).await?.name().clone())
}

async fn send(channel: &Channel, exchange: &str, key: &str, body: &str) -> Result<(), Failure> {
    let options = BasicPublishOptions::default();
    channel.basic_publish(exchange.into(), key.into(), options, body.as_bytes(), BasicProperties::default()).await?;
    Ok(())
}

/// Options of a consumer whose deliveries need no acknowledgement.
fn no_ack() -> BasicConsumeOptions {
    BasicConsumeOptions { no_ack: true, ..Default::default() }
}

async fn consume(channel: &Channel, queue: &str, options: BasicConsumeOptions) -> Result<Consumer, Failure> {
    Ok(channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await?)
}

/// The bodies that a queue delivers until it has been quiet for a while.
async fn take(channel: &Channel, queue: &str) -> Result<Vec<String>, Failure> {
    let mut consumer = consume(channel, queue, no_ack()).await?;
    let mut bodies = Vec::new();
    while let Ok(Some(delivery)) = tokio::time::timeout(QUIET, consumer.next()).await {
        bodies.push(String::from_utf8(delivery?.data)?);
    }
    Ok(bodies)
}

/// A worker with a prefetch of one gets one task, and the next only after its acknowledgement.
async fn work_queue(connection: &Connection) -> Result<(), Failure> {
    let channel = connection.create_channel().await?;
    let queue = own(&channel).await?;
    channel.basic_qos(1, BasicQosOptions::default()).await?;
    for number in 0..10 {
        send(&channel, "", queue.as_str(), &format!("task {number}")).await?;
    }
    let mut worker = consume(&channel, queue.as_str(), BasicConsumeOptions::default()).await?;
    for number in 0..10 {
        let delivery = worker.next().await.ok_or("the consumer ended")??;
        assert_eq!(delivery.data, format!("task {number}").into_bytes());
        let early = tokio::time::timeout(QUIET / 10, worker.next()).await;
        assert!(early.is_err(), "a second task came before the first was acknowledged");
        delivery.ack(BasicAckOptions::default()).await?;
    }
    channel.basic_cancel(worker.tag(), BasicCancelOptions::default()).await?;

    // What a closing channel leaves unacknowledged comes back.
    let lazy = connection.create_channel().await?;
    send(&lazy, "", queue.as_str(), "left").await?;
    let first = lazy.basic_get(queue.clone(), BasicGetOptions::default()).await?.ok_or("nothing to get")?;
    assert!(!first.redelivered);
    lazy.close(200, "lazy".into()).await?;
    let again = loop {
        // Requeueing may take a moment after the channel has closed; the step's time limit ends a
        // wait in vain.
        match channel.basic_get(queue.clone(), BasicGetOptions::default()).await? {
            Some(message) => break message,
            None => tokio::time::sleep(QUIET / 10).await,
        }
    };
    assert!(again.redelivered);
    again.reject(BasicRejectOptions { requeue: false }).await?;
    assert!(channel.basic_get(queue, BasicGetOptions::default()).await?.is_none());
    Ok(channel.close(200, "done".into()).await?)
}

/// Publishes one message per key and checks what each queue gets.
async fn routed(
    connection: &Connection,
    kind: ExchangeKind,
    cases: &[(&[&str], &[&str])],
    keys: &[&str],
) -> Result<(), Failure> {
    let channel = connection.create_channel().await?;
    let exchange = unique("exchange");
    let options = ExchangeDeclareOptions { auto_delete: true, ..Default::default() };
    channel.exchange_declare(exchange.as_str().into(), kind, options, FieldTable::default()).await?;
    let mut queues = Vec::new();
    for (bindings, _) in cases {
        let queue = own(&channel).await?;
        for key in *bindings {
            let options = QueueBindOptions::default();
            let (from, key) = (exchange.as_str().into(), (*key).into());
            channel.queue_bind(queue.clone(), from, key, options, FieldTable::default()).await?;
        }
        queues.push(queue);
    }
    for key in keys {
        send(&channel, &exchange, key, key).await?;
    }
    for (queue, (bindings, expected)) in queues.iter().zip(cases) {
        assert_eq!(take(&channel, queue.as_str()).await?, *expected, "bound by {bindings:?}");
    }
    Ok(channel.close(200, "done".into()).await?)
}

async fn publish_subscribe(connection: &Connection) -> Result<(), Failure> {
    let all: &[&str] = &["hello", "all"];
    routed(connection, ExchangeKind::Fanout, &[(&[""], all), (&["ignored"], all)], all).await
}

async fn routing(connection: &Connection) -> Result<(), Failure> {
    let keys = ["info", "error", "warning", "debug"];
    let cases: [(&[&str], &[&str]); 2] =
        [(&["error"], &["error"]), (&["info", "warning", "error"], &["info", "error", "warning"])];
    routed(connection, ExchangeKind::Direct, &cases, &keys).await
}

async fn topics(connection: &Connection) -> Result<(), Failure> {
    let keys =
        ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy", "lazy.pink.rabbit", "orange"];
    let cases: [(&[&str], &[&str]); 2] = [
        (&["*.orange.*"], &["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"]),
        (&["*.*.rabbit", "lazy.#"], &["quick.orange.rabbit", "lazy.orange.elephant", "lazy", "lazy.pink.rabbit"]),
    ];
    routed(connection, ExchangeKind::Topic, &cases, &keys).await
}

/// Request and reply over a queue of the client's own.
async fn rpc(connection: &Connection) -> Result<(), Failure> {
    let client = connection.create_channel().await?;
    let reply_to = own(&client).await?;
    ask_and_answer(connection, &client, reply_to).await
}

/// Request and reply without a queue for the replies.
async fn direct_reply_to(connection: &Connection) -> Result<(), Failure> {
    let client = connection.create_channel().await?;
    ask_and_answer(connection, &client, "amq.rabbitmq.reply-to".into()).await
}

async fn ask_and_answer(connection: &Connection, client: &Channel, reply_to: ShortString) -> Result<(), Failure> {
    let server = connection.create_channel().await?;
    let requests = own(&server).await?;
    let mut arriving = consume(&server, requests.as_str(), no_ack()).await?;
    let mut replies = consume(client, reply_to.as_str(), no_ack()).await?;
    let asked = BasicProperties::default().with_reply_to(reply_to).with_correlation_id("n12".into());
    client.basic_publish("".into(), requests, BasicPublishOptions::default(), b"12", asked).await?;
    let request = arriving.next().await.ok_or("no request")??;
    let (Some(to), Some(id)) = (request.properties.reply_to(), request.properties.correlation_id()) else {
        return Err("the request lost its properties".into());
    };
    let answer = BasicProperties::default().with_correlation_id(id.clone());
    server.basic_publish("".into(), to.clone(), BasicPublishOptions::default(), b"144", answer).await?;
    let reply = tokio::time::timeout(WAIT, replies.next()).await?.ok_or("no reply")??;
    assert_eq!(reply.data, b"144");
    assert_eq!(reply.properties.correlation_id().as_ref().map(ShortString::as_str), Some("n12"));
    client.close(200, "done".into()).await?;
    Ok(server.close(200, "done".into()).await?)
}

/// Confirms, a returned message, and properties that survive the way.
async fn confirms(connection: &Connection) -> Result<(), Failure> {
    let channel = connection.create_channel().await?;
    let queue = own(&channel).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    let mut headers = FieldTable::default();
    headers.insert("text".into(), AMQPValue::LongString(LongString::from("é")));
    headers.insert("number".into(), AMQPValue::LongLongInt(-5));
    let sent = BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_delivery_mode(2)
        .with_priority(3)
        .with_timestamp(1_700_000_000)
        .with_headers(headers);
    let body = vec![0xa5; 500_000];
    let mut pending = Vec::new();
    for _ in 0..20 {
        pending.push(channel.basic_publish("".into(), queue.clone(), options, &body, sent.clone()).await?);
    }
    for confirm in pending {
        assert!(confirm.await?.is_ack());
    }
    for _ in 0..20 {
        let found =
            channel.basic_get(queue.clone(), BasicGetOptions { no_ack: true }).await?.ok_or("a message is lost")?;
        assert_eq!(found.properties, sent);
        assert!(found.data == body, "a large body changed");
    }
    let nowhere = unique("nowhere");
    let confirm = channel.basic_publish("".into(), nowhere.as_str().into(), options, b"lost", sent).await?.await?;
    assert!(confirm.is_ack());
    let returned = confirm.take_message().ok_or("the message did not come back")?;
    assert_eq!((returned.reply_code, &returned.data[..]), (312, &b"lost"[..]));
    Ok(channel.close(200, "done".into()).await?)
}

/// Mistakes close the channel with the code clients rely on.
async fn refusals(connection: &Connection) -> Result<(), Failure> {
    for (code, name, passive) in [(404, unique("missing"), true), (403, "amq.mine".to_owned(), false)] {
        let channel = connection.create_channel().await?;
        let options = ExchangeDeclareOptions { passive, ..Default::default() };
        let outcome = channel.exchange_declare(name.into(), ExchangeKind::Direct, options, FieldTable::default()).await;
        let error = outcome.err().ok_or_else(|| format!("expected {code}, but the channel stayed open"))?;
        let found = match error.kind() {
            lapin::ErrorKind::ProtocolError(error) => error.get_id(),
            _ => return Err(error.into()),
        };
        assert_eq!(found, code);
    }
    Ok(())
}

async fn store(connection: &Connection) -> Result<(), Failure> {
    let channel = connection.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(STORED.into(), durable, FieldTable::default()).await?;
    channel.queue_purge(STORED.into(), QueuePurgeOptions::default()).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    for number in 0..10 {
        let body = format!("stored {number}");
        let persistent = BasicProperties::default().with_delivery_mode(2);
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let confirm =
            channel.basic_publish("".into(), STORED.into(), options, body.as_bytes(), persistent).await?.await?;
        assert!(confirm.is_ack() && confirm.take_message().is_none());
    }
    Ok(channel.close(200, "done".into()).await?)
}

async fn fetch(connection: &Connection) -> Result<(), Failure> {
    let channel = connection.create_channel().await?;
    for number in 0..10 {
        let message = channel.basic_get(STORED.into(), BasicGetOptions::default()).await?;
        let message = message.ok_or_else(|| format!("message {number} of 10 is lost"))?;
        assert_eq!(message.data, format!("stored {number}").into_bytes());
        assert!(!message.redelivered);
        message.ack(BasicAckOptions::default()).await?;
    }
    channel.queue_delete(STORED.into(), QueueDeleteOptions::default()).await?;
    Ok(channel.close(200, "done".into()).await?)
}
