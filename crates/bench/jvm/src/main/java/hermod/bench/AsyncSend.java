package hermod.bench;

import jakarta.jms.CompletionListener;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Proxy;

/** Sends without waiting, and says later how each send ended: as JMS 2.0 has it, or as ActiveMQ's client had it before. */
interface AsyncSend {
    /** How a send ended. */
    interface Ended {
        /** Called once, by a thread of the provider; {@code problem} is null when the broker took the message. */
        void ended(Exception problem);
    }

    void send(Message message, Ended ended) throws Exception;

    /** The way that the client of {@code producer} offers. */
    static AsyncSend of(MessageProducer producer) throws ReflectiveOperationException {
        Class<?> type = producer.getClass();
        return type.getName().equals("org.apache.activemq.ActiveMQMessageProducer")
                ? callback(producer, type)
                : (message, ended) -> complete(producer, message, ended);
    }

    private static void complete(MessageProducer producer, Message message, Ended ended) throws JMSException, Lacks {
        try {
            producer.send(message, new CompletionListener() {
                @Override
                public void onCompletion(Message sent) {
                    ended.ended(null);
                }

                @Override
                public void onException(Message sent, Exception problem) {
                    ended.ended(problem);
                }
            });
        } catch (UnsupportedOperationException | LinkageError absent) {
            throw new Lacks("send that is confirmed later (completion listener of JMS 2.0)");
        }
    }

    /** {@code ActiveMQMessageProducer.send(Message, AsyncCallback)}, which this program is compiled without. */
    private static AsyncSend callback(MessageProducer producer, Class<?> type) throws ReflectiveOperationException {
        ClassLoader loader = type.getClassLoader();
        Class<?> callback = Class.forName("org.apache.activemq.AsyncCallback", true, loader);
        MethodHandle send = MethodHandles.publicLookup()
                .unreflect(type.getMethod("send", Message.class, callback))
                .bindTo(producer)
                .asType(MethodType.methodType(void.class, Message.class, Object.class));
        Class<?>[] types = {callback};
        return (message, ended) -> {
            Object listener = Proxy.newProxyInstance(loader, types, (proxy, method, arguments) -> {
                switch (method.getName()) {
                    case "onSuccess" -> ended.ended(null);
                    case "onException" -> ended.ended((Exception) arguments[0]);
                    case "hashCode" -> {
                        return System.identityHashCode(proxy);
                    }
                    case "equals" -> {
                        return proxy == arguments[0];
                    }
                    default -> {
                        return "confirm";
                    }
                }
                return null;
            });
            try {
                send.invokeExact(message, listener);
            } catch (Exception | Error problem) {
                throw problem;
            } catch (Throwable other) {
                throw new IllegalStateException(other);
            }
        };
    }
}
