"""A web service that decides, as RabbitMQ's documentation has it: four paths, `allow` or `deny`.

It follows the examples of the plugin rabbitmq_auth_backend_http: it looks up names, and knows
nothing of the broker. `asked` has what it was asked; `hang` holds up each answer until it is set.
"""

import http.server
import socket
import threading
import urllib.parse

USERS = {"ada": ("wonder", ["administrator"]), "bob": ("builder", [])}
# What a question must have, as RabbitMQ's README lists it.
PARAMETERS = {
    "/auth/user": {"username", "password"},
    "/auth/vhost": {"username", "vhost", "ip"},
    "/auth/resource": {"username", "vhost", "resource", "name", "permission"},
    "/auth/topic": {"username", "vhost", "resource", "name", "permission", "routing_key"},
}


class Service:
    """The service on a free port of loopback, while it is not stopped."""

    def __init__(self, port=0):
        self.asked, self.withdrawn, self.sockets = [], set(), []
        self.hang = threading.Event()
        self.hang.set()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                service.sockets.append(self.connection)

            def do_GET(self):
                self.reply(urllib.parse.urlsplit(self.path).query)

            def do_POST(self):
                self.reply(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def reply(self, query):
                path = urllib.parse.urlsplit(self.path).path
                answer = service.answer(path, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)))
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        for kept in self.sockets:
            try:
                kept.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def answer(self, path, question):
        assert PARAMETERS[path] <= question.keys(), (path, question)
        self.asked.append((path, question))
        self.hang.wait()
        user = question["username"]
        if path == "/auth/user":
            password, tags = USERS.get(user, (None, []))
            return " ".join(["allow", *tags]) if question["password"] == password else "deny unknown"
        return "allow" if user == "ada" or self.may(path, question) else "deny not yours"

    def may(self, path, question):
        """Bob works in the vhost `/`, with what has his name, and publishes to any exchange."""
        if path == "/auth/vhost":
            return question["vhost"] == "/"
        if path == "/auth/topic":
            return question["routing_key"].startswith("bob.")
        # Queues of MQTT's clients have names of the broker's.
        own = question["name"].startswith(("bob.", "mqtt-session.")) or question["name"] in ("amq.topic", "amq.default")
        return own and (question["name"], question["permission"]) not in self.withdrawn

    def count(self, path, **wanted):
        return sum(1 for at, question in self.asked if at == path and wanted.items() <= question.items())
