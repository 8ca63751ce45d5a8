//! A machine for the tests: memory in a list, code objects laid out, dispatches run to their end.

use crate::isa::{
    Access, AtomicOp, Bus, Caches, Code, Descriptor, Dispatch, Fault, FaultKind, Progress, Scope, WorkGroup,
};

/// A piece of memory.
pub(super) struct Region {
    pub base: u64,
    pub bytes: Vec<u8>,
    pub writable: bool,
    pub executable: bool,
}

/// Memory without caches, and what a test wants to know about its use.
#[derive(Default)]
pub(super) struct Memory {
    regions: Vec<Region>,
    next: u64,
    pub loads: usize,
    pub scopes: Vec<Scope>,
    pub invalidations: Vec<Caches>,
    pub acknowledged: usize,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self { next: 0x7000_0000_0000, ..Self::default() }
    }

    /// Maps bytes somewhere and says where; what is around them is not mapped.
    pub(super) fn map(&mut self, bytes: Vec<u8>, writable: bool) -> u64 {
        let base = self.next;
        self.next += bytes.len() as u64 / 0x10000 * 0x10000 + 0x20000;
        self.regions.push(Region { base, bytes, writable, executable: false });
        base
    }

    pub(super) fn words(&mut self, words: &[u32]) -> u64 {
        self.map(words.iter().flat_map(|word| word.to_le_bytes()).collect(), true)
    }

    pub(super) fn longs(&mut self, longs: &[u64]) -> u64 {
        self.map(longs.iter().flat_map(|long| long.to_le_bytes()).collect(), true)
    }

    pub(super) fn floats(&mut self, floats: &[f32]) -> u64 {
        self.words(&floats.iter().map(|float| float.to_bits()).collect::<Vec<_>>())
    }

    pub(super) fn bytes(&self, base: u64) -> &[u8] {
        &self.regions.iter().find(|region| region.base == base).unwrap().bytes
    }

    pub(super) fn read_words(&self, base: u64) -> Vec<u32> {
        self.bytes(base).chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    pub(super) fn read_longs(&self, base: u64) -> Vec<u64> {
        self.bytes(base).chunks_exact(8).map(|long| u64::from_le_bytes(long.try_into().unwrap())).collect()
    }

    pub(super) fn read_floats(&self, base: u64) -> Vec<f32> {
        self.read_words(base).into_iter().map(f32::from_bits).collect()
    }

    /// Maps instructions.
    pub(super) fn code(&mut self, words: &[u32]) -> u64 {
        let base = self.words(words);
        self.regions.last_mut().unwrap().executable = true;
        base
    }

    /// Changes bytes, whatever they are for.
    pub(super) fn overwrite(&mut self, address: u64, bytes: &[u8]) {
        self.reach(address, bytes.len(), Access::Load).unwrap().copy_from_slice(bytes);
    }

    fn reach(&mut self, address: u64, len: usize, access: Access) -> Result<&mut [u8], Fault> {
        let region = self
            .regions
            .iter_mut()
            .find(|region| address >= region.base && address < region.base + region.bytes.len() as u64);
        let region = region.ok_or(FaultKind::Unmapped { address, access })?;
        let allowed = match access {
            Access::Fetch => region.executable,
            Access::Load => true,
            Access::Store | Access::Atomic => region.writable,
        };
        if !allowed {
            return Err(FaultKind::Denied { address, access }.into());
        }
        let end = region.base + region.bytes.len() as u64;
        let at = (address - region.base) as usize;
        region.bytes.get_mut(at..at + len).ok_or_else(|| FaultKind::Unmapped { address: end, access }.into())
    }
}

impl Bus for Memory {
    fn fetch(&mut self, address: u64) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.reach(address, 4, Access::Fetch)?.try_into().unwrap()))
    }

    fn load(&mut self, address: u64, bytes: &mut [u8], scope: Scope) -> Result<(), Fault> {
        self.loads += 1;
        self.scopes.push(scope);
        bytes.copy_from_slice(self.reach(address, bytes.len(), Access::Load)?);
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8], scope: Scope) -> Result<(), Fault> {
        self.scopes.push(scope);
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
        scope: Scope,
    ) -> Result<u64, Fault> {
        self.scopes.push(scope);
        let bytes = self.reach(address, width as usize, Access::Atomic)?;
        let mut old = [0; 8];
        old[..width as usize].copy_from_slice(bytes);
        let old = u64::from_le_bytes(old);
        bytes.copy_from_slice(&op.apply(width, old, value, compare).to_le_bytes()[..width as usize]);
        Ok(old)
    }

    fn invalidate(&mut self, caches: Caches) {
        self.invalidations.push(caches);
    }

    fn acknowledge(&mut self) {
        self.acknowledged += 1;
    }
}

/// A code object in memory.
pub(super) struct Object {
    base: u64,
    image: Vec<u8>,
    symbols: Vec<(String, u64)>,
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl Object {
    /// Lays out the object's segments in memory.
    pub(super) fn load(memory: &mut Memory, elf: &[u8]) -> Self {
        let (headers, count) = (number(elf, 32, 8) as usize, number(elf, 56, 2) as usize);
        let mut image = Vec::new();
        for n in 0..count {
            let header = &elf[headers + 56 * n..];
            if number(header, 0, 4) == 1 {
                let (offset, address) = (number(header, 8, 8) as usize, number(header, 16, 8) as usize);
                let (len, size) = (number(header, 32, 8) as usize, number(header, 40, 8) as usize);
                image.resize(image.len().max(address + size), 0);
                image[address..address + len].copy_from_slice(&elf[offset..offset + len]);
            }
        }
        let base = memory.map(image.clone(), false);
        memory.regions.last_mut().unwrap().executable = true;
        Self { base, image, symbols: symbols(elf) }
    }

    /// The descriptor's address and bytes.
    pub(super) fn descriptor(&self, kernel: &str) -> (u64, [u8; 64]) {
        let name = format!("{kernel}.kd");
        let at = self.symbols.iter().find(|(symbol, _)| *symbol == name).unwrap().1;
        (self.base + at, self.image[at as usize..at as usize + 64].try_into().unwrap())
    }
}

/// The names and addresses of an object's dynamic symbols.
fn symbols(elf: &[u8]) -> Vec<(String, u64)> {
    let (headers, count) = (number(elf, 40, 8) as usize, number(elf, 60, 2) as usize);
    let section = |n: usize| &elf[headers + 64 * n..headers + 64 * (n + 1)];
    let dynamic = (0..count).map(section).find(|header| number(header, 4, 4) == 11).unwrap();
    let strings = number(section(number(dynamic, 40, 4) as usize), 24, 8) as usize;
    let (offset, size) = (number(dynamic, 24, 8) as usize, number(dynamic, 32, 8) as usize);
    elf[offset..offset + size]
        .chunks_exact(24)
        .map(|symbol| {
            let name = &elf[strings + number(symbol, 0, 4) as usize..];
            let end = name.iter().position(|&byte| byte == 0).unwrap();
            (String::from_utf8(name[..end].to_vec()).unwrap(), number(symbol, 8, 8))
        })
        .collect()
}

/// Arguments as a kernel finds them.
#[derive(Default)]
pub(super) struct Arguments(pub Vec<u8>);

impl Arguments {
    pub(super) fn long(mut self, value: u64) -> Self {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn word(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn float(self, value: f32) -> Self {
        self.word(value.to_bits())
    }
}

/// A packet for a kernel, in memory.
pub(super) fn dispatch(
    memory: &mut Memory,
    object: &Object,
    kernel: &str,
    groups: [u32; 3],
    threads: [u32; 3],
    arguments: Arguments,
) -> Result<Dispatch, Fault> {
    let (address, descriptor) = object.descriptor(kernel);
    let descriptor = Descriptor::read(&descriptor);
    let kernarg = memory.map(arguments.0, false);
    let mut packet = [0; 64];
    for axis in 0..3 {
        packet[4 + 2 * axis..6 + 2 * axis].copy_from_slice(&(threads[axis] as u16).to_le_bytes());
        packet[12 + 4 * axis..16 + 4 * axis].copy_from_slice(&(groups[axis] * threads[axis]).to_le_bytes());
    }
    packet[24..28].copy_from_slice(&descriptor.private_bytes.to_le_bytes());
    packet[28..32].copy_from_slice(&descriptor.group_bytes.to_le_bytes());
    packet[32..40].copy_from_slice(&address.to_le_bytes());
    packet[40..48].copy_from_slice(&kernarg.to_le_bytes());
    let at = memory.map(packet.to_vec(), false);
    Dispatch::new(at, &packet, descriptor)
}

/// Scratch for the waves of four work-groups, each apart from the others.
fn scratch(memory: &mut Memory, dispatch: &Dispatch) -> Vec<u64> {
    let bytes = dispatch.wave_scratch() as usize;
    (0..4 * dispatch.waves()).map(|_| memory.map(vec![0xa5; bytes], true)).collect()
}

/// Runs all work-groups, several at once, in an order that the seed chooses.
pub(super) fn run(memory: &mut Memory, dispatch: &Dispatch, seed: u64) -> Result<u64, Fault> {
    let mut code = Code::new();
    let groups = dispatch.groups();
    let mut waiting = (0..groups.iter().product::<u32>())
        .map(|n| [n % groups[0], n / groups[0] % groups[1], n / groups[0] / groups[1]])
        .collect::<Vec<_>>()
        .into_iter();
    let mut running: Vec<(WorkGroup, Vec<u64>)> = Vec::new();
    let mut pieces = scratch(memory, dispatch);
    let (mut ran, mut turn) = (0, seed);
    loop {
        while running.len() < 4 {
            let Some(id) = waiting.next() else { break };
            let mut group = WorkGroup::new(dispatch, id, seed ^ u64::from(id[0]) << 32);
            let bases = pieces.split_off(pieces.len() - dispatch.waves() as usize);
            group.set_scratch(&bases);
            running.push((group, bases));
        }
        if running.is_empty() {
            return Ok(ran);
        }
        turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chosen = (turn >> 33) as usize % running.len();
        if running[chosen].0.step(&mut code, memory, 1 + (turn >> 60) as u32 * 16)? == Progress::Done {
            let (group, bases) = running.swap_remove(chosen);
            ran += group.ran();
            pieces.extend(bases);
        }
    }
}

/// Runs a kernel of an object.
pub(super) fn launch(
    memory: &mut Memory,
    object: &Object,
    kernel: &str,
    groups: [u32; 3],
    threads: [u32; 3],
    arguments: Arguments,
) -> Result<u64, Fault> {
    let dispatch = dispatch(memory, object, kernel, groups, threads, arguments)?;
    run(memory, &dispatch, 7)
}
