#!/usr/bin/env python3
"""Runs a playbook with the modules of Ansible's collection community.rabbitmq twice: the second time nothing may change."""

import json
import os
import pathlib

import judge

# The collection comes with the package `ansible`; what it needs of the core is newer than Python's own distutils.
PACKAGES = ["ansible==12.3.0", "requests", "setuptools"]
# The modules choose by the version what they ask.
SETTINGS = {"HERMOD_COMPAT_PRODUCT": "RabbitMQ", "HERMOD_COMPAT_VERSION": "4.2.0"}
TOOLS = ["rabbitmqctl", "rabbitmq-plugins", "rabbitmq-diagnostics"]


def body():
    options = judge.arguments("ansible", __doc__)
    python = pathlib.Path(judge.virtual_environment(options, PACKAGES))
    tools = options.work_dir / "tools"
    tools.mkdir(exist_ok=True)
    for name in TOOLS:
        link = tools / name
        link.unlink(missing_ok=True)
        link.symlink_to(options.server)
    with judge.Broker(options, SETTINGS) as broker:
        environment = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HERMOD_DATA_DIR": str(broker.folder / "store"),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "False",
            "ANSIBLE_HOME": str(options.work_dir / "ansible"),
            **SETTINGS,
        }
        ports = {"http_port": str(judge.HTTP + options.port_offset), "ansible_python_interpreter": str(python)}
        command = [python.parent / "ansible-playbook", judge.FOLDER / "ansible" / "site.yml", "-e", json.dumps(ports)]
        outcomes = []
        for number in ("first", "second"):
            log = judge.run(options, command, folder=options.work_dir, environment=environment, log=f"{number}.log")
            outcomes += list(read(log, number))
    return judge.report(options, PACKAGES[0], outcomes)


def read(log, number):
    """The outcome of each task: the first time it succeeds, the second time it finds nothing to change besides."""
    text = log.read_text()
    if "{" not in text:
        raise judge.Trouble(f"the playbook did not run; see {log}")
    plays = json.loads(text[text.index("{"):text.rindex("}") + 1])["plays"]
    for task in plays[0]["tasks"]:
        name, result = f"{task['task']['name']}, {number} run", task["hosts"]["localhost"]
        if result.get("failed"):
            yield judge.Outcome(name, "failed", str(result.get("msg", "")) + str(result.get("module_stderr", ""))[-500:])
        elif number == "second" and result.get("changed"):
            yield judge.Outcome(name, "failed", "changed again")
        else:
            yield judge.Outcome(name, "passed")


judge.main(body)
