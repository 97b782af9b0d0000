//! Pieces that pages are made of: tables, figures, fields of forms, ways through long lists.

use std::cmp::Ordering;
use std::fmt::Display;

use maud::{Markup, Render, html};

use super::form::Fields;
use crate::resources::percent_encoded;

/// How an object is shown to be well or not: by a word, which a colour repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Good,
    Plain,
    Warning,
    Bad,
}

impl Mood {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Plain => "plain",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// A word in a box.
pub(super) fn badge(word: &str, mood: Mood) -> Markup {
    html! { span class={ "badge " (mood.class()) } { (word) } }
}

/// A line above a page's figures: what is the matter, and what it rests on.
pub(super) fn verdict(mood: Mood, sentence: &str, evidence: impl Render) -> Markup {
    html! {
        div class={ "verdict " (mood.class()) } {
            strong { (sentence) }
            p { (evidence) }
        }
    }
}

/// Figures side by side: a name, the figure, and a word about it.
pub(super) fn figures(figures: &[(&str, Markup, Markup)]) -> Markup {
    html! {
        dl .figures data-live {
            @for (name, figure, more) in figures {
                div { dt { (name) } dd { (figure) } @if !more.0.is_empty() { dd .more { (more) } } }
            }
        }
    }
}

/// Names and values below each other.
pub(super) fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! { dl .facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

/// A table. Its first column names the row. `empty` is said if there is no row.
pub(super) fn table(id: &str, columns: &[Column], rows: &[Vec<Markup>], empty: Markup) -> Markup {
    html! {
        @if rows.is_empty() { p .empty data-live { (empty) } } @else {
            div .scroll {
                table id=(id) data-live {
                    thead { tr { @for column in columns { (column.head()) } } }
                    tbody { @for row in rows { (line(columns, row)) } }
                }
            }
        }
    }
}

fn line(columns: &[Column], row: &[Markup]) -> Markup {
    html! {
        tr {
            @for (index, (column, cell)) in columns.iter().zip(row).enumerate() {
                @let class = column.is_number.then_some("number");
                @if index == 0 { th scope="row" class=[class] { (cell) } }
                @else { td class=[class] data-label=(column.name) { (cell) } }
            }
        }
    }
}

/// The head of a column.
pub(super) struct Column {
    name: &'static str,
    is_number: bool,
    /// Where its name leads, and how the list is sorted by it now.
    sorting: Option<(String, Option<&'static str>)>,
}

impl Column {
    pub(super) fn text(name: &'static str) -> Self {
        Self { name, is_number: false, sorting: None }
    }

    pub(super) fn number(name: &'static str) -> Self {
        Self { name, is_number: true, sorting: None }
    }

    /// Makes its name a link that sorts the list.
    pub(super) fn sorted_by(mut self, key: &str, list: &Listing) -> Self {
        let is_current = list.sort == key;
        let next = match (is_current, self.is_number) {
            (true, _) => list.order.other(),
            (false, true) => Order::Descending,
            (false, false) => Order::Ascending,
        };
        self.sorting = Some((list.address(key, next, 1), is_current.then_some(list.order.name())));
        self
    }

    fn head(&self) -> Markup {
        let class = self.is_number.then_some("number");
        html! {
            @match &self.sorting {
                Some((address, order)) => {
                    th scope="col" class=[class] aria-sort=[*order] { a href=(address) { (self.name) } }
                }
                None => { th scope="col" class=[class] { (self.name) } }
            }
        }
    }
}

/// Which end of a list comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

impl Order {
    fn other(self) -> Self {
        match self {
            Self::Ascending => Self::Descending,
            Self::Descending => Self::Ascending,
        }
    }

    /// As `aria-sort` calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Descending => "descending",
        }
    }

    /// A comparison in this order.
    fn of(self, ascending: Ordering) -> Ordering {
        match self {
            Self::Ascending => ascending,
            Self::Descending => ascending.reverse(),
        }
    }
}

/// Which part of a long list a page shows. It is all in the page's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listing {
    path: &'static str,
    /// What names must contain.
    pub(super) filter: String,
    /// The only vhost; empty for all.
    pub(super) vhost: String,
    pub(super) sort: String,
    pub(super) order: Order,
    /// From 1 on.
    pub(super) page: usize,
}

/// See [`Listing::picking`].
pub(super) struct Picking<'l, T, F> {
    list: &'l Listing,
    ascending: F,
    /// At most twice the rows up to the end of the page.
    kept: Vec<T>,
    total: usize,
}

impl<T, F: Fn(&T, &T) -> Ordering> Picking<'_, T, F> {
    pub(super) fn add(&mut self, one: T) {
        self.total += 1;
        self.kept.push(one);
        let end = self.list.page.saturating_mul(ROWS);
        if self.kept.len() > end.saturating_mul(2) {
            self.kept.select_nth_unstable_by(end, |one, other| self.list.order.of((self.ascending)(one, other)));
            self.kept.truncate(end);
        }
    }

    /// The rows of the page, in order, and how many there were in all.
    pub(super) fn done(self) -> (Vec<T>, usize) {
        (self.list.pick(self.kept, self.ascending), self.total)
    }
}

/// Rows of a page.
pub(super) const ROWS: usize = 50;

impl Listing {
    pub(super) fn of(path: &'static str, query: &Fields) -> Self {
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        Self {
            path,
            filter: query.name("name").to_owned(),
            vhost: query.text("vhost").to_owned(),
            sort: or(query.name("sort"), "name"),
            order: if query.is_ticked("reversed") { Order::Descending } else { Order::Ascending },
            page: query.name("page").parse().unwrap_or(1).max(1),
        }
    }

    fn address(&self, sort: &str, order: Order, page: usize) -> String {
        let mut address = self.path.to_owned();
        let mut put = |name: &str, value: &dyn Display| {
            let mark = if address.contains('?') { '&' } else { '?' };
            address.push_str(&format!("{mark}{name}={value}"));
        };
        for (name, value) in [("name", &self.filter), ("vhost", &self.vhost)] {
            if !value.is_empty() {
                put(name, &percent_encoded(value));
            }
        }
        if sort != "name" {
            put("sort", &percent_encoded(sort));
        }
        if order == Order::Descending {
            put("reversed", &"true");
        }
        if page > 1 {
            put("page", &page);
        }
        address
    }

    /// The rows of this page, in order. Of a long list only those up to this page are sorted.
    pub(super) fn pick<T>(&self, mut all: Vec<T>, ascending: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
        let range = self.range(all.len());
        let by = |one: &T, other: &T| self.order.of(ascending(one, other));
        if range.end < all.len() {
            all.select_nth_unstable_by(range.end, by);
        }
        all[..range.end].sort_unstable_by(by);
        all.drain(range).collect()
    }

    /// Says of a name whether the filter is a part of it, in capitals or not.
    pub(super) fn finds(&self) -> impl Fn(&str) -> bool + use<> {
        let filter = self.filter.to_lowercase();
        move |name| match (filter.is_empty(), name.is_ascii()) {
            (true, _) => true,
            // No copy of each of many names.
            (false, true) => {
                name.as_bytes().windows(filter.len()).any(|part| part.eq_ignore_ascii_case(filter.as_bytes()))
            }
            (false, false) => name.to_lowercase().contains(&filter),
        }
    }

    /// The rows of this page, of rows that have the ascending order already.
    pub(super) fn cut<T>(&self, mut ascending: Vec<T>) -> Vec<T> {
        let range = self.range(ascending.len());
        match self.order {
            Order::Ascending => ascending.drain(range).collect(),
            Order::Descending => {
                let total = ascending.len();
                ascending.drain(total - range.end..total - range.start).rev().collect()
            }
        }
    }

    /// The rows of this page, of so many.
    fn range(&self, total: usize) -> std::ops::Range<usize> {
        let from = (self.page - 1).saturating_mul(ROWS).min(total);
        from..(from + ROWS).min(total)
    }

    /// For a list that is read in parts: of what is [added](Picking::add) only the rows up to the
    /// end of this page are kept.
    pub(super) fn picking<T, F: Fn(&T, &T) -> Ordering>(&self, ascending: F) -> Picking<'_, T, F> {
        Picking { list: self, ascending, kept: Vec::new(), total: 0 }
    }

    /// The field that filters the list, and the vhosts to choose from if there are several.
    pub(super) fn filter(&self, vhosts: &[String]) -> Markup {
        html! {
            form .filter method="get" action=(self.path) role="search" {
                label for="filter" { "Filter" }
                input #filter type="search" name="name" value=(self.filter) autocomplete="off"
                    placeholder="part of a name" data-filter;
                @if vhosts.len() > 1 {
                    label for="of" { "Virtual host" }
                    select #of name="vhost" {
                        option value="" { "all" }
                        @for vhost in vhosts { option value=(vhost) selected[*vhost == self.vhost] { (vhost) } }
                    }
                }
                button { "Filter" }
            }
        }
    }

    /// The ways to the pages before and after this one.
    pub(super) fn pager(&self, total: usize) -> Markup {
        let shown = self.range(total);
        let pages = total.div_ceil(ROWS).max(1);
        let to = |page: usize| self.address(&self.sort, self.order, page);
        html! {
            p .pager data-live {
                @if total > 0 { (shown.start + 1) "–" (shown.end) " of " (total) } @else { "0 of 0" }
                @if self.page > 1 { " · " a rel="prev" href=(to(self.page.min(pages + 1) - 1)) { "Previous page" } }
                @if self.page < pages { " · " a rel="next" href=(to(self.page + 1)) { "Next page" } }
            }
        }
    }
}

/// A form of a page. A page may have several, so the ids of its fields carry its name.
pub(super) struct Form {
    name: &'static str,
    /// What its fields hold.
    filled: Fields,
    /// It was refused, and is shown again as it was written.
    is_refused: bool,
}

impl Form {
    /// The form of this name. `sent` is what a refused form has sent, if one has.
    pub(super) fn of(name: &'static str, sent: &Fields) -> Self {
        let filled = sent.if_of(name);
        Self { name, is_refused: filled != Fields::default(), filled }
    }

    /// What its fields hold before anything is written in them, as names and values.
    pub(super) fn with(mut self, first: &[(&str, &str)]) -> Self {
        if !self.is_refused {
            self.filled = first.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        }
        self
    }

    /// A field with its label, of a type of HTML's inputs, and a word about what to write.
    pub(super) fn field(&self, name: &str, label: &str, kind: &str, hint: &str) -> Markup {
        let id = format!("{}-{name}", self.name);
        let kept = if kind == "password" { "" } else { self.filled.text(name) };
        self.labelled(name, (label, hint), "field", |about| {
            html! {
                input id=(id) name=(name) type=(kind) value=(kept) autocomplete="off" spellcheck="false"
                    aria-describedby=[about];
            }
        })
    }

    /// A field for a longer text.
    pub(super) fn long(&self, name: &str, label: &str, hint: &str) -> Markup {
        let id = format!("{}-{name}", self.name);
        self.labelled(name, (label, hint), "field wide", |about| {
            html! {
                textarea id=(id) name=(name) rows="3" spellcheck="false" aria-describedby=[about] {
                    (self.filled.text(name))
                }
            }
        })
    }

    /// A choice: of each, its value and its name.
    pub(super) fn choice(&self, name: &str, label: &str, choices: &[(&str, &str)]) -> Markup {
        let id = format!("{}-{name}", self.name);
        self.labelled(name, (label, ""), "field", |_| {
            html! {
                select id=(id) name=(name) {
                    @for (value, shown) in choices {
                        option value=(value) selected[self.filled.text(name) == *value] { (shown) }
                    }
                }
            }
        })
    }

    /// A choice of vhosts.
    pub(super) fn vhosts(&self, vhosts: &[String]) -> Markup {
        let choices: Vec<(&str, &str)> = vhosts.iter().map(|vhost| (vhost.as_str(), vhost.as_str())).collect();
        self.choice("vhost", "Virtual host", &choices)
    }

    fn labelled(
        &self,
        name: &str,
        (label, hint): (&str, &str),
        class: &str,
        control: impl FnOnce(Option<&str>) -> Markup,
    ) -> Markup {
        let (id, about) = (format!("{}-{name}", self.name), format!("{}-{name}-hint", self.name));
        html! {
            div class=(class) {
                label for=(id) { (label) }
                (control((!hint.is_empty()).then_some(about.as_str())))
                @if !hint.is_empty() { small id=(about) { (hint) } }
            }
        }
    }

    /// The whole form behind a line that opens it. It is open if it was refused.
    pub(super) fn folded(&self, title: &str, action: &str, fields: impl Render, button: &str) -> Markup {
        self.folded_with(title, action, fields, html! { button .main { (button) } })
    }

    /// The same with these buttons.
    pub(super) fn folded_with(&self, title: &str, action: &str, fields: impl Render, buttons: Markup) -> Markup {
        html! {
            details .card open[self.is_refused] {
                summary { (title) }
                form method="post" action=(action) {
                    input type="hidden" name="form" value=(self.name);
                    div .fields { (fields) }
                    p .buttons { (buttons) }
                }
            }
        }
    }
}

/// A form that asks before it does something that can't be undone.
pub(super) fn ask(action: &str, question: &str, button: &str, back: &str, hidden: &[(&str, &str)]) -> Markup {
    html! {
        form .card.danger method="post" action=(action) {
            p { (question) }
            @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
            p .buttons {
                button .danger { (button) }
                a .button href=(back) { "Cancel" }
            }
        }
    }
}

/// The path of an object in a vhost.
pub(super) fn place(list: &str, vhost: &str, name: &str) -> String {
    format!("/{list}/{}/{}", percent_encoded(vhost), percent_encoded(name))
}

/// The path of an object that is in no vhost.
pub(super) fn top_place(list: &str, name: &str) -> String {
    format!("/{list}/{}", percent_encoded(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(query: &str) -> Listing {
        Listing::of("/queues", &Fields::parse(query.as_bytes()))
    }

    #[test]
    fn the_address_of_a_list_says_what_it_shows() {
        for query in ["", "name=a%26b", "name=a&vhost=%2F", "sort=ready&reversed=true", "vhost=v&sort=ready&page=3"] {
            let list = listing(query);
            let address = list.address(&list.sort, list.order, list.page);
            assert_eq!(address, if query.is_empty() { "/queues".to_owned() } else { format!("/queues?{query}") });
        }
    }

    #[test]
    fn a_page_beyond_the_last_is_empty_and_leads_back() {
        assert_eq!(listing("").range(120), 0..50);
        assert_eq!(listing("page=3").range(120), 100..120);
        assert_eq!(listing("page=9").range(120), 120..120);
        let picked = |query: &str| listing(query).pick((0..120).map(|number| number * 7 % 120).collect(), u32::cmp);
        assert_eq!(picked(""), (0..50).collect::<Vec<_>>());
        assert_eq!(picked("page=3"), (100..120).collect::<Vec<_>>());
        assert_eq!(picked("page=2&reversed=true"), (20..70).rev().collect::<Vec<_>>());
        assert!(picked("page=9").is_empty());
        for query in ["", "page=3", "page=2&reversed=true", "page=9", "page=18446744073709551615"] {
            let list = listing(query);
            assert_eq!(list.cut((0..120).collect::<Vec<u32>>()), picked(query), "{query}");
            let mut picking = list.picking(u32::cmp);
            (0..120).for_each(|number| picking.add(number * 7 % 120));
            assert_eq!(picking.done(), (picked(query), 120), "{query}");
        }
        for (filter, name, found) in [
            ("", "Orders", true),
            ("rder", "Orders", true),
            ("ORD", "Orders", true),
            ("orders.eu", "Orders", false),
            ("ÄRGER", "viel Ärger", true),
            ("ärger", "viel Aerger", false),
        ] {
            let filter = percent_encoded(filter);
            assert_eq!(listing(&format!("name={filter}")).finds()(name), found, "{filter} in {name}");
        }
        assert_eq!(listing("page=0").page, 1);
        assert_eq!(listing("page=no").page, 1);
        let pager = listing("page=9").pager(120).into_string();
        assert!(pager.contains("href=\"/queues?page=3\"") && !pager.contains("Next"), "{pager}");
        let pager = listing("").pager(120).into_string();
        assert!(pager.contains("1–50 of 120") && pager.contains("href=\"/queues?page=2\""), "{pager}");
    }

    #[test]
    fn a_column_sorts_and_says_how_it_is_sorted() {
        let list = listing("sort=ready&reversed=true");
        let head = Column::number("Ready").sorted_by("ready", &list).head().into_string();
        assert!(head.contains("aria-sort=\"descending\"") && head.contains("href=\"/queues?sort=ready\""), "{head}");
        let head = Column::text("Name").sorted_by("name", &list).head().into_string();
        assert!(!head.contains("aria-sort") && head.contains("href=\"/queues\""), "{head}");
    }
}
