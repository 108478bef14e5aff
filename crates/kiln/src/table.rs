//! Plain tables: a header, aligned columns, two spaces between them. Easy on the eye and on `awk`.

use std::fmt::Write;

pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(header: [&str; N]) -> Table {
        Table { rows: vec![header.iter().map(|h| h.to_uppercase()).collect()] }
    }

    /// An empty cell shows as `-`, so that columns can be counted.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|c| if c.is_empty() { "-".to_owned() } else { c }).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).filter_map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                write!(line, "{cell:<width$}  ")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["node", "state", "image"]);
        table.row(["control".to_owned(), "active".to_owned(), "fat".to_owned()]);
        table.row(["compute-10".to_owned(), String::new(), "fat".to_owned()]);
        insta::assert_snapshot!(table.to_string(), @r"
        NODE        STATE   IMAGE
        control     active  fat
        compute-10  -       fat
        ");
    }
}
