#!/usr/bin/env python3
"""Runs the tests of aio-pika. They want their broker from docker; a stand-in answers for it with Hermod's ports."""

import http.server
import json
import threading

import judge
import pytest_suite

PACKAGES = ["aio-pika==9.6.0", "pytest==9.2.0", "pytest-timeout==2.4.0", "aiomisc==18.0.37", "aiomisc-pytest==2.0.0", "pytest-rst==0.2.3", "shortuuid",
            "timeout-decorator"]
# The largest body in the tests has 20 MiB.
SETTINGS = {"HERMOD_LIMITS_MAX_MESSAGE_SIZE": "32MiB"}
# Steps of one test that cut the network every few bytes. One that fails does not let go of the event loop, so each has a process of its own.
STAIRWAY = "tests/test_amqp_robust_proxy.py::test_channel_reconnect_stairway"
PAUSES, BYTES = ("0.1", "0.0"), [2 << power for power in range(5, 12)]
STAIRWAY_LIMIT_SECONDS = 60


def body():
    options = judge.arguments("aio-pika", __doc__)
    python = judge.virtual_environment(options, PACKAGES)
    checkout = judge.copy_of(options)
    made = judge.certificates(options)
    tls = judge.tls(*(made / name for name in ("server.pem", "server.key", "ca.pem")))
    with judge.Broker(options, SETTINGS | tls) as broker:
        docker = docker_stand_in({"5672/tcp": broker.amqp, "5671/tcp": broker.amqps})
        environment = {"DOCKER_HOST": f"tcp://127.0.0.1:{docker.server_address[1]}"}
        outcomes = pytest_suite.run(options, python, folder=checkout, tests=["tests"], more=["--deselect", STAIRWAY],
                                    environment=environment, limit_per_test=30)
        steps = [f"{STAIRWAY}[[{row}] {pause}-{cut}]" for row, pause in enumerate(PAUSES) for cut in BYTES]
        outcomes += [pytest_suite.run_alone(options, python, folder=checkout, test=step, environment=environment, limit=STAIRWAY_LIMIT_SECONDS)
                     for step in steps]
        docker.shutdown()
    return judge.report(options, judge.version_of(options), outcomes)


def docker_stand_in(ports):
    """Serves the six requests with which the suite pulls, creates, starts, inspects, kills and removes its container."""
    inspected = {"NetworkSettings": {"Ports": {inner: [{"HostPort": str(outer)}] for inner, outer in ports.items()}}}

    class Answer(http.server.BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            if self.path == "/containers/create":
                body = json.dumps({"Id": "hermod"}).encode()
            elif self.path.endswith("/json"):
                body = json.dumps(inspected).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


judge.main(body)
