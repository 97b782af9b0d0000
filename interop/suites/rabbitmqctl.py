#!/usr/bin/env python3
"""`rabbitmqctl` for vendors' suites: Hermod's own, and `stop_app` and `start_app`, which here stop and start the broker's process.

What suites change by an Erlang expression, and Hermod by its settings, is changed by a restart with another setting: the limit of channels and the
users that loopback alone may use. It finds the broker by the state file in HERMOD_SUITE_STATE.
"""

import json
import os
import pathlib
import re
import sys

import judge

CHANNEL_MAX = re.compile(r"application:set_env\(rabbit, channel_max, (\d+)\)\.")
SET_LOOPBACK_USERS = re.compile(r"application:set_env\(rabbit, loopback_users, \[(.*)\]\s*\)\.")
GET_LOOPBACK_USERS = "{ok, V} = application:get_env(rabbit, loopback_users), V."
LOOPBACK_USERS, DEFAULT_LOOPBACK_USERS = "HERMOD_LOOPBACK_USERS", "guest"
APP = {"stop_app": judge.stop_broker, "start_app": judge.start_broker}


def main(words):
    state_file = pathlib.Path(os.environ["HERMOD_SUITE_STATE"])
    verb = words[2:3] if words[:1] == ["-n"] else words[:1]
    act = APP.get((verb or [""])[0])
    if act is not None:
        if "--help" not in words:
            act(state_file)
        return 0
    if verb == ["eval"] and evaluate(state_file, words[-1]):
        return 0
    state = json.loads(state_file.read_text())
    os.execve(state["program"], ["rabbitmqctl", *words], {**os.environ, "HERMOD_DATA_DIR": state["data"]})


def evaluate(state_file, expression):
    """Does what an expression says that this script knows. Returns whether it does."""
    if channel_max := CHANNEL_MAX.fullmatch(expression):
        # 0 is no limit there.
        restart_with(state_file, "HERMOD_LIMITS_CHANNEL_MAX", channel_max[1] if channel_max[1] != "0" else "65535")
    elif users := SET_LOOPBACK_USERS.fullmatch(expression):
        restart_with(state_file, LOOPBACK_USERS, ",".join(re.findall(r'<<"([^"]*)">>', users[1])))
    elif expression == GET_LOOPBACK_USERS:
        names = json.loads(state_file.read_text())["settings"].get(LOOPBACK_USERS, DEFAULT_LOOPBACK_USERS)
        print("[" + ",".join(f'<<"{name}">>' for name in names.split(",") if name) + "]")
    else:
        return False
    return True


def restart_with(state_file, variable, value):
    judge.stop_broker(state_file)
    state = json.loads(state_file.read_text())
    state["settings"][variable] = value
    state_file.write_text(json.dumps(state))
    judge.start_broker(state_file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
