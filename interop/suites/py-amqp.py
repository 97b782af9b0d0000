#!/usr/bin/env python3
"""Runs the integration tests of py-amqp, the client beneath kombu and Celery."""

import shutil

import judge
import pytest_suite

PACKAGES = ["pytest==9.2.0", "pytest-timeout==2.4.0", "vine"]


def body():
    options = judge.arguments("py-amqp", __doc__)
    python = judge.virtual_environment(options, PACKAGES)
    checkout = judge.copy_of(options)
    # The suite has an authority without its key, so nobody can make a certificate for a broker: it gets another.
    made = judge.certificates(options)
    for source, name in (("ca.pem", "ca_certificate.pem"), ("client.pem", "client_certificate.pem"), ("client.key", "client_key.pem")):
        shutil.copy(made / source, checkout / "t" / "certs" / name)
    tls = judge.tls(*(made / name for name in ("server.pem", "server.key", "ca.pem")))
    with judge.Broker(options, tls) as broker:
        environment = {
            "RABBITMQ_HOST": "127.0.0.1",
            "RABBITMQ_5672_TCP": str(broker.amqp),
            "RABBITMQ_5671_TCP": str(broker.amqps),
        }
        outcomes = pytest_suite.run(options, python, folder=checkout, tests=["t/integration"], more=["-E", "rabbitmq"],
                                    environment=environment)
    return judge.report(options, judge.version_of(options), outcomes)


judge.main(body)
