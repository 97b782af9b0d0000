"""Loads the alert rules and the dashboard with a real Prometheus against a loaded broker.

Every check is an assertion about what Prometheus itself answers.
"""

import argparse
import base64
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "interop/console"))

from broker import Broker, free_port, until  # noqa: E402 - the path is set above

# Scrapes, each with whether it needs a user.
SCRAPES = {
    "/metrics": False,
    "/metrics/memory-breakdown": False,
    "/metrics/per-object": True,
    "/metrics/detailed?family=queue_coarse_metrics&family=queue_metrics&family=queue_delivery_metrics"
    "&family=connection_churn_metrics&family=node_coarse_metrics&family=node_metrics": True,
}
# What RabbitMQ's dashboard "RabbitMQ-Overview" asks for.
OVERVIEW = """
    rabbitmq_identity_info rabbitmq_build_info rabbitmq_erlang_uptime_seconds rabbitmq_connections rabbitmq_channels
    rabbitmq_queues rabbitmq_connections_opened_total rabbitmq_connections_closed_total rabbitmq_channels_opened_total
    rabbitmq_channels_closed_total rabbitmq_queues_declared_total rabbitmq_queues_created_total
    rabbitmq_queues_deleted_total rabbitmq_queue_messages_ready rabbitmq_queue_messages_unacked
    rabbitmq_process_open_fds rabbitmq_process_max_fds rabbitmq_process_resident_memory_bytes
    rabbitmq_resident_memory_limit_bytes rabbitmq_disk_space_available_bytes
    rabbitmq_disk_space_available_limit_bytes rabbitmq_global_publishers rabbitmq_global_consumers
    rabbitmq_global_messages_received_total rabbitmq_global_messages_received_confirm_total
    rabbitmq_global_messages_routed_total rabbitmq_global_messages_confirmed_total
    rabbitmq_global_messages_unroutable_dropped_total rabbitmq_global_messages_unroutable_returned_total
    rabbitmq_global_messages_delivered_total rabbitmq_global_messages_delivered_consume_manual_ack_total
    rabbitmq_global_messages_delivered_consume_auto_ack_total rabbitmq_global_messages_delivered_get_manual_ack_total
    rabbitmq_global_messages_delivered_get_auto_ack_total rabbitmq_global_messages_get_empty_total
    rabbitmq_global_messages_redelivered_total rabbitmq_global_messages_acknowledged_total
    rabbitmq_message_size_bytes_sum rabbitmq_message_size_bytes_count
""".split()
BUCKETS = ["100.0", "1000.0", "10000.0", "100000.0", "1e+06", "1e+07", "5e+07", "1e+08", "+Inf"]


class Prometheus:
    """A Prometheus that scrapes the broker each second, with the rules but without their waits."""

    def __init__(self, folder, tools, broker):
        self.port = free_port()
        rules = (ROOT / "monitoring/alerts.yml").read_text()
        (folder / "alerts.yml").write_text(re.sub(r"\n +for: .*", "", rules))
        target = f"static_configs: [{{targets: ['localhost:{broker.http}']}}]"
        user = "basic_auth: {username: guest, password: guest}"
        (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{folder}/alerts.yml]
scrape_configs:
  - {{job_name: hermod, {target}}}
  - {{job_name: hermod-queues, metrics_path: /metrics/per-object, {user}, {target}}}
""")
        self.log = open(folder / "prometheus.log", "w")
        self.process = subprocess.Popen(
            [tools / "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log)
        until("Prometheus has scraped both jobs", lambda: len(self.values('up{job=~"hermod.*"} == 1')) == 2)

    def ask(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            said = error.read().decode()
            assert error.code == 503, f"{parameters}: {said}"
            return {"result": [], "groups": []}
        except OSError:
            assert self.process.poll() is None, pathlib.Path(self.log.name).read_text()
            return {"result": [], "groups": []}

    def values(self, query):
        return self.ask("query", query=query)["result"]

    def firing(self):
        return {alert["metric"]["alertname"] for alert in self.values('ALERTS{alertstate="firing"}')}

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


def load(broker):
    """A steady flow with confirms through two queues, whose consumers settle or hold what comes."""
    for queue in ("work", "held"):
        broker.declare(queue)
    consumer, holder, publisher = (broker.client(name) for name in ("consumer", "holder", "publisher"))
    consumer.consume("work", 1000, "settles", settle=True)
    holder.consume("held", 1000, "holds")
    broker.publish("held", 3)
    publisher.channel.confirm_delivery()
    publisher.flow("work", 50)
    return [consumer, holder, publisher]


def scrape(broker, path, user):
    request = urllib.request.Request(broker.address + path)
    if user:
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read().decode()


def scrapes_are_read(broker, tools, _prometheus):
    for path, user in SCRAPES.items():
        text = scrape(broker, path, user)
        check = subprocess.run([tools / "promtool", "check", "metrics"], input=text, text=True, capture_output=True)
        assert check.returncode == 0 and not check.stderr, f"{path}: {check.stderr}"


def dashboards_and_rules_have_data(broker, _tools, prometheus):
    # Some figures are there only while a message waits.
    broker.declare("backlog")
    broker.publish("backlog")
    dashboard_has_data(prometheus)
    rules_are_evaluated(prometheus)
    broker.api("queues/%2F/backlog", "DELETE")
    until("it passes", lambda: "HermodQueuesUnattended" not in prometheus.firing())


def dashboard_has_data(prometheus):
    dashboard = json.loads((ROOT / "monitoring/dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(expressions) > 50
    for expression in expressions:
        query = expression.replace("$__rate_interval", "10s").replace("$instance", ".*")
        until(f"data for {query}", lambda: prometheus.values(query))
    for name in OVERVIEW:
        assert prometheus.values(name), f"{name} is of RabbitMQ's dashboard, and not there"
    assert len(prometheus.values("rabbitmq_identity_info")) == 1, "dashboards join all metrics with one identity"
    found = [row["metric"]["le"] for row in prometheus.values("rabbitmq_message_size_bytes_bucket")]
    assert sorted(found) == sorted(BUCKETS), found


def rules_are_evaluated(prometheus):
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 15
    for rule in rules:
        assert rule["health"] == "ok", rule
        page = ROOT / "docs/manual" / rule["annotations"]["page"]
        assert page.exists(), f"{rule['name']}: there is no page {page}"
        for name in re.findall(r"\b(?:rabbitmq|hermod)_\w+", rule["query"]):
            until(f"{name} of {rule['name']}", lambda: prometheus.values(name))


def nothing_fires_on_a_healthy_broker(_broker, _tools, prometheus):
    until("the rules are evaluated", lambda: "HermodRestarted" in prometheus.firing())
    # Whether a turn was long depends on how busy the machine is; so does the disk's free space.
    usual = {"HermodRestarted", "HermodLongTurns", "HermodDiskNearLimit", "HermodSlowConfirms"}
    assert prometheus.firing() <= usual, prometheus.firing()


def alarms_fire(broker, _tools, prometheus):
    for alarm, alert in (("memory", "HermodMemoryAlarm"), ("disk", "HermodDiskAlarm")):
        broker.command("alarms", "set", alarm)
        until(f"{alert} fires", lambda: alert in prometheus.firing())
        broker.command("alarms", "clear", alarm)
        until(f"{alert} passes", lambda: alert not in prometheus.firing())


def a_queue_without_a_consumer_fires(broker, _tools, prometheus):
    broker.declare("lonely")
    broker.publish("lonely")
    for alert in ("HermodQueuesUnattended", "HermodQueueStalled"):
        until(f"{alert} fires", lambda: alert in prometheus.firing())
    reasons = prometheus.values('hermod_queue_stalled{queue="lonely"}')
    assert [row["metric"]["reason"] for row in reasons] == ["no_consumers"], reasons
    broker.api("queues/%2F/lonely", "DELETE")
    until("it passes", lambda: "HermodQueuesUnattended" not in prometheus.firing())


def a_dropped_message_fires(broker, _tools, prometheus):
    # Over HTTP it would be returned.
    client = broker.client("drops")
    client.channel.basic_publish("", "there-is-no-such-queue", b"lost")
    client.stop()
    until("it fires", lambda: "HermodMessagesDropped" in prometheus.firing())


CHECKS = [scrapes_are_read, nothing_fires_on_a_healthy_broker, dashboards_and_rules_have_data, alarms_fire,
          a_queue_without_a_consumer_fires, a_dropped_message_fires]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="the program hermod")
    parser.add_argument("--prometheus", required=True, type=pathlib.Path, help="folder of prometheus and promtool")
    options = parser.parse_args()
    rules = ROOT / "monitoring/alerts.yml"
    subprocess.run([options.prometheus / "promtool", "check", "rules", rules], check=True, capture_output=True)
    broker = Broker(options.server)
    clients = []
    with tempfile.TemporaryDirectory(prefix="hermod-monitoring-") as folder:
        try:
            clients = load(broker)
            prometheus = Prometheus(pathlib.Path(folder), options.prometheus, broker)
            try:
                for check in CHECKS:
                    begun = time.monotonic()
                    check(broker, options.prometheus, prometheus)
                    print(f"{check.__name__} ok ({time.monotonic() - begun:.1f} s)", flush=True)
            finally:
                prometheus.stop()
        finally:
            for client in clients:
                client.stop()
            broker.stop()
    print(f"{len(CHECKS)} of {len(CHECKS)} checks passed")


if __name__ == "__main__":
    main()
