package hermod;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.qpid.tests.utils.BrokerAdminException;
import org.apache.qpid.tests.utils.ExternalQpidBrokerAdminImpl;

/**
 * Administers Hermod for the suite: an empty virtual host for each test, queues, their sizes and messages by the HTTP API, restarts by
 * rabbitmqctl. Where the suite can send messages to any broker by itself, it does.
 */
public class HermodAdmin extends ExternalQpidBrokerAdminImpl
{
    private static final URI API = URI.create(System.getProperty("hermod.api"));
    private static final String EVERYTHING = "{\"configure\":\".*\",\"write\":\".*\",\"read\":\".*\"}";
    private static final String QUEUE = "{\"durable\":" + System.getProperty("hermod.durable") + "}";
    private static final String MESSAGE = "{\"properties\":{\"content_type\":\"text/plain\",\"delivery_mode\":2},"
                                          + "\"routing_key\":\"%s\",\"payload\":\"%s\",\"payload_encoding\":\"base64\"}";
    private static final Pattern MESSAGES = Pattern.compile("\"messages\":(\\d+)");
    private static final String LOGIN = "Basic " + Base64.getEncoder().encodeToString("guest:guest".getBytes(StandardCharsets.UTF_8));

    private final HttpClient _http = HttpClient.newHttpClient();

    @Override
    public String getType()
    {
        return "HERMOD";
    }

    @Override
    public void beforeTestMethod(final Class testClass, final Method method)
    {
        send("DELETE", API.resolve("vhosts/%2F"), null);
        send("PUT", API.resolve("vhosts/%2F"), "{}");
        send("PUT", API.resolve("permissions/%2F/guest"), EVERYTHING);
    }

    @Override
    public void afterTestMethod(final Class testClass, final Method method)
    {
        // The next test begins with an empty virtual host.
    }

    @Override
    public void createQueue(final String name)
    {
        send("PUT", API.resolve("queues/%2F/" + name), QUEUE);
    }

    @Override
    public void deleteQueue(final String name)
    {
        send("DELETE", API.resolve("queues/%2F/" + name), null);
    }

    @Override
    public void putMessageOnQueue(final String name, final String... messages)
    {
        if (super.isPutMessageOnQueueSupported())
        {
            super.putMessageOnQueue(name, messages);
            return;
        }
        for (final String message : messages)
        {
            final String payload = Base64.getEncoder().encodeToString(message.getBytes(StandardCharsets.UTF_8));
            final String answer = send("POST", API.resolve("exchanges/%2F/amq.default/publish"), String.format(MESSAGE, name, payload));
            if (!answer.contains("true"))
            {
                throw new BrokerAdminException("A message did not reach " + name + ": " + answer);
            }
        }
    }

    @Override
    public int getQueueDepthMessages(final String name)
    {
        final Matcher messages = MESSAGES.matcher(send("GET", API.resolve("queues/%2F/" + name), null));
        if (!messages.find())
        {
            throw new BrokerAdminException("The server did not say how many messages " + name + " has");
        }
        return Integer.parseInt(messages.group(1));
    }

    @Override
    public boolean isQueueDepthSupported()
    {
        return true;
    }

    @Override
    public boolean isPutMessageOnQueueSupported()
    {
        return true;
    }

    @Override
    public boolean isDeleteQueueSupported()
    {
        return true;
    }

    @Override
    public boolean supportsRestart()
    {
        return true;
    }

    @Override
    public CompletableFuture<Void> restart()
    {
        for (final String verb : List.of("stop_app", "start_app"))
        {
            try
            {
                final int status = new ProcessBuilder(System.getProperty("hermod.python"), System.getProperty("hermod.ctl"), verb)
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.DISCARD).start().waitFor();
                if (status != 0)
                {
                    throw new BrokerAdminException(verb + " ended with " + status);
                }
            }
            catch (IOException | InterruptedException e)
            {
                throw new BrokerAdminException("Cannot " + verb, e);
            }
        }
        return CompletableFuture.completedFuture(null);
    }

    private String send(final String method, final URI where, final String body)
    {
        final HttpRequest.BodyPublisher content = body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body);
        try
        {
            final HttpRequest request = HttpRequest.newBuilder(where).header("Authorization", LOGIN).header("Content-Type", "application/json")
                                                   .method(method, content).build();
            final HttpResponse<String> response = _http.send(request, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() >= 300)
            {
                throw new BrokerAdminException(method + " " + where + ": " + response.statusCode() + " " + response.body());
            }
            return response.body();
        }
        catch (IOException | InterruptedException e)
        {
            throw new BrokerAdminException("Cannot " + method + " " + where, e);
        }
    }
}
