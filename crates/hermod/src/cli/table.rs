//! Tables: aligned columns on a terminal, tab-separated lines elsewhere. Control characters in
//! names, which come from peers, are escaped.

use std::fmt::Write;
use std::io::IsTerminal;

use auth::shown::escaped;

/// `rows` under `head`, in the form for this standard output. A head of empty titles is left out.
pub(crate) fn text(head: &[&str], rows: &[Vec<String>]) -> String {
    layout(head, rows, if std::io::stdout().is_terminal() { Layout::Aligned } else { Layout::Tabbed })
}

/// Where the cells of a line stand.
#[derive(Clone, Copy)]
enum Layout {
    /// Below each other, for a terminal.
    Aligned,
    /// With a tab between them, for programs.
    Tabbed,
}

fn layout(head: &[&str], rows: &[Vec<String>], layout: Layout) -> String {
    let shown = |row: &Vec<String>| row.iter().map(|cell| escaped(cell).into_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.iter().map(shown).collect();
    let mut widths: Vec<usize> = head.iter().map(|title| title.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (cell, width) in cells.zip(&widths) {
            // Writing into a String cannot fail.
            let _ = match (layout, is_number(cell)) {
                (Layout::Tabbed, _) => write!(line, "{cell}\t"),
                (Layout::Aligned, true) => write!(line, "{cell:>width$}  "),
                (Layout::Aligned, false) => write!(line, "{cell:<width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    if head.iter().any(|title| !title.is_empty()) {
        line(&mut head.iter().copied());
    }
    for row in &rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

fn is_number(cell: &str) -> bool {
    !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_for_people_and_tabbed_for_programs() {
        let rows = [vec!["orders".to_owned(), "12".to_owned()], vec!["a\tb".to_owned(), "1234".to_owned()]];
        assert_eq!(
            layout(&["name", "ready"], &rows, Layout::Aligned),
            "name    ready\norders     12\na\\tb     1234\n"
        );
        assert_eq!(layout(&["name", "ready"], &rows, Layout::Tabbed), "name\tready\norders\t12\na\\tb\t1234\n");
    }
}
