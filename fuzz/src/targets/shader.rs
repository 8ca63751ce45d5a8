//! The shader core of the software AMD GPU: any words as the code of a kernel.

use rig_amd_model::isa::{
    Access, AtomicOp, Bus, Caches, Code, Descriptor, Dispatch, Fault, FaultKind, Progress, Scope, WorkGroup,
};

use crate::targets::bytes::Bytes;

/// Where code and data lie.
const CODE: u64 = 0x7000_0000_0000;
const DATA: u64 = 0x7000_0010_0000;
/// Bytes of data.
const DATA_BYTES: usize = 4096;
/// Instructions that a wave may run.
const BUDGET: u64 = 512;
/// Instructions of a step.
const STEP: u32 = 16;

/// Memory of code that may be read and data that may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory<'a> {
    code: &'a [u8],
    data: Vec<u8>,
}

impl Memory<'_> {
    fn reach(&mut self, address: u64, len: usize, access: Access) -> Result<&mut [u8], Fault> {
        let at = address.wrapping_sub(DATA) as usize;
        let range = at..at.saturating_add(len);
        self.data.get_mut(range).ok_or_else(|| FaultKind::Unmapped { address, access }.into())
    }
}

impl Bus for Memory<'_> {
    fn fetch(&mut self, address: u64) -> Result<u32, Fault> {
        let rest = self.code.get(address.wrapping_sub(CODE) as usize..).unwrap_or_default();
        let word = rest.first_chunk().ok_or(FaultKind::Unmapped { address, access: Access::Fetch })?;
        Ok(u32::from_le_bytes(*word))
    }

    fn load(&mut self, address: u64, bytes: &mut [u8], _: Scope) -> Result<(), Fault> {
        bytes.copy_from_slice(self.reach(address, bytes.len(), Access::Load)?);
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8], _: Scope) -> Result<(), Fault> {
        self.reach(address, bytes.len(), Access::Store)?.copy_from_slice(bytes);
        Ok(())
    }

    fn atomic(
        &mut self,
        address: u64,
        op: AtomicOp,
        width: u32,
        value: u64,
        compare: u64,
        _: Scope,
    ) -> Result<u64, Fault> {
        let bytes = self.reach(address, width as usize, Access::Atomic)?;
        let mut old = [0; 8];
        old[..bytes.len()].copy_from_slice(bytes);
        let old = u64::from_le_bytes(old);
        bytes.copy_from_slice(&op.apply(width, old, value, compare).to_le_bytes()[..width as usize]);
        Ok(old)
    }

    fn invalidate(&mut self, _: Caches) {}
}

/// A kernel of any descriptor and any code is refused, ends, or faults at a place with a reason, within its budget of
/// instructions; and a second run from the same seed does the same to memory and ends in the same way.
pub fn program(bytes: &[u8]) {
    let mut head = Bytes(bytes);
    let seed = u64::from(head.byte());
    let mut descriptor = [0; 64];
    let (rsrc1, rsrc2) = (head.word(), head.word());
    descriptor[44..48].fill(head.byte());
    descriptor[48..52].copy_from_slice(&rsrc1.to_le_bytes());
    // Waves of 32 in most inputs: the rest is refused.
    descriptor[52..56].copy_from_slice(&(rsrc2 & !0x20).to_le_bytes());
    descriptor[56..58].copy_from_slice(&(head.half() ^ 1 << 10).to_le_bytes());
    let mut packet = [0; 64];
    for at in [4, 6, 8] {
        packet[at] = head.byte() % 9 + 1;
        packet[at + 8 + (at - 4)] = packet[at];
    }
    let (private, group) = (u16::from(head.byte()), head.half() & 0x3fff);
    packet[24..26].copy_from_slice(&private.to_le_bytes());
    packet[28..30].copy_from_slice(&group.to_le_bytes());
    packet[32..40].copy_from_slice(&CODE.to_le_bytes());
    packet[40..48].copy_from_slice(&DATA.to_le_bytes());
    let Ok(mut dispatch) = Dispatch::new(DATA, &packet, Descriptor::read(&descriptor)) else { return };
    // Two waves at most: more find nothing else.
    if dispatch.waves() > 2 {
        return;
    }
    dispatch.budget = BUDGET;
    let first = run(&dispatch, head.0, seed);
    assert_eq!(run(&dispatch, head.0, seed), first, "a second run");
}

/// How a run ended, and what it left.
fn run<'a>(dispatch: &Dispatch, code: &'a [u8], seed: u64) -> (String, Memory<'a>) {
    // Each word of data is an address of data, so that code that follows addresses finds some.
    let data = (0..DATA_BYTES as u64 / 8).flat_map(|word| (DATA + word * 8 % 512).to_le_bytes()).collect();
    let mut memory = Memory { code, data };
    let (mut group, mut cache) = (WorkGroup::new(dispatch, [0; 3], seed), Code::new());
    let waves = u64::from(dispatch.waves());
    group.set_scratch(&[DATA + 1024, DATA + 2048]);
    let most = waves * (BUDGET + u64::from(STEP)) + 64;
    // A step that runs nothing opens a barrier or finds a wave asleep: the steps have a bound too.
    for _ in 0..4 * most {
        let answer = group.step(&mut cache, &mut memory, STEP);
        assert!(group.ran() <= most, "{} instructions", group.ran());
        match answer {
            Ok(Progress::Running) => {}
            Ok(Progress::Done) => return ("done".to_owned(), memory),
            Err(fault) => {
                assert!(fault.place.is_some(), "{fault:?} without its place");
                return (format!("{fault}"), memory);
            }
        }
    }
    panic!("the group goes on past its budget")
}
