//! The device's record for programs and compiled code that go beyond rig (`Device::capability` of rig gives it).

use std::sync::Arc;

use objc2::runtime::ProtocolObject;

use crate::abi;
use crate::icb::{Icb, IndirectLaunch};
use crate::limits::Limits;
use crate::object::Held;
use crate::state::Shared;
use crate::sys::MTLDevice;

/// A device's Metal objects, and what fills need before they run.
///
/// `include/rig_metal.h` declares it for C and Objective-C, as [`record`](Capability::record) gives it.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
/// println!("constants on {} bytes", capability.alignment());
/// // It is the same for as long as the device lives.
/// let again = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
/// assert!(std::ptr::eq(capability, again));
/// # Ok(())
/// # }
/// ```
pub struct Capability {
    made: Arc<Made>,
    /// What compiled code reads. It is given by its address, so it is boxed.
    record: Box<abi::Record>,
}

/// What a capability and its record for compiled code have in common.
pub(crate) struct Made {
    pub(crate) gpu: Held<dyn MTLDevice>,
    pub(crate) alignment: usize,
    limits: Limits,
    shared: Arc<Shared>,
}

impl Made {
    /// Records launches.
    pub(crate) fn icb(&self, launches: &[IndirectLaunch<'_>]) -> Result<Icb, String> {
        Icb::record(&self.gpu, &self.shared, &self.limits, self.alignment, launches)
    }
}

impl Capability {
    pub(crate) fn new(gpu: Held<dyn MTLDevice>, alignment: usize, limits: Limits, shared: Arc<Shared>) -> Capability {
        let made = Arc::new(Made { gpu, alignment, limits, shared });
        let record = Box::new(abi::record(&made));
        Capability { made, record }
    }

    /// The GPU.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
    /// use rig_metal::sys::MTLDevice;
    /// // What rig has no word for, Metal's own object answers.
    /// let gpu = capability.device();
    /// assert!(gpu.maxThreadsPerThreadgroup().width >= 64 && gpu.maxBufferLength() >= y.len() * 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(&self) -> &ProtocolObject<dyn MTLDevice> {
        &self.made.gpu
    }

    /// The least alignment of the offset of a constant buffer, in bytes: 4 on GPUs of an Apple family, and 256 on others.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
    /// // How far apart a fill puts the parameters of two launches in a buffer of its own.
    /// let stride = 20_usize.next_multiple_of(capability.alignment());
    /// assert!(stride == 20 || stride == 256, "{stride}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn alignment(&self) -> usize {
        self.made.alignment
    }

    /// Records launches, which fills run any number of times. Not inside a fill.
    ///
    /// # Errors
    ///
    /// The reason: a launch that can never run, no memory, a device that is stopped, or a call from a fill.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// use rig_metal::IndirectLaunch;
    /// // y, how many numbers it has, and the first of them.
    /// let params = [&address.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
    /// let launch = IndirectLaunch { entry, params: &params, groups: [1; 3], threads: [64, 1, 1], group_bytes: 0 };
    /// let icb = capability.icb(&[launch])?;
    /// let step = device.submission().fill::<rig_metal::Metal>([rig::write(0)], move |encoder, _| encoder.execute(&icb));
    /// // SAFETY: the fill writes the 64 numbers of slot 0, and touches nothing else.
    /// unsafe { step.make()?.take().launch(&[&y])? };
    /// assert_eq!(y.read(|y| y[63])?, 7 + 63);
    /// # Ok(())
    /// # }
    /// ```
    pub fn icb(&self, launches: &[IndirectLaunch<'_>]) -> Result<Icb, String> {
        self.made.icb(launches)
    }

    /// The record for compiled code, a `struct rig_metal`. It lasts as long as the capability does.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
    /// // A function in C gets this address as a `const struct rig_metal *`.
    /// let record = capability.record();
    /// // SAFETY: the capability is there.
    /// let record = unsafe { &*record };
    /// assert_eq!(record.version, rig_metal::abi::RIG_METAL_VERSION);
    /// assert_eq!(record.align as usize, capability.alignment());
    /// # Ok(())
    /// # }
    /// ```
    pub fn record(&self) -> *const abi::Record {
        &raw const *self.record
    }
}

impl std::fmt::Debug for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Capability of {:?}, aligned to {}", self.made.gpu, self.made.alignment)
    }
}
