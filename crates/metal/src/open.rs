//! The opener, and how many GPUs there are.

use std::sync::Arc;

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSProcessInfo;
use rig_edge::{Opener, Timeline};

use crate::capability::Capability;
use crate::completion;
use crate::driver::Metal;
use crate::facts::{Family, facts};
use crate::limits::Limits;
use crate::object::Held;
use crate::ring;
use crate::running::Running;
use crate::state::Shared;
use crate::sys::{MTLCommandQueue, MTLCreateSystemDefaultDevice, MTLDevice, MTLResidencySetDescriptor, guard};

/// The first macOS with residency sets, by its major number.
const MACOS_FIRST: isize = 15;

/// How many GPUs Metal offers: 1 on a Mac whose GPU supports Metal, and 0 otherwise. A GPU that is counted may still not open.
///
/// # Errors
///
/// Metal's reason, where it raises an exception.
pub fn count() -> Result<u32, String> {
    autoreleasepool(|_| guard(|| u32::from(MTLCreateSystemDefaultDevice().is_some())))
}

/// The opener of the GPU `index`, counted from 0: `METAL`, `METAL:1` and so on. Never fails: its
/// [`make`](Opener::make) does.
pub fn gpu(index: u32) -> GpuOpener {
    GpuOpener { index }
}

/// Opens devices on one GPU. Each has a queue, a timeline and a capability of its own.
#[derive(Clone, Copy, Debug)]
pub struct GpuOpener {
    index: u32,
}

impl Opener for GpuOpener {
    type Driver = Metal;

    fn name(&self) -> String {
        if self.index == 0 { "METAL".into() } else { format!("METAL:{}", self.index) }
    }

    fn make(&self, timeline: Timeline) -> Result<Metal, String> {
        if rig_edge::callback::inside() {
            return Err("a fill or a kernel opens no device: open it before".into());
        }
        autoreleasepool(|_| guard(|| make(self.index, timeline)).and_then(|made| made))
    }
}

fn make(index: u32, timeline: Timeline) -> Result<Metal, String> {
    let gpu = if index == 0 { MTLCreateSystemDefaultDevice() } else { None };
    let Some(gpu) = gpu else {
        let count = u32::from(MTLCreateSystemDefaultDevice().is_some());
        return Err(format!("there is no GPU {index}: Metal offers {count}, counted from 0"));
    };
    let system = NSProcessInfo::processInfo().operatingSystemVersion();
    if system.majorVersion < MACOS_FIRST {
        return Err(format!(
            "macOS {}.{} has no residency sets, which rig needs: macOS {MACOS_FIRST} or later has them",
            system.majorVersion, system.minorVersion
        ));
    }
    let Some(family) = Family::of(|family| gpu.supportsFamily(family)) else {
        return Err(format!("the GPU {} is of no Apple and no Mac family: rig runs on those", gpu.name()));
    };
    let running = Arc::new(run(&gpu)?);
    let (facts, limits) = (facts(&gpu, family), Limits::of(&gpu));
    let shared = Arc::new(Shared::new(timeline.word(), Arc::clone(&running)));
    shared.lock().handler = Some(completion::handler(Arc::clone(&shared), running));
    let gpu = Held::from(gpu);
    let capability = Capability::new(gpu.clone(), family.offset_alignment(), limits, Arc::clone(&shared));
    Ok(Metal { gpu, facts, limits, capability, shared })
}

/// Makes what runs a device's work.
fn run(gpu: &Retained<ProtocolObject<dyn MTLDevice>>) -> Result<Running, String> {
    let queue = gpu
        .newCommandQueueWithMaxCommandBufferCount(ring::MOST)
        .ok_or("Metal makes no command queue for the device")?;
    let fence = gpu.newFence().ok_or("Metal makes no fence for the device")?;
    let set = gpu
        .newResidencySetWithDescriptor_error(&MTLResidencySetDescriptor::new())
        .map_err(|error| format!("Metal makes no residency set for the device: {}", error.localizedDescription()))?;
    queue.addResidencySet(&set);
    Ok(Running::new(queue.into(), fence.into(), set.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise M02.
    #[test]
    fn openers_are_named_by_their_gpus_and_never_fail() {
        assert_eq!(gpu(0).name(), "METAL");
        assert_eq!(gpu(1).name(), "METAL:1");
        assert_eq!(gpu(u32::MAX).name(), "METAL:4294967295");
    }
}
