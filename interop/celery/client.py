"""Celery workers as their users run them: the promises that applications build on, each a function that checks them."""

import contextlib
import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

MADE = Path(sys.prefix).parent
os.environ["SHOP_FOLDER"] = str(MADE)

import ledger  # noqa: E402 (the applications read the environment)
import shop  # noqa: E402

from celery import chord, group  # noqa: E402
from celery.exceptions import TaskRevokedError  # noqa: E402

WAIT = 60  # seconds for anything that must arrive
STORED = "interop.celery.stored"
ALONE = ("--without-mingle", "--without-gossip")  # a worker that looks for no other starts sooner


def expect(found, expected, what):
    assert found == expected, f"{what}: expected {expected!r}, found {found!r}"


def until(condition, what):
    """Waits for `condition` and returns what it returned."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain: {what}")


def journal(word=""):
    """What tasks wrote, as far as it begins with `word`."""
    path = MADE / "journal"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in lines if line.startswith(word)]


def start(app, name, queues, *options):
    """Starts a worker as a group of processes, without waiting."""
    command = [sys.executable, "-B", "-m", "celery", "-A", app.main, "worker", "--hostname", f"{name}@interop",
               "--queues", queues, "--concurrency", "1", "--loglevel", "WARNING", *(options or ALONE)]
    with open(MADE / f"{name}.log", "w", encoding="utf-8") as log:
        return subprocess.Popen(command, cwd=Path(__file__).parent, stdout=log, stderr=log, start_new_session=True)


def kill(process):
    """Ends a worker with its children at once, as the system does when memory is short."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def worker(app, name, queues, *options):
    """A worker that is ready; at the end it stops as by `systemctl stop`: warm, within its time."""
    process = start(app, name, queues, *options)
    try:
        until(lambda: process.poll() is not None or app.control.ping([f"{name}@interop"], timeout=1), f"{name} is ready")
        yield process
        if process.poll() is None:
            process.terminate()
            expect(process.wait(WAIT), 0, f"exit status of {name}")
    except BaseException:
        print((MADE / f"{name}.log").read_text(encoding="utf-8"), file=sys.stderr)
        raise
    finally:
        kill(process)


def clean(*queues):
    """Leaves empty queues and an empty journal."""
    (MADE / "journal").unlink(missing_ok=True)
    with shop.app.connection_for_write() as connection:
        for queue in queues:
            bound = queue(connection.default_channel)
            bound.declare()
            bound.purge()


def shop_queue(name):
    return shop.app.amqp.queues[name]


def results():
    """Results as messages, of single tasks and of a group."""
    with worker(ledger.app, "ledger", "interop.celery.ledger"):
        expect(ledger.add.delay(2, 3).get(timeout=WAIT), 5, "result")
        expect(group(ledger.add.s(n, n) for n in range(20))().get(timeout=WAIT), [2 * n for n in range(20)], "group")


def delays_in_the_broker():
    """On a quorum queue Celery lets the broker hold tasks with a countdown, and retries too."""
    with worker(ledger.app, "ledger", "interop.celery.ledger"):
        sent = time.time()
        later = {seconds: ledger.now.apply_async(countdown=seconds) for seconds in (3, 1, 2)}
        # The worker holds none of them: this one is not waited for.
        at_once = ledger.now.delay().get(timeout=WAIT)
        done = {seconds: result.get(timeout=WAIT) for seconds, result in later.items()}
        for seconds, moment in done.items():
            # Celery rounds the countdown to whole seconds.
            assert moment - sent >= seconds - 1, f"countdown {seconds}: done after {moment - sent:.3f} s"
        expect(sorted(done, key=done.get), [1, 2, 3], "order")
        assert at_once < done[3], "a task without countdown waited for one with"
        expect(ledger.balance.delay("a").get(timeout=WAIT), "a: 1", "retried")


def countdown():
    """Tasks with an ETA wait in the worker, more of them than its prefetch, and others pass them; a stop gives them back."""
    tasks = shop_queue("interop.celery.tasks")
    clean(tasks)
    with worker(shop.app, "shop", "interop.celery.tasks"):
        for number in range(5):
            shop.note.apply_async((f"far {number}",), countdown=3600)
        due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
        shop.note.apply_async(("near",), eta=due)
        shop.note.delay("at once")
        until(lambda: len(journal()) == 2, "what is due")
        assert datetime.datetime.now(datetime.timezone.utc) >= due, "a task was done before its time"
    expect(sorted(journal()), ["at once", "near"], "done")
    with shop.app.connection_for_read() as connection:
        expect(tasks(connection.default_channel).purge(), 5, "tasks given back")


def retries():
    """A failing task comes back after one second, then two, then succeeds; one that is refused is a dead letter."""
    clean(shop_queue("interop.celery.tasks"), shop.dead_letters)
    with worker(shop.app, "shop", "interop.celery.tasks"):
        expect(shop.call.delay("x").get(timeout=WAIT), 2, "retries")
        moments = [float(line.split()[3]) for line in journal("call x")]
        gaps = [later - earlier for earlier, later in zip(moments, moments[1:])]
        # The worker counts in whole seconds.
        assert len(gaps) == 2 and gaps[0] >= 0.9 and gaps[1] >= 1.9, f"back-off: {gaps}"
        shop.refuse.delay("y")
        with shop.app.connection_for_read() as connection:
            letter = until(lambda: shop.dead_letters(connection.default_channel).get(no_ack=True), "a dead letter")
        expect(letter.headers["task"], "shop.refuse", "dead task")
        expect(letter.headers["x-first-death-reason"], "rejected", "reason")


def killed_worker():
    """What a worker held when it was killed is done by another, and nothing is lost or done twice."""
    clean(shop_queue("interop.celery.tasks"))
    first = start(shop.app, "first", "interop.celery.tasks")
    try:
        shop.charge.delay("a")
        until(lambda: journal("charge a first"), "the first worker begins")
        for number in range(5):
            shop.note.delay(f"behind {number}")
    finally:
        kill(first)
    with worker(shop.app, "second", "interop.celery.tasks"):
        until(lambda: len(journal("behind")) == 5 and journal("charged"), "the second worker does all")
        expect([line.split()[2] for line in journal("charge a")], ["first", "again"], "attempts")
        # Now the process alone that does the work, as for want of memory: its parent gives the task back.
        shop.charge.delay("b")
        child = int(until(lambda: journal("charge b first"), "the child begins")[0].split()[3])
        os.kill(child, signal.SIGKILL)
        until(lambda: journal("charged b"), "the next child does it")
    expect([line.split()[2] for line in journal("charge b")], ["first", "again"], "attempts of the child")
    expect(journal("charged"), ["charged a", "charged b"], "done")
    expect(sorted(journal("behind")), [f"behind {n}" for n in range(5)], "tasks behind it")


def priorities():
    """The broker hands out higher priorities first, and equal ones in order."""
    clean(shop_queue("interop.celery.urgent"))
    for text, priority in [("low 1", 1), ("low 2", 1), ("high 1", 9), ("middle", 5), ("high 2", 9)]:
        shop.note.apply_async((text,), queue="interop.celery.urgent", priority=priority)
    with worker(shop.app, "urgent", "interop.celery.urgent"):
        until(lambda: len(journal()) == 5, "five notes")
    expect(journal(), ["high 1", "high 2", "middle", "low 1", "low 2"], "order")


def chords():
    """A chord calls its body once, when all of its header is done."""
    clean(shop_queue("interop.celery.tasks"))
    with worker(shop.app, "shop", "interop.celery.tasks"):
        result = chord((shop.square.s(n) for n in range(10)), shop.total.s())()
        expect(result.get(timeout=WAIT), 285, "chord")


def remote_control():
    """Two workers answer to broadcasts; a revoked task is not done."""
    clean(shop_queue("interop.celery.tasks"))
    one, two = (worker(shop.app, name, "interop.celery.tasks", "--task-events") for name in ("one", "two"))
    with one, two:
        names = ["one@interop", "two@interop"]
        replies = shop.app.control.ping(timeout=WAIT, limit=2)
        expect(sorted(name for reply in replies for name in reply), names, "who answers")
        inspect = shop.app.control.inspect(names, timeout=WAIT, limit=2)
        expect(sorted(inspect.stats()), names, "statistics")
        task = shop.note.apply_async(("revoked",), countdown=3)
        until(lambda: any(inspect.scheduled().values()), "a worker has the task")
        expect(len(shop.app.control.revoke(task.id, reply=True, timeout=WAIT, limit=2)), 2, "answers to revoke")
        try:
            task.get(timeout=WAIT)
            raise AssertionError("a revoked task was done")
        except TaskRevokedError:
            expect(journal("revoked"), [], "done")


def events():
    """Whoever watches sees a task's life, as Flower does."""
    clean(shop_queue("interop.celery.tasks"))
    seen = []
    with shop.app.connection_for_read() as connection, worker(shop.app, "shop", "interop.celery.tasks", "--task-events"):
        handlers = {"*": lambda event: seen.append((event["type"], event.get("uuid")))}
        receiver = shop.app.events.Receiver(connection, handlers=handlers)
        watcher = threading.Thread(target=receiver.capture, kwargs={"timeout": WAIT}, daemon=True)
        watcher.start()
        until(lambda: ("worker-heartbeat", None) in seen, "a heartbeat")
        task = shop.note.delay("watched").id
        until(lambda: ("task-succeeded", task) in seen, "the task's end")
        receiver.should_stop = True
        watcher.join(WAIT)
    for kind in ("task-received", "task-started"):
        assert (kind, task) in seen, f"no {kind} among {seen}"


def store():
    """Tasks for which there is no worker yet, and a worker that lives on while the server dies."""
    clean(shop_queue(STORED), shop_queue("interop.celery.tasks"))
    survivor = start(shop.app, "survivor", "interop.celery.tasks")
    (MADE / "survivor.pid").write_text(str(survivor.pid))
    until(lambda: shop.app.control.ping(["survivor@interop"], timeout=1), "the worker is ready")
    shop.note.apply_async(("held",), countdown=20)
    for number in range(10):
        shop.note.apply_async((f"stored {number}",), queue=STORED)


def fetch():
    """All is done, once each; the worker that lived on finds its way back."""
    expect(journal("stored"), [], "done without a worker")
    try:
        shop.note.delay("after")
        until(lambda: journal("after"), "the worker is back")
        with worker(shop.app, "fetch", STORED):
            until(lambda: len(journal("stored")) >= 10, "ten tasks")
        expect(journal("stored"), [f"stored {number}" for number in range(10)], "in order")
        until(lambda: journal("held"), "the task that the worker held")
    finally:
        os.killpg(int((MADE / "survivor.pid").read_text()), signal.SIGKILL)
    expect(sorted(journal()), sorted(["after", "held", *journal("stored")]), "once each")


PHASES = {
    "patterns": [results, delays_in_the_broker, countdown, retries, killed_worker, priorities, chords, remote_control,
                 events],
    "extensions": [],
    "store": [store],
    "fetch": [fetch],
}

if __name__ == "__main__":
    for step in PHASES[sys.argv[1]]:
        step()
        print("ok", step.__name__, flush=True)
