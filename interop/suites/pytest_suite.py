"""Runs a suite that pytest collects; the scripts for Python clients differ in their packages, tests and environment only."""

import judge


def run(options, python, *, folder, tests, more=(), environment=None, limit_per_test=60):
    """Runs `tests` and returns the outcomes. A test that hangs fails after `limit_per_test` seconds."""
    results = options.work_dir / "results.xml"
    results.unlink(missing_ok=True)
    command = [python, "-m", "pytest", *tests, "-q", "-p", "no:cacheprovider", f"--timeout={limit_per_test}", f"--junitxml={results}",
               *more]
    log = judge.run(options, command, folder=folder, environment=environment)
    if not results.is_file():
        raise judge.Trouble(f"pytest wrote no results; see {log}")
    return judge.junit(results)


def run_alone(options, python, *, folder, test, environment, limit):
    """Runs one test in a process of its own, and returns its outcome. For a test that, when it fails, never lets go of its event loop."""
    results = options.work_dir / "alone.xml"
    results.unlink(missing_ok=True)
    command = [python, "-m", "pytest", test, "-q", "-p", "no:cacheprovider", f"--junitxml={results}"]
    try:
        judge.run(options, command, folder=folder, environment=environment, limit=limit, log="alone.log")
    except judge.Trouble as trouble:
        return judge.Outcome(test, "failed", str(trouble))
    return judge.junit(results)[0]
