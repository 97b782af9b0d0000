//! The clients, as data: how each is made ready and how it is called.
//!
//! Nothing is written into the source tree: what a client needs goes to `target/interop/NAME`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::server::Address;

/// One foreign client. In the command lines `{source}` is its folder, `{made}` the folder for what
/// it needs.
pub(super) struct Client {
    pub(super) name: &'static str,
    /// Command lines that make it ready, one after the other.
    prepare: &'static [&'static [&'static str]],
    /// The command line that runs it; the phase is appended.
    call: &'static [&'static str],
    /// Phases that it has beside those that are always run.
    pub(super) further: &'static [&'static str],
    /// Flags of the server that it needs.
    pub(super) server: &'static [&'static str],
}

const EXTENSIONS: &[&str] = &["extensions"];

/// All clients.
pub(super) const CLIENTS: [Client; 25] = [
    Client {
        name: "pika",
        prepare: PYTHON,
        call: &["{made}/venv/bin/python", "{source}/client.py"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "amqp091-go",
        prepare: &[&["go", "build", "-C", "{source}", "-o", "{made}/client", "."]],
        call: &["{made}/client"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "amqplib",
        prepare: &[
            &["cp", "{source}/client.js", "{source}/package.json", "{source}/package-lock.json", "{made}"],
            &["npm", "ci", "--prefix", "{made}", "--silent", "--no-fund", "--no-audit"],
        ],
        call: &["node", "{made}/client.js"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "lapin",
        prepare: &[&["cargo", "build", "--locked", "--manifest-path", "{source}/Cargo.toml", "--target-dir", "{made}"]],
        call: &["{made}/debug/interop-lapin"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "amqp-client",
        prepare: &[&["mvn", "-q", "-B", "-f", "{source}/pom.xml", "-Doutput={made}", "compile"]],
        call: &["java", "-cp", "{made}/classes:{made}/lib/*", "Client"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "stomp.py",
        prepare: PYTHON,
        call: &["{made}/venv/bin/python", "{source}/client.py"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "net-stomp",
        prepare: &[&["perl", "-MNet::Stomp", "-e", "1"]],
        call: &["perl", "{source}/client.pl"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "celery",
        prepare: PYTHON,
        call: &["{made}/venv/bin/python", "-B", "{source}/client.py"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "proton",
        prepare: PYTHON,
        call: &["{made}/venv/bin/python", "{source}/client.py"],
        further: &["transactions"],
        server: &[],
    },
    Client {
        name: "rabbitmq-amqp-python",
        prepare: PYTHON,
        call: &["{made}/venv/bin/python", "{source}/client.py"],
        further: &[],
        // It talks to nothing else than RabbitMQ 4.
        server: &["--compat-product=RabbitMQ", "--compat-version=4.2.0"],
    },
    Client {
        name: "spring-amqp",
        prepare: &[&["mvn", "-q", "-B", "-f", "{source}/pom.xml", "-Doutput={made}", "compile"]],
        call: &["java", "-cp", "{made}/classes:{made}/lib/*", "shop.Check"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "spring-cloud-stream",
        prepare: &[&["mvn", "-q", "-B", "-f", "{source}/pom.xml", "-Doutput={made}", "compile"]],
        call: &["java", "-cp", "{made}/classes:{made}/lib/*", "stream.Check"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "dramatiq",
        prepare: PYTHON,
        call: &["{made}/venv/bin/python", "-B", "{source}/client.py"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "bunny",
        prepare: &[&["ruby", "-rbunny", "-e", "1"]],
        call: &["ruby", "{source}/client.rb"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "watermill",
        prepare: &[&["go", "build", "-C", "{source}", "-o", "{made}/client", "."]],
        call: &["{made}/client"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "node-worker",
        prepare: &[
            &["cp", "-r", "{source}/.", "{made}"],
            &["npm", "ci", "--prefix", "{made}", "--silent", "--no-fund", "--no-audit"],
        ],
        call: &["node", "{made}/client.js"],
        further: EXTENSIONS,
        server: &[],
    },
    Client {
        name: "go-amqp",
        prepare: &[&["go", "build", "-C", "{source}", "-o", "{made}/client", "."]],
        call: &["{made}/client"],
        further: &["topics"],
        server: &[],
    },
    Client {
        name: "rhea",
        prepare: &[
            &["cp", "{source}/client.js", "{source}/package.json", "{source}/package-lock.json", "{made}"],
            &["npm", "ci", "--prefix", "{made}", "--silent", "--no-fund", "--no-audit"],
        ],
        call: &["node", "{made}/client.js"],
        further: &["topics"],
        server: &[],
    },
    Client {
        name: "paho",
        prepare: PYTHON,
        call: &["{made}/venv/bin/python", "{source}/client.py"],
        further: &[],
        server: &[],
    },
    Client {
        name: "paho-java",
        prepare: &[&["mvn", "-q", "-B", "-f", "{source}/pom.xml", "-Doutput={made}", "compile"]],
        call: &["java", "-cp", "{made}/classes:{made}/lib/*", "Client"],
        further: &[],
        server: &[],
    },
    Client {
        name: "autopaho",
        prepare: &[&["go", "build", "-C", "{source}", "-o", "{made}/client", "."]],
        call: &["{made}/client"],
        further: &[],
        server: &[],
    },
    Client {
        name: "mqttjs",
        prepare: &[
            &["cp", "{source}/client.js", "{source}/package.json", "{source}/package-lock.json", "{made}"],
            &["npm", "ci", "--prefix", "{made}", "--silent", "--no-fund", "--no-audit"],
        ],
        call: &["node", "{made}/client.js"],
        further: &[],
        server: &[],
    },
    Client {
        name: "qpid-jms",
        prepare: &[&["mvn", "-q", "-B", "-f", "{source}/pom.xml", "-Doutput={made}", "compile"]],
        call: &["java", "-cp", "{made}/classes:{made}/lib/*", "Client"],
        further: &["transactions", "topics"],
        server: &[],
    },
    Client {
        name: "spring-jms",
        prepare: &[&["mvn", "-q", "-B", "-f", "{source}/pom.xml", "-Doutput={made}", "compile"]],
        call: &["java", "-cp", "{made}/classes:{made}/lib/*", "shop.Check"],
        further: &["transactions", "topics"],
        server: &[],
    },
    Client {
        name: "amqpnetlite",
        prepare: &[&["python3", "{source}/build.py", "{made}"]],
        call: &["mono", "{made}/Client.exe"],
        further: &["transactions", "topics"],
        server: &[],
    },
];

const PYTHON: &[&[&str]] = &[
    &["python3", "-m", "venv", "{made}/venv"],
    &["{made}/venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", "{source}/requirements.txt"],
];

impl Client {
    /// Installs and builds what the client needs.
    pub(super) fn prepare(&self, root: &Path, scratch: &Path) -> Result<(), String> {
        let made = self.made(scratch);
        std::fs::create_dir_all(&made).map_err(|error| format!("cannot create {}: {error}", made.display()))?;
        for line in self.prepare {
            let mut command = self.command(line, root, scratch);
            let status = command.status().map_err(|error| format!("{}: cannot run {}: {error}", self.name, line[0]))?;
            if !status.success() {
                return Err(format!(
                    "{}: `{}` failed; interop/README.md says what it needs",
                    self.name,
                    line.join(" ")
                ));
            }
        }
        Ok(())
    }

    /// Runs one phase against the broker at `address`, for at most `limit`.
    pub(super) fn run(
        &self,
        root: &Path,
        scratch: &Path,
        phase: &str,
        address: Address,
        limit: Duration,
    ) -> Result<(), String> {
        let mut command = self.command(self.call, root, scratch);
        command
            .arg(phase)
            .env("AMQP_URL", format!("amqp://guest:guest@127.0.0.1:{}/%2F", address.amqp))
            .env("STOMP_HOST", "127.0.0.1")
            .env("STOMP_PORT", address.stomp.to_string())
            .env("MQTT_HOST", "127.0.0.1")
            .env("MQTT_PORT", address.mqtt.to_string())
            .envs(address.web_mqtt.map(|port| ("WEB_MQTT_PORT", port.to_string())))
            .stdin(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("{}: cannot be started: {error}", self.name))?;
        let end = Instant::now() + limit;
        loop {
            let status = child.try_wait().map_err(|error| format!("{}: {error}", self.name))?;
            match status {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("{}: phase {phase} failed ({status})", self.name)),
                None if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
                None => {
                    // Its outcome does not matter any more; the phase has failed.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("{}: phase {phase} took longer than {limit:?}", self.name));
                }
            }
        }
    }

    fn made(&self, scratch: &Path) -> PathBuf {
        scratch.join(self.name)
    }

    fn command(&self, line: &[&str], root: &Path, scratch: &Path) -> Command {
        let source = root.join("interop").join(self.name).display().to_string();
        let made = self.made(scratch).display().to_string();
        let mut parts = line.iter().map(|part| part.replace("{source}", &source).replace("{made}", &made));
        let mut command = Command::new(parts.next().unwrap_or_default());
        command.args(parts);
        command
    }
}
