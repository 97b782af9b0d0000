"""Logs in the users of a real directory (OpenLDAP's slapd): by pika over AMQP, and over HTTP.

Every check is an assertion about what a client of somebody else's sees.
"""

import argparse
import base64
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import server  # noqa: E402

SUFFIX = "dc=example,dc=com"
SCHEMAS = pathlib.Path("/etc/ldap/schema")
# The entry of `jdoe`, whose name has what a filter and a name must escape.
JOHN = r"cn=Doe\, John (Sales)"
GROUPS = (
    "mq admins=tag:administrator configure:*/* write:*/* read:*/*,"
    "orders=configure:%2F/orders.* write:%2F/orders.* read:%2F/orders.* write:%2F/amq.default,"
    "readers=read:%2F/*"
)


def refusals(exceptions):
    return exceptions.ProbableAuthenticationError, exceptions.ProbableAccessDeniedError, exceptions.AuthenticationError


def run(*command, **more):
    subprocess.run([str(part) for part in command], check=True, capture_output=True, **more)


class Directory:
    """A directory on loopback with the entries of this folder, with and without TLS."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.plain, self.tls = server.free_port(), server.free_port()
        self.certificates()
        schemas = "".join(f"include {SCHEMAS / name}.schema\n" for name in ["core", "cosine", "nis", "inetorgperson"])
        (scratch / "slapd").mkdir()
        (scratch / "slapd.conf").write_text(
            f"{schemas}moduleload back_mdb\n"
            f"TLSCACertificateFile {scratch}/ca.pem\nTLSCertificateFile {scratch}/server.pem\n"
            f"TLSCertificateKeyFile {scratch}/server.key\n"
            f'database mdb\nsuffix "{SUFFIX}"\nrootdn "cn=root,{SUFFIX}"\nrootpw root\ndirectory {scratch}/slapd\n'
            "access to attrs=userPassword by self write by anonymous auth by * none\n"
            "access to * by users read by * none\n"
        )
        run("/usr/sbin/slapadd", "-f", scratch / "slapd.conf", "-l", HERE / "directory.ldif")
        self.log = open(scratch / "slapd.log", "ab")
        self.process = None
        self.start()

    def certificates(self):
        new = ["-newkey", "rsa:2048", "-nodes"]
        for name in ["ca", "stranger"]:
            made = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={name}"]
            run("openssl", "req", "-x509", *new, *made, cwd=self.scratch)
        run("openssl", "req", *new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=ldap", cwd=self.scratch)
        (self.scratch / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-days", "2"]
        run("openssl", "x509", "-req", "-in", "server.csr", "-out", "server.pem", *signed, cwd=self.scratch)
        run("openssl", "req", *new, "-keyout", "broker.key", "-out", "broker.csr", "-subj", "/CN=b", cwd=self.scratch)
        (self.scratch / "uses").write_text("basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n")
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "uses", "-days", "2"]
        run("openssl", "x509", "-req", "-in", "broker.csr", "-out", "broker.pem", *signed, cwd=self.scratch)
        (self.scratch / "broker.key").chmod(0o600)

    def demand_certificates(self):
        """From now on it takes clients over TLS only with a certificate of its authority."""
        self.stop()
        settings = self.scratch / "slapd.conf"
        settings.write_text(settings.read_text().replace("database mdb", "TLSVerifyClient demand\ndatabase mdb"))
        self.start()

    def start(self):
        urls = f"ldap://127.0.0.1:{self.plain} ldaps://127.0.0.1:{self.tls}"
        command = ["/usr/sbin/slapd", "-d", "0", "-h", urls, "-f", self.scratch / "slapd.conf"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        probe = ["ldapwhoami", "-x", "-H", f"ldap://127.0.0.1:{self.plain}", "-D", f"cn=root,{SUFFIX}", "-w", "root"]
        server.until("the directory answers", lambda: subprocess.run(probe, capture_output=True).returncode == 0)

    def change_member(self, verb, group, entry):
        """Has an entry `add`ed to a group, or `delete`d from it, while the directory serves."""
        self.change(verb, group, "uniqueMember", f"{entry},ou=people,{SUFFIX}")

    def change(self, verb, group, attribute, value):
        change = f"dn: cn={group},ou=groups,{SUFFIX}\nchangetype: modify\n{verb}: {attribute}\n{attribute}: {value}\n"
        root = ["-x", "-H", f"ldap://127.0.0.1:{self.plain}", "-D", f"cn=root,{SUFFIX}", "-w", "root"]
        run("ldapmodify", *root, input=change.encode())

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


class Check:
    """A broker that asks the directory in one way, and clients of it."""

    def __init__(self, pika, program, flags, scratch):
        self.pika, self.scratch = pika, scratch
        scratch.mkdir()
        self.hermod = server.Hermod(program, flags, scratch)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hermod.stop()

    def connect(self, user, password):
        return server.connect(self.pika, self.hermod, user, password)

    def refused(self, user, password):
        try:
            self.connect(user, password)
        except refusals(self.pika.exceptions):
            return
        raise AssertionError(f"let in: {user!r}")

    def log(self):
        return (self.scratch / "hermod.log").read_text()

    def lost(self, connection):
        """Whether a right to declare is lost."""
        try:
            connection.channel().queue_declare("orders.lost")
        except self.pika.exceptions.ChannelClosedByBroker as closed:
            return closed.reply_code == 403
        return False

    def end(self, connection):
        """How the broker has closed a connection, if it has."""
        try:
            connection.process_data_events(0.1)
        except self.pika.exceptions.ConnectionClosedByBroker as closed:
            return closed
        return None

    def whoami(self, user, password):
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        return self.hermod.get("/api/whoami", {"Authorization": f"Basic {basic}"})

    def may_not(self, connection, queue):
        try:
            connection.channel().queue_declare(queue)
        except self.pika.exceptions.ChannelClosedByBroker as closed:
            assert closed.reply_code == 403, closed
            return
        raise AssertionError(f"declared without a right: {queue}")


def by_name(start, directory, scratch):
    flags = ["--auth-backends=ldap,internal", f"--auth-ldap-servers=ldaps://127.0.0.1:{directory.tls}"]
    flags += [f"--auth-ldap-ssl-options-cacertfile={scratch}/ca.pem", "--auth-cache-ttl=0"]
    flags += [f"--auth-ldap-user-dn-pattern=uid=${{username}},ou=people,{SUFFIX}"]
    flags += [f"--auth-ldap-group-lookup-base=ou=groups,{SUFFIX}", f"--auth-ldap-groups={GROUPS}"]
    with start("by-name", flags) as check:
        connection = check.connect("bob", "builder")
        channel = connection.channel()
        channel.queue_declare("orders.new")
        channel.confirm_delivery()
        channel.basic_publish("", "orders.new", b"by LDAP", mandatory=True)
        assert channel.basic_get("orders.new", auto_ack=True)[2] == b"by LDAP"
        check.may_not(connection, "theirs")
        print("a user of a group: what it gives, and nothing else")
        for spelled in ["ada", "ADA", " Ada "]:
            status, document = check.whoami(spelled, "wonder")
            assert (status, document["name"], document["tags"]) == (200, "ada", ["administrator"]), (spelled, document)
        assert check.whoami("bob", "builder")[0] == 401, "it has no tag"
        print("an administrator over HTTP, by any spelling the same user")
        for user, password in [
            ("ada", "wrong"), ("ada", ""), ("nobody", "wonder"), ("", "wonder"), ("*", "wonder"),
            ("ada,ou=people", "wonder"), ("ada)(uid=*", "wonder"), ("bob", "wonder"), ("ada\x00", "wonder"),
        ]:
            check.refused(user, password)
        print("wrong, empty and forged names and passwords")
        check.refused("eve", "snake")
        print("a user whose groups give nothing enters no virtual host")
        directory.stop()
        check.refused("ada", "wonder")
        check.connect("guest", "guest").close()
        channel.queue_declare("orders.still")
        directory.start()
        check.connect("ada", "wonder").close()
        connection.close()
        print("while the directory is down, no one of it gets in, and others go on")


def by_search(start, directory, scratch):
    password = scratch / "password"
    password.write_text("broker's\n")
    down = server.free_port()
    flags = ["--auth-backends=ldap", "--auth-ldap-use-starttls=true", "--auth-cache-ttl=0"]
    flags += [f"--auth-ldap-servers=ldap://127.0.0.1:{down},ldap://127.0.0.1:{directory.plain}"]
    flags += [f"--auth-ldap-ssl-options-cacertfile={scratch}/ca.pem", "--auth-ldap-keep-rights=20 s", "--auth-ldap-refresh=0"]
    flags += ["--auth-ldap-dn-lookup-attribute=uid", f"--auth-ldap-dn-lookup-base=ou=people,{SUFFIX}"]
    flags += [f"--auth-ldap-dn-lookup-bind-user-dn=cn=hermod,{SUFFIX}"]
    flags += [f"--auth-ldap-dn-lookup-bind-password-file={password}"]
    flags += [f"--auth-ldap-group-lookup-base=ou=groups,{SUFFIX}", f"--auth-ldap-groups={GROUPS}"]
    with start("by-search", flags) as check:
        connection = check.connect("jdoe", "sold")
        begun = time.monotonic()
        connection.channel().queue_declare("orders.old")
        check.may_not(connection, "theirs")
        print("an entry with a difficult name, found over StartTLS at the second server")
        check.refused("twin", "same")
        check.refused("guest", "guest")
        print("two entries of one name, and users of this broker that are not asked")
        directory.change_member("delete", "orders", JOHN)
        connection.channel().queue_declare("orders.kept")
        check.may_not(check.connect("jdoe", "sold"), "orders.gone")
        print("a group that is left: a new connection lacks its rights, one that is open keeps them")
        while connection.is_open and time.monotonic() < begun + server.PATIENCE:
            try:
                connection.process_data_events(1)
            except check.pika.exceptions.ConnectionClosedByBroker as closed:
                assert closed.reply_code == 320 and "expired" in closed.reply_text, closed
        assert not connection.is_open
        check.may_not(check.connect("jdoe", "sold"), "orders.gone")
        directory.change_member("add", "orders", JOHN)
        check.connect("jdoe", "sold").channel().queue_declare("orders.back")
        print("rights end, and the client logs in again with those that it has now")


def asked_again(start, directory, scratch):
    """The account asks for the groups of those who are connected."""
    flags = ["--auth-backends=ldap", f"--auth-ldap-servers=ldaps://127.0.0.1:{directory.tls}", "--auth-cache-ttl=1 h"]
    flags += [f"--auth-ldap-ssl-options-cacertfile={scratch}/ca.pem", "--auth-ldap-refresh=1 s"]
    flags += ["--auth-ldap-dn-lookup-attribute=uid", f"--auth-ldap-dn-lookup-base=ou=people,{SUFFIX}"]
    flags += [f"--auth-ldap-dn-lookup-bind-user-dn=cn=hermod,{SUFFIX}"]
    flags += [f"--auth-ldap-dn-lookup-bind-password-file={scratch}/password"]
    flags += [f"--auth-ldap-group-lookup-base=ou=groups,{SUFFIX}", f"--auth-ldap-groups={GROUPS}"]
    with start("asked-again", flags) as check:
        connection, other = check.connect("jdoe", "sold"), check.connect("ada", "wonder")
        channel, gone = connection.channel(), []
        channel.queue_declare("orders.again")
        channel.add_on_cancel_callback(lambda _: gone.append(True))
        channel.basic_consume("orders.again", lambda *_: None)
        directory.stop()
        server.until("the broker notes that it can't ask", lambda: "keep the rights" in check.log() or connection.process_data_events(0.1))
        channel.queue_declare("orders.kept")
        directory.start()
        print("while the directory is down, those who are connected keep their rights")
        directory.change_member("delete", "orders", JOHN)
        server.until("the consumer goes on, and what is lost is refused", lambda: connection.process_data_events(0.1) or check.lost(connection))
        assert not gone, "readers may read it"
        directory.change("delete", "readers", "memberUid", "jdoe")
        closed = server.until("the connection is closed", lambda: check.end(connection))
        assert closed.reply_code == 320 and "no access" in closed.reply_text, closed
        check.refused("jdoe", "sold")
        other.channel().queue_declare("anything")
        directory.change_member("add", "orders", JOHN)
        directory.change("add", "readers", "memberUid", "jdoe")
        print("a group that is left takes its rights from open connections, and from kept answers")


def with_own_rights(start, directory, scratch):
    flags = ["--auth-backends=ldap/internal", f"--auth-ldap-servers=ldaps://127.0.0.1:{directory.tls}"]
    flags += [f"--auth-ldap-ssl-options-cacertfile={scratch}/ca.pem", "--default-user=bob", "--default-pass=unused"]
    flags += [f"--auth-ldap-user-dn-pattern=uid=${{username}},ou=people,{SUFFIX}"]
    with start("own-rights", flags) as check:
        check.connect("bob", "builder").channel().queue_declare("anything")
        check.refused("bob", "unused")
        check.refused("ada", "wonder")
        print("the directory says who one is, and the user here what one may do")


def not_trusted(start, directory, scratch):
    flags = ["--auth-backends=ldap/internal", f"--auth-ldap-servers=ldaps://127.0.0.1:{directory.tls}"]
    flags += [f"--auth-ldap-ssl-options-cacertfile={scratch}/stranger.pem", "--default-user=bob", "--default-pass=unused"]
    flags += [f"--auth-ldap-user-dn-pattern=uid=${{username}},ou=people,{SUFFIX}"]
    with start("not-trusted", flags) as check:
        check.refused("bob", "builder")
    assert "certificate" in (scratch / "not-trusted" / "hermod.log").read_text()
    print("a server with a stranger's certificate gets no password")


def by_role(start, directory, scratch):
    flags = ["--auth-backends=ldap,internal", f"--auth-ldap-servers=ldaps://127.0.0.1:{directory.tls}"]
    flags += [f"--auth-ldap-ssl-options-cacertfile={scratch}/ca.pem", "--auth-cache-ttl=0"]
    flags += [f"--auth-ldap-user-dn-pattern=uid=${{username}},ou=people,{SUFFIX}"]
    flags += [f"--auth-ldap-group-lookup-base=ou=groups,{SUFFIX}", "--auth-ldap-groups=orders=role:clerks"]
    with start("by-role", flags) as check:
        admin = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
        check.refused("bob", "builder")
        print("a role that is not there lets no one in")
        def put(path, document):
            status, _ = server.request(check.hermod.url(path), headers=admin, document=document, method="PUT")
            assert status in (201, 204), (path, status)

        put("/api/users/clerks", {"tags": "", "password_hash": ""})
        rights = {"configure": "^orders", "write": "^orders|^amq.default$", "read": "^orders"}
        put("/api/permissions/%2F/clerks", rights)
        connection = check.connect("bob", "builder")
        connection.channel().queue_declare("orders.new")
        check.may_not(connection, "theirs")
        why = check.hermod.get("/api/explain/access?user=bob&vhost=/&kind=queue&name=orders.new", admin)
        assert why[0] == 200 and "role 'clerks'" in str(why[1]), why
        print("a group gives a role of this broker, and the explanation names it")
        channel = connection.channel()
        gone = []
        channel.add_on_cancel_callback(lambda _: gone.append(True))
        channel.basic_consume("orders.new", lambda *_: None)
        put("/api/permissions/%2F/clerks", {**rights, "read": "^$"})
        server.until("the consumer is cancelled", lambda: connection.process_data_events(0.1) or gone)
        connection.close()
        print("what the role loses, its holders lose at once")


def with_a_certificate(start, directory, scratch):
    directory.demand_certificates()
    flags = ["--auth-backends=ldap/internal", f"--auth-ldap-servers=ldaps://127.0.0.1:{directory.tls}"]
    flags += [f"--auth-ldap-ssl-options-cacertfile={scratch}/ca.pem", "--default-user=bob", "--default-pass=unused"]
    flags += [f"--auth-ldap-user-dn-pattern=uid=${{username}},ou=people,{SUFFIX}", "--auth-cache-ttl=0"]
    with start("without-certificate", flags) as check:
        check.refused("bob", "builder")
    flags += [f"--auth-ldap-ssl-options-certfile={scratch}/broker.pem"]
    flags += [f"--auth-ldap-ssl-options-keyfile={scratch}/broker.key"]
    with start("with-certificate", flags) as check:
        check.connect("bob", "builder").close()
    print("a directory that asks for the broker's certificate gets it")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=server.PROGRAM, help="the broker's program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        pika = server.pika_of(scratch)
        directory = Directory(scratch)

        def start(name, flags):
            return Check(pika, options.server, flags, scratch / name)

        try:
            for part in [by_name, by_search, asked_again, with_own_rights, not_trusted, by_role, with_a_certificate]:
                part(start, directory, scratch)
        except BaseException:
            server.show_logs(scratch)
            for folder in scratch.glob("*-*"):
                server.show_logs(folder)
            raise
        finally:
            directory.stop()


if __name__ == "__main__":
    main()
