//! The context of the container's image, from which `docker build` makes it. What the recipe copies
//! is put into a folder here, and started there as the recipe says: its user, its environment, its
//! command, and its health check.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::boot::{Installed, twice};
use super::program::{Program, libraries};
use super::{Job, Outcome, capture, copy, folder, is_there, text, tree};

const NAME: &str = "container image";

/// Lays out the context and tries it.
pub(super) fn make(job: &Job, program: &Program) -> Result<Outcome, String> {
    let context = job.output.join("container");
    let files = context.join("rootfs");
    copy(&program.path, &files.join("usr/bin/hermod"))?;
    for name in ["passwd", "group"] {
        copy(&job.source("container").join(name), &files.join("etc").join(name))?;
    }
    tree::notices(program, &files.join("usr/share/doc/hermod"))?;
    folder(&context.join("data"))?;
    for name in ["Containerfile", "compose.yaml"] {
        copy(&job.source("container").join(name), &context.join(name))?;
    }
    if !program.is_static {
        let needed = libraries(&program.path);
        needed.iter().try_for_each(|file| copy(file, &files.join(file.strip_prefix("/").unwrap_or(file))))?;
    }
    let recipe = Recipe::read(&text(&context.join("Containerfile"))?)?;
    let took = if !program.runs_here() {
        "not started: for another system".to_owned()
    } else if is_root() && is_there("chroot") {
        try_out(job, &context, &recipe)?
    } else {
        "not started: that takes root and chroot".to_owned()
    };
    let kind = if program.is_static { "" } else { " with its shared libraries: only for this check" };
    let size = capture(Command::new("du").args(["-sk", "--apparent-size"]).arg(&files))?;
    let size = size.split_whitespace().next().unwrap_or("?");
    if !program.is_static {
        let why = format!("there is no static program; its files were {took}");
        std::fs::remove_dir_all(&context).map_err(|error| format!("{}: {error}", context.display()))?;
        return Ok(Outcome::Left(NAME, why));
    }
    Ok(Outcome::Made(context, format!("the image's files, {size} KiB{kind}; {took}")))
}

fn is_root() -> bool {
    capture(Command::new("id").arg("-u")).is_ok_and(|user| user.trim() == "0")
}

/// What a recipe says, as far as this one goes.
#[derive(Debug, Default, PartialEq)]
struct Recipe {
    /// From where to where, and who owns it.
    copies: Vec<(String, String, Option<String>)>,
    environment: Vec<(String, String)>,
    user: String,
    /// The program and its verb.
    command: Vec<String>,
    health: Vec<String>,
}

impl Recipe {
    fn read(text: &str) -> Result<Self, String> {
        let mut recipe = Self::default();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        for line in lines {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            match verb {
                "FROM" if rest == "scratch" => {}
                "COPY" => {
                    let mut words: Vec<_> = rest.split_whitespace().collect();
                    let owner = words.first().and_then(|word| word.strip_prefix("--chown=")).map(str::to_owned);
                    words.drain(..usize::from(owner.is_some()));
                    let [from, to] = words[..] else { return Err(format!("{line}: it must copy one folder")) };
                    recipe.copies.push((from.to_owned(), to.to_owned(), owner));
                }
                "ENV" => {
                    let pairs = rest.split_whitespace().filter_map(|pair| pair.split_once('='));
                    recipe.environment.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
                }
                "USER" => recipe.user = rest.to_owned(),
                "ENTRYPOINT" | "CMD" => recipe.command.extend(words_of(rest)?),
                "HEALTHCHECK" => recipe.health = words_of(rest.split_once("CMD ").map_or("", |(_, words)| words))?,
                "VOLUME" | "EXPOSE" | "STOPSIGNAL" => {}
                _ => return Err(format!("{line}: the check does not know how to follow this")),
            }
        }
        Ok(recipe)
    }
}

fn words_of(list: &str) -> Result<Vec<String>, String> {
    serde_json::from_str(list).map_err(|error| format!("{list}: {error}"))
}

/// Puts the image's files into a folder, and starts its command there.
fn try_out(job: &Job, context: &Path, recipe: &Recipe) -> Result<String, String> {
    let root = job.work.join("container-root");
    for (from, to, owner) in &recipe.copies {
        let to: PathBuf = root.join(to.trim_start_matches('/'));
        folder(&to)?;
        capture(Command::new("cp").args(["-a"]).arg(context.join(from).join(".")).arg(&to))?;
        if let Some(owner) = owner {
            capture(Command::new("chown").args(["-R", owner]).arg(&to))?;
        }
    }
    let [program, verb] = &recipe.command[..] else {
        return Err("the image's command must be a program and a verb".into());
    };
    if verb != "serve" || recipe.health != [program.as_str(), "health"] {
        return Err(format!("the image runs {:?}, and asks {:?}", recipe.command, recipe.health));
    }
    let installed = Installed {
        before: vec!["chroot".into(), format!("--userspec={}", recipe.user), root.display().to_string()],
        program: program.clone(),
        flags: Vec::new(),
        environment: recipe.environment.clone(),
        log: job.work.join("container.log"),
    };
    twice(&installed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_is_read_as_docker_reads_it() {
        let text = include_str!("../../../packaging/container/Containerfile");
        let recipe = Recipe::read(text).unwrap();
        assert_eq!(recipe.user, "10001:10001");
        assert_eq!(recipe.command, ["/usr/bin/hermod", "serve"]);
        assert_eq!(recipe.health, ["/usr/bin/hermod", "health"]);
        assert!(recipe.environment.contains(&("HERMOD_DATA_DIR".into(), "/data".into())), "{recipe:?}");
        assert_eq!(recipe.copies[1], ("data".into(), "/data".into(), Some("10001:10001".into())));
        assert!(Recipe::read("FROM scratch\nRUN true\n").is_err());
    }
}
