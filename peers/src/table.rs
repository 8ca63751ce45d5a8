//! The table that docs/performance.md holds, with what it was measured on.

use crate::machine;
use crate::measure::{Figure, Row};
use crate::peer::Peer;

/// The table, and the lines above it that say where its figures come from. The first peer is rig.
pub fn section(peers: &[Box<dyn Peer>], rows: &[Row], rounds: usize) -> String {
    let cores = rows.iter().map(|row| row.cores).fold(f64::INFINITY, f64::min);
    let about: Vec<String> = peers.iter().map(|peer| format!("{} ({})", peer.name(), peer.about())).collect();
    let names: Vec<&str> = peers.iter().map(|peer| peer.name()).collect();
    let mut text = format!(
        "`cargo xtask bench --peers` on {}, {} cores of {}, of which {cores:.1} or more could be had:\n{}.\n\
         Medians of {rounds} rounds with half of the rounds in brackets; in bold, how many times rig is ahead.\n\n\
         | what | unit | {} | cores had |\n| --- | --- |{} --- |\n",
        machine::today(),
        machine::cores(),
        machine::processor(),
        about.join(",\n"),
        names.join(" | "),
        " --- |".repeat(peers.len()),
    );
    for row in rows {
        let cells: Vec<String> = row.figures.iter().map(|figure| cell(row, *figure)).collect();
        let (title, unit, cores) = (row.line.title(), row.line.unit(), row.cores);
        text.push_str(&format!("| {title} | {unit} | {} | {cores:.1} |\n", cells.join(" | ")));
    }
    text
}

/// The lines on which a peer is ahead of rig, each with by how much.
pub fn behind(peers: &[Box<dyn Peer>], rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        for (peer, figure) in peers.iter().zip(&row.figures).skip(1) {
            if let Some(times) = ahead(row, *figure)
                && times < 1.0
            {
                lines.push(format!("{}: {} is ahead {:.2} times", row.line.title(), peer.name(), 1.0 / times));
            }
        }
    }
    lines
}

/// How many times rig is ahead of a peer with this figure; `None` where one of the two has none.
fn ahead(row: &Row, figure: Option<Figure>) -> Option<f64> {
    let (rig, peer) = (row.figures.first().copied().flatten()?, figure?);
    Some(if row.line.is_rate() { rig.median / peer.median } else { peer.median / rig.median })
}

/// A figure with its spread and, but for rig's own, how many times rig is ahead.
fn cell(row: &Row, figure: Option<Figure>) -> String {
    let Some(found) = figure else { return "none".to_owned() };
    let spread = format!("{} ({} to {})", short(found.median), short(found.low), short(found.high));
    match ahead(row, figure) {
        Some(times) if row.figures[0] != figure => format!("{spread} **{}**", short(times)),
        _ => spread,
    }
}

/// Three digits, as far as they are behind the point.
fn short(number: f64) -> String {
    match number {
        number if number < 1.0 => format!("{number:.3}"),
        number if number < 10.0 => format!("{number:.2}"),
        number if number < 100.0 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Line;

    fn row(line: Line, medians: [Option<f64>; 3]) -> Row {
        let figure = |median: f64| Figure { median, low: 0.9 * median, high: 1.1 * median };
        Row { line, figures: medians.into_iter().map(|median| median.map(figure)).collect(), cores: 2.0 }
    }

    #[test]
    fn rig_is_ahead_where_it_takes_less_time_or_moves_more() {
        let time = row(Line::RoundTrip, [Some(0.5), Some(100.0), None]);
        assert_eq!(cell(&time, time.figures[0]), "0.500 (0.450 to 0.550)");
        assert_eq!(cell(&time, time.figures[1]), "100 (90.0 to 110) **200**");
        assert_eq!(cell(&time, time.figures[2]), "none");
        let rate = row(Line::Add, [Some(20.0), Some(40.0), Some(10.0)]);
        assert_eq!(ahead(&rate, rate.figures[1]), Some(0.5));
        assert_eq!(ahead(&rate, rate.figures[2]), Some(2.0));
    }
}
