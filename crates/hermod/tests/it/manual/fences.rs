//! The fenced blocks of the manual, and which of their lines are run. Nothing in a block is passed
//! over without a word: a line that can't run here, and a block in another language, stand in a
//! list with the reason or the place where they are run. A list has nothing that no page has.

/// Lines of shells that are not run here: their page, how they begin, and why.
pub(super) const NOT_RUN: &[(&str, &str, &str)] = &[
    ("command-line", "hermod serve --dev", "tests/it/trial.rs runs it"),
    ("command-line", "hermod queues --columns name,ready,message_stats", "goes on until it is ended"),
    ("command-line", "hermod --url https://broker.example", "no broker has this name"),
    ("damage", "hermod serve --accept-damage", "tests/it/damage.rs runs it, on a damaged log"),
    ("how-migrate", "export HERMOD_FROM_PASSWORD", "interop/migrate, with real brokers"),
    ("how-migrate", "hermod migrate", "interop/migrate, with real brokers"),
    ("how-service", "journalctl", "needs systemd's journal"),
    ("install", "cargo xtask package", "a step of CI"),
    ("service", "install ", "needs root; cargo xtask package lays the same files out"),
    ("service", "useradd", "needs root; cargo xtask package installs the packages, which do it"),
    ("service", "systemctl", "needs systemd; cargo xtask package verifies the unit"),
    ("service", "journalctl", "needs systemd's journal"),
    ("standby", "hermod ", "tests/it/standby.rs, with two nodes"),
    ("standby-http", "hermod ", "tests/it/standby.rs, with two nodes"),
    ("standby-http", "curl ", "tests/it/standby.rs, with two nodes"),
];
/// Blocks in other languages: their page, the word behind the fence, and where they are run.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("amqp10", "python", "interop/examples.py"),
    ("clients-mqtt", "c", "interop/quickstart-mqtt"),
    ("clients-mqtt", "csharp", "nowhere: MQTTnet needs .NET, which CI's machine can't get"),
    ("clients-mqtt", "go", "interop/quickstart-mqtt"),
    ("clients-mqtt", "html", "nowhere: it wants a web server; tests/it/web_mqtt.rs speaks its protocol"),
    ("clients-mqtt", "java", "interop/quickstart-mqtt"),
    ("clients-mqtt", "js", "interop/quickstart-mqtt"),
    ("clients-mqtt", "python", "interop/quickstart-mqtt"),
    ("groups", "python", "interop/examples.py"),
    ("jms", "csharp", "interop/first-steps.py"),
    ("jms", "go", "interop/first-steps.py"),
    ("jms", "java", "interop/first-steps.py"),
    ("jms", "javascript", "interop/first-steps.py"),
    ("jms", "python", "interop/first-steps.py"),
    ("last-values", "python", "interop/examples.py"),
    ("mqtt", "js", "nowhere: a part of a program; interop/quickstart-mqtt runs a whole one"),
    ("mqtt", "python", "interop/examples.py"),
    ("retained", "python", "interop/examples.py"),
    ("settings", "toml", "nowhere: it names certificates; tests/it/listeners.rs has such listeners"),
    ("stomp", "js", "nowhere: a part of a page; tests/it/web_stomp.rs speaks its protocol"),
];
/// How a command that would run another broker begins.
const SERVE: &str = "hermod serve";

/// A fenced block: the word behind the fence, and its lines.
pub(super) struct Block<'a> {
    pub(super) language: &'a str,
    lines: Vec<&'a str>,
}

impl Block<'_> {
    /// Whether a shell runs it. What programs print is `text`.
    fn is_shell(&self) -> bool {
        matches!(self.language, "" | "sh")
    }

    pub(super) fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// Its commands, each with the lines that continue it.
    fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> = Vec::new();
        let mut goes_on = false;
        for line in &self.lines {
            match commands.last_mut().filter(|_| goes_on) {
                Some(command) => *command += &format!("\n{line}"),
                None if line.trim().is_empty() || line.starts_with('#') => continue,
                None => commands.push((*line).to_owned()),
            }
            goes_on = line.ends_with('\\');
        }
        commands
    }
}

/// The fenced blocks of a page.
pub(super) fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(language), None) => open = Some(Block { language, lines: Vec::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// The commands of a page that are run, in order. A broker that it starts beside the first one is
/// not: whether it would start is asked instead.
pub(super) fn to_run(name: &str, page: &str) -> Vec<String> {
    let blocks = blocks(page);
    let commands = blocks.iter().filter(|block| block.is_shell()).flat_map(Block::commands);
    let run =
        commands.filter(|command| !NOT_RUN.iter().any(|(page, start, _)| *page == name && command.starts_with(start)));
    run.map(|command| command.replacen(SERVE, "hermod config check", usize::from(command.starts_with(SERVE)))).collect()
}

/// Blocks of a page in this language that are checked here, since they are run nowhere else.
pub(super) fn to_check(name: &str, page: &str, language: &str) -> Vec<String> {
    let here = |block: &Block<'_>| block.language == language && !is_elsewhere(name, language);
    blocks(page).iter().filter(|block| here(block)).map(Block::text).collect()
}

fn is_elsewhere(name: &str, language: &str) -> bool {
    ELSEWHERE.iter().any(|(page, word, _)| *page == name && *word == language)
}

/// What is wrong with the lists above, if all pages are these.
pub(super) fn faults(pages: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, page) in pages {
        for block in blocks(page) {
            let known = block.is_shell() || matches!(block.language, "text" | "json" | "toml");
            if !known && !is_elsewhere(name, block.language) {
                faults.push(format!("{name}: where is the block of {} run? Say it in ELSEWHERE", block.language));
            }
        }
    }
    let page = |name: &str| pages.iter().find(|(page, _)| page == name).map_or("", |(_, text)| text);
    for (name, start, _) in NOT_RUN {
        let blocks = blocks(page(name));
        if !blocks.iter().flat_map(Block::commands).any(|command| command.starts_with(start)) {
            faults.push(format!("{name} has no {start} any more: take it out of NOT_RUN"));
        }
    }
    for (name, language, _) in ELSEWHERE {
        if !blocks(page(name)).iter().any(|block| block.language == *language) {
            faults.push(format!("{name} has no block of {language} any more: take it out of ELSEWHERE"));
        }
    }
    faults
}

#[test]
fn commands_are_found() {
    let page =
        "hermod no\n```\n# a remark\nhermod a\n\ncurl b \\\n  c\nhermod serve --x\nls\n```\nno\n```text\nno\n```\n";
    assert_eq!(to_run("p", page), ["hermod a", "curl b \\\n  c", "hermod config check --x", "ls"]);
    assert_eq!(to_run("how-service", "```\njournalctl -u hermod\nls\n```\n"), ["ls"]);
    assert_eq!(to_check("p", "```toml\na = 1\n\nb = 2\n```\n```json\n{}\n```\n", "toml"), ["a = 1\n\nb = 2"]);
}

#[test]
fn what_no_list_has_is_told() {
    let told = faults(&[("p".to_owned(), "```\nhermod a\n```\n```ruby\nputs 1\n```\n".to_owned())]);
    assert_eq!(told[0], "p: where is the block of ruby run? Say it in ELSEWHERE");
    assert!(told[1].starts_with("command-line has no hermod serve --dev any more"), "{told:?}");
    assert_eq!(told.len(), 1 + NOT_RUN.len() + ELSEWHERE.len());
}
