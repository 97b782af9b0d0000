#!/usr/bin/env python3
"""The verbs of `rabbitmqctl` that vendors' suites call and Hermod has, by its own command line and by stopping and starting it.

It finds the broker by the state file in HERMOD_SUITE_STATE. Other verbs end with status 64 and say so, so that their tests fail by name.
"""

import json
import os
import pathlib
import subprocess
import sys

import judge

UNKNOWN_VERB = 64


def hermod(state, *arguments):
    """Asks the broker by its command line."""
    command = [state["program"], *arguments, "--data-dir", state["data"]]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(ended.stderr.strip() or ended.returncode)
    return ended.stdout


def connections(state):
    return json.loads(hermod(state, "connections", "--json"))


def list_connections(state_file, _):
    """The columns pid, peer_port and client_properties, the only ones that suites ask for."""
    for connection in connections(json.loads(state_file.read_text())):
        peer_port = connection["peer"].split(" -> ")[0].rsplit(":", 1)[1]
        name = connection.get("name")
        properties = f'[{{"connection_name","{name}"}}]' if name else "[]"
        print(connection["id"], peer_port, properties, sep="\t")


def close_connection(state_file, rest):
    number, reason = rest
    hermod(json.loads(state_file.read_text()), "connections", "--close", number, "--reason", reason)


def close_all_connections(state_file, rest):
    state = json.loads(state_file.read_text())
    for connection in connections(state):
        hermod(state, "connections", "--close", str(connection["id"]), "--reason", rest[0])


VERBS = {
    "list_connections": list_connections,
    "close_connection": close_connection,
    "close_all_connections": close_all_connections,
    "status": lambda state_file, _: print(hermod(json.loads(state_file.read_text()), "status")),
    "stop_app": lambda state_file, _: judge.stop_broker(state_file),
    "start_app": lambda state_file, _: judge.start_broker(state_file),
}


def main(words):
    if words[:1] == ["-n"]:
        words = words[2:]
    verb, rest = (words or ["nothing"])[0], words[1:]
    if verb not in VERBS:
        print(f"Hermod has nothing for `rabbitmqctl {verb}`", file=sys.stderr)
        return UNKNOWN_VERB
    if "--help" not in rest:
        VERBS[verb](pathlib.Path(os.environ["HERMOD_SUITE_STATE"]), rest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
