//! A profile in text.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{HostWork, Profile};

/// One line of a table.
#[derive(Default)]
struct Row {
    times: usize,
    took: Duration,
    bytes: u64,
    timed: bool,
}

impl fmt::Display for Profile {
    /// A table of what ran on each device and what the host did, the longest first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} in all", self.took)?;
        let mut devices: BTreeMap<(&str, u32), Vec<&super::ValueSpan>> = BTreeMap::new();
        for value in &self.values {
            devices.entry((&value.device, value.timeline)).or_default().push(value);
        }
        for ((device, _), values) in devices {
            let busy: Duration = values.iter().filter_map(|value| value.ran).map(|ran| ran.took()).sum();
            writeln!(f, "{device}: {} values, busy for {busy:?}", values.len())?;
            let mut parts: BTreeMap<&str, Row> = BTreeMap::new();
            for value in values {
                for part in &value.parts {
                    let row = parts.entry(&part.name).or_default();
                    // A value of one part took what the part did.
                    let alone = value.ran.filter(|_| value.parts.len() == 1);
                    let ran = part.ran.or(alone);
                    row.add(ran.map(|ran| ran.took()), part.bytes);
                }
            }
            rows(f, parts)?;
        }
        if !self.host.is_empty() {
            writeln!(f, "host:")?;
            let mut works: BTreeMap<&str, Row> = BTreeMap::new();
            for span in &self.host {
                works.entry(HostWork::name(span.work)).or_default().add(Some(span.ran.took()), span.bytes);
            }
            rows(f, works)?;
        }
        Ok(())
    }
}

impl Row {
    fn add(&mut self, took: Option<Duration>, bytes: u64) {
        self.times += 1;
        self.took += took.unwrap_or_default();
        self.timed |= took.is_some();
        self.bytes += bytes;
    }
}

fn rows(f: &mut fmt::Formatter<'_>, rows: BTreeMap<&str, Row>) -> fmt::Result {
    let mut rows: Vec<(&str, Row)> = rows.into_iter().collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.took));
    for (name, row) in rows {
        write!(f, "  {name:<24} {:>7} times", row.times)?;
        if row.timed {
            write!(f, " {:>14}", format!("{:.1?}", row.took))?;
        }
        if row.bytes > 0 {
            write!(f, " {:>14} bytes", row.bytes)?;
            let seconds = row.took.as_secs_f64();
            if row.timed && seconds > 0.0 {
                write!(f, " {:>8.2} GB/s", row.bytes as f64 / seconds / 1e9)?;
            }
        }
        writeln!(f)?;
    }
    Ok(())
}
