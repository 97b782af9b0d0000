package shop;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.Session;
import java.net.URI;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.messaginghub.pooled.jms.JmsPoolConnectionFactory;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jms.annotation.EnableJms;
import org.springframework.jms.config.DefaultJmsListenerContainerFactory;
import org.springframework.jms.connection.JmsTransactionManager;
import org.springframework.jms.connection.SingleConnectionFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.transaction.support.TransactionTemplate;

/** An application of Spring over Qpid JMS, with pooled connections: the settings that readers may copy. */
@Configuration
@EnableJms
public class Shop {
    static final String ORDERS = "interop.spring-jms.orders";
    static final String FRAGILE = "interop.spring-jms.fragile";
    static final String PRICES = "interop.spring-jms.prices";

    /** The client itself: one connection each time that one is asked for. */
    static JmsConnectionFactory client() {
        URI url = URI.create(System.getenv("AMQP_URL"));
        return new JmsConnectionFactory("guest", "guest", "amqp://" + url.getHost() + ":" + url.getPort());
    }

    /** Two connections for all that sends and receives, with as many sessions as threads need. */
    @Bean(destroyMethod = "stop")
    JmsPoolConnectionFactory pool() {
        JmsPoolConnectionFactory pool = new JmsPoolConnectionFactory();
        pool.setConnectionFactory(client());
        pool.setMaxConnections(2);
        pool.setMaxSessionsPerConnection(50);
        return pool;
    }

    @Bean
    JmsTemplate queues(JmsPoolConnectionFactory pool) {
        JmsTemplate template = new JmsTemplate(pool);
        template.setReceiveTimeout(Check.WAIT);
        return template;
    }

    @Bean
    JmsTemplate topics(JmsPoolConnectionFactory pool) {
        JmsTemplate template = new JmsTemplate(pool);
        template.setPubSubDomain(true);
        return template;
    }

    @Bean
    TransactionTemplate transactions(JmsPoolConnectionFactory pool) {
        return new TransactionTemplate(new JmsTransactionManager(pool));
    }

    /** Two to four consumers, each message in a transaction of its own: one that fails comes again. */
    @Bean
    DefaultJmsListenerContainerFactory transacted(JmsPoolConnectionFactory pool) {
        DefaultJmsListenerContainerFactory factory = listeners(pool);
        factory.setSessionTransacted(true);
        factory.setConcurrency("2-4");
        return factory;
    }

    /** A durable subscription, which belongs to a client id and so needs a connection of its own. */
    @Bean
    DefaultJmsListenerContainerFactory durable(SingleConnectionFactory named) {
        DefaultJmsListenerContainerFactory factory = listeners(named);
        factory.setPubSubDomain(true);
        factory.setSubscriptionDurable(true);
        return factory;
    }

    /** A durable subscription that the consumers of several processes share. */
    @Bean
    DefaultJmsListenerContainerFactory shared(JmsPoolConnectionFactory pool) {
        DefaultJmsListenerContainerFactory factory = listeners(pool);
        factory.setPubSubDomain(true);
        factory.setSubscriptionDurable(true);
        factory.setSubscriptionShared(true);
        factory.setConcurrency("2");
        return factory;
    }

    @Bean(destroyMethod = "destroy")
    SingleConnectionFactory named() {
        SingleConnectionFactory named = new SingleConnectionFactory(client());
        named.setClientId("interop-spring-jms");
        named.setReconnectOnException(true);
        return named;
    }

    @Bean
    Listeners listenersOfTheShop() {
        return new Listeners();
    }

    private static DefaultJmsListenerContainerFactory listeners(ConnectionFactory connections) {
        DefaultJmsListenerContainerFactory factory = new DefaultJmsListenerContainerFactory();
        factory.setConnectionFactory(connections);
        factory.setSessionAcknowledgeMode(Session.AUTO_ACKNOWLEDGE);
        factory.setRecoveryInterval(200L);
        factory.setErrorHandler(error -> { });
        factory.setAutoStartup(false);
        return factory;
    }
}
