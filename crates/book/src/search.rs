//! The index that the search of the book reads: each section with its text, as a script that sets
//! one variable. A browser loads it from a folder as well as from a server.

use std::fmt::Write;

use crate::link;
use crate::page::Article;

/// The index of these pages: for each section the address, the page's title, the heading and the
/// text.
pub(crate) fn index(pages: &[Article]) -> String {
    let mut script = "window.manual = [\n".to_owned();
    for page in pages {
        let address = link::address(&page.document);
        for (number, section) in page.sections.iter().enumerate() {
            let place = if number == 0 { address.clone() } else { format!("{address}#{}", section.id) };
            let text = section.text.split_whitespace().collect::<Vec<_>>().join(" ");
            let texts = [place.as_str(), page.title(), &section.heading, &text].map(quoted);
            let _ = writeln!(script, "[{}],", texts.join(","));
        }
    }
    script + "];\n"
}

/// A text as JavaScript writes it.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            control if control < ' ' || matches!(control, '<' | '\u{2028}' | '\u{2029}') => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a \"b\" \\ </script>\n"), "\"a \\\"b\\\" \\\\ \\u003c/script>\\u000a\"");
    }

    #[test]
    fn each_section_has_an_address() {
        let page = Article::render("manual/a.md", "# A\nb\n## C\nd", &|_| None);
        let expected = "window.manual = [\n[\"manual/a.html\",\"A\",\"A\",\"A b\"],\n\
            [\"manual/a.html#c\",\"A\",\"C\",\"C d\"],\n];\n";
        assert_eq!(index(&[page]), expected);
    }
}
