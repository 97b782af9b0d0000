#!/usr/bin/env python3
"""Stands for `hermod`: runs the program for Windows under Wine. Give it to whatever takes a server.

HERMOD_EXE says where the program is. Wine before 9 lacks a library that Rust's standard library
asks for random numbers; it is made with MinGW, beside the program.

There is no control socket on Windows. So a verb that comes with `--data-dir` asks the broker that
this file has started last, over HTTP.
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = """
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    return SystemFunction036(data, (ULONG)length);
}
"""


def library(program):
    made = program.parent / "bcryptprimitives.dll"
    if not made.exists():
        compiler = ["x86_64-w64-mingw32-gcc", "-shared", "-x", "c", "-", "-o", str(made), "-ladvapi32"]
        subprocess.run(compiler, input=LIBRARY.encode(), check=True)


def value_of(words, option):
    return words[words.index(option) + 1] if option in words else None


def main():
    program = pathlib.Path(os.environ["HERMOD_EXE"]).resolve()
    library(program)
    words, offset = sys.argv[1:], HERE / "port-offset"
    if words[:1] == ["serve"]:
        offset.write_text(value_of(words, "--port-offset") or "0")
    elif offset.exists() and "--data-dir" in words:
        at = words.index("--data-dir")
        del words[at : at + 2]
        os.environ["HERMOD_URL"] = f"http://127.0.0.1:{15672 + int(offset.read_text())}"
        os.environ.setdefault("HERMOD_USER", "guest")
        os.environ.setdefault("HERMOD_PASSWORD", "guest")
    os.environ.setdefault("WINEDEBUG", "-all")
    os.execvp("wine", ["wine", str(program), *words])


main()
