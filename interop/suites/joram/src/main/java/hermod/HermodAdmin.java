package hermod;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Hashtable;

import javax.naming.Context;
import javax.naming.InitialContext;
import javax.naming.NamingException;

import org.objectweb.jtests.jms.admin.Admin;

/**
 * Administers Hermod for the suite: names of JNDI for Qpid JMS, whose links make the queues, and the deletion of queues by the HTTP API.
 */
public class HermodAdmin implements Admin
{
    private static final URI API = URI.create(System.getProperty("hermod.api"));
    private static final String LOGIN = "Basic " + Base64.getEncoder().encodeToString("guest:guest".getBytes(StandardCharsets.UTF_8));
    private static final int NOT_FOUND = 404;

    private final HttpClient _http = HttpClient.newHttpClient();
    private final Hashtable<String, String> _names = new Hashtable<>();

    public HermodAdmin()
    {
        _names.put(Context.INITIAL_CONTEXT_FACTORY, "org.apache.qpid.jms.jndi.JmsInitialContextFactory");
    }

    @Override
    public String getName()
    {
        return "Hermod";
    }

    @Override
    public Context createContext() throws NamingException
    {
        return new InitialContext(_names);
    }

    @Override
    public void createConnectionFactory(final String name)
    {
        _names.put("connectionfactory." + name, System.getProperty("hermod.url"));
    }

    @Override
    public void createQueueConnectionFactory(final String name)
    {
        createConnectionFactory(name);
    }

    @Override
    public void createTopicConnectionFactory(final String name)
    {
        createConnectionFactory(name);
    }

    @Override
    public void createQueue(final String name)
    {
        _names.put("queue." + name, name);
    }

    @Override
    public void createTopic(final String name)
    {
        _names.put("topic." + name, name);
    }

    @Override
    public void deleteQueue(final String name)
    {
        _names.remove("queue." + name);
        final HttpRequest request = HttpRequest.newBuilder(API.resolve("queues/%2F/" + name)).header("Authorization", LOGIN).DELETE().build();
        try
        {
            final HttpResponse<String> response = _http.send(request, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() >= 300 && response.statusCode() != NOT_FOUND)
            {
                throw new IllegalStateException("Cannot delete " + name + ": " + response.statusCode() + " " + response.body());
            }
        }
        catch (IOException | InterruptedException e)
        {
            throw new IllegalStateException("Cannot delete " + name, e);
        }
    }

    @Override
    public void deleteTopic(final String name)
    {
        _names.remove("topic." + name);
    }

    @Override
    public void deleteConnectionFactory(final String name)
    {
        _names.remove("connectionfactory." + name);
    }

    @Override
    public void deleteQueueConnectionFactory(final String name)
    {
        deleteConnectionFactory(name);
    }

    @Override
    public void deleteTopicConnectionFactory(final String name)
    {
        deleteConnectionFactory(name);
    }

    @Override
    public void startServer()
    {
        // It runs already.
    }

    @Override
    public void stopServer()
    {
        // The script ends it.
    }

    @Override
    public void start()
    {
        // Nothing has to be prepared.
    }

    @Override
    public void stop()
    {
        // Each test deletes its own.
    }
}
