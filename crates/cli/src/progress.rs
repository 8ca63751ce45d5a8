//! How far a long `rig run --repeat` is, as a bar on standard error.
//!
//! It must not disturb what is measured: there is no thread of its own, which would take a core from the runs; between
//! two runs it compares two times, and ten times a second at most it draws. No time that is measured includes a drawing.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// How long the runs take before there is a bar: less than that nobody wonders about.
const PATIENCE: Duration = Duration::from_secs(1);

/// The least time between two drawings.
const PERIOD: Duration = Duration::from_millis(100);

const TEMPLATE: &str = "{wide_bar} {pos} of {len} runs, {time}";

/// The bar. Dropped, it clears its line.
pub struct Progress {
    runs: u32,
    began: Instant,
    /// When it is drawn next; `None` where it never is.
    due: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Of `runs` runs that begin now; nothing is drawn unless `wanted` and standard error is a terminal, one that
    /// can take back what it shows (indicatif looks at that).
    pub fn new(runs: u32, wanted: bool) -> Progress {
        let began = Instant::now();
        let shown = wanted && runs > 1 && std::io::stderr().is_terminal();
        Progress { runs, began, due: shown.then_some(began + PATIENCE), bar: None }
    }

    /// `done` runs have ended, the last of them `now`.
    pub fn ended(&mut self, done: u32, now: Instant) {
        if is_due(&mut self.due, now) {
            let bar = self.bar.get_or_insert_with(|| bar(self.runs, self.began));
            bar.set_position(done.into());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Whether it is to be drawn now; if so, the next time is a period away.
fn is_due(due: &mut Option<Instant>, now: Instant) -> bool {
    match *due {
        Some(at) if now >= at => {
            *due = Some(now + PERIOD);
            true
        }
        _ => false,
    }
}

fn bar(runs: u32, began: Instant) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(runs.into()), ProgressDrawTarget::stderr());
    // PANIC: a test draws by this template.
    let style = ProgressStyle::with_template(TEMPLATE).expect("the template is sound");
    bar.set_style(style.with_key("time", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        let _ = text.write_str(&time(state.elapsed(), state.pos(), state.len().unwrap_or(0)));
    }));
    bar.with_elapsed(began.elapsed())
}

/// How long it has taken and about how long it will: the rest goes as fast as what is done.
fn time(elapsed: Duration, done: u64, runs: u64) -> String {
    let whole = elapsed.as_secs_f64() * runs as f64 / done.max(1) as f64;
    format!("{:.1} s of about {whole:.1} s", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_drawn_after_a_second_and_then_ten_times_a_second_at_most() {
        let began = Instant::now();
        let mut due = Some(began + PATIENCE);
        let drawn: Vec<u64> = (0..1400).filter(|&ms| is_due(&mut due, began + Duration::from_millis(ms))).collect();
        assert_eq!(drawn, [1000, 1100, 1200, 1300]);
        // After a run that was long, the pause counts from its end.
        assert!(is_due(&mut due, began + Duration::from_millis(9050)));
        assert!(!is_due(&mut due, began + Duration::from_millis(9140)));
    }

    #[test]
    fn it_is_not_drawn_where_nobody_looks() {
        let mut progress = Progress::new(1000, false);
        progress.ended(500, Instant::now() + 2 * PATIENCE);
        assert!(progress.bar.is_none());
    }

    #[test]
    fn the_rest_is_taken_to_go_as_fast_as_what_is_done() {
        assert_eq!(time(Duration::from_millis(1500), 3, 12), "1.5 s of about 6.0 s");
        assert_eq!(time(Duration::from_secs(4), 0, 12), "4.0 s of about 48.0 s");
        // The template names nothing that the style does not know.
        assert_eq!(bar(12, Instant::now()).length(), Some(12));
    }
}
