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
