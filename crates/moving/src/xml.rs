//! XML of Artemis and ActiveMQ: read with bounds, without document types and so without entities.

use roxmltree::{Document, Node, ParsingOptions};

use crate::source::{Kind, Refusal, Source};

/// More elements and attributes than any configuration has.
const MOST_NODES: u32 = 200_000;

/// A document, with the lines of its elements.
pub(crate) struct Xml<'a> {
    document: Document<'a>,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'a> Xml<'a> {
    pub(crate) fn read(file: &'a Source) -> Result<Self, Refusal> {
        let options = ParsingOptions { allow_dtd: false, nodes_limit: MOST_NODES, ..ParsingOptions::default() };
        let document = Document::parse_with_options(&file.text, options).map_err(|error| {
            let row = usize::try_from(error.pos().row).unwrap_or(1);
            match error {
                roxmltree::Error::DtdDetected => {
                    let line = file.lines().find(|(_, text)| text.contains("<!DOCTYPE")).map_or(row, |(line, _)| line);
                    Refusal::at(file, line, "a DOCTYPE is not read, and no entity expanded; delete it")
                }
                roxmltree::Error::NodesLimitReached => {
                    Refusal::of(file, format!("it has more than {MOST_NODES} elements: it is no configuration"))
                }
                // Its text may repeat what stands there, but only names and marks.
                error => Refusal::at(file, row, format!("this is no XML: {error}")),
            }
        })?;
        let starts = file.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Ok(Self { document, lines })
    }

    pub(crate) fn root(&self) -> Node<'_, 'a> {
        self.document.root_element()
    }

    pub(crate) fn line(&self, node: Node<'_, '_>) -> usize {
        self.lines.partition_point(|start| *start <= node.range().start)
    }
}

/// The name of an element, whatever its prefix.
pub(crate) fn name<'a>(node: Node<'a, '_>) -> &'a str {
    node.tag_name().name()
}

/// The elements in `node`.
pub(crate) fn elements<'a, 'input>(node: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(Node::is_element)
}

/// The first element of this name in `node`.
pub(crate) fn child<'a, 'input>(node: Node<'a, 'input>, wanted: &str) -> Option<Node<'a, 'input>> {
    elements(node).find(|element| name(*element) == wanted)
}

/// The text in `node`.
pub(crate) fn text(node: Node<'_, '_>) -> String {
    node.text().unwrap_or_default().trim().to_owned()
}

/// Which broker the root is of.
pub(crate) fn kind(file: &Source) -> Result<Kind, Refusal> {
    let xml = Xml::read(file)?;
    let root = xml.root();
    let broker = || root.descendants().any(|node| node.is_element() && name(node) == "broker");
    match name(root) {
        "configuration" if child(root, "core").is_some() || child(root, "jms").is_some() => Ok(Kind::Artemis),
        "core" => Ok(Kind::Artemis),
        "broker" => Ok(Kind::ActiveMq),
        "beans" | "blueprint" if broker() => Ok(Kind::ActiveMq),
        "beans" | "blueprint" => Err(Refusal::at(file, xml.line(root), "there is no element broker in it")),
        other => {
            let line = xml.line(root);
            Err(Refusal::at(file, line, format!("'{other}' is the root of no broker's configuration that is known")))
        }
    }
}

/// A value with the defaults of its placeholders filled in: `${dir:./data}` is `./data`. `None` if
/// one has no default: nothing is taken from the environment.
pub(crate) fn filled(value: &str) -> Option<String> {
    let mut filled = String::new();
    let mut rest = value;
    while let Some(start) = rest.find("${") {
        filled.push_str(&rest[..start]);
        let (inside, after) = rest[start + 2..].split_once('}')?;
        filled.push_str(inside.split_once(':')?.1);
        rest = after;
    }
    filled.push_str(rest);
    (!filled.contains("#{")).then_some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_with_defaults_are_filled() {
        for (value, expected) in [
            ("${dir:./data}/x", Some("./data/x")),
            ("plain", Some("plain")),
            ("${a:1}${b:2}", Some("12")),
            ("${dir}", None),
            ("#{env.dir}", None),
            ("${open", None),
        ] {
            assert_eq!(filled(value).as_deref(), expected, "{value}");
        }
    }
}
