"""Logs in with tokens of a real Keycloak: by pika over AMQP, and over HTTP.

Every check is an assertion about what a client of somebody else's sees.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEYCLOAK = "26.7.3"
PATIENCE = 240


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, reached):
    """Waits until `reached` gives something, and returns it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = reached()
        if found:
            return found
        time.sleep(0.25)
    raise AssertionError(f"in vain: {what}")


def request(url, form=None, headers=None, document=None, method=None):
    """The status of an answer and its document."""
    data = urllib.parse.urlencode(form).encode() if form else None
    headers = dict(headers or {})
    if document is not None:
        data = json.dumps(document).encode()
        headers["Content-Type"] = "application/json"
    asked = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            is_json = "json" in answer.headers.get("Content-Type", "")
            return answer.status, json.loads(answer.read()) if is_json else None
    except urllib.error.HTTPError as error:
        return error.code, None
    except OSError:
        return 0, None


class Keycloak:
    """A Keycloak on loopback with the realm of this folder."""

    def __init__(self, home, scratch):
        self.port = free_port()
        imported = home / "data" / "import"
        imported.mkdir(parents=True, exist_ok=True)
        (imported / "realm.json").write_text((HERE / "realm.json").read_text())
        environment = os.environ | {
            "KC_BOOTSTRAP_ADMIN_USERNAME": "admin",
            "KC_BOOTSTRAP_ADMIN_PASSWORD": "admin",
            "JAVA_OPTS_KC_HEAP": "-Xms128m -Xmx512m",
        }
        command = [home / "bin" / "kc.sh", "start-dev", "--import-realm", "--http-host=127.0.0.1"]
        command += [f"--http-port={self.port}", f"--hostname=http://127.0.0.1:{self.port}", "--cache=local"]
        self.log = open(scratch / "keycloak.log", "wb")
        self.process = subprocess.Popen(command, env=environment, stdout=self.log, stderr=self.log)
        self.issuer = f"http://127.0.0.1:{self.port}/realms/mq"
        until("Keycloak serves the realm", lambda: request(f"{self.issuer}/.well-known/openid-configuration")[0] == 200)

    def token(self, client, user=None, password=None):
        form = {"client_id": client, "client_secret": f"{client}-secret", "grant_type": "client_credentials"}
        if user:
            form |= {"grant_type": "password", "username": user, "password": password}
        status, document = request(f"{self.issuer}/protocol/openid-connect/token", form)
        assert status == 200, f"{client} {user}: {status}"
        return document["access_token"]

    def rotate(self):
        """Gives the realm a newer key, which signs from now on."""
        base = f"http://127.0.0.1:{self.port}"
        form = {"client_id": "admin-cli", "grant_type": "password", "username": "admin", "password": "admin"}
        status, document = request(f"{base}/realms/master/protocol/openid-connect/token", form)
        assert status == 200, status
        headers = {"Authorization": f"Bearer {document['access_token']}"}
        provider = {
            "name": "newer",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {"priority": ["200"], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]},
        }
        _, realm = request(f"{base}/admin/realms/mq", headers=headers)
        provider["parentId"] = realm["id"]
        status, _ = request(f"{base}/admin/realms/mq/components", headers=headers, document=provider)
        assert status == 201, status


class Hermod:
    """A broker that takes the tokens of a Keycloak."""

    def __init__(self, program, issuer, scratch):
        self.amqp, self.http = free_port(), free_port()
        command = [program, "serve", f"--data-dir={scratch / 'data'}", f"--ports-amqp={self.amqp}"]
        command += [f"--ports-http={self.http}", "--ports-stomp=0", "--auth-backends=internal,oauth2"]
        command += ["--auth-oauth2-resource-server-id=hermod", f"--auth-oauth2-issuer={issuer}"]
        command += ["--auth-oauth2-additional-scopes-key=resource_access.hermod.roles"]
        command += ["--auth-oauth2-preferred-username-claims=preferred_username", "--limits-connections=100"]
        self.log = open(scratch / "hermod.log", "wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        until("the broker is ready", lambda: self.get("/health/ready")[0] == 200)

    def get(self, path, token=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return request(f"http://127.0.0.1:{self.http}{path}", headers=headers)


def connect(pika, hermod, token):
    credentials = pika.PlainCredentials("", token)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", hermod.amqp, credentials=credentials))


def check(pika, keycloak, hermod):
    token = keycloak.token("app")
    connection = connect(pika, hermod, token)
    channel = connection.channel()
    channel.queue_declare("own.1")
    channel.confirm_delivery()
    channel.basic_publish("", "own.1", b"by token", mandatory=True)
    assert channel.basic_get("own.1", auto_ack=True)[2] == b"by token"
    print("a client's token: declare, publish and get")
    try:
        channel.queue_declare("theirs")
        raise AssertionError("declared without a right")
    except pika.exceptions.ChannelClosedByBroker as closed:
        assert closed.reply_code == 403 and "service-account-app" in closed.reply_text, closed
    print("what its roles do not allow is refused")
    assert hermod.get("/api/whoami", token)[0] == 401, "it has no tag"
    person = keycloak.token("app", "ada", "wonder")
    status, whoami = hermod.get("/api/whoami", person)
    assert (status, whoami["name"], whoami["tags"]) == (200, "ada", ["administrator"]), whoami
    status, connections = hermod.get("/api/connections", person)
    assert status == 200 and [row["user"] for row in connections] == ["service-account-app"], connections
    print("a person's token over HTTP, with the tag of its role")
    changed = person[:-10] + ("A" if person[-10] != "A" else "B") + person[-9:]
    for what, wrong in [("another service's", keycloak.token("other")), ("a changed", changed)]:
        assert hermod.get("/api/whoami", wrong)[0] == 401, what
        try:
            connect(pika, hermod, wrong)
            raise AssertionError(f"{what} token let in")
        except (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AuthenticationError):
            pass
    print("another service's token and a changed one are refused")
    ends, goes_on = connect(pika, hermod, keycloak.token("short")), connect(pika, hermod, keycloak.token("short"))
    begun = time.monotonic()
    renewed = goes_on.channel()
    while ends.is_open and time.monotonic() < begun + PATIENCE:
        goes_on.update_secret(keycloak.token("short"), "newer")
        try:
            ends.process_data_events(1)
        except pika.exceptions.ConnectionClosedByBroker as closed:
            assert closed.reply_code == 320 and "expired" in closed.reply_text, closed
    assert not ends.is_open
    renewed.queue_declare("own.2")
    print("a connection ends with its token, and goes on with a newer one")
    keycloak.rotate()
    newer = keycloak.token("app", "ada", "wonder")
    until("the newer key is known", lambda: hermod.get("/api/whoami", newer)[0] == 200)
    assert hermod.get("/api/whoami", person)[0] == 200
    print("tokens of a newer key and of the older one")
    connection.close()
    goes_on.close()


def distribution(scratch):
    command = ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"]
    command += [f"-Dartifact=org.keycloak:keycloak-quarkus-dist:{KEYCLOAK}:zip", f"-DoutputDirectory={scratch}"]
    subprocess.run(command, check=True)
    home = scratch / f"keycloak-{KEYCLOAK}"
    (home / "bin" / "kc.sh").chmod(0o755)
    return home


def pika_of(scratch):
    """pika, from an environment of its own."""
    venv.create(scratch / "venv", with_pip=True)
    python = scratch / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "-q", "install", "-r", HERE / "requirements.txt"], check=True)
    sys.path.insert(0, str(next((scratch / "venv" / "lib").glob("python*/site-packages"))))
    import pika

    return pika


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keycloak", type=pathlib.Path, help="a distribution that is there")
    parser.add_argument("--hermod", default=str(ROOT / "target/ci/hermod"), help="the broker's program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        started = []
        try:
            pika = pika_of(scratch)
            keycloak = Keycloak(options.keycloak or distribution(scratch), scratch)
            started.append(keycloak)
            hermod = Hermod(options.hermod, keycloak.issuer, scratch)
            started.append(hermod)
            check(pika, keycloak, hermod)
        except BaseException:
            for log in scratch.glob("*.log"):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
            raise
        finally:
            for server in reversed(started):
                server.process.terminate()
                server.process.wait(60)


if __name__ == "__main__":
    main()
