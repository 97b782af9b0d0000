//! One NATS connection that carries messages: publishes with a reply address for each confirm,
//! deliveries that are pulled ahead of their consumer, and acknowledgements.

use wire::Output;

use super::codec::{Message, Said, decode, number, publish};
use crate::driver::{AckCount, Conversation, Event, in_turn};
use bench_record::failure::{Context, Failure};

/// The number of the subscription that JetStream's confirms come to.
pub(super) const CONFIRMS: u64 = 2;
/// The number of the subscription that the replies of consumers come to.
pub(super) const REPLIES: u64 = 3;
/// The number of the first subscription that messages come to: that of the first [`Pull`], where
/// they are pulled.
pub(super) const DELIVERIES: u64 = 16;

/// What an acknowledgement says.
const ACK: &[u8] = b"+ACK";
/// What the addresses begin with that messages of JetStream are acknowledged at.
const ACK_ADDRESS: &str = "$JS.ACK.";

/// Messages of one queue that a consumer has asked JetStream for.
#[derive(Debug)]
pub(super) struct Pull {
    subject: String,
    inbox: String,
    ahead: u64,
    /// Asked for and not yet come.
    asked: u64,
}

impl Pull {
    /// Asks at `subject` for messages to `inbox`, so that at most `ahead` are on their way.
    pub(super) fn new(subject: String, inbox: String, ahead: u64) -> Self {
        Self { subject, inbox, ahead, asked: 0 }
    }

    /// Asks for more when half of what was asked for has come.
    fn ask(&mut self, out: &mut Vec<u8>) {
        if self.asked <= self.ahead / 2 {
            let question = format!("{{\"batch\":{}}}", self.ahead - self.asked);
            publish(&self.subject, &self.inbox, question.as_bytes(), out);
            self.asked = self.ahead;
        }
    }
}

/// A connection.
pub(super) struct NatsTalk {
    output: Output,
    /// Message number n goes to the one at n - 1 modulo their number; empty: this connection
    /// publishes nothing.
    subjects: Vec<String>,
    /// Where confirms come to, up to the number of the message; none: there are none.
    confirms: Option<String>,
    reply: Vec<u8>,
    published: u64,
    acks: AckCount,
    /// By number of subscription; empty: messages are pushed.
    pulls: Vec<Pull>,
    /// Where the newest delivery is acknowledged, while an acknowledgement is not yet due.
    newest: String,
}

impl NatsTalk {
    pub(super) fn new(
        output: Output,
        subjects: Vec<String>,
        confirms: Option<String>,
        acks: AckCount,
        pulls: Vec<Pull>,
    ) -> Self {
        Self { output, subjects, confirms, reply: Vec::new(), published: 0, acks, pulls, newest: String::new() }
    }

    /// Asks for the first messages.
    pub(super) fn begin(&mut self) {
        self.pulls.iter_mut().for_each(|pull| pull.ask(self.output.tail()));
    }

    fn take(&mut self, message: &Message<'_>, on: &mut dyn FnMut(Event<'_>)) -> Result<(), Failure> {
        match (message.subscription, message.status) {
            (CONFIRMS, status) => {
                let (_, upto) = message.subject.rsplit_once('.').unwrap_or_default();
                let upto = upto.parse().context("a confirm that nobody asked for")?;
                on(Event::Confirm { upto, multiple: false, accepted: status.is_none() && !is_error(message.body) });
            }
            (REPLIES, None) => on(Event::Delivery { body: message.body, redelivered: false }),
            (DELIVERIES.., Some(status)) => {
                return Err(Failure::new(format!("the server stopped delivering: status {status}")));
            }
            (DELIVERIES.., None) => self.deliver(message, on),
            _ => {}
        }
        Ok(())
    }

    fn deliver(&mut self, message: &Message<'_>, on: &mut dyn FnMut(Event<'_>)) {
        on(Event::Delivery { body: message.body, redelivered: is_redelivered(message.reply) });
        if let Some(pull) = self.pulls.get_mut((message.subscription - DELIVERIES) as usize) {
            pull.asked = pull.asked.saturating_sub(1);
            pull.ask(self.output.tail());
        }
        if self.acks.due() {
            publish(message.reply, "", ACK, self.output.tail());
        } else if self.acks.waits() {
            self.newest.clear();
            self.newest.push_str(message.reply);
        }
    }
}

/// True for JetStream's `{"error":...}`. A confirm is `{"stream":...}`.
fn is_error(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"{\"error\"")
}

/// True when the address says that the message was delivered before: its count is the fifth word,
/// or the seventh where the server's domain and account come first.
fn is_redelivered(address: &str) -> bool {
    if !address.starts_with(ACK_ADDRESS) {
        return false;
    }
    let words = address.split('.').count();
    let count = address.split('.').nth(if words > 9 { 6 } else { 4 });
    count.is_some_and(|count| count != "1")
}

impl Conversation for NatsTalk {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        let subject = in_turn(&self.subjects, self.published)?;
        self.published += 1;
        self.reply.clear();
        if let Some(confirms) = &self.confirms {
            self.reply.extend_from_slice(confirms.as_bytes());
            number(self.published, &mut self.reply);
        }
        let reply = std::str::from_utf8(&self.reply).context("a reply address")?;
        publish(subject, reply, body, self.output.tail());
        Ok(())
    }

    fn receive(&mut self, input: &[u8], on: &mut dyn FnMut(Event<'_>)) -> Result<usize, Failure> {
        let mut used = 0;
        while let Some((said, length)) = decode(&input[used..])? {
            used += length;
            match said {
                Said::Message(message) => self.take(&message, on)?,
                Said::Ping => self.output.put(b"PONG\r\n"),
                Said::Refusal(why) => return Err(Failure::new(format!("the server says: {why}"))),
                Said::Info(_) | Said::Pong | Said::Fine => {}
            }
        }
        Ok(used)
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if self.acks.take_rest() {
            publish(&self.newest, "", ACK, self.output.tail());
        }
        Ok(())
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk(confirms: Option<&str>, ack_every: u64, pulls: Vec<Pull>) -> NatsTalk {
        let confirms = confirms.map(str::to_owned);
        NatsTalk::new(Output::default(), vec!["s".to_owned()], confirms, AckCount::new(ack_every), pulls)
    }

    /// What was to be sent so far.
    fn sent(talk: &mut NatsTalk) -> String {
        String::from_utf8(std::mem::take(talk.output.tail())).unwrap()
    }

    fn events(talk: &mut NatsTalk, input: &str) -> Vec<String> {
        let mut events = Vec::new();
        let used = talk.receive(input.as_bytes(), &mut |event| events.push(format!("{event:?}"))).unwrap();
        assert_eq!(used, input.len());
        events
    }

    #[test]
    fn each_message_has_its_own_confirm() {
        let mut talk = talk(Some("in.c."), 0, Vec::new());
        talk.publish(b"a").unwrap();
        talk.publish(b"").unwrap();
        assert_eq!(sent(&mut talk), "PUB s in.c.1 1\r\na\r\nPUB s in.c.2 0\r\n\r\n");
        let said = "MSG in.c.2 2 14\r\n{\"stream\":\"x\"}\r\nMSG in.c.1 2 13\r\n{\"error\":{} }\r\n";
        let confirm = |upto, accepted| format!("{:?}", Event::Confirm { upto, multiple: false, accepted });
        assert_eq!(events(&mut talk, said), [confirm(2, true), confirm(1, false)]);
        assert_eq!(events(&mut talk, "HMSG in.c.3 2 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"), [confirm(3, false)]);
    }

    #[test]
    fn pulled_messages_are_asked_for_ahead_and_acknowledged_when_due() {
        let mut talk = talk(None, 2, vec![Pull::new("next".to_owned(), "in.m".to_owned(), 4)]);
        talk.begin();
        assert_eq!(sent(&mut talk), "PUB next in.m 11\r\n{\"batch\":4}\r\n");
        let message = |count, number| format!("MSG s 16 $JS.ACK.x.q0.{count}.{number}.{number}.9.0 1\r\nb\r\n");
        let delivery = |redelivered| format!("{:?}", Event::Delivery { body: b"b", redelivered });
        assert_eq!(events(&mut talk, &message(1, 1)), [delivery(false)]);
        assert_eq!(sent(&mut talk), "");
        assert_eq!(events(&mut talk, &message(2, 2)), [delivery(true)]);
        assert_eq!(sent(&mut talk), "PUB next in.m 11\r\n{\"batch\":2}\r\nPUB $JS.ACK.x.q0.2.2.2.9.0 4\r\n+ACK\r\n");
        events(&mut talk, &message(1, 3));
        talk.settle().unwrap();
        talk.settle().unwrap();
        assert_eq!(sent(&mut talk), "PUB $JS.ACK.x.q0.1.3.3.9.0 4\r\n+ACK\r\n");
    }

    #[test]
    fn each_queue_is_asked_for_more_by_itself_and_published_to_in_turn() {
        let pulls = ["a", "b"].map(|name| Pull::new(name.to_owned(), format!("in.{name}"), 2));
        let mut talk = talk(None, 0, pulls.into());
        talk.subjects = vec!["a".to_owned(), "b".to_owned()];
        talk.begin();
        assert_eq!(sent(&mut talk), "PUB a in.a 11\r\n{\"batch\":2}\r\nPUB b in.b 11\r\n{\"batch\":2}\r\n");
        events(&mut talk, "MSG s 17 1\r\nx\r\n");
        assert_eq!(sent(&mut talk), "PUB b in.b 11\r\n{\"batch\":1}\r\n");
        (0..3).for_each(|_| talk.publish(b"").unwrap());
        assert_eq!(sent(&mut talk), "PUB a 0\r\n\r\nPUB b 0\r\n\r\nPUB a 0\r\n\r\n");
    }

    #[test]
    fn a_reply_comes_without_acknowledgement_and_without_being_asked_for() {
        let mut talk = talk(Some("in.c."), 0, Vec::new());
        let delivery = format!("{:?}", Event::Delivery { body: b"", redelivered: false });
        assert_eq!(events(&mut talk, "MSG in.r 3 0\r\n\r\n"), [delivery]);
        assert_eq!(sent(&mut talk), "");
    }

    #[test]
    fn the_delivery_count_is_found_in_both_forms_of_the_address() {
        let cases = [
            ("$JS.ACK.stream.consumer.1.5.5.99.0", false),
            ("$JS.ACK.stream.consumer.2.5.6.99.0", true),
            ("$JS.ACK.domain.account.stream.consumer.1.5.5.99.0.x", false),
            ("$JS.ACK._.account.stream.consumer.3.5.5.99.0.x", true),
            ("", false),
            ("own.reply.2", false),
        ];
        for (address, redelivered) in cases {
            assert_eq!(is_redelivered(address), redelivered, "{address}");
        }
    }

    #[test]
    fn what_ends_a_connection_is_a_failure() {
        for said in ["-ERR 'Slow Consumer'\r\n", "HMSG in.m 16 16 16\r\nNATS/1.0 409\r\n\r\n\r\n"] {
            let failure = talk(None, 0, Vec::new()).receive(said.as_bytes(), &mut |_| {}).unwrap_err().to_string();
            assert!(failure.contains("the server"), "{failure}");
        }
    }
}
