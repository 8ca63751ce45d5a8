//! The benches, and a table of their medians that can be pasted into docs/performance.md.

use crate::Result;
use crate::shell::{cargo, failed, watch};

/// Runs the benches whose names hold one of `names`.
pub fn run(names: &[String]) -> Result {
    let mut command = cargo();
    command.args(["bench", "--workspace", "--bench", "*", "--"]).args(names);
    let mut table = Table::default();
    let status = watch(&mut command, |line| table.add(line))?;
    if !status.success() {
        return Err(failed(&command, &status.to_string()));
    }
    println!("\n| bench | fastest | median | slowest |\n| --- | --- | --- | --- |");
    for row in &table.rows {
        println!("| {} | {} | {} | {} |", row.name, row.fastest, row.median, row.slowest);
    }
    Ok(())
}

/// One bench's times, as divan prints them.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    fastest: String,
    median: String,
    slowest: String,
}

/// The rows so far, and where in the tree of names the last line stood.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    path: Vec<String>,
}

impl Table {
    /// Adds a line of divan's tree: `│  ├─ 11   61.2 ns │ 90.1 ns │ 62.0 ns │ 63.1 ns │ 100 │ 1000`.
    fn add(&mut self, line: &str) {
        let depth = line.chars().take_while(|c| !c.is_alphanumeric() && *c != '_').count();
        let Some(rest) = line.char_indices().nth(depth).map(|(at, _)| &line[at..]) else { return };
        let is_branch = line.chars().take(depth).any(|c| c == '├' || c == '╰');
        if depth > 0 && !is_branch {
            // Counters of the bench above: bytes or items a second.
            return;
        }
        let mut columns = rest.split('│').map(str::trim);
        let Some((name, fastest)) = columns.next().map(split_name) else { return };
        if depth == 0 && !rest.contains('│') {
            self.path.clear();
            return;
        }
        // Each level of the tree takes three characters.
        self.path.truncate((depth / 3).saturating_sub(usize::from(depth > 0)));
        self.path.push(name.to_owned());
        if let (Some(slowest), Some(median)) = (columns.next(), columns.next())
            && fastest.starts_with(|c: char| c.is_ascii_digit())
        {
            let name = self.path.join(" ");
            let [fastest, median, slowest] = [fastest, median, slowest].map(str::to_owned);
            self.rows.push(Row { name, fastest, median, slowest });
        }
    }
}

/// Splits a first column into the bench's name and its fastest time: at least two spaces stand between.
fn split_name(column: &str) -> (&str, &str) {
    let (name, fastest) = column.split_once("  ").unwrap_or((column, ""));
    (name.trim(), fastest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_get_the_names_of_their_branches() {
        let text = "\
Timer precision: 20 ns
submit                  fastest       │ slowest       │ median        │ mean          │ samples │ iters
├─ allocate_and_drop    91.4 ns       │ 200 ns        │ 92.1 ns       │ 93 ns         │ 100     │ 1600
├─ launches                           │               │               │               │         │
│  ├─ 1                 49.1 ns       │ 51 ns         │ 49.6 ns       │ 49.9 ns       │ 100     │ 12800
│  │                    80 MB/s       │ 80 MB/s       │ 80 MB/s       │ 80 MB/s       │         │
│  ╰─ 11                169 ns        │ 179 ns        │ 170 ns        │ 171 ns        │ 100     │ 3200
╰─ reached              2.1 ns        │ 3 ns          │ 2.2 ns        │ 2.2 ns        │ 100     │ 409600
";
        let mut table = Table::default();
        text.lines().for_each(|line| table.add(line));
        let rows: Vec<(&str, &str, &str)> =
            table.rows.iter().map(|row| (row.name.as_str(), row.median.as_str(), row.slowest.as_str())).collect();
        assert_eq!(
            rows,
            [
                ("allocate_and_drop", "92.1 ns", "200 ns"),
                ("launches 1", "49.6 ns", "51 ns"),
                ("launches 11", "170 ns", "179 ns"),
                ("reached", "2.2 ns", "3 ns"),
            ]
        );
    }
}
