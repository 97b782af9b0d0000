"""Logs in with tokens of a real Keycloak: by pika over AMQP, and over HTTP.

Every check is an assertion about what a client of somebody else's sees.
"""

import argparse
import html.parser
import http.cookiejar
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import server  # noqa: E402

KEYCLOAK = "26.7.3"


class Keycloak:
    """A Keycloak on loopback with the realm of this folder."""

    def __init__(self, home, scratch):
        self.port = server.free_port()
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
        discovery = f"{self.issuer}/.well-known/openid-configuration"
        server.until("Keycloak serves the realm", lambda: server.request(discovery)[0] == 200)

    def token(self, client, user=None, password=None):
        form = {"client_id": client, "client_secret": f"{client}-secret", "grant_type": "client_credentials"}
        if user:
            form |= {"grant_type": "password", "username": user, "password": password}
        status, document = server.request(f"{self.issuer}/protocol/openid-connect/token", form)
        assert status == 200, f"{client} {user}: {status}"
        return document["access_token"]

    def rotate(self):
        """Gives the realm a newer key, which signs from now on."""
        base = f"http://127.0.0.1:{self.port}"
        form = {"client_id": "admin-cli", "grant_type": "password", "username": "admin", "password": "admin"}
        status, document = server.request(f"{base}/realms/master/protocol/openid-connect/token", form)
        assert status == 200, status
        headers = {"Authorization": f"Bearer {document['access_token']}"}
        provider = {
            "name": "newer",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {"priority": ["200"], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]},
        }
        _, realm = server.request(f"{base}/admin/realms/mq", headers=headers)
        provider["parentId"] = realm["id"]
        status, _ = server.request(f"{base}/admin/realms/mq/components", headers=headers, document=provider)
        assert status == 201, status


def flags(issuer):
    """A broker that takes the tokens of a Keycloak."""
    flags = ["--auth-backends=internal,oauth2", "--auth-oauth2-resource-server-id=hermod"]
    flags += [f"--auth-oauth2-issuer={issuer}", "--auth-oauth2-additional-scopes-key=resource_access.hermod.roles"]
    flags += ["--auth-oauth2-client-id=console", "--auth-oauth2-client-secret=console-secret", "--auth-oauth2-label=Keycloak"]
    return flags + ["--auth-oauth2-preferred-username-claims=preferred_username"]


class Form(html.parser.HTMLParser):
    """Where the first form of a page goes."""

    action = None

    def handle_starttag(self, tag, attributes):
        if tag == "form" and self.action is None:
            self.action = dict(attributes)["action"]


def browse(hermod, user, password):
    """Logs in to the console on Keycloak's page, as a browser does. Returns the page at the end."""
    # Browsers send cookies for encrypted pages to this machine, too.
    policy = http.cookiejar.DefaultCookiePolicy(secure_protocols=("http", "https"))
    jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar(policy))
    browser = urllib.request.build_opener(urllib.request.ProxyHandler({}), jar)
    console = f"http://127.0.0.1:{hermod.http}"
    assert "Log in with Keycloak" in browser.open(f"{console}/login").read().decode()
    form = Form()
    form.feed(browser.open(f"{console}/login/elsewhere?to=%2Fusers").read().decode())
    sent = urllib.parse.urlencode({"username": user, "password": password}).encode()
    arrived = browser.open(form.action, sent)
    assert arrived.headers["Refresh"] == "0; url=/users", arrived.headers
    return browser.open(f"{console}/users").read().decode()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def connect(pika, hermod, token):
    return server.connect(pika, hermod, "", token)


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
    assert hermod.get("/api/whoami", bearer(token))[0] == 401, "it has no tag"
    person = keycloak.token("app", "ada", "wonder")
    status, whoami = hermod.get("/api/whoami", bearer(person))
    assert (status, whoami["name"], whoami["tags"]) == (200, "ada", ["administrator"]), whoami
    status, connections = hermod.get("/api/connections", bearer(person))
    assert status == 200 and [row["user"] for row in connections] == ["service-account-app"], connections
    print("a person's token over HTTP, with the tag of its role")
    page = browse(hermod, "ada", "wonder")
    assert "Log out" in page and ">ada<" in page, page
    print("a person logs in to the console on Keycloak's page")
    changed = person[:-10] + ("A" if person[-10] != "A" else "B") + person[-9:]
    for what, wrong in [("another service's", keycloak.token("other")), ("a changed", changed)]:
        assert hermod.get("/api/whoami", bearer(wrong))[0] == 401, what
        try:
            connect(pika, hermod, wrong)
            raise AssertionError(f"{what} token let in")
        except (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AuthenticationError):
            pass
    print("another service's token and a changed one are refused")
    ends, goes_on = connect(pika, hermod, keycloak.token("short")), connect(pika, hermod, keycloak.token("short"))
    begun = time.monotonic()
    renewed = goes_on.channel()
    while ends.is_open and time.monotonic() < begun + server.PATIENCE:
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
    server.until("the newer key is known", lambda: hermod.get("/api/whoami", bearer(newer))[0] == 200)
    assert hermod.get("/api/whoami", bearer(person))[0] == 200
    print("tokens of a newer key and of the older one")
    connection.close()
    goes_on.close()


def distribution(scratch):
    command = ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"]
    command += [f"-Dartifact=org.keycloak:keycloak-quarkus-dist:{KEYCLOAK}:zip", f"-DoutputDirectory={scratch}"]
    # The plugin keeps notes in the folder that it runs in.
    subprocess.run(command, check=True, cwd=scratch)
    home = scratch / f"keycloak-{KEYCLOAK}"
    (home / "bin" / "kc.sh").chmod(0o755)
    return home


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keycloak", type=pathlib.Path, help="a distribution that is there")
    parser.add_argument("--hermod", default=server.PROGRAM, help="the broker's program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        started = []
        try:
            pika = server.pika_of(scratch)
            keycloak = Keycloak(options.keycloak or distribution(scratch), scratch)
            started.append(keycloak)
            hermod = server.Hermod(options.hermod, flags(keycloak.issuer), scratch)
            started.append(hermod)
            check(pika, keycloak, hermod)
        except BaseException:
            server.show_logs(scratch)
            raise
        finally:
            for running in reversed(started):
                running.process.terminate()
                running.process.wait(60)


if __name__ == "__main__":
    main()
