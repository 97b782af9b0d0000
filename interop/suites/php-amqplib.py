#!/usr/bin/env python3
"""Runs the tests of php-amqplib with the distribution's PHPUnit and phpseclib, in place of what Composer would fetch."""

import shutil

import judge

PHPSECLIB = "/usr/share/php/phpseclib3/autoload.php"
# Composer's, for the suite's own classes.
AUTOLOAD = f"""<?php
require_once '{PHPSECLIB}';
spl_autoload_register(function ($class) {{
    foreach (['PhpAmqpLib\\\\Tests\\\\' => 'tests', 'PhpAmqpLib\\\\' => 'PhpAmqpLib'] as $prefix => $folder) {{
        if (strncmp($class, $prefix, strlen($prefix)) === 0) {{
            $file = __DIR__ . "/../$folder/" . strtr(substr($class, strlen($prefix)), '\\\\', '/') . '.php';
            if (is_file($file)) {{
                require_once $file;
            }}
            return;
        }}
    }}
}});
"""

# Tests that wait for a signal, which a busy machine may send before they wait, have a limit of their own.
LIMIT_SECONDS = 20
PARTS = (["--testsuite=Unit Tests"], ["--testsuite=Functional Tests", "--exclude-group=signals"],
         ["--testsuite=Functional Tests", "--group=signals", "--enforce-time-limit", f"--default-time-limit={LIMIT_SECONDS}"])


def body():
    options = judge.arguments("php-amqplib", __doc__, standard_ports=True)
    if shutil.which("phpunit") is None:
        raise judge.Trouble("no phpunit: install php-cli, php-bcmath, php-mbstring, php-xml, php-curl, php-phpseclib3 and phpunit")
    checkout = judge.copy_of(options)
    vendor = checkout / "vendor"
    vendor.mkdir(exist_ok=True)
    (vendor / "autoload.php").write_text(AUTOLOAD)
    configuration = checkout / "phpunit.xml.dist"
    configuration.write_text(configuration.read_text().replace("<phpunit ", f'<phpunit timeoutForSmallTests="{LIMIT_SECONDS}" ', 1))
    # The certificates are the suite's own.
    certificates = checkout / "tests" / "certs"
    tls = judge.tls(*(certificates / f"{name}.pem" for name in ("server_certificate", "server_key", "ca_certificate")))
    outcomes = []
    with judge.Broker(options, tls):
        for part in PARTS:
            results = options.work_dir / "results.xml"
            results.unlink(missing_ok=True)
            command = ["phpunit", "--no-coverage", "--colors=never", "--debug", *part, f"--log-junit={results}"]
            log = judge.run(options, command, folder=checkout)
            if not results.is_file():
                raise judge.Trouble(f"PHPUnit wrote no results; see {log}")
            outcomes += judge.junit(results)
    return judge.report(options, judge.version_of(options), outcomes)


judge.main(body)
