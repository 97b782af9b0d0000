//! The command line, as a record may show it.

/// The command line as it may be published: the password of a target is replaced.
pub fn public_command(arguments: impl Iterator<Item = String>) -> Vec<String> {
    arguments.map(|argument| without_password(&argument)).collect()
}

fn without_password(argument: &str) -> String {
    if let Some((before, after)) = argument.split_once("password=") {
        let rest = after.find(['&', ',']).map_or("", |end| &after[end..]);
        return format!("{before}password=***{rest}");
    }
    let Some((before, after)) = argument.split_once("://") else { return argument.to_owned() };
    match after.rsplit_once('@') {
        Some((login, place)) => {
            let user = login.split_once(':').map_or(login, |(user, _)| user);
            format!("{before}://{user}:***@{place}")
        }
        None => argument.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_do_not_get_into_records() {
        let cases = [
            ("own=amqp://me:secret@h:1/v,pid=3", "own=amqp://me:***@h:1/v,pid=3"),
            ("amqp://me@h", "amqp://me:***@h"),
            ("amqp://h:1", "amqp://h:1"),
            ("jms:a.B?user=me&password=secret&c=d,pid=3", "jms:a.B?user=me&password=***&c=d,pid=3"),
            ("--json", "--json"),
        ];
        for (argument, public) in cases {
            assert_eq!(public_command([argument.to_owned()].into_iter()), [public]);
        }
    }
}
