//! The numbers as a chart, in SVG: bars for times, on a scale of powers of ten, and lines over the size for rates of copies.
//!
//! The colours are those of Okabe and Ito, which people tell apart whatever colours they see; lines differ in their dashes too.

use std::fmt::Write as _;

use super::measure::{Measured, What};
use super::text::{label, rows, value};
use super::{Benched, Report};
use crate::size::bytes;

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
/// Where the bars begin, and the room behind them for their values.
const BARS: (f64, f64) = (210.0, 110.0);
const BAR: f64 = 15.0;
/// A panel of lines.
const PANEL: (f64, f64) = (240.0, 220.0);
const PANEL_STEP: f64 = 306.0;
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"];
const DASHES: [&str; 4] = ["none", "6 3", "2 3", "8 3 2 3"];

/// An SVG file.
pub fn svg(report: &Report) -> String {
    let mut chart = Chart { body: String::new(), y: MARGIN };
    chart.head(report);
    chart.times(&report.devices);
    chart.rates(&report.devices);
    let (height, body) = (chart.y + MARGIN, chart.body);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>rig bench</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

struct Chart {
    body: String,
    /// Where what comes next begins.
    y: f64,
}

/// A scale of powers of ten, from the one below the least to the one above the most.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    fn of(numbers: impl Iterator<Item = f64>) -> Scale {
        let (least, most) = numbers
            .filter(|number| *number > 0.0)
            .fold((f64::MAX, f64::MIN), |(least, most), number| (least.min(number), most.max(number)));
        if least > most {
            return Scale { from: 0.0, to: 1.0 };
        }
        let (from, to) = (least.log10().floor(), most.log10().ceil());
        Scale { from, to: if to > from { to } else { from + 1.0 } }
    }

    /// Where a number stands, from 0 to 1.
    fn at(&self, number: f64) -> f64 {
        ((number.max(f64::MIN_POSITIVE).log10() - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Twice, three times to nine times the powers of ten.
    fn between(&self) -> impl Iterator<Item = f64> {
        (self.from as i32..self.to as i32)
            .flat_map(|power| (2..10).map(move |times| f64::from(times) * 10_f64.powi(power)))
    }

    /// The powers of ten.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.from as i32..=self.to as i32).map(|power| 10_f64.powi(power))
    }
}

/// How text stands to its place.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Chart {
    fn text(&mut self, x: f64, y: f64, anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        // A String takes all that is written to it, here and below.
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{}</text>",
            escaped(text)
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    fn rect(&mut self, x: f64, y: f64, (width, height): (f64, f64), colour: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        );
    }

    /// The title and the devices' colours.
    fn head(&mut self, report: &Report) {
        self.text(MARGIN, self.y + 14.0, Anchor::Start, "font-size=\"18\" font-weight=\"600\"", "rig bench");
        let note =
            format!("rig {}; medians, with a line from a quarter of the rounds to three quarters", report.version);
        self.text(MARGIN + 112.0, self.y + 14.0, Anchor::Start, "fill=\"#666\"", &note);
        self.y += 40.0;
        let mut x = MARGIN;
        for (index, device) in report.devices.iter().enumerate() {
            let name = format!("{} ({})", device.name, device.arch);
            let width = 34.0 + 7.2 * name.chars().count() as f64;
            if x + width > WIDTH - MARGIN {
                (x, self.y) = (MARGIN, self.y + 20.0);
            }
            self.rect(x, self.y - 10.0, (12.0, 12.0), colour(index));
            self.text(x + 18.0, self.y, Anchor::Start, "", &name);
            x += width;
        }
        self.y += 30.0;
    }

    fn title(&mut self, title: &str) {
        self.text(MARGIN, self.y, Anchor::Start, "font-size=\"14\" font-weight=\"600\"", title);
        self.y += 14.0;
    }

    /// Bars of times, one for each device, for each thing that takes a time.
    fn times(&mut self, devices: &[Benched]) {
        let of: Vec<(What, Option<usize>)> = rows(devices).into_iter().filter(|(what, _)| !what.is_copy()).collect();
        if of.is_empty() {
            return;
        }
        self.title("Time of a call (a logarithmic scale)");
        let all = devices.iter().flat_map(|device| &device.measured).filter(|measured| !measured.what.is_copy());
        let scale = Scale::of(all.map(|measured| measured.median_ns));
        let width = WIDTH - MARGIN - BARS.0 - BARS.1;
        let (top, group) = (self.y + 4.0, devices.len() as f64 * BAR + 12.0);
        let bottom = top + of.len() as f64 * group;
        for between in scale.between() {
            let x = BARS.0 + width * scale.at(between);
            self.line((x, top), (x, bottom), "#f2f2f2", 1.0);
        }
        for tick in scale.ticks() {
            let x = BARS.0 + width * scale.at(tick);
            self.line((x, top), (x, bottom), "#ddd", 1.0);
            self.text(x, bottom + 16.0, Anchor::Middle, "fill=\"#666\"", &power_of_ten(tick));
        }
        for (row, &(what, size)) in of.iter().enumerate() {
            let y = top + row as f64 * group + 6.0;
            let middle = y + devices.len() as f64 * BAR / 2.0 + 4.0;
            self.text(BARS.0 - 10.0, middle, Anchor::End, "", &label(what, size));
            for (index, device) in devices.iter().enumerate() {
                let found = device.measured.iter().find(|measured| (measured.what, measured.bytes) == (what, size));
                if let Some(measured) = found {
                    self.bar(measured, y + index as f64 * BAR, index, |ns| BARS.0 + width * scale.at(ns));
                }
            }
        }
        self.y = bottom + 56.0;
    }

    fn bar(&mut self, measured: &Measured, y: f64, index: usize, at: impl Fn(f64) -> f64) {
        let end = at(measured.median_ns).max(BARS.0 + 2.0);
        self.rect(BARS.0, y + 1.0, (end - BARS.0, BAR - 3.0), colour(index));
        let (quarter, three) = (at(measured.quarter_ns), at(measured.three_quarters_ns));
        let middle = y + BAR / 2.0 - 0.5;
        self.line((quarter, middle), (three, middle), "#000", 1.5);
        self.text(end.max(three) + 6.0, y + BAR - 4.0, Anchor::Start, "font-size=\"11\"", &value(measured));
    }

    /// Lines of rates over the size, a panel for each direction.
    fn rates(&mut self, devices: &[Benched]) {
        let all: Vec<&Measured> =
            devices.iter().flat_map(|device| &device.measured).filter(|measured| measured.what.is_copy()).collect();
        let sizes: Vec<usize> = {
            let mut sizes: Vec<usize> = all.iter().filter_map(|measured| measured.bytes).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        };
        if sizes.is_empty() {
            return;
        }
        self.title("Rate of a copy in GB/s, over its size (a logarithmic scale)");
        let scale = Scale::of(all.iter().filter_map(|measured| measured.bytes_per_second).map(|rate| rate / 1e9));
        let top = self.y + 24.0;
        for (index, what) in [What::ToDevice, What::ToHost, What::Within].into_iter().enumerate() {
            let left = MARGIN + 40.0 + index as f64 * PANEL_STEP;
            self.text(left, top - 8.0, Anchor::Start, "", what.words());
            self.panel(devices, what, &sizes, &scale, (left, top));
        }
        self.y = top + PANEL.1 + 40.0;
    }

    fn panel(&mut self, devices: &[Benched], what: What, sizes: &[usize], scale: &Scale, (left, top): (f64, f64)) {
        let bottom = top + PANEL.1;
        for between in scale.between() {
            let y = bottom - PANEL.1 * scale.at(between);
            self.line((left, y), (left + PANEL.0, y), "#f2f2f2", 1.0);
        }
        for tick in scale.ticks() {
            let y = bottom - PANEL.1 * scale.at(tick);
            self.line((left, y), (left + PANEL.0, y), "#ddd", 1.0);
            self.text(left - 6.0, y + 4.0, Anchor::End, "fill=\"#666\"", &format!("{tick}"));
        }
        let step = PANEL.0 / sizes.len() as f64;
        let x = |size: usize| {
            let place = sizes.iter().position(|&known| known == size).unwrap_or(0);
            left + step * (place as f64 + 0.5)
        };
        for &size in sizes {
            self.text(x(size), bottom + 18.0, Anchor::Middle, "fill=\"#666\"", &bytes(size as u64));
        }
        for (index, device) in devices.iter().enumerate() {
            let points: Vec<(f64, f64)> = device
                .measured
                .iter()
                .filter(|measured| measured.what == what)
                .filter_map(|measured| {
                    Some((x(measured.bytes?), bottom - PANEL.1 * scale.at(measured.bytes_per_second? / 1e9)))
                })
                .collect();
            let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let (colour, dash) = (colour(index), DASHES[index % DASHES.len()]);
            let _ = writeln!(
                self.body,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
                line.join(" ")
            );
            for (x, y) in points {
                let _ = writeln!(self.body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
    }
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// A power of ten of nanoseconds.
fn power_of_ten(ns: f64) -> String {
    match ns {
        ns if ns < 999.0 => format!("{ns} ns"),
        ns if ns < 999e3 => format!("{:.0} µs", ns / 1e3),
        ns if ns < 999e6 => format!("{:.0} ms", ns / 1e6),
        ns => format!("{:.0} s", ns / 1e9),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_spans_whole_powers_of_ten() {
        let scale = Scale::of([15.0, 2300.0].into_iter());
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!((scale.at(10.0), scale.at(10_000.0), scale.at(1.0)), (0.0, 1.0, 0.0));
        assert!((scale.at(1000.0) - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(Scale::of([7.0].into_iter()).ticks().count(), 2, "one number has a scale too");
        assert_eq!(Scale::of([100.0].into_iter()).ticks().count(), 2);
        assert_eq!(Scale::of([].into_iter()).ticks().count(), 2, "and so has none");
        assert_eq!([1.0, 100.0, 1e3, 1e7, 1e10].map(power_of_ten), ["1 ns", "100 ns", "1 µs", "10 ms", "10 s"]);
    }

    #[test]
    fn names_cannot_break_the_file() {
        assert_eq!(escaped("<A & B>"), "&lt;A &amp; B&gt;");
        let report = Report { version: "0", devices: Vec::new(), closed: Vec::new() };
        assert!(svg(&report).ends_with("</svg>\n"), "no device is a chart too");
    }
}
