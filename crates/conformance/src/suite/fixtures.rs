//! What a driver gives the suite.

use rig::Device;
use rig_edge::Opener;

/// What the suite needs of a driver. Every method may be called often, from any thread.
pub trait Fixtures: Sync {
    /// The driver's opener.
    type Opener: Opener + Send;

    /// An opener of a device.
    fn opener(&self) -> Self::Opener;

    /// An opener of another device, of the same name or not.
    fn second(&self) -> Self::Opener {
        self.opener()
    }

    /// An image with the suite's kernels; see the head of the [suite](super).
    fn image(&self) -> Vec<u8>;

    /// Binaries that the driver must refuse, each with what is wrong with it.
    fn bad_images(&self) -> Vec<(String, Vec<u8>)>;

    /// Groups, and threads of a group, that run `n` threads or more along x.
    fn grid(&self, n: u32) -> ([u32; 3], [u32; 3]) {
        ([n.div_ceil(64).max(1), 1, 1], [64, 1, 1])
    }

    /// How many rounds of `spin` over a thousand elements take some ten milliseconds on the device.
    fn spin_rounds(&self) -> u32 {
        2_000
    }

    /// The bus address of a PCI function that the case of DMA asks for access for; it never reaches any memory. None where
    /// the case is only to see that an address which is none is refused. After a driver has given bus addresses its hardware
    /// does not open again in the process: then run that case in a process of its own.
    fn dma_function(&self) -> Option<String> {
        None
    }

    /// Makes the device fault, such as by a kernel that faults, and returns at once. False where it cannot: then the cases
    /// of a loss say so and do nothing.
    fn lose(&self, device: &Device) -> bool {
        let _ = device;
        false
    }

    /// Holds the device's work: of what is submitted from now on nothing ends until the answer is dropped, and a hundred
    /// submits that follow need no wait; loading code may. Work of other devices may be held too. None where the fixtures cannot; then the
    /// cases have the device busy instead, or do nothing.
    fn hold(&self, device: &Device) -> Option<Box<dyn Send>> {
        let _ = device;
        None
    }

    /// An opener of a device whose hang bound is some tenths of a second. None where the driver has no such bound.
    fn hanging(&self) -> Option<Self::Opener> {
        None
    }

    /// Whether the cases of great numbers take them in full. False where other fixtures of the same driver do.
    fn in_full(&self) -> bool {
        true
    }
}
