//! A table by its columns: each is declared with the function that makes its cell from the source of a row.

use tare_records::summary::{Estimate, Summary};

use super::{Cell, Column, Table};

/// The columns of a table so far, with the sources of its rows.
pub(crate) struct Columns<R> {
    columns: Vec<Column>,
    /// Each source with the cells of its row.
    rows: Vec<(R, Vec<Cell>)>,
}

impl<R> Columns<R> {
    /// Begins a table with a row for each of `sources`.
    pub(crate) fn of(sources: impl IntoIterator<Item = R>) -> Self {
        Self {
            columns: Vec::new(),
            rows: sources.into_iter().map(|r| (r, Vec::new())).collect(),
        }
    }

    /// Adds a column; `cell` makes its cell of each row.
    pub(crate) fn with(mut self, column: Column, cell: impl Fn(&R) -> Cell) -> Self {
        self.columns.push(column);
        for (source, cells) in &mut self.rows {
            cells.push(cell(source));
        }
        self
    }

    /// Adds a column of mesh names, each in its colour.
    pub(crate) fn mesh(
        self,
        label: impl Into<String>,
        summary: &Summary,
        name: impl Fn(&R) -> &str,
    ) -> Self {
        self.with(Column::text(label), |row| Cell::mesh(summary, name(row)))
    }

    /// Adds a column of estimates. A row without an estimate shows a dash.
    pub(crate) fn estimate(
        self,
        column: Column,
        estimate: impl Fn(&R) -> Option<&Estimate>,
    ) -> Self {
        self.with(column, |row| Cell::estimate(estimate(row)))
    }

    /// Adds a column of plain numbers without intervals.
    pub(crate) fn count(self, column: Column, number: impl Fn(&R) -> u64) -> Self {
        self.with(column, |row| Cell::count(number(row)))
    }

    /// Adds a column for each of `items`.
    pub(crate) fn each<T: Copy>(
        self,
        items: impl IntoIterator<Item = T>,
        column: impl Fn(T) -> Column,
        cell: impl Fn(&R, T) -> Cell,
    ) -> Self {
        let items = items.into_iter();
        items.fold(self, |all, item| {
            all.with(column(item), |source| cell(source, item))
        })
    }

    /// Returns the table with this heading, which is empty if its place has one.
    pub(crate) fn table(self, heading: impl Into<String>) -> Table {
        let rows = self.rows.into_iter().map(|(_, cells)| cells);
        Table::new(heading, self.columns, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Scale, markdown};

    #[test]
    fn every_cell_is_made_by_its_column() {
        let number = |label| Column::number(label, Scale::Count);
        let table = Columns::of([("a", 1), ("b", 2)])
            .with(Column::text("name"), |(name, _)| Cell::text(*name))
            .each(
                [10, 20],
                |times| number(format!("x{times}")),
                |(_, n), times| Cell::count(n * times),
            )
            .table("");
        let expected = "| name | x10 | x20 |\n|---|--:|--:|\n| a | 10 | 20 |\n| b | 20 | 40 |\n";
        assert_eq!(markdown::written(&table), expected);
    }
}
