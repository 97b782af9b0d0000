//! One page: its Markdown as HTML, and what else the book needs of it: title, sections, links.

use std::collections::BTreeMap;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::Problem;
use crate::link::{self, Target};

/// A part of a page, from a heading to the next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// Its anchor.
    pub(crate) id: String,
    /// Its heading.
    pub(crate) heading: String,
    /// Its text, without code that stands in blocks.
    pub(crate) text: String,
}

/// A page.
#[derive(Debug, Default)]
pub(crate) struct Article {
    /// Its document, below `docs/`.
    pub(crate) document: String,
    /// Its sections; the first has the page's title.
    pub(crate) sections: Vec<Section>,
    /// What stands between head and foot.
    pub(crate) html: String,
    /// Where its links lead, in their order.
    pub(crate) links: Vec<Target>,
    /// The pictures that it shows, below `docs/`.
    pub(crate) pictures: Vec<String>,
    /// What its links say, by the documents that they lead to: in the order of the page, with the
    /// section.
    pub(crate) named: Vec<(String, String, String)>,
    /// What is wrong with it alone.
    pub(crate) problems: Vec<Problem>,
}

impl Article {
    /// The heading of its first section.
    pub(crate) fn title(&self) -> &str {
        self.sections.first().map_or("", |section| &section.heading)
    }

    /// Its words, without code that stands in blocks.
    pub(crate) fn words(&self) -> usize {
        self.sections.iter().map(|section| section.text.split_whitespace().count()).sum()
    }

    /// Renders a document. `program` has the text of a program by its path below `docs/`.
    pub(crate) fn render(document: &str, markdown: &str, program: &dyn Fn(&str) -> Option<String>) -> Self {
        let page = Self { document: document.to_owned(), ..Self::default() };
        let mut writer = Writer::new(page, program);
        let events: Vec<_> = Parser::new_ext(markdown, Options::ENABLE_TABLES).collect();
        let mut anchors = anchors(&events).into_iter();
        for event in events {
            writer.take(event, &mut anchors);
        }
        html::push_html(&mut writer.page.html, writer.events.into_iter());
        if writer.page.sections.is_empty() {
            writer.page.problems.push(Problem::new(document, "it has no heading: begin with `# Title`"));
        }
        writer.page
    }
}

/// The headings of a page: anchor and text, in their order. Anchors are formed as GitHub does.
fn anchors(events: &[Event]) -> Vec<(String, String)> {
    let (mut found, mut text, mut inside) = (Vec::new(), String::new(), false);
    let mut seen = BTreeMap::<String, usize>::new();
    for event in events {
        match event {
            Event::Start(Tag::Heading { .. }) => inside = true,
            Event::Text(part) | Event::Code(part) if inside => text.push_str(part),
            Event::SoftBreak if inside => text.push(' '),
            Event::End(TagEnd::Heading(_)) => {
                inside = false;
                let heading = std::mem::take(&mut text);
                let kept = |char: &char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_');
                let id: String = heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
                let before = seen.entry(id.clone()).or_default();
                let unique = if *before == 0 { id } else { format!("{id}-{before}") };
                *before += 1;
                found.push((unique, heading));
            }
            _ => {}
        }
    }
    found
}

/// Takes the events of a document, and gives those of its page.
struct Writer<'a, 'b> {
    page: Article,
    /// Where the page will be.
    address: String,
    program: &'b dyn Fn(&str) -> Option<String>,
    events: Vec<Event<'a>>,
    /// Programs that the current paragraph or item has links to.
    shown: Vec<String>,
    /// The text and the document of the current link.
    link: Option<(String, Option<String>)>,
    in_code: bool,
    /// The current link has no beginning on the page, so its end is left out as well.
    is_plain: bool,
    depth_of_items: usize,
}

impl<'a, 'b> Writer<'a, 'b> {
    fn new(page: Article, program: &'b dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            address: link::address(&page.document),
            page,
            program,
            events: Vec::new(),
            shown: Vec::new(),
            link: None,
            in_code: false,
            is_plain: false,
            depth_of_items: 0,
        }
    }

    fn raw(&mut self, html: String) {
        self.events.push(Event::Html(CowStr::from(html)));
    }

    fn take(&mut self, event: Event<'a>, anchors: &mut impl Iterator<Item = (String, String)>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let (id, heading) = anchors.next().unwrap_or_default();
                self.raw(format!("<{level} id=\"{id}\">"));
                self.page.sections.push(Section { id, heading, text: String::new() });
            }
            Event::End(TagEnd::Heading(level)) => {
                self.raw(format!("</{level}>\n"));
                self.read(" ");
            }
            Event::Start(Tag::Link { dest_url, title, link_type, id }) => match self.destination(&dest_url) {
                Some(url) => {
                    self.events.push(Event::Start(Tag::Link { dest_url: url.into(), title, link_type, id }));
                }
                None => self.is_plain = true,
            },
            Event::End(TagEnd::Link) => self.end_link(),
            Event::Start(Tag::Image { dest_url, title, link_type, id }) => {
                let picture = link::resolve(&self.page.document, &dest_url);
                let url = link::relative(&self.address, &picture);
                self.page.pictures.push(picture);
                self.events.push(Event::Start(Tag::Image { dest_url: url.into(), title, link_type, id }));
            }
            Event::Start(Tag::CodeBlock(kind)) => self.begin_code(&kind),
            Event::End(TagEnd::CodeBlock) => {
                self.in_code = false;
                self.raw("</code></pre>\n".to_owned());
                self.read(" ");
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                let problem = format!("HTML in a page: write `{}` as Markdown", text.trim());
                self.page.problems.push(Problem::new(&self.page.document, problem));
            }
            other => self.pass(other),
        }
    }

    /// Passes on an event of text or structure.
    fn pass(&mut self, event: Event<'a>) {
        match &event {
            Event::Text(text) | Event::Code(text) => self.read(text),
            Event::SoftBreak | Event::HardBreak => self.read(" "),
            Event::Start(Tag::Table(_)) => self.raw("<div class=\"scroll\" tabindex=\"0\">".to_owned()),
            Event::Start(Tag::Item) => self.depth_of_items += 1,
            Event::End(TagEnd::Item) => {
                self.depth_of_items -= 1;
                self.show_programs();
            }
            _ => {}
        }
        let end = match &event {
            Event::End(end) => Some(*end),
            _ => None,
        };
        self.events.push(event);
        match end {
            Some(TagEnd::Table) => self.raw("</div>\n".to_owned()),
            Some(TagEnd::Paragraph) if self.depth_of_items == 0 => self.show_programs(),
            _ => {}
        }
        if end.is_some() {
            self.read(" ");
        }
    }

    /// What readers can look for.
    fn read(&mut self, text: &str) {
        if let Some((said, _)) = &mut self.link {
            said.push_str(text);
        }
        if let (false, Some(section)) = (self.in_code, self.page.sections.last_mut()) {
            section.text.push_str(text);
        }
    }

    /// The address that a link has on the page; none where only the repository has the file.
    fn destination(&mut self, target: &str) -> Option<String> {
        let found = link::target(&self.page.document, target);
        self.page.links.push(found.clone());
        self.link = Some((String::new(), None));
        match found {
            Target::Elsewhere => Some(target.to_owned()),
            Target::Document(path, _) if !crate::source::is_page(&path) => None,
            Target::Document(path, anchor) => {
                self.link = Some((String::new(), Some(path.clone())));
                let mut url = link::relative(&self.address, &link::address(&path));
                if !anchor.is_empty() {
                    url = format!("{}#{anchor}", if path == self.page.document { "" } else { &url });
                }
                Some(url)
            }
            Target::Program(path) => {
                let url = format!("#{}", file_name(&path));
                self.shown.push(path);
                Some(url)
            }
            Target::Repository(_) => None,
        }
    }

    fn end_link(&mut self) {
        if let Some((said, Some(document))) = self.link.take() {
            let section = self.page.sections.last().map_or_else(String::new, |section| section.heading.clone());
            self.page.named.push((section, said, document));
        }
        if !std::mem::take(&mut self.is_plain) {
            self.events.push(Event::End(TagEnd::Link));
        }
    }

    /// A block may name its file behind the language. Its own scroll bar is reached by keyboard.
    fn begin_code(&mut self, kind: &CodeBlockKind<'a>) {
        self.in_code = true;
        let info = match kind {
            CodeBlockKind::Fenced(info) => info.as_ref(),
            CodeBlockKind::Indented => "",
        };
        let (language, file) = info.split_once(' ').unwrap_or((info, ""));
        if !file.is_empty() {
            self.raw(format!("<p class=\"file\">{}</p>\n", escaped(file)));
        }
        let class = match language {
            "" => String::new(),
            language => format!(" class=\"language-{}\"", escaped(language)),
        };
        self.raw(format!("<pre tabindex=\"0\"><code{class}>"));
    }

    /// The programs that were linked to, each behind its name.
    fn show_programs(&mut self) {
        for path in std::mem::take(&mut self.shown) {
            let Some(text) = (self.program)(&path) else {
                let problem = format!("the program {path} can't be read");
                self.page.problems.push(Problem::new(&self.page.document, problem));
                continue;
            };
            let (name, language) = (file_name(&path), link::language(&path).unwrap_or_default());
            self.raw(format!(
                "<details id=\"{name}\"><summary>{language}: {name}</summary>\n<pre tabindex=\"0\"><code>{}</code></pre></details>\n",
                escaped(&text)
            ));
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A text that is nothing but text in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(markdown: &str) -> Article {
        Article::render("manual/a.md", markdown, &|path| (path == "tutorials/go/x.go").then(|| "a < b".to_owned()))
    }

    #[test]
    fn markdown_is_rendered() {
        for (markdown, expected) in [
            ("# A `b`: c\n", "<h1 id=\"a-b-c\">A <code>b</code>: c</h1>\n"),
            ("# A\n## A\n", "<h2 id=\"a-1\">A</h2>\n"),
            ("[x](queues.md#y)", "<p><a href=\"../manual/queues.html#y\">x</a></p>\n"),
            ("[x](README.md)", "<a href=\"../index.html\">x</a>"),
            ("# A\n[x](#a)", "<a href=\"#a\">x</a>"),
            ("[x](../../interop/y.py) z", "<p>x z</p>\n"),
            ("[`x`](../decisions/y.md)", "<p><code>x</code></p>\n"),
            ("![x](pictures/y.png)", "<img src=\"../manual/pictures/y.png\" alt=\"x\""),
            (
                "```python go/x.py\na<b\n```",
                "<p class=\"file\">go/x.py</p>\n<pre tabindex=\"0\"><code class=\"language-python\">a&lt;b\n",
            ),
            ("|a|\n|-|\n|b|\n", "<div class=\"scroll\" tabindex=\"0\"><table>"),
            (
                "- [x](../tutorials/go/x.go)\n",
                "<a href=\"#x.go\">x</a><details id=\"x.go\"><summary>Go: x.go</summary>",
            ),
            ("[x](../tutorials/go/x.go)\n", "<pre tabindex=\"0\"><code>a &lt; b</code></pre></details>"),
        ] {
            let html = page(markdown).html;
            assert!(html.contains(expected), "{markdown}: {html}");
        }
    }

    #[test]
    fn html_is_refused_and_a_missing_program_is_told() {
        for markdown in ["# A\n<script>x</script>\n", "# A\nx <b>y</b>\n", "# A\n[x](../tutorials/go/y.go)", "x"] {
            let page = page(markdown);
            assert!(!page.problems.is_empty() && !page.html.contains("<script"), "{markdown}: {}", page.html);
        }
        assert_eq!(page("# A\n").problems, []);
    }

    #[test]
    fn words_of_sections_are_kept_without_code() {
        let page = page("# A\none `two`\n```\nno\n```\n## B c\n|three|\n|-|\n|four|\n");
        let text = |section: &Section| section.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let found: Vec<_> = page.sections.iter().map(|section| (section.id.as_str(), text(section))).collect();
        assert_eq!(found, [("a", "A one two".to_owned()), ("b-c", "B c three four".to_owned())]);
        assert_eq!(page.words(), 7);
    }
}
