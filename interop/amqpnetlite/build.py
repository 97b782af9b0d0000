#!/usr/bin/env python3
"""Compiles the program beside this script with Mono's compiler: `build.py FOLDER`.

`AMQPNETLITE_DLL` names the library, Amqp.Net.dll for the .NET Framework, which is copied to the folder.
"""

import os
import pathlib
import shutil
import subprocess
import sys


def main():
    made, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).resolve().parent
    given = os.environ.get("AMQPNETLITE_DLL")
    if not given:
        sys.exit("AMQPNETLITE_DLL names no library: give it Amqp.Net.dll of AMQPNetLite 2.5 for the .NET Framework")
    library = pathlib.Path(shutil.copy(given, made / "Amqp.Net.dll"))
    for program in sorted(here.glob("*.cs")):
        subprocess.run(["mcs", "-langversion:latest", "-r:System.Transactions", f"-r:{library}", f"-out:{made / program.stem}.exe", program], check=True)


main()
