//! Opening a device, and how many GPUs there are.

use std::sync::Arc;

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSProcessInfo;
use rig_edge::Timeline;

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
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // All that there are and that open.
/// let gpus = (0..rig_metal::count()?).map(rig_metal::gpu);
/// let devices: Vec<_> = gpus.filter_map(|gpu| rig::open(gpu).ok()).collect();
/// assert!(devices.iter().all(|device| device.name().starts_with("METAL")));
/// # Ok(())
/// # }
/// ```
pub fn count() -> Result<u32, String> {
    autoreleasepool(|_| guard(|| u32::from(MTLCreateSystemDefaultDevice().is_some())))
}

/// Opens a device on the GPU `index`.
pub(crate) fn make(index: u32, timeline: Timeline) -> Result<Metal, String> {
    if rig_edge::callback::inside() {
        return Err("a fill or a kernel opens no device: open it before".into());
    }
    autoreleasepool(|_| guard(|| open(index, timeline)).and_then(|made| made))
}

fn open(index: u32, timeline: Timeline) -> Result<Metal, String> {
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
