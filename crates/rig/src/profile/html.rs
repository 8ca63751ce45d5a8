//! A page that shows a profile, for people with neither Perfetto nor Chrome's tracing at hand.

use std::io;

use super::Profile;

/// The page around the trace.
const PAGE: &str = include_str!("timeline.html");
/// Where the trace stands in it.
const PLACE: &str = "TRACE";

impl Profile {
    /// Writes the profile as one HTML page, which any browser shows as a timeline to zoom and move in. It holds all that it needs
    /// and fetches nothing.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.buffer(1 << 20)?;
    /// let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
    /// answer?;
    ///
    /// let mut page = Vec::new();
    /// profile.write_html(&mut page)?;
    /// assert!(page.starts_with(b"<!doctype html>"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_html(&self, mut to: impl io::Write) -> io::Result<()> {
        let mut trace = Vec::new();
        self.write_chrome_trace(&mut trace)?;
        // PANIC: the page has the place, which a test sees to.
        let (before, after) = PAGE.split_once(PLACE).expect("the page has a place for the trace");
        to.write_all(before.as_bytes())?;
        // What could end the script that holds it is written as JSON's escape of it.
        to.write_all(String::from_utf8_lossy(&trace).replace('<', "\\u003c").as_bytes())?;
        to.write_all(after.as_bytes())?;
        to.flush()
    }
}
