package shop;

import java.net.URI;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.FanoutExchange;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.annotation.EnableRabbit;
import org.springframework.amqp.rabbit.config.AbstractRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.config.DirectRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.config.RetryInterceptorBuilder;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory.ConfirmType;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.retry.RejectAndDontRequeueRecoverer;
import org.springframework.amqp.rabbit.transaction.RabbitTransactionManager;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.ComponentScan;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;

/**
 * The application: its connections, its queues, and how its listeners consume. Spring Boot makes much of this from
 * {@code spring.rabbitmq.*}; here it is in the open.
 */
@Configuration
@EnableRabbit
@ComponentScan
public class Shop {
    static final String EXCHANGE = "interop.spring.shop";
    static final String ORDERS = "interop.spring.orders";
    static final String PARCELS = "interop.spring.parcels";
    static final String ACCOUNTS = "interop.spring.accounts";
    static final String BOOKINGS = "interop.spring.bookings";
    static final String QUOTES = "interop.spring.quotes";
    static final String LINES = "interop.spring.lines";
    static final String SMALL = "interop.spring.small";
    static final String STORED = "interop.spring.stored";
    static final String LIVE = "interop.spring.live";
    static final String TURNS = "interop.spring.turns";
    static final String NEWS = "interop.spring.news";
    static final String REPORT = "interop.spring.report";
    static final String DEAD = "interop.spring.dead";
    static final int PREFETCH = 5;
    static final int BATCH = 10;
    static final int RETRIES = 2;

    /** Publishes with confirms: each message's fate comes back with its {@code CorrelationData}. */
    @Bean
    @Primary
    CachingConnectionFactory connections() {
        CachingConnectionFactory factory = new CachingConnectionFactory(URI.create(System.getenv("AMQP_URL")));
        factory.setPublisherConfirmType(ConfirmType.CORRELATED);
        factory.setPublisherReturns(true);
        return factory;
    }

    /** Transactions need channels without confirms, so connections of their own. */
    @Bean
    CachingConnectionFactory transacting() {
        return new CachingConnectionFactory(URI.create(System.getenv("AMQP_URL")));
    }

    @Bean
    @Primary
    RabbitTemplate template(ConnectionFactory connections) {
        RabbitTemplate template = new RabbitTemplate(connections);
        template.setMandatory(true);
        template.setReplyTimeout(Check.WAIT);
        return template;
    }

    @Bean
    RabbitTemplate transactedTemplate() {
        RabbitTemplate template = new RabbitTemplate(transacting());
        template.setChannelTransacted(true);
        return template;
    }

    @Bean
    RabbitTransactionManager transactions() {
        return new RabbitTransactionManager(transacting());
    }

    /** Declares everything that is declarable, on each new connection. */
    @Bean
    RabbitAdmin admin(ConnectionFactory connections) {
        return new RabbitAdmin(connections);
    }

    @Bean
    Declarables topology() {
        TopicExchange exchange = new TopicExchange(EXCHANGE);
        FanoutExchange deadLetters = new FanoutExchange(DEAD);
        Queue dead = new Queue(DEAD);
        Queue orders = QueueBuilder.durable(ORDERS).deadLetterExchange(DEAD).build();
        Queue parcels = QueueBuilder.durable(PARCELS).quorum().build();
        return new Declarables(
                exchange, deadLetters, dead, orders, parcels,
                BindingBuilder.bind(dead).to(deadLetters),
                BindingBuilder.bind(orders).to(exchange).with("order.*"),
                new Binding(PARCELS, Binding.DestinationType.QUEUE, EXCHANGE, "parcel.#", null),
                QueueBuilder.durable(ACCOUNTS).deadLetterExchange(DEAD).build(),
                QueueBuilder.durable(SMALL).maxLength(1L).overflow(QueueBuilder.Overflow.rejectPublish).build(),
                new Queue(BOOKINGS), new Queue(QUOTES), new Queue(LINES), new Queue(STORED),
                QueueBuilder.durable(TURNS).quorum().deliveryLimit(RETRIES).singleActiveConsumer().deadLetterExchange(DEAD).build(),
                new Queue(LIVE), new Queue(REPORT));
    }

    /** Tries a message again within the consumer, with a growing pause, and then rejects it: it becomes a dead letter. */
    @Bean
    SimpleRabbitListenerContainerFactory retrying(ConnectionFactory connections) {
        SimpleRabbitListenerContainerFactory factory = new SimpleRabbitListenerContainerFactory();
        consume(factory, connections);
        factory.setConcurrentConsumers(2);
        factory.setMaxConcurrentConsumers(4);
        factory.setAdviceChain(RetryInterceptorBuilder.stateless()
                .maxRetries(RETRIES).backOffOptions(50, 2.0, 1_000).recoverer(new RejectAndDontRequeueRecoverer()).build());
        return factory;
    }

    @Bean
    DirectRabbitListenerContainerFactory direct(ConnectionFactory connections) {
        DirectRabbitListenerContainerFactory factory = new DirectRabbitListenerContainerFactory();
        consume(factory, connections);
        return factory;
    }

    /** Has a failed message come back to its place in the queue; the queue itself counts, and gives it up at its limit. */
    @Bean
    DirectRabbitListenerContainerFactory requeueing(ConnectionFactory connections) {
        DirectRabbitListenerContainerFactory factory = new DirectRabbitListenerContainerFactory();
        consume(factory, connections);
        factory.setPrefetchCount(1);
        factory.setDefaultRequeueRejected(true);
        return factory;
    }

    /** What the listener acknowledges and what it sends happen together or not at all. */
    @Bean
    SimpleRabbitListenerContainerFactory transacted() {
        SimpleRabbitListenerContainerFactory factory = new SimpleRabbitListenerContainerFactory();
        consume(factory, transacting());
        factory.setChannelTransacted(true);
        return factory;
    }

    @Bean
    SimpleRabbitListenerContainerFactory batching(ConnectionFactory connections) {
        SimpleRabbitListenerContainerFactory factory = new SimpleRabbitListenerContainerFactory();
        consume(factory, connections);
        factory.setPrefetchCount(2 * BATCH);
        factory.setBatchListener(true);
        factory.setConsumerBatchEnabled(true);
        factory.setBatchSize(BATCH);
        return factory;
    }

    private static void consume(AbstractRabbitListenerContainerFactory<?> factory, ConnectionFactory connections) {
        factory.setConnectionFactory(connections);
        factory.setPrefetchCount(PREFETCH);
        // After a lost connection it looks for a new one this often.
        factory.setRecoveryInterval(1_000L);
        // What fails becomes a dead letter; the default would have it come back for ever.
        factory.setDefaultRequeueRejected(false);
    }
}
