//! Tables and lines that are safe on a terminal.
use tributary_core::printable;

use crate::out;

/// A line that is safe on a terminal. Labels and reasons may come from any node in the network: characters that would
/// move the cursor or start a line are escaped.
pub fn plain(line: &str) -> String {
    printable::escape_but(line, "\t").into_owned()
}
/// Rows as lines: columns are as wide as their widest cell, numbers need no more. On a terminal no line is wider than it.
pub fn table(rows: &[Vec<String>]) -> Vec<String> {
    table_within(rows, out::columns())
}
/// Like [`table`], in lines of up to `most` columns: the widest cells are cut.
pub fn table_within(rows: &[Vec<String>], most: Option<usize>) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let mut widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    while most.is_some_and(|most| widths.iter().map(|width| width + 2).sum::<usize>() > most) {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > CELL_MIN) else { break };
        *widest -= 1;
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{:<width$}", cut(cell, *width)));
        format!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
/// Columns that a cell keeps however narrow the terminal is.
const CELL_MIN: usize = 4;

/// The start of a text, up to `columns` columns wide.
pub fn cut(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        None => text.into(),
        Some(_) => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
    }
}
/// Cells of one row.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_the_terminal_by_cutting_their_widest_cells() {
        let wide = "receiver>north>pub-a ".repeat(4);
        let rows = [row(["path", "source", "Mbit/s", "over"]), row(["path-37840", "pub-a", "19.0", &wide])];
        for columns in [40, 60, 80, 120] {
            let lines = table_within(&rows, Some(columns));
            assert!(lines.iter().all(|line| line.chars().count() <= columns), "{columns}: {lines:#?}");
            assert!(lines[1].contains("path-37840") && lines[1].contains("19.0"), "{columns}: {lines:#?}");
            assert_eq!(lines[1].ends_with('…'), columns < 120, "{columns}: {lines:#?}");
        }
        assert!(table_within(&rows, None)[1].ends_with("pub-a"), "programs get everything");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [row(["a", "bbb"]), row(["cc", ""])];
        assert_eq!(table(&rows), ["  a   bbb", "  cc"]);
    }
}
