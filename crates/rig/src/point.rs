//! Points: a device and a value of it.

use std::fmt;

use crate::Result;
use crate::timeline::{Stamp, State, timelines, word_shows};
use crate::wait::wait;

/// What a submit gives: a value of a device, which is reached once the device has completed the work of that submit and
/// of all before it.
///
/// A point is plain data and keeps nothing alive. It may outlive its device: a value that was reached stays reached, and
/// the others of a lost or closed device are Lost for ever.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # let buffer = device.buffer(1 << 20)?;
/// # let mut run = device.submission().memset(0, 7).make()?.take();
/// let point = run.submit(&[&buffer])?;
/// let copy = point;
/// point.wait()?;
/// assert!(copy.reached()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Point {
    pub(crate) slot: u32,
    pub(crate) value: u64,
}

impl Point {
    pub(crate) fn new(stamp: Stamp) -> Point {
        Point { slot: stamp.slot, value: stamp.value }
    }

    pub(crate) fn stamp(self) -> Stamp {
        Stamp { slot: self.slot, value: self.value }
    }

    /// The value: one more than that of the device's submit before.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let buffer = device.buffer(1 << 20)?;
    /// # let mut run = device.submission().memset(0, 7).make()?.take();
    /// let first = run.submit(&[&buffer])?;
    /// let second = run.submit(&[&buffer])?;
    /// assert_eq!(second.value(), first.value() + 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Waits until the point is reached; then the host sees all that the work wrote.
    ///
    /// Commits the work first where the device has not. Spins for the short time that the device's facts name, then
    /// sleeps in the driver. On a device of the host's cores the waiting thread helps with the work.
    ///
    /// # Errors
    ///
    /// Lost if the device was lost or closed before the point was reached, or if the work waited for work of a device
    /// that was; Refused where the work has not failed, but stands on its device behind work that waits for a lost device, and
    /// five seconds after the loss nobody has closed that one: the error names the device to close, and a wait after the close
    /// goes on; Invalid from inside a fill or a kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let buffer = device.buffer(1 << 20)?;
    /// # let mut run = device.submission().memset(0, 7).make()?.take();
    /// run.submit(&[&buffer])?.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn wait(&self) -> Result<()> {
        wait(self.stamp())
    }

    /// Whether the point is reached; then the host sees all that the work wrote. Never waits, commits nothing, and never
    /// loses a device.
    ///
    /// # Errors
    ///
    /// Lost as [`wait`](Point::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let buffer = device.buffer(1 << 20)?;
    /// # let mut run = device.submission().memset(0, 7).make()?.take();
    /// let point = run.submit(&[&buffer])?;
    /// while !point.reached()? {
    ///     std::thread::yield_now();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn reached(&self) -> Result<bool> {
        if word_shows(self.stamp()) && !timelines().any_failed() {
            return Ok(true);
        }
        self.look()
    }

    fn look(self) -> Result<bool> {
        match timelines().state(self.stamp()) {
            State::Reached => Ok(true),
            State::Failed(lost) => Err(lost.into()),
            State::Pending => Ok(self.reached_after_refresh()),
        }
    }

    /// A word of a driver's own is read through the driver.
    #[cold]
    fn reached_after_refresh(self) -> bool {
        if let Some(core) = timelines().device(self.slot) {
            core.refresh();
        }
        matches!(timelines().state(self.stamp()), State::Reached)
    }

    /// Waits until every point is reached.
    ///
    /// # Errors
    ///
    /// That of the first point, in the slice's order, that cannot be reached.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let buffer = device.buffer(1 << 20)?;
    /// # let mut run = device.submission().memset(0, 7).make()?.take();
    /// let points = [run.submit(&[&buffer])?, run.submit(&[&buffer])?];
    /// rig::Point::wait_all(&points)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_all(points: &[Point]) -> Result<()> {
        points.iter().try_for_each(Point::wait)
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Point({}:{})", self.slot, self.value)
    }
}
