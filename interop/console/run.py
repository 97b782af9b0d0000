"""Runs the scenarios of the console in a real Chromium against a fresh broker.

Each scenario is a function of `scenarios.py` and gets a `Stage`: a browser, the broker, and helpers
that find things by the words on the page. Everything that the browser complains about (a refused
style or script, an error of a script) fails its scenario.
"""

import argparse
import pathlib
import sys
import time
import traceback

from playwright.sync_api import sync_playwright

import scenarios
from broker import Broker

# Every page with figures on it, by the path that leads to it.
WIDE, NARROW = 1280, 320


class Stage:
    """What a scenario works with."""

    def __init__(self, broker, browser, pictures, name):
        self.broker, self.browser, self.pictures, self.name = broker, browser, pictures, name
        self.contexts, self.clients, self.complaints = [], [], []
        self.expected = []
        self.page = self.visitor()

    def visitor(self, width=WIDE, scheme="light", script=True):
        """A page of a fresh browser, without cookies."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script,
            reduced_motion="reduce")
        context.set_default_timeout(15_000)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and self.complain(message.text))
        page.on("pageerror", lambda error: self.complain(str(error)))
        page.on("dialog", lambda dialog: (self.complain("a dialog: " + dialog.message), dialog.dismiss()))
        return page

    def complain(self, text):
        # A page that answers 4xx is told of as a failed resource.
        if "Failed to load resource" not in text:
            self.complaints.append(text)

    def open(self, path, page=None):
        (page or self.page).goto(self.broker.address + path)

    def log_in(self, user="guest", password="guest", page=None):
        page = page or self.page
        self.open("/", page)
        page.get_by_label("User").fill(user)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        return page

    def client(self, name):
        client = self.broker.client(name)
        self.clients.append(client)
        return client

    def picture(self, name, page=None):
        if self.pictures:
            (page or self.page).screenshot(path=self.pictures / f"{name}.png", full_page=True)

    def end(self):
        for client in self.clients:
            client.stop()
        for context in self.contexts:
            context.close()


def chosen(names):
    every = [(name, scenario) for name, scenario in vars(scenarios).items()
             if callable(scenario) and getattr(scenario, "is_scenario", False)]
    unknown = set(names) - {name for name, _ in every}
    if unknown:
        sys.exit(f"there is no scenario {', '.join(sorted(unknown))}")
    return [(name, scenario) for name, scenario in every if not names or name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="the program hermod")
    parser.add_argument("--browser", default="chromium", help="program of the browser")
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for pictures of the pages")
    parser.add_argument("names", nargs="*", help="scenarios; all of them if none is named")
    options = parser.parse_args()
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    failed = 0
    todo = chosen(options.names)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.browser, args=["--no-sandbox"])
        broker = Broker(options.server)
        try:
            for name, scenario in todo:
                begun = time.monotonic()
                stage = Stage(broker, browser, options.pictures, name)
                try:
                    scenario(stage)
                    assert not stage.complaints, f"the browser complains: {stage.complaints}"
                    verdict = "ok"
                except Exception:  # A scenario may fail in any way, and the others go on.
                    failed += 1
                    verdict = "FAILED\n" + traceback.format_exc(limit=-3)
                finally:
                    stage.end()
                print(f"{name} {verdict} ({time.monotonic() - begun:.1f} s)", flush=True)
        finally:
            broker.stop()
            browser.close()
    print(f"{len(todo) - failed} of {len(todo)} scenarios passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
