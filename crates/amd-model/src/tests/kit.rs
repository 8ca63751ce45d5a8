//! A small driver for the tests, which does each thing right unless a test asks for it otherwise. Its packets are written
//! from the formats, and not by any encoder of the driver that the model is for.
//!
//! Every test makes its own machine; what it maps stays until the test's process ends.

use crate::{Builder, Machine, abi, topology};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The host's memory that no cache of a GPU holds: rings, words, arguments.
pub(super) const SHARED: u32 = abi::FLAG_GTT
    | abi::FLAG_COHERENT
    | abi::FLAG_UNCACHED
    | abi::FLAG_WRITABLE
    | abi::FLAG_EXECUTABLE
    | abi::FLAG_NO_SUBSTITUTE;

/// The GPU's own memory, which tests look at through its window.
pub(super) const OWN: u32 = abi::FLAG_VRAM | abi::FLAG_WRITABLE | abi::FLAG_EXECUTABLE | abi::FLAG_PUBLIC;

/// Headers with system scope both ways, and the barrier bit.
pub(super) const DISPATCH: u16 = 0x1502;
pub(super) const BARRIER_AND: u16 = 0x1503;
pub(super) const BUFFER: u16 = 0x1500;

const WORK: &[u8] = include_bytes!("../../fixtures/work.co");
const FAULTS: &[u8] = include_bytes!("../../fixtures/faults.co");
const SUITE: &[u8] = include_bytes!("../../fixtures/suite.co");

/// Memory that is mapped for the GPU and, but for host pages of its own, for the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mem {
    pub va: u64,
    pub len: u64,
    pub handle: u64,
}

impl Mem {
    fn at(&self, offset: u64, len: u64) -> usize {
        assert!(offset + len <= self.len);
        (self.va + offset) as usize
    }

    pub(super) fn word(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: the test mapped this memory, and never unmaps it; only atomics touch it.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8) as *mut u64) }
    }

    pub(super) fn half(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4) as *mut u32) }
    }

    pub(super) fn byte(&self, offset: u64) -> &AtomicU8 {
        // SAFETY: as in `word`.
        unsafe { AtomicU8::from_ptr(self.at(offset, 1) as *mut u8) }
    }

    pub(super) fn put(&self, offset: u64, bytes: &[u8]) {
        bytes.iter().enumerate().for_each(|(i, &byte)| self.byte(offset + i as u64).store(byte, Ordering::Relaxed));
    }

    pub(super) fn get(&self, offset: u64, len: u64) -> Vec<u8> {
        (0..len).map(|i| self.byte(offset + i).load(Ordering::Relaxed)).collect()
    }

    pub(super) fn put_words(&self, words: &[u32]) {
        words.iter().enumerate().for_each(|(i, &word)| self.half(i as u64 * 4).store(word, Ordering::Relaxed));
    }

    pub(super) fn words(&self, count: usize) -> Vec<u32> {
        (0..count).map(|i| self.half(i as u64 * 4).load(Ordering::Relaxed)).collect()
    }
}

/// An open GPU.
pub(super) struct Driver {
    pub machine: Machine,
    pub kfd: i32,
    pub render: i32,
    pub gpu_id: u32,
    registers: Mem,
}

/// The request of a call, as the kernel's header makes it.
pub(super) fn request<T>(direction: u32, number: u32) -> u32 {
    abi::request(direction, number, size_of::<T>())
}

impl Driver {
    pub(super) fn open(builder: Builder) -> Self {
        let machine = builder.build();
        let (kfd, render) = (machine.open("/dev/kfd").unwrap(), machine.open("/dev/dri/renderD128").unwrap());
        let gpu_id = machine.gpu_id(0);
        let mut driver = Self { machine, kfd, render, gpu_id, registers: Mem { va: 0, len: 4096, handle: 0 } };
        let mut acquire = abi::AcquireVm { drm_fd: render as u32, gpu_id };
        driver.call(abi::IN, 0x15, &mut acquire).unwrap();
        driver.registers.va = driver.reserve(4096);
        let flags = abi::FLAG_MMIO_REMAP | abi::FLAG_WRITABLE | abi::FLAG_COHERENT;
        let offset = driver.try_alloc(driver.registers.va, 4096, flags).unwrap().mmap_offset;
        // PROT_READ, PROT_WRITE; MAP_SHARED, MAP_FIXED.
        // SAFETY: it replaces the reservation made above.
        let at = unsafe { driver.machine.mmap(driver.registers.va as usize, 4096, 3, 0x11, Some(kfd), offset) };
        assert_eq!(at, Ok(driver.registers.va as usize));
        driver
    }

    /// The same process, with another GPU.
    pub(super) fn second(&self, render: i32, gpu_id: u32) -> Self {
        let registers = Mem { va: self.registers.va, len: 4096, handle: 0 };
        Self { machine: self.machine.clone(), kfd: self.kfd, render, gpu_id, registers }
    }

    /// A machine whose queues move only when a test says so.
    pub(super) fn held(seed: u64) -> Self {
        Self::open(Machine::builder().seed(seed).held())
    }

    pub(super) fn call<T>(&self, direction: u32, number: u32, value: &mut T) -> Result<(), i32> {
        let request = request::<T>(direction, number);
        // SAFETY: `value` is the struct that the request names.
        unsafe { self.machine.ioctl(self.kfd, request, (&raw mut *value).cast()) }.map(|_| ())
    }

    /// Addresses for a memory.
    pub(super) fn reserve(&self, len: u64) -> u64 {
        // PROT_NONE; MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE.
        // SAFETY: a reservation at an address that the kernel chooses replaces nothing.
        unsafe { self.machine.mmap(0, len as usize, 0, 0x4022, None, 0) }.unwrap() as u64
    }

    pub(super) fn try_alloc(&self, va: u64, len: u64, flags: u32) -> Result<abi::AllocMemory, i32> {
        let mut value = abi::AllocMemory { va_addr: va, size: len, gpu_id: self.gpu_id, flags, ..Default::default() };
        self.call(abi::BOTH, 0x16, &mut value).map(|()| value)
    }

    /// Memory that is not mapped for the GPU yet.
    pub(super) fn unmapped(&self, len: u64, flags: u32) -> Mem {
        let len = len.next_multiple_of(4096);
        let va = self.reserve(len);
        let value = self.try_alloc(va, len, flags).unwrap();
        // PROT_READ, PROT_WRITE; MAP_SHARED, MAP_FIXED.
        // SAFETY: it replaces the reservation made above.
        let at = unsafe { self.machine.mmap(va as usize, len as usize, 3, 0x11, Some(self.render), value.mmap_offset) };
        assert_eq!(at, Ok(va as usize));
        Mem { va, len, handle: value.handle }
    }

    pub(super) fn alloc(&self, len: u64, flags: u32) -> Mem {
        let mem = self.unmapped(len, flags);
        self.map(mem).unwrap();
        mem
    }

    /// Memory that the host does not see.
    pub(super) fn hidden(&self, len: u64, flags: u32) -> Mem {
        let va = self.reserve(len);
        let mem = Mem { va, len, handle: self.try_alloc(va, len, flags).unwrap().handle };
        self.map(mem).unwrap();
        mem
    }

    /// New memory of zeros.
    pub(super) fn zeroed(&self, len: u64, flags: u32) -> Mem {
        let mem = self.alloc(len, flags);
        (0..mem.len / 8).for_each(|i| mem.word(i * 8).store(0, Ordering::Relaxed));
        if flags & abi::FLAG_VRAM != 0 {
            self.flush();
        }
        mem
    }

    /// Flushes what was written through the window.
    pub(super) fn flush(&self) {
        self.registers.half(0).store(1, Ordering::Release);
    }

    fn mapping(&self, number: u32, mem: Mem) -> Result<(), i32> {
        let mut ids = [self.gpu_id];
        let device_ids_array_ptr = ids.as_mut_ptr() as u64;
        let mut value = abi::MapMemory { handle: mem.handle, device_ids_array_ptr, n_devices: 1, n_success: 0 };
        self.call(abi::BOTH, number, &mut value)?;
        assert_eq!(value.n_success, 1);
        Ok(())
    }

    pub(super) fn map(&self, mem: Mem) -> Result<(), i32> {
        self.mapping(0x18, mem)
    }

    pub(super) fn unmap(&self, mem: Mem) -> Result<(), i32> {
        self.mapping(0x19, mem)
    }

    pub(super) fn free(&self, mem: Mem) -> Result<(), i32> {
        self.call(abi::IN, 0x17, &mut abi::FreeMemory { handle: mem.handle })
    }

    /// What a compute queue of so many packets stands on, and the struct of the call that makes it.
    pub(super) fn aql_plan(&self, packets: u64) -> (abi::CreateQueue, Mem, Mem) {
        let (ring, page) = (self.alloc(packets * 64, SHARED), self.zeroed(4096, SHARED));
        (0..packets).for_each(|slot| ring.word(slot * 64).store(1, Ordering::Relaxed));
        page.half(0x88).store(0x80, Ordering::Relaxed);
        page.half(0xb4).store(2, Ordering::Relaxed);
        page.half(0x48).store(topology::COMPUTE_UNITS - 1, Ordering::Relaxed);
        page.half(0x4c).store(31, Ordering::Relaxed);
        let areas = topology::areas();
        let eop = self.alloc(4096, SHARED);
        let save = self.alloc(u64::from(areas.save + areas.debug), SHARED);
        let value = abi::CreateQueue {
            ring_base_address: ring.va,
            write_pointer_address: page.va + 0x38,
            read_pointer_address: page.va + 0x80,
            ring_size: (packets * 64) as u32,
            gpu_id: self.gpu_id,
            queue_type: 2,
            queue_percentage: 100,
            queue_priority: 7,
            eop_buffer_address: eop.va,
            eop_buffer_size: 4096,
            ctx_save_restore_address: save.va,
            ctx_save_restore_size: areas.save,
            ctl_stack_size: areas.control_stack,
            ..Default::default()
        };
        (value, ring, page)
    }

    pub(super) fn create_queue(&self, value: &mut abi::CreateQueue) -> Result<(), i32> {
        self.call(abi::BOTH, 0x02, value)
    }

    fn doorbell(&self, offset: u64) -> Mem {
        // SAFETY: a mapping at an address that the kernel chooses replaces nothing.
        let at = unsafe { self.machine.mmap(0, 8192, 3, 1, Some(self.kfd), offset & !0x1fff) }.unwrap();
        Mem { va: at as u64 + (offset & 0x1fff), len: 8, handle: 0 }
    }

    pub(super) fn aql(&self) -> Aql {
        self.aql_of(64)
    }

    pub(super) fn aql_of(&self, packets: u64) -> Aql {
        let (mut value, ring, page) = self.aql_plan(packets);
        self.create_queue(&mut value).unwrap();
        let doorbell = self.doorbell(value.doorbell_offset);
        let buffers = self.alloc(packets * 256, SHARED);
        Aql { id: value.queue_id, ring, page, doorbell, buffers, write: 0, packets }
    }

    pub(super) fn sdma(&self) -> Sdma {
        self.sdma_of(4096)
    }

    pub(super) fn sdma_plan(&self, bytes: u64) -> (abi::CreateQueue, Mem, Mem, Mem) {
        let (ring, read, write) = (self.alloc(bytes, SHARED), self.zeroed(4096, SHARED), self.zeroed(4096, SHARED));
        let value = abi::CreateQueue {
            ring_base_address: ring.va,
            write_pointer_address: write.va,
            read_pointer_address: read.va,
            ring_size: bytes as u32,
            gpu_id: self.gpu_id,
            queue_type: 1,
            queue_percentage: 100,
            queue_priority: 7,
            ..Default::default()
        };
        (value, ring, read, write)
    }

    pub(super) fn sdma_of(&self, bytes: u64) -> Sdma {
        let (mut value, ring, read_pointer, write_pointer) = self.sdma_plan(bytes);
        self.create_queue(&mut value).unwrap();
        let doorbell = self.doorbell(value.doorbell_offset);
        Sdma { id: value.queue_id, ring, size: bytes, read_pointer, write_pointer, doorbell, write: 0 }
    }

    /// Lays a code object out in memory, and says where the descriptors of its kernels are.
    pub(super) fn load(&self, elf: &[u8]) -> Image {
        let (image, symbols) = lay_out(elf);
        let mem = self.alloc(image.len() as u64, SHARED);
        mem.put(0, &image);
        Image { mem, symbols }
    }

    pub(super) fn work(&self) -> Image {
        self.load(WORK)
    }

    pub(super) fn faults(&self) -> Image {
        self.load(FAULTS)
    }

    pub(super) fn suite(&self) -> Image {
        self.load(SUITE)
    }

    /// Runs a held machine until nothing moves.
    pub(super) fn run(&self) -> crate::Step {
        self.machine.run(1_000_000)
    }

    /// Runs a held machine to the end of all work, which is clean.
    pub(super) fn finish(&self) {
        assert_eq!(self.run(), crate::Step::Idle, "{:?}", self.machine.violations());
        self.machine.assert_clean();
    }
}

/// A code object that is laid out.
pub(super) struct Image {
    pub mem: Mem,
    symbols: Vec<(String, u64)>,
}

impl Image {
    /// The address of a kernel's descriptor.
    pub(super) fn kernel(&self, name: &str) -> u64 {
        let name = format!("{name}.kd");
        self.mem.va + self.symbols.iter().find(|(symbol, _)| *symbol == name).unwrap().1
    }

    /// The offset of a kernel's first instruction.
    pub(super) fn entry(&self, name: &str) -> u64 {
        self.symbols.iter().find(|(symbol, _)| symbol == name).unwrap().1
    }

    /// The address of some kernel's descriptor.
    pub(super) fn any(&self) -> u64 {
        self.mem.va + self.symbols.iter().find(|(symbol, _)| symbol.ends_with(".kd")).unwrap().1
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// A code object's segments, and the places of its dynamic symbols.
fn lay_out(elf: &[u8]) -> (Vec<u8>, Vec<(String, u64)>) {
    let mut image = Vec::new();
    let (headers, count) = (number(elf, 32, 8) as usize, number(elf, 56, 2) as usize);
    for header in (0..count).map(|n| &elf[headers + 56 * n..]).filter(|header| number(header, 0, 4) == 1) {
        let (offset, address) = (number(header, 8, 8) as usize, number(header, 16, 8) as usize);
        let (len, size) = (number(header, 32, 8) as usize, number(header, 40, 8) as usize);
        image.resize(image.len().max(address + size), 0);
        image[address..address + len].copy_from_slice(&elf[offset..offset + len]);
    }
    let (headers, count) = (number(elf, 40, 8) as usize, number(elf, 60, 2) as usize);
    let section = |n: usize| &elf[headers + 64 * n..headers + 64 * (n + 1)];
    let dynamic = (0..count).map(section).find(|header| number(header, 4, 4) == 11).unwrap();
    let strings = number(section(number(dynamic, 40, 4) as usize), 24, 8) as usize;
    let (offset, size) = (number(dynamic, 24, 8) as usize, number(dynamic, 32, 8) as usize);
    let name = |symbol: &[u8]| {
        let name = &elf[strings + number(symbol, 0, 4) as usize..];
        String::from_utf8(name.iter().copied().take_while(|&byte| byte != 0).collect()).unwrap()
    };
    let symbols =
        elf[offset..offset + size].chunks_exact(24).map(|symbol| (name(symbol), number(symbol, 8, 8))).collect();
    (image, symbols)
}

/// A compute queue.
pub(super) struct Aql {
    pub id: u32,
    pub ring: Mem,
    pub page: Mem,
    pub doorbell: Mem,
    /// Words of an indirect buffer for each slot: 64 of them.
    pub buffers: Mem,
    pub write: u64,
    pub packets: u64,
}

/// A dispatch, as its packet has it.
#[derive(Clone, Copy)]
pub(super) struct Launch {
    pub header: u16,
    pub kernel: u64,
    pub arguments: u64,
    pub groups: u32,
    pub threads: u16,
    pub group_bytes: u32,
}

impl Launch {
    pub(super) fn packet(self) -> [u8; 64] {
        let mut packet = [0; 64];
        put(&mut packet, 0, &self.header.to_le_bytes());
        put(&mut packet, 2, &1u16.to_le_bytes());
        put(&mut packet, 4, &self.threads.to_le_bytes());
        put(&mut packet, 6, &[1, 0, 1, 0]);
        put(&mut packet, 12, &(self.groups * u32::from(self.threads)).to_le_bytes());
        put(&mut packet, 16, &[1, 0, 0, 0, 1, 0, 0, 0]);
        put(&mut packet, 28, &self.group_bytes.to_le_bytes());
        put(&mut packet, 32, &self.kernel.to_le_bytes());
        put(&mut packet, 40, &self.arguments.to_le_bytes());
        packet
    }
}

pub(super) fn put(packet: &mut [u8], at: usize, bytes: &[u8]) {
    packet[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The end of a pipe that stores 64 bits: words of a RELEASE_MEM that writes L2 back.
pub(super) fn release(word: u64, value: u64) -> Vec<u32> {
    let event = 0x14 | 5 << 8 | 0b1111 << 12 | 3 << 20 | 1 << 22;
    vec![0xc006_4900, event, 2 << 29, word as u32, (word >> 32) as u32, value as u32, (value >> 32) as u32, 0]
}

/// A wait until a word is at least a value.
pub(super) fn wait(word: u64, value: u64) -> Vec<u32> {
    let (low, high) = (value as u32, (value >> 32) as u32);
    vec![0xc007_9300, 5 | 1 << 4, word as u32, (word >> 32) as u32, low, high, u32::MAX, u32::MAX, 4 | 1 << 31]
}

/// An acquire of everything from the system, the instruction caches too.
pub(super) fn acquire() -> Vec<u32> {
    let control = 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 14 | 1 << 15;
    vec![0xc006_5800, 0, u32::MAX, 0xff, 0, 0, 4, control]
}

impl Aql {
    /// Writes a packet at an index, its first word last.
    pub(super) fn write(&self, index: u64, packet: &[u8; 64]) {
        let at = index % self.packets * 64;
        self.ring.put(at + 4, &packet[4..]);
        self.ring.half(at).store(u32::from_le_bytes(std::array::from_fn(|i| packet[i])), Ordering::Release);
    }

    /// Writes the next packet, and does not ring.
    pub(super) fn push(&mut self, packet: &[u8; 64]) {
        self.write(self.write, packet);
        self.write += 1;
    }

    /// Writes the next packet: an indirect buffer.
    pub(super) fn push_buffer(&mut self, words: &[u32]) {
        let packet = self.buffer(words);
        self.push(&packet);
    }

    /// An indirect buffer at the place that belongs to the next slot, and its packet.
    pub(super) fn buffer(&self, words: &[u32]) -> [u8; 64] {
        let at = self.write % self.packets * 256;
        words
            .iter()
            .enumerate()
            .for_each(|(i, &word)| self.buffers.half(at + i as u64 * 4).store(word, Ordering::Relaxed));
        let va = self.buffers.va + at;
        let mut packet = [0; 64];
        let head =
            [u32::from(BUFFER) | 1 << 16, 0xc002_3f00, va as u32, (va >> 32) as u32, words.len() as u32 | 1 << 23, 10];
        head.iter().enumerate().for_each(|(i, word)| put(&mut packet, i * 4, &word.to_le_bytes()));
        packet
    }

    /// Raises the write index to what is written, and rings.
    pub(super) fn ring(&self) {
        self.page.word(0x38).store(self.write, Ordering::Release);
        self.doorbell.word(0).store(self.write - 1, Ordering::Release);
    }

    pub(super) fn read_index(&self) -> u64 {
        self.page.word(0x80).load(Ordering::Acquire)
    }
}

/// A copy queue.
pub(super) struct Sdma {
    pub id: u32,
    pub ring: Mem,
    /// Bytes of the ring.
    pub size: u64,
    pub read_pointer: Mem,
    pub write_pointer: Mem,
    pub doorbell: Mem,
    pub write: u64,
}

fn low(value: u64) -> u32 {
    value as u32
}

fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

pub(super) fn sdma_copy(from: u64, to: u64, bytes: u64) -> Vec<u32> {
    vec![1, bytes as u32 - 1, 0, low(from), high(from), low(to), high(to)]
}

pub(super) fn sdma_fill(to: u64, word: u32, bytes: u64) -> Vec<u32> {
    vec![11 | 2 << 30, low(to), high(to), word, bytes as u32 - 4]
}

pub(super) fn sdma_fence(word: u64, value: u32) -> Vec<u32> {
    vec![5 | 3 << 16, low(word), high(word), value]
}

/// A wait until 32 bits are at least a value.
pub(super) fn sdma_poll(word: u64, value: u32) -> Vec<u32> {
    vec![8 | 5 << 28 | 1 << 31, low(word), high(word), value, u32::MAX, 4 | 0xfff << 16]
}

/// Writes back, and invalidates too.
pub(super) fn sdma_acquire() -> Vec<u32> {
    vec![17 | 1 << 8, 0, 1 << 22 | 1 << 23 | 1 << 24 | 1 << 25 | 1 << 30 | 1 << 31, 0, 0]
}

/// Writes back.
pub(super) fn sdma_release() -> Vec<u32> {
    vec![17 | 1 << 8, 0, 1 << 22 | 1 << 31, 0, 0]
}

impl Sdma {
    /// Writes the next packet, and does not ring; what does not fit before the end is filled with NOP.
    pub(super) fn push(&mut self, words: &[u32]) {
        let left = (self.size - self.write % self.size) / 4;
        if (words.len() as u64) > left {
            (0..left).for_each(|_| self.word(0));
        }
        words.iter().for_each(|&word| self.word(word));
    }

    pub(super) fn word(&mut self, word: u32) {
        self.ring.half(self.write % self.size).store(word, Ordering::Relaxed);
        self.write += 4;
    }

    pub(super) fn ring(&self) {
        self.write_pointer.word(0).store(self.write, Ordering::Release);
        self.doorbell.word(0).store(self.write, Ordering::Release);
    }

    pub(super) fn read(&self) -> u64 {
        self.read_pointer.word(0).load(Ordering::Acquire)
    }
}
