#!/usr/bin/env python3
"""`rabbitmqctl` for vendors' suites: Hermod's own, and `stop_app` and `start_app`, which here stop and start the broker's process.

It finds the broker by the state file in HERMOD_SUITE_STATE.
"""

import json
import os
import pathlib
import sys

import judge

APP = {"stop_app": judge.stop_broker, "start_app": judge.start_broker}


def main(words):
    state_file = pathlib.Path(os.environ["HERMOD_SUITE_STATE"])
    verb = words[2:3] if words[:1] == ["-n"] else words[:1]
    act = APP.get((verb or [""])[0])
    if act is not None:
        if "--help" not in words:
            act(state_file)
        return 0
    state = json.loads(state_file.read_text())
    os.execve(state["program"], ["rabbitmqctl", *words], {**os.environ, "HERMOD_DATA_DIR": state["data"]})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
