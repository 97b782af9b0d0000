#!/usr/bin/env python3
"""Compiles AMQPNetLite and the program beside this script with Mono's compiler: `build.py FOLDER`.

The library's source is fetched by git, or taken from the checkout that AMQPNETLITE_DIR names. It is compiled as its own
project file for the .NET Framework says. One call in it is written in two statements: Mono 6.8 ends with an error of its own
at an `out var` within an asynchronous lambda.
"""

import os
import pathlib
import re
import subprocess
import sys

VERSION = "v2.5.3"
SOURCE = "https://github.com/Azure/amqpnetlite"
PROJECT = "csproj/Amqp.NetFX45.csproj"
CALL = ("src/Net/TaskExtensions.cs", "bool shouldContinue = saslProfile.OnFrame(hostname, buffer, out var response, out code);",
        "Amqp.Types.DescribedList response; bool shouldContinue = saslProfile.OnFrame(hostname, buffer, out response, out code);")


def main():
    made, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).resolve().parent
    checkout = fetched(made)
    library = made / "Amqp.Net.dll"
    if not library.is_file():
        files = re.findall(r'Compile Include="\.\.\\([^"]+)"', (checkout / PROJECT).read_text())
        sources = [compilable(checkout, name.replace("\\", "/"), made) for name in files]
        mcs("-target:library", "-warn:0", "-unsafe", "-define:TRACE;NETFX;NETFX45", "-r:System.Transactions", f"-out:{library}", *sources)
    for program in sorted(here.glob("*.cs")):
        mcs("-r:System.Transactions", f"-r:{library}", f"-out:{made / program.stem}.exe", program)


def fetched(made):
    given = os.environ.get("AMQPNETLITE_DIR")
    if given:
        return pathlib.Path(given)
    checkout = made / "checkout"
    if not checkout.is_dir():
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", "--branch", VERSION, SOURCE, checkout], check=True)
    return checkout


def compilable(checkout, name, made):
    """The file, or a copy with the call that Mono's compiler can't take."""
    path = checkout / name
    where, old, new = CALL
    if name != where:
        return path
    text = path.read_text()
    if text.count(old) != 1:
        sys.exit(f"{path} has no `{old}`: take {VERSION}")
    copy = made / path.name
    copy.write_text(text.replace(old, new))
    return copy


def mcs(*words):
    subprocess.run(["mcs", "-langversion:latest", *map(str, words)], check=True)


main()
