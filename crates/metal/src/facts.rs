//! What the driver says of a GPU.

use std::time::Duration;

use rig_edge::{Completion, Facts, Kinds, Queue, Reach, WaitFacts, WordSource};

use crate::sys::{MTLDevice, MTLGPUFamily};

/// The alignment of every region. Metal places a buffer below a page at a multiple of this, and a larger one at a page;
/// Apple documents neither, so each buffer is looked at.
pub(crate) const ALIGNMENT: usize = 256;

/// How long a wait reads the word before it sleeps. TIMEOUT: a handler runs tens of microseconds after its work.
const SPIN: Duration = Duration::from_micros(20);

/// The highest Apple family that is asked for: families to come are numbered on, and a GPU says no to those it has not.
const FAMILY_LAST: isize = 32;

/// The GPU's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Of Apple's own GPUs, with its number.
    Apple(isize),
    /// Of the other GPUs of Macs.
    Mac2,
}

impl Family {
    /// The highest Apple family that the GPU supports, else its Mac family, if it has one.
    pub fn of(supports: impl Fn(MTLGPUFamily) -> bool) -> Option<Family> {
        let apple = |number: isize| MTLGPUFamily(MTLGPUFamily::Apple1.0 + number - 1);
        let highest = (1..=FAMILY_LAST).rev().find(|&number| supports(apple(number)));
        highest.map(Family::Apple).or_else(|| supports(MTLGPUFamily::Mac2).then_some(Family::Mac2))
    }

    /// As Metal's compiler names it.
    pub fn name(self) -> String {
        match self {
            Family::Apple(number) => format!("Apple{number}"),
            Family::Mac2 => "Mac2".into(),
        }
    }

    /// The least alignment of a constant buffer's offset, by Apple's feature set tables. They give none for Mac families,
    /// where 256 is a multiple of every smaller power of two, and costs only padding.
    pub fn offset_alignment(self) -> usize {
        match self {
            Family::Apple(_) => 4,
            Family::Mac2 => 256,
        }
    }
}

/// The facts of a device on a GPU of `family`.
pub(crate) fn facts(gpu: &objc2::runtime::ProtocolObject<dyn MTLDevice>, family: Family) -> Facts {
    Facts {
        arch: family.name(),
        budget: gpu.recommendedMaxWorkingSetSize(),
        queues: vec![Queue { name: "COMPUTE:0".into(), kinds: Kinds { launch: true, fill: true, ..Kinds::NONE } }],
        copy_engine: None,
        completion: Completion::Host,
        waits: WaitFacts::NONE,
        may_block: true,
        // Metal itself ends a command buffer that runs too long.
        hang: None,
        spin: SPIN,
        maps_host: true,
        host_addresses: true,
        alignment: ALIGNMENT,
        // No interface of Metal's states it.
        cache_bytes: None,
        reach: Reach::Device,
        word: WordSource::Given,
        bus: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promises M06, M09.
    #[test]
    fn the_highest_apple_family_names_the_gpu_and_a_mac_family_only_where_there_is_none() {
        let of = |has: &[MTLGPUFamily]| Family::of(|family| has.contains(&family));
        assert_eq!(of(&[MTLGPUFamily::Apple1, MTLGPUFamily::Apple7, MTLGPUFamily::Mac2]).unwrap().name(), "Apple7");
        assert_eq!(of(&[MTLGPUFamily(1012)]).unwrap().name(), "Apple12");
        assert_eq!(of(&[MTLGPUFamily::Mac2, MTLGPUFamily::Metal3]).unwrap().name(), "Mac2");
        assert_eq!(of(&[MTLGPUFamily::Metal3]), None);
        assert_eq!([Family::Apple(7), Family::Mac2].map(Family::offset_alignment), [4, 256]);
    }
}
