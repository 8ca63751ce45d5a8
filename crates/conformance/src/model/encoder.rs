//! What a fill encodes with.

use rig_edge::Slot;

use super::driver::ModelDriver;
use super::kernel::{Args, Grid, Resolved};
use super::state::{Op, Shared};

/// Takes a fill's commands. They run in the place of the fill's part, when the work does.
pub struct Encoder<'a> {
    shared: &'a Shared,
    device: usize,
    ops: &'a mut Vec<Op>,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(driver: &'a ModelDriver, ops: &'a mut Vec<Op>) -> Encoder<'a> {
        Encoder { shared: &driver.shared, device: driver.id, ops }
    }

    fn span(&self, slot: &Slot) -> Result<super::bytes::Span, String> {
        let state = self.shared.lock();
        let found = state.devices[self.device].region_at(slot.device, slot.len);
        let span = found.and_then(|(_, region, at)| region.span()?.part(at, slot.len as usize));
        span.ok_or_else(|| format!("the fill named {} bytes at {:#x}, no memory of its device", slot.len, slot.device))
    }

    /// Sets each byte of a slot.
    ///
    /// # Errors
    ///
    /// Where the slot is no memory of the device.
    pub fn memset(&mut self, slot: &Slot, byte: u8) -> Result<(), String> {
        let to = self.span(slot)?;
        self.ops.push(Op::Fill { to, byte });
        Ok(())
    }

    /// Copies a slot to another of the same length.
    ///
    /// # Errors
    ///
    /// Where one is no memory of the device, or the lengths differ.
    pub fn copy(&mut self, from: &Slot, to: &Slot) -> Result<(), String> {
        let (from, to) = (self.span(from)?, self.span(to)?);
        if from.len() != to.len() {
            return Err(format!("the fill copies {} bytes to {}", from.len(), to.len()));
        }
        self.ops.push(Op::Copy { from, to });
        Ok(())
    }

    /// Runs a kernel of the model's over slots, each of which it may write.
    ///
    /// # Errors
    ///
    /// Where the model has no such kernel, or a slot is no memory of the device.
    pub fn launch(&mut self, kernel: &str, grid: Grid, slots: &[Slot], params: &[u8]) -> Result<(), String> {
        let found = self.shared.lock().kernels.get(kernel).cloned();
        let kernel = found.ok_or_else(|| format!("the model has no kernel {kernel}"))?;
        let spans = slots.iter().map(|slot| self.span(slot)).collect::<Result<Vec<_>, _>>()?;
        let params = params.to_vec();
        let refs = spans.into_iter();
        let refs = refs.map(|span| Resolved { access: rig_edge::Access::Write, span });
        let refs: Vec<Resolved> = refs.collect();
        self.ops.push(Op::Kernel(Box::new(move || (kernel.code)(&mut Args { grid, params: &params, refs: &refs }))));
        Ok(())
    }

    /// Runs host code in the work's place.
    pub fn call(&mut self, code: impl FnOnce() + Send + 'static) {
        self.ops.push(Op::Kernel(Box::new(move || {
            code();
            Ok(())
        })));
    }
}
