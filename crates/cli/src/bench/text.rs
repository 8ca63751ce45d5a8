//! The numbers as a table, a device a column.

use std::io::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::Report;
use super::measure::{Measured, What};
use crate::error::Result;
use crate::size::bytes;

/// How many devices stand side by side, so that the table fits a terminal of 100 columns.
const DEVICES_WIDE: usize = 3;

/// Prints the numbers.
pub fn show(report: &Report, out: &mut impl Write) -> Result<()> {
    for devices in report.devices.chunks(DEVICES_WIDE) {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(std::iter::once(String::new()).chain(devices.iter().map(|device| device.name.clone())));
        for (what, size) in rows(&report.devices) {
            let numbers = devices.iter().map(|device| {
                let found = device.measured.iter().find(|measured| (measured.what, measured.bytes) == (what, size));
                found.map_or_else(|| "-".into(), number)
            });
            table.add_row(std::iter::once(label(what, size)).chain(numbers));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{table}")?;
    }
    if !report.devices.is_empty() {
        writeln!(out, "medians of rounds; behind ± half the distance of the quarters, as a part of the median")?;
    }
    for device in &report.devices {
        for left_out in &device.left_out {
            writeln!(out, "{}: left out {left_out}", device.name)?;
        }
    }
    for closed in &report.closed {
        writeln!(out, "{} does not open: {}", closed.name, closed.why)?;
    }
    Ok(())
}

/// Every number that some device has, in the order of the first that has it.
pub fn rows(devices: &[super::Benched]) -> Vec<(What, Option<usize>)> {
    let mut rows: Vec<(What, Option<usize>)> = Vec::new();
    for measured in devices.iter().flat_map(|device| &device.measured) {
        if !rows.contains(&(measured.what, measured.bytes)) {
            rows.push((measured.what, measured.bytes));
        }
    }
    rows.sort_by_key(|&(what, size)| (what as u8, size));
    rows
}

/// What a number is of.
pub fn label(what: What, size: Option<usize>) -> String {
    match size {
        Some(size) => format!("{}, {}", what.words(), bytes(size as u64)),
        None => what.words().into(),
    }
}

/// A number with its unit and its spread.
fn number(measured: &Measured) -> String {
    format!("{} ±{:.0}%", value(measured), 50.0 * measured.spread())
}

/// A time, or a rate.
pub fn value(measured: &Measured) -> String {
    match measured.bytes_per_second {
        Some(rate) => format!("{} GB/s", digits(rate / 1e9)),
        None => time(measured.median_ns),
    }
}

/// A time with three digits and its unit.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{} ns", digits(ns)),
        ns if ns < 1e6 => format!("{} µs", digits(ns / 1e3)),
        ns => format!("{} ms", digits(ns / 1e6)),
    }
}

/// Three digits.
fn digits(number: f64) -> String {
    match number {
        number if number < 9.995 => format!("{number:.2}"),
        number if number < 99.95 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!([0.5, 9.994, 9.996, 42.0, 99.96, 999.0].map(digits), ["0.50", "9.99", "10.0", "42.0", "100", "999"]);
        assert_eq!([15.0, 1234.0, 56_789_000.0].map(time), ["15.0 ns", "1.23 µs", "56.8 ms"]);
    }
}
