"""Reaches Hermod through a real HAProxy that speaks the PROXY protocol: by pika over AMQP, and over HTTP.

Every check is an assertion about what a client of somebody else's, or an operator, sees.
"""

import argparse
import base64
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import server  # noqa: E402

# Clients come from an address of their own, so that it is told from the proxy's.
CLIENT = "127.0.0.7"


def get(port, path):
    """The status of an answer and its text."""
    credentials = base64.b64encode(b"guest:guest").decode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Basic {credentials}"})
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def come_from(address):
    """Lets every connection of this program begin at this address."""
    connect = socket.socket.connect

    def from_there(self, where):
        self.bind((address, 0))
        return connect(self, where)

    socket.socket.connect = from_there


class Setup:
    """A broker behind a proxy: each port of the proxy sends one version of the header."""

    def __init__(self, hermod, haproxy, scratch):
        self.direct, self.http, self.amqp, self.web = [server.free_port() for _ in range(4)]
        self.proxied = {version: server.free_port() for version in ("send-proxy", "send-proxy-v2", "none")}
        self.proxied_web, self.stomp = server.free_port(), server.free_port()
        config = scratch / "hermod.toml"
        config.write_text(
            f"ports.amqp = {self.direct}\nports.http = {self.http}\nports.stomp = {self.stomp}\nbind = '127.0.0.1'\n"
            f"[[listeners]]\nname = 'amqp'\nprotocols = ['amqp', 'amqp10']\nport = {self.amqp}\n"
            "proxy_protocol = '127.0.0.1'\n"
            f"[[listeners]]\nname = 'web'\nprotocols = 'http'\nport = {self.web}\nproxy_protocol = '127.0.0.1'\n"
        )
        self.log = open(scratch / "hermod.log", "w+")
        command = [hermod, "serve", "--config", config, "--data-dir", scratch / "data"]
        self.hermod = subprocess.Popen(command, stderr=self.log)
        server.until("the broker is ready", lambda: get(self.http, "/health/ready")[0] == 200)
        (scratch / "haproxy.cfg").write_text(self.haproxy_config())
        self.haproxy = subprocess.Popen([haproxy, "-db", "-f", scratch / "haproxy.cfg"], stderr=subprocess.DEVNULL)

    def haproxy_config(self):
        """With health checks, which HAProxy makes with a header of its own."""
        text = "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
        for version, port in self.proxied.items():
            options = "" if version == "none" else f"{version} check inter 200ms"
            text += f"listen {version}\n bind 127.0.0.1:{port}\n server hermod 127.0.0.1:{self.amqp} {options}\n"
        text += f"listen web\n bind 127.0.0.1:{self.proxied_web}\n server hermod 127.0.0.1:{self.web} send-proxy-v2\n"
        return text

    def connections(self):
        return json.loads(get(self.http, "/api/connections")[1])

    def end(self):
        for process in (self.haproxy, self.hermod):
            process.terminate()
            process.wait(30)


def check(setup, pika):
    def connect(port):
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, connection_attempts=1))

    for version in ("send-proxy", "send-proxy-v2"):
        client = server.until(f"the proxy with {version}", lambda: attempt(connect, setup.proxied[version]))
        channel = client.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", version.encode())
        body = channel.basic_get("q", auto_ack=True)[2]
        assert body == version.encode(), body
        [row] = setup.connections()
        assert row["peer_host"] == CLIENT, row
        assert row["port"] == setup.proxied[version], "the address that the client reached is the proxy's"
        client.close()
        server.until("the end", lambda: not setup.connections())
        print(f"ok: pika through haproxy with {version}")
    for what, port in (("a proxy without headers", setup.proxied["none"]), ("no proxy at all", setup.amqp)):
        refused = attempt(connect, port) is None
        assert refused, f"{what} was let in"
        print(f"ok: {what} is refused")
    server.until("HTTP through the proxy", lambda: get(setup.proxied_web, "/api/whoami")[0] == 200)
    setup.log.seek(0)
    log = setup.log.read()
    # The log has the first of several within ten seconds; the metric counts each.
    assert "connection refused: the connection does not begin with a header" in log, "what is missing is named"
    metrics = get(setup.http, "/metrics")[1].splitlines()
    [count] = [line.split()[1] for line in metrics if 'connections_refused_total{reason="proxy_protocol"}' in line]
    assert int(count) >= 2, count
    print("ok: HTTP through haproxy; refusals are told and counted")


def attempt(connect, port):
    try:
        return connect(port)
    except Exception:  # pika has many for an end
        return None


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hermod", default=server.PROGRAM)
    options.add_argument("--haproxy", default=shutil.which("haproxy"))
    given = options.parse_args()
    if given.haproxy is None:
        sys.exit("there is no haproxy: install it, or name it with --haproxy")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        pika = server.pika_of(scratch)
        setup = Setup(given.hermod, given.haproxy, scratch)
        try:
            come_from(CLIENT)
            check(setup, pika)
        finally:
            setup.end()


if __name__ == "__main__":
    main()
