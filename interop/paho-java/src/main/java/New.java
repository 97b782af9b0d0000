import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.eclipse.paho.mqttv5.client.IMqttToken;
import org.eclipse.paho.mqttv5.client.MqttAsyncClient;
import org.eclipse.paho.mqttv5.client.MqttCallback;
import org.eclipse.paho.mqttv5.client.MqttConnectionOptions;
import org.eclipse.paho.mqttv5.client.MqttDisconnectResponse;
import org.eclipse.paho.mqttv5.client.persist.MemoryPersistence;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.MqttSubscription;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;

/** A client of MQTT 5.0. */
final class New implements Peer, MqttCallback {
    private static final long HOUR = 3600; // seconds that a session is kept
    /** What came, as the library has it. */
    final BlockingQueue<MqttMessage> messages = new LinkedBlockingQueue<>();
    /** Why the broker ended the connection. */
    final BlockingQueue<Integer> ends = new LinkedBlockingQueue<>();
    private final BlockingQueue<Message> inbox = new LinkedBlockingQueue<>();
    private final MqttAsyncClient client;
    private final boolean present;

    New(String url, String name, boolean clean, String will, String password) throws Exception {
        client = new MqttAsyncClient(url, name, new MemoryPersistence());
        client.setCallback(this);
        MqttConnectionOptions options = new MqttConnectionOptions();
        options.setUserName("guest");
        options.setPassword(password.getBytes());
        options.setCleanStart(clean);
        options.setSessionExpiryInterval(clean ? 0 : HOUR);
        options.setAutomaticReconnect(false);
        if (will != null) {
            options.setWill(will, new MqttMessage("gone".getBytes(), 1, false, new MqttProperties()));
        }
        IMqttToken token = client.connect(options);
        token.waitForCompletion(Client.WAIT);
        present = token.getSessionPresent();
    }

    @Override
    public int subscribe(String filter, int qos) throws Exception {
        IMqttToken token = client.subscribe(filter, qos);
        token.waitForCompletion(Client.WAIT);
        return token.getReasonCodes()[0];
    }

    void subscribeAsPublished(String filter, int identifier) throws Exception {
        MqttSubscription subscription = new MqttSubscription(filter, 1);
        subscription.setRetainAsPublished(true);
        MqttProperties properties = new MqttProperties();
        properties.setSubscriptionIdentifier(identifier);
        client.subscribe(new MqttSubscription[] {subscription}, null, null, properties).waitForCompletion(Client.WAIT);
    }

    @Override
    public void unsubscribe(String filter) throws Exception {
        client.unsubscribe(filter).waitForCompletion(Client.WAIT);
    }

    @Override
    public void publish(String topic, byte[] body, int qos, boolean retained) throws Exception {
        publish(topic, new MqttMessage(body, qos, retained, new MqttProperties()));
    }

    /** Returns the broker's reason code. */
    int publish(String topic, MqttMessage message) throws Exception {
        IMqttToken token = client.publish(topic, message);
        token.waitForCompletion(Client.WAIT);
        int[] reasons = token.getReasonCodes();
        return reasons == null || reasons.length == 0 ? 0 : reasons[0];
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
        messages.add(message);
        inbox.add(new Message(topic, new String(message.getPayload()), message.getQos(), message.isRetained()));
    }

    @Override
    public void disconnected(MqttDisconnectResponse response) {
        ends.add(response.getReturnCode());
    }

    @Override
    public void mqttErrorOccurred(MqttException error) {}

    @Override
    public void deliveryComplete(IMqttToken token) {}

    @Override
    public void connectComplete(boolean again, String url) {}

    @Override
    public void authPacketArrived(int reason, MqttProperties properties) {}
}
