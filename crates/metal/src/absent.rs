//! Where there is no Metal: no GPU is counted, and none opens.

use std::convert::Infallible;

use rig_edge::{
    Code, EntryAnswer, Facts, Fault, ImageError, Location, Memory, Part, PlanError, Room, Sleep, Submitted, Timeline,
    Work,
};

/// How many GPUs Metal offers: none here.
///
/// # Errors
///
/// None here.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // No GPU is counted, and none opens.
/// assert_eq!(rig_metal::count()?, 0);
/// assert!(rig::open(rig_metal::gpu(0)).is_err());
/// # Ok(())
/// # }
/// ```
pub fn count() -> Result<u32, String> {
    Ok(0)
}

/// Opens nothing, and says why.
pub(crate) fn make(_: u32, _: Timeline) -> Result<Metal, String> {
    Err("there is no Metal here: it is Apple's, on macOS 15 or later (for tests on x86-64 Linux, build rig-metal with its \
         feature `model`)"
        .into())
}

/// A device on Apple's Metal: none exists here.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// // A program asks for it by this name on every system, and here no device answers.
/// let cores = rig::open(rig_host::cores())?;
/// assert!(cores.capability::<rig_metal::Metal>().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Metal(Infallible);

#[expect(unsafe_code, reason = "implements the driver interface")]
impl rig_edge::Driver for Metal {
    type Region = Infallible;
    type Image = Infallible;
    type Entry = Infallible;
    type Plan = ();
    type Encoder<'a> = Infallible;
    type Capability = Infallible;

    fn facts(&self) -> &Facts {
        match self.0 {}
    }

    fn alloc(&self, _: Memory, _: usize) -> Result<Option<Infallible>, Fault> {
        match self.0 {}
    }

    unsafe fn free(&self, region: Infallible) -> Result<(), Fault> {
        match region {}
    }

    fn locate(&self, region: &Infallible) -> Location {
        match *region {}
    }

    fn image(&self, _: &[u8]) -> Result<Code<Infallible>, ImageError> {
        match self.0 {}
    }

    fn entry(&self, image: &Infallible, _: &str) -> Result<EntryAnswer<Infallible>, Fault> {
        match *image {}
    }

    unsafe fn unload(&self, image: Infallible) -> Result<(), Fault> {
        match image {}
    }

    fn plan(&self, _: &[Part<Metal>]) -> Result<(), PlanError> {
        match self.0 {}
    }

    unsafe fn room(&self, (): &mut (), _: &[Part<Metal>], _: &mut Work<'_>) -> Room {
        match self.0 {}
    }

    unsafe fn submit(&self, _: u64, (): &mut (), _: &[Part<Metal>], _: &mut Work<'_>) -> Submitted {
        match self.0 {}
    }

    fn commit(&self, _: u64) -> Result<(), Fault> {
        match self.0 {}
    }

    fn sleep(&self, _: Sleep) -> Result<(), Fault> {
        match self.0 {}
    }

    fn stop(&self, _: Option<&str>) -> Result<(), Fault> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use rig_edge::{Opener, WordIndex};

    use super::*;
    use crate::gpu;

    /// Promises M01, M02, M05.
    #[test]
    fn no_gpu_is_counted_and_none_opens_and_the_reason_says_what_is_missing() {
        assert_eq!(count(), Ok(0));
        assert_eq!([gpu(0), gpu(3)].map(|opener| opener.name()), ["METAL", "METAL:3"]);
        let why = gpu(0).make(Timeline::new(WordIndex::new(1))).map(drop).unwrap_err();
        assert!(why.contains("macOS 15"), "{why}");
    }
}
