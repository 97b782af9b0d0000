//! Texts with `{{NAME}}` in them: commands, configuration files and addresses of a description. A
//! value may name others; what is not defined is an error, so that a misspelt name never reaches a
//! broker.

use std::collections::BTreeMap;

use bench_record::failure::Failure;

/// Values that name each other deeper than this go in a circle.
const DEEPEST: usize = 8;

/// The values of one peer by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values {
    values: BTreeMap<String, String>,
}

impl Values {
    /// Defines `name`, or replaces its definition.
    pub(crate) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.values.insert(name.into(), value.into());
    }

    /// `text` with every name replaced by its value.
    pub(crate) fn render(&self, text: &str) -> Result<String, Failure> {
        self.render_at(text, 0)
    }

    fn render_at(&self, text: &str, depth: usize) -> Result<String, Failure> {
        if depth > DEEPEST {
            return Err(Failure::new(format!("{text}: these values name each other in a circle")));
        }
        let (mut out, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, behind) =
                after.split_once("}}").ok_or_else(|| Failure::new(format!("{text}: a {{{{ without its }}}}")))?;
            let value = self.values.get(name).ok_or_else(|| {
                Failure::new(format!("{{{{{name}}}}}: nothing has this name; see `values` and `ports`"))
            })?;
            out += before;
            out += &self.render_at(value, depth + 1)?;
            rest = behind;
        }
        out += rest;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_values_and_mistakes_are_named() {
        let mut values = Values::default();
        for (name, value) in
            [("port.amqp", "21000"), ("dir", "/d"), ("store", "{{dir}}/db"), ("a", "{{b}}"), ("b", "{{a}}")]
        {
            values.set(name, value);
        }
        let cases = [
            ("", Ok("")),
            ("{a} } {", Ok("{a} } {")),
            ("p={{port.amqp}};{{dir}}", Ok("p=21000;/d")),
            ("{{store}}/x", Ok("/d/db/x")),
            ("{{ports.amqp}}", Err("{{ports.amqp}}: nothing")),
            ("{{dir", Err("without its }}")),
            ("{{a}}", Err("circle")),
        ];
        for (text, expected) in cases {
            match (values.render(text), expected) {
                (Ok(got), Ok(wanted)) => assert_eq!(got, wanted),
                (Err(failure), Err(part)) => assert!(failure.to_string().contains(part), "{text}: {failure}"),
                (got, wanted) => panic!("{text}: {got:?} instead of {wanted:?}"),
            }
        }
    }
}
