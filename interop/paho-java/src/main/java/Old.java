import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.eclipse.paho.client.mqttv3.IMqttDeliveryToken;
import org.eclipse.paho.client.mqttv3.IMqttToken;
import org.eclipse.paho.client.mqttv3.MqttAsyncClient;
import org.eclipse.paho.client.mqttv3.MqttCallback;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.MqttMessage;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/** A client of MQTT 3.1.1. */
final class Old implements Peer, MqttCallback {
    private final BlockingQueue<Message> inbox = new LinkedBlockingQueue<>();
    private final MqttAsyncClient client;
    private final boolean present;

    Old(String url, String name, boolean clean, String will, String password) throws Exception {
        client = new MqttAsyncClient(url, name, new MemoryPersistence());
        client.setCallback(this);
        MqttConnectOptions options = new MqttConnectOptions();
        options.setMqttVersion(MqttConnectOptions.MQTT_VERSION_3_1_1);
        options.setUserName("guest");
        options.setPassword(password.toCharArray());
        options.setCleanSession(clean);
        options.setMaxInflight(100);
        if (will != null) {
            options.setWill(will, "gone".getBytes(), 1, false);
        }
        IMqttToken token = client.connect(options);
        token.waitForCompletion(Client.WAIT);
        present = token.getSessionPresent();
    }

    @Override
    public int subscribe(String filter, int qos) throws Exception {
        IMqttToken token = client.subscribe(filter, qos);
        token.waitForCompletion(Client.WAIT);
        return token.getGrantedQos()[0];
    }

    @Override
    public void unsubscribe(String filter) throws Exception {
        client.unsubscribe(filter).waitForCompletion(Client.WAIT);
    }

    @Override
    public void publish(String topic, byte[] body, int qos, boolean retained) throws Exception {
        client.publish(topic, body, qos, retained).waitForCompletion(Client.WAIT);
    }

    @Override
    public boolean present() {
        return present;
    }

    @Override
    public Message next(long milliseconds) throws InterruptedException {
        return inbox.poll(milliseconds, TimeUnit.MILLISECONDS);
    }

    @Override
    public void drop() throws Exception {
        client.disconnectForcibly(0, 0, false);
        client.close(true);
    }

    @Override
    public void close() throws Exception {
        client.disconnect().waitForCompletion(Client.WAIT);
        client.close(true);
    }

    @Override
    public void messageArrived(String topic, MqttMessage message) {
        inbox.add(new Message(topic, new String(message.getPayload()), message.getQos(), message.isRetained()));
    }

    @Override
    public void connectionLost(Throwable cause) {}

    @Override
    public void deliveryComplete(IMqttDeliveryToken token) {}
}
