#!/usr/bin/env python3
"""`rabbitmqctl` for vendors' suites: Hermod's own, and `stop_app` and `start_app`, which here stop and start the broker's process.

What RabbitMQ changes while it runs, and Hermod by its settings only, is changed by a restart: the limit of channels. It finds the broker by the state file in HERMOD_SUITE_STATE.
"""

import json
import os
import pathlib
import re
import sys

import judge

CHANNEL_MAX = re.compile(r"application:set_env\(rabbit, channel_max, (\d+)\)\.")
APP = {"stop_app": judge.stop_broker, "start_app": judge.start_broker}


def main(words):
    state_file = pathlib.Path(os.environ["HERMOD_SUITE_STATE"])
    verb = words[2:3] if words[:1] == ["-n"] else words[:1]
    act = APP.get((verb or [""])[0])
    if act is not None:
        if "--help" not in words:
            act(state_file)
        return 0
    channel_max = CHANNEL_MAX.fullmatch(words[-1]) if verb == ["eval"] else None
    if channel_max is not None:
        # 0 is no limit there.
        restart_with(state_file, "HERMOD_LIMITS_CHANNEL_MAX", channel_max[1] if channel_max[1] != "0" else "65535")
        return 0
    state = json.loads(state_file.read_text())
    os.execve(state["program"], ["rabbitmqctl", *words], {**os.environ, "HERMOD_DATA_DIR": state["data"]})


def restart_with(state_file, variable, value):
    judge.stop_broker(state_file)
    state = json.loads(state_file.read_text())
    state["settings"][variable] = value
    state_file.write_text(json.dumps(state))
    judge.start_broker(state_file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
