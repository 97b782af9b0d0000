// What programs do that use AMQPNetLite, a client of AMQP 1.0 for .NET: each scenario says what it got instead.
using System;
using System.Collections.Generic;
using System.Threading;
using Amqp;
using Amqp.Framing;
using Amqp.Transactions;
using Amqp.Types;

public static class Client
{
    private const string Queue = "interop.amqpnetlite.";
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(10);
    private static readonly TimeSpan Quiet = TimeSpan.FromMilliseconds(300);

    public static int Main(string[] arguments)
    {
        var phases = new Dictionary<string, Action<Session>[]>
        {
            ["patterns"] = new Action<Session>[]
            {
                SendAndReceive, Bodies, Headers, Large, Outcomes, Modified, Credit, Callbacks, Settled, Browse, Selector, RequestReply,
                Refusal, ManyLinks
            },
            ["transactions"] = new Action<Session>[] { Commit, Rollback, SeveralAtOnce, LostTransaction },
            ["topics"] = new Action<Session>[] { Subscribe, Durable },
            ["store"] = new Action<Session>[] { Store },
            ["fetch"] = new Action<Session>[] { Fetch }
        };
        int failed = 0;
        foreach (var scenario in phases[arguments[0]])
        {
            var connection = Connect("interop-" + scenario.Method.Name);
            try
            {
                scenario(new Session(connection));
                Console.WriteLine("ok " + scenario.Method.Name);
            }
            catch (Exception error)
            {
                failed++;
                Console.Error.WriteLine("failed " + scenario.Method.Name + ": " + error.Message);
            }
            connection.Close(TimeSpan.FromSeconds(5), null);
        }
        return failed == 0 ? 0 : 1;
    }

    private static Connection Connect(string container)
    {
        var url = new Uri(Environment.GetEnvironmentVariable("AMQP_URL"));
        var address = new Address(url.Host, url.Port, "guest", "guest", "/", "amqp");
        return new Connection(address, null, new Open { ContainerId = container, HostName = url.Host }, null);
    }

    private static void SendAndReceive(Session session)
    {
        var sender = new SenderLink(session, "s", Queue + "plain");
        for (int at = 0; at < 100; at++)
        {
            sender.Send(Text("m" + at), Patience);
        }
        var receiver = new ReceiverLink(session, "r", Queue + "plain");
        for (int at = 0; at < 100; at++)
        {
            Expect("m" + at, Take(receiver).Body);
        }
        Expect(null, receiver.Receive(Quiet));
    }

    private static void Bodies(Session session)
    {
        var bodies = new object[]
        {
            "text", 7, -7L, 1.5, true, 'x', Guid.Empty, new byte[] { 0, 255 }, new List { 1, "two" }, new Map { ["key"] = 3u }
        };
        var sender = new SenderLink(session, "s", Queue + "bodies");
        var receiver = new ReceiverLink(session, "r", Queue + "bodies");
        foreach (var body in bodies)
        {
            sender.Send(new Message(body), Patience);
            Expect(Shown(body), Shown(Take(receiver).Body));
        }
        sender.Send(new Message { BodySection = new Data { Binary = new byte[] { 1, 2 } } }, Patience);
        Expect(Shown(new byte[] { 1, 2 }), Shown(Take(receiver).Body));
    }

    private static void Headers(Session session)
    {
        var sender = new SenderLink(session, "s", Queue + "headers");
        var sent = Text("order");
        sent.Header.Priority = 7;
        sent.Properties = new Properties
        {
            CorrelationId = "c-1", Subject = "order", ReplyTo = "replies", ContentType = "text/plain", GroupId = "g", GroupSequence = 3
        };
        sent.Properties.SetMessageId(17ul);
        sent.ApplicationProperties = new ApplicationProperties();
        sent.ApplicationProperties["region"] = "eu";
        sent.ApplicationProperties["pieces"] = 7;
        sent.MessageAnnotations = new MessageAnnotations();
        sent.MessageAnnotations[new Symbol("x-opt-mine")] = "kept";
        sender.Send(sent, Patience);
        var found = Take(new ReceiverLink(session, "r", Queue + "headers"));
        Expect("7 True 17 c-1 order replies text/plain g 3 eu 7 kept", string.Join(" ", found.Header.Priority, found.Header.Durable,
            found.Properties.GetMessageId(), found.Properties.CorrelationId, found.Properties.Subject, found.Properties.ReplyTo,
            found.Properties.ContentType, found.Properties.GroupId, found.Properties.GroupSequence, found.ApplicationProperties["region"],
            found.ApplicationProperties["pieces"], found.MessageAnnotations[new Symbol("x-opt-mine")]));
    }

    /// Messages of many frames.
    private static void Large(Session session)
    {
        var body = new byte[3000000];
        new Random(1).NextBytes(body);
        new SenderLink(session, "s", Queue + "large").Send(new Message { BodySection = new Data { Binary = body } }, Patience);
        Expect(Convert.ToBase64String(body), Convert.ToBase64String((byte[])Take(new ReceiverLink(session, "r", Queue + "large")).Body));
    }

    private static void Outcomes(Session session)
    {
        var sender = new SenderLink(session, "s", Queue + "outcomes");
        sender.Send(Text("m"), Patience);
        var receiver = new ReceiverLink(session, "r", Queue + "outcomes");
        receiver.SetCredit(1, CreditMode.Manual);
        var first = receiver.Receive(Patience);
        receiver.Release(first);
        receiver.SetCredit(1, CreditMode.Manual);
        var second = receiver.Receive(Patience);
        Expect(0u, second.Header.DeliveryCount);
        receiver.Reject(second);
        receiver.SetCredit(1, CreditMode.Manual);
        Expect(null, receiver.Receive(Quiet));
    }

    private static void Modified(Session session)
    {
        new SenderLink(session, "s", Queue + "modified").Send(Text("m"), Patience);
        var receiver = new ReceiverLink(session, "r", Queue + "modified");
        for (uint failures = 0; failures < 3; failures++)
        {
            receiver.SetCredit(1, CreditMode.Manual);
            var message = receiver.Receive(Patience);
            Expect(failures, message.Header == null ? 0 : message.Header.DeliveryCount);
            var notes = new Fields();
            notes[new Symbol("x-opt-tries")] = (int)failures + 1;
            receiver.Modify(message, true, false, notes);
        }
        receiver.SetCredit(1, CreditMode.Manual);
        var last = receiver.Receive(Patience);
        Expect(3, last.MessageAnnotations[new Symbol("x-opt-tries")]);
        receiver.Accept(last);
    }

    private static void Credit(Session session)
    {
        var sender = new SenderLink(session, "s", Queue + "credit");
        for (int at = 0; at < 10; at++)
        {
            sender.Send(Text("m" + at), Patience);
        }
        var receiver = new ReceiverLink(session, "r", Queue + "credit");
        receiver.SetCredit(3, CreditMode.Manual);
        for (int at = 0; at < 3; at++)
        {
            receiver.Accept(receiver.Receive(Patience));
        }
        Expect(null, receiver.Receive(Quiet));
        receiver.SetCredit(20, CreditMode.Drain);
        for (int at = 3; at < 10; at++)
        {
            receiver.Accept(receiver.Receive(Patience));
        }
        Expect(null, receiver.Receive(Quiet));
    }

    private static void Callbacks(Session session)
    {
        var all = new CountdownEvent(500);
        var receiver = new ReceiverLink(session, "r", Queue + "callbacks");
        receiver.Start(50, (link, message) =>
        {
            link.Accept(message);
            all.Signal();
        });
        var sender = new SenderLink(session, "s", Queue + "callbacks");
        var answered = new CountdownEvent(500);
        for (int at = 0; at < 500; at++)
        {
            sender.Send(Text("m" + at), (link, message, outcome, state) => answered.Signal(), null);
        }
        Expect(true, answered.Wait(Patience));
        Expect(true, all.Wait(Patience));
    }

    /// Sent and received without answers.
    private static void Settled(Session session)
    {
        var attach = new Attach
        {
            Source = new Source(), Target = new Target { Address = Queue + "settled" }, SndSettleMode = SenderSettleMode.Settled
        };
        var sender = new SenderLink(session, "s", attach, null);
        sender.Send(Text("m"), null, null);
        var from = new Attach
        {
            Source = new Source { Address = Queue + "settled" }, Target = new Target(), SndSettleMode = SenderSettleMode.Settled
        };
        var receiver = new ReceiverLink(session, "r", from, null);
        Expect("m", receiver.Receive(Patience).Body);
    }

    private static void Browse(Session session)
    {
        var sender = new SenderLink(session, "s", Queue + "browsed");
        sender.Send(Text("a"), Patience);
        sender.Send(Text("b"), Patience);
        var source = new Source { Address = Queue + "browsed", DistributionMode = new Symbol("copy") };
        var browser = new ReceiverLink(session, "browser", source, null);
        Expect("a", browser.Receive(Patience).Body);
        Expect("b", browser.Receive(Patience).Body);
        browser.Close();
        var receiver = new ReceiverLink(session, "r", Queue + "browsed");
        Expect("a", Take(receiver).Body);
        Expect("b", Take(receiver).Body);
    }

    private static void Selector(Session session)
    {
        var sender = new SenderLink(session, "s", Queue + "selected");
        foreach (var region in new[] { "us", "eu" })
        {
            var message = Text(region);
            message.ApplicationProperties = new ApplicationProperties();
            message.ApplicationProperties["region"] = region;
            sender.Send(message, Patience);
        }
        var filter = new Map();
        filter[new Symbol("selector")] = new DescribedValue(new Symbol("apache.org:selector-filter:string"), "region = 'eu'");
        var receiver = new ReceiverLink(session, "r", new Source { Address = Queue + "selected", FilterSet = filter }, null);
        Expect("eu", Take(receiver).Body);
        Expect(null, receiver.Receive(Quiet));
        receiver.Close();
        Expect("us", Take(new ReceiverLink(session, "rest", Queue + "selected")).Body);
    }

    /// The reply comes to a dynamic node.
    private static void RequestReply(Session session)
    {
        string node = null;
        var made = new ManualResetEvent(false);
        var attach = new Attach { Source = new Source { Dynamic = true }, Target = new Target() };
        var replies = new ReceiverLink(session, "replies", attach, (link, answer) =>
        {
            node = ((Source)answer.Source).Address;
            made.Set();
        });
        Expect(true, made.WaitOne(Patience));
        var request = Text("question");
        request.Properties = new Properties { ReplyTo = node, MessageId = "1" };
        new SenderLink(session, "s", Queue + "requests").Send(request, Patience);
        var found = Take(new ReceiverLink(session, "r", Queue + "requests"));
        var reply = Text("answer to " + found.Body);
        reply.Properties = new Properties { CorrelationId = found.Properties.MessageId };
        new SenderLink(session, "back", found.Properties.ReplyTo).Send(reply, Patience);
        var answered = Take(replies);
        Expect("answer to question 1", answered.Body + " " + answered.Properties.CorrelationId);
    }

    private static void Refusal(Session session)
    {
        var link = new SenderLink(session, "s", "/queues/interop.amqpnetlite.none");
        try
        {
            link.Send(Text("m"), Patience);
        }
        catch (AmqpException error)
        {
            Expect("amqp:not-found", error.Error.Condition.ToString());
            // The session goes on.
            new SenderLink(session, "s2", Queue + "plain").Send(Text("m"), Patience);
            Take(new ReceiverLink(session, "r", Queue + "plain"));
            return;
        }
        throw new Exception("a link to no queue was not refused");
    }

    /// Links come and go on one session, with messages on their way to those that go.
    private static void ManyLinks(Session session)
    {
        var sender = new SenderLink(session, "s", Queue + "many");
        for (int at = 0; at < 300; at++)
        {
            sender.Send(Text("m" + at), (link, message, outcome, state) => { }, null);
        }
        var taken = new HashSet<object>();
        for (int at = 0; taken.Count < 300 && at < 1000; at++)
        {
            var receiver = new ReceiverLink(session, "r" + at, Queue + "many");
            for (int count = 0; count < 5 && taken.Count < 300; count++)
            {
                taken.Add(Take(receiver).Body);
            }
            receiver.Close();
        }
        Expect(300, taken.Count);
    }

    private static void Commit(Session session)
    {
        var left = new SenderLink(session, "left", Queue + "left");
        var right = new SenderLink(session, "right", Queue + "right");
        var from = new ReceiverLink(session, "from", Queue + "left");
        InTransaction(session, transaction =>
        {
            SendIn(left, "l", transaction);
            SendIn(right, "r", transaction);
            Expect(null, from.Receive(Quiet));
            return false;
        });
        Expect("l", Take(from).Body);
        Expect("r", Take(new ReceiverLink(session, "of right", Queue + "right")).Body);
    }

    private static void Rollback(Session session)
    {
        var left = new SenderLink(session, "left", Queue + "left");
        left.Send(Text("first"), Patience);
        var from = new ReceiverLink(session, "from", Queue + "left");
        var message = from.Receive(Patience);
        InTransaction(session, transaction =>
        {
            SendIn(left, "never", transaction);
            from.Complete(message, new TransactionalState { TxnId = transaction, Outcome = new Accepted() });
            return true;
        });
        var again = Take(from);
        Expect("first 1", again.Body + " " + again.Header.DeliveryCount);
        Expect(null, from.Receive(Quiet));
    }

    /// Two transactions of a session at a time, of which one is rolled back.
    private static void SeveralAtOnce(Session session)
    {
        var left = new SenderLink(session, "left", Queue + "left");
        InTransaction(session, outer =>
        {
            SendIn(left, "outer", outer);
            InTransaction(session, inner =>
            {
                SendIn(left, "inner", inner);
                return true;
            });
            return false;
        });
        var from = new ReceiverLink(session, "from", Queue + "left");
        Expect("outer", Take(from).Body);
        Expect(null, from.Receive(Quiet));
    }

    /// A connection that goes before its commit leaves nothing.
    private static void LostTransaction(Session session)
    {
        var lost = Connect("interop-lost");
        var theirs = new Session(lost);
        var left = new SenderLink(theirs, "left", Queue + "left");
        var controller = new Controller(theirs);
        SendIn(left, "never", controller.Declare());
        lost.Close();
        Expect(null, new ReceiverLink(session, "from", Queue + "left").Receive(Quiet));
    }

    private static void Subscribe(Session session)
    {
        var source = new Source { Address = Queue + "news", Capabilities = new[] { new Symbol("topic") } };
        var first = new ReceiverLink(session, "first", source, null);
        var second = new ReceiverLink(session, "second", source, null);
        first.SetCredit(10);
        second.SetCredit(10);
        // Both are there once something of them was answered.
        Expect(null, first.Receive(Quiet));
        Expect(null, second.Receive(Quiet));
        var target = new Target { Address = Queue + "news", Capabilities = new[] { new Symbol("topic") } };
        new SenderLink(session, "s", target, null).Send(Text("m"), Patience);
        Expect("m", Take(first).Body);
        Expect("m", Take(second).Body);
    }

    private static void Durable(Session session)
    {
        var source = new Source
        {
            Address = Queue + "news", Capabilities = new[] { new Symbol("topic") }, Durable = 2, ExpiryPolicy = new Symbol("never")
        };
        var receiver = new ReceiverLink(session, "durable", source, null);
        receiver.SetCredit(10);
        Expect(null, receiver.Receive(Quiet));
        receiver.Detach();
        new SenderLink(session, "s", "/topic/" + Queue + "news").Send(Text("kept"), Patience);
        var again = new ReceiverLink(session, "durable", source, null);
        Expect("kept", Take(again).Body);
        again.Close();
    }

    private static void Store(Session session)
    {
        var sender = new SenderLink(session, "s", Queue + "stored");
        for (int at = 0; at < 10; at++)
        {
            sender.Send(Text("stored " + at), Patience);
        }
    }

    private static void Fetch(Session session)
    {
        var receiver = new ReceiverLink(session, "r", Queue + "stored");
        for (int at = 0; at < 10; at++)
        {
            var message = Take(receiver);
            Expect("stored " + at + " True 0", message.Body + " " + message.Header.FirstAcquirer + " " + message.Header.DeliveryCount);
        }
    }

    private static void InTransaction(Session session, Func<byte[], bool> work)
    {
        var controller = new Controller(session);
        var transaction = controller.Declare();
        controller.Discharge(transaction, work(transaction));
        controller.Close();
    }

    private static void SendIn(SenderLink link, string body, byte[] transaction)
    {
        var answered = new ManualResetEvent(false);
        Outcome answer = null;
        link.Send(Text(body), new TransactionalState { TxnId = transaction }, (sender, message, outcome, unused) =>
        {
            answer = outcome;
            answered.Set();
        }, null);
        Expect(true, answered.WaitOne(Patience));
        Expect(true, answer is Accepted);
    }

    private static Message Text(string body)
    {
        return new Message(body) { Header = new Header { Durable = true } };
    }

    private static Message Take(ReceiverLink receiver)
    {
        var message = receiver.Receive(Patience);
        if (message == null)
        {
            throw new Exception("nothing came");
        }
        receiver.Accept(message);
        return message;
    }

    private static string Shown(object value)
    {
        var bytes = value as byte[];
        if (bytes != null)
        {
            return BitConverter.ToString(bytes);
        }
        var list = value as System.Collections.IList;
        var map = value as Map;
        if (map != null)
        {
            return map.ToString();
        }
        return list == null ? value + " " + value.GetType() : string.Join(",", new List<object>(list as IEnumerable<object> ?? new object[0]));
    }

    private static void Expect(object expected, object found)
    {
        if (!Equals(expected, found))
        {
            throw new Exception("expected " + (expected ?? "nothing") + ", found " + (found ?? "nothing"));
        }
    }

    /// The link of a coordinator, which the client keeps for itself where .NET's transactions are used.
    private sealed class Controller
    {
        private readonly SenderLink link;

        public Controller(Session session)
        {
            var coordinator = new Coordinator { Capabilities = new[] { TxnCapabilities.LocalTransactions } };
            link = new SenderLink(session, "controller-" + Guid.NewGuid(), new Attach { Source = new Source(), Target = coordinator }, null);
        }

        public byte[] Declare()
        {
            return ((Declared)Ask(new Declare())).TxnId;
        }

        public void Discharge(byte[] transaction, bool fail)
        {
            Expect(true, Ask(new Discharge { TxnId = transaction, Fail = fail }) is Accepted);
        }

        public void Close()
        {
            link.Close();
        }

        private object Ask(object request)
        {
            var answered = new ManualResetEvent(false);
            object answer = null;
            link.Send(new Message(request), null, (sender, message, state, unused) =>
            {
                answer = state;
                answered.Set();
            }, null);
            Expect(true, answered.WaitOne(Patience));
            return answer;
        }
    }
}
