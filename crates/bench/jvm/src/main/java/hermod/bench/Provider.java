package hermod.bench;

import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import java.beans.BeanInfo;
import java.beans.Introspector;
import java.beans.PropertyDescriptor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Hashtable;
import java.util.Map;
import javax.naming.InitialContext;

/** A broker's own JMS client, found by the name of its class or in a naming service; nothing of it is known here. */
final class Provider {
    private final ConnectionFactory factory;
    private final String user;
    private final String password;

    Provider(Spec spec) throws Exception {
        Spec.Factory asked = spec.factory();
        Object made = asked.lookup() == null ? make(asked) : lookUp(asked);
        if (!(made instanceof ConnectionFactory found)) {
            throw new IllegalArgumentException(made.getClass().getName() + " is no " + ConnectionFactory.class.getName());
        }
        factory = found;
        user = spec.user();
        password = spec.password();
    }

    /** A connection that is not started. */
    Connection connect() throws JMSException {
        return user.isEmpty() ? factory.createConnection() : factory.createConnection(user, password);
    }

    private static Object make(Spec.Factory asked) throws Exception {
        Class<?> type = Class.forName(asked.className());
        Object made = asked.argument() == null
                ? type.getConstructor().newInstance()
                : type.getConstructor(String.class).newInstance(asked.argument());
        for (Map.Entry<String, String> property : asked.properties().entrySet()) {
            set(made, property.getKey(), property.getValue());
        }
        return made;
    }

    private static Object lookUp(Spec.Factory asked) throws Exception {
        Hashtable<String, String> environment = new Hashtable<>(asked.properties());
        environment.put(InitialContext.INITIAL_CONTEXT_FACTORY, asked.className());
        return new InitialContext(environment).lookup(asked.lookup());
    }

    /** Sets a property by its setter, or else by {@code setProperty(String, String)} where the factory has that. */
    private static void set(Object made, String name, String value) throws Exception {
        BeanInfo bean = Introspector.getBeanInfo(made.getClass());
        for (PropertyDescriptor property : bean.getPropertyDescriptors()) {
            if (property.getName().equals(name) && property.getWriteMethod() != null) {
                call(property.getWriteMethod(), made, converted(property.getPropertyType(), name, value));
                return;
            }
        }
        try {
            call(made.getClass().getMethod("setProperty", String.class, String.class), made, name, value);
        } catch (NoSuchMethodException none) {
            throw new IllegalArgumentException(made.getClass().getName() + " has no property " + name, none);
        }
    }

    private static void call(Method method, Object on, Object... arguments) throws Exception {
        try {
            method.invoke(on, arguments);
        } catch (InvocationTargetException wrapped) {
            throw wrapped.getCause() instanceof Exception cause ? cause : wrapped;
        }
    }

    private static Object converted(Class<?> type, String name, String value) {
        if (type == String.class || type == Object.class) {
            return value;
        } else if (type == int.class || type == Integer.class) {
            return Integer.valueOf(value);
        } else if (type == long.class || type == Long.class) {
            return Long.valueOf(value);
        } else if (type == boolean.class || type == Boolean.class) {
            return Boolean.valueOf(value);
        }
        throw new IllegalArgumentException("the property " + name + " is a " + type.getName() + ", which no text can give");
    }
}
