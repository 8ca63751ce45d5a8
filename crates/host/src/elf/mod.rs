//! Loads functions of relocatable ELF objects, as compilers make them with `-c`.
//!
//! The parts are pure but for the last: [`parse`] checks the bytes and gives sections, symbols and relocations; [`link`]
//! gives each a place and relocates; [`x86_64`] and [`aarch64`] know the relocations; [`map`] makes the memory.
//!
//! # Invariants
//!
//! 1. No bytes make the loader panic, read outside of them, or take more memory than the image that they ask for, of two
//!    times [`IMAGE_BYTES_MAX`] at most, and a small multiple of their length.
//! 2. Nothing is ever writable and executable at one time.
//!
//! # What it leaves out
//!
//! Unwinding tables, so no panic may leave an object's function; constructors and thread-local variables, which are
//! refused; and shared objects, which are refused too.

mod aarch64;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod link;
mod map;
mod parse;
mod x86_64;

use std::sync::Arc;

pub(crate) use map::{Machine as MachineCode, MachineKernel};

use crate::abi::KernelRecord;
use crate::code::{Cost, Function, FunctionCode, GROUP_BYTES_MAX};
use crate::kernel::Kind;
use crate::symbols;
use parse::{Object, Place, Segment};

/// The most bytes that an object may take in memory: within the reach of the calls and addresses of both machines.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = rig::open(rig_host::cores())?;
/// # use object::{Architecture, BinaryFormat, Endianness, write};
/// # let host = if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 };
/// // As of C that says `static char zeros[IMAGE_BYTES_MAX + 1];`
/// let mut object = write::Object::new(BinaryFormat::Elf, host, Endianness::Little);
/// let zeros = object.section_id(write::StandardSection::UninitializedData);
/// object.append_section_bss(zeros, rig_host::IMAGE_BYTES_MAX + 1, 1);
/// let Err(rig::Error::Refused(why)) = device.load(&object.write()?) else { panic!("it is too large") };
/// assert!(why.contains(&rig_host::IMAGE_BYTES_MAX.to_string()), "{why}");
/// # Ok(())
/// # }
/// ```
pub const IMAGE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// The most relocations of an object: 32 MiB of them in the loader.
pub(crate) const RELOCATIONS_MAX: usize = 1 << 20;

/// A machine that objects are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// The machine that this process runs on.
    const HOST: Option<Arch> = if cfg!(not(unix)) {
        None
    } else if cfg!(target_arch = "x86_64") {
        Some(Arch::X86_64)
    } else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
        Some(Arch::Aarch64)
    } else {
        None
    };

    pub(crate) fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86-64",
            Arch::Aarch64 => "aarch64",
        }
    }
}

/// Whether the bytes are an ELF file, of whatever kind.
pub(crate) fn is_elf(binary: &[u8]) -> bool {
    binary.starts_with(b"\x7fELF")
}

/// The functions of an object, ready to run. The error is the reason in words.
pub(crate) fn load(binary: &[u8]) -> Result<Vec<Function>, String> {
    let host = Arch::HOST.ok_or("this host runs no ELF objects")?;
    let object = parse::parse(binary)?;
    if object.arch != host {
        return Err(format!("the object is for {}, and this host is {}", object.arch.name(), host.name()));
    }
    let kernels = kernels(&object)?;
    let layout = link::layout(&object, map::page_bytes(), &symbols::address)?;
    let mut pages = map::Pages::new(layout.len)?;
    let base = pages.base();
    link::link(&object, &layout, base, pages.bytes(), &symbols::address)?;
    let code = Arc::new(pages.seal(&layout)?);
    Ok(kernels.into_iter().map(|kernel| kernel.function(&code, &layout)).collect())
}

/// A kernel of an object, before its code has a place.
struct Kernel<'a> {
    name: &'a str,
    section: usize,
    offset: u64,
    kind: Kind,
    params: Option<usize>,
    group_bytes: u32,
}

impl Kernel<'_> {
    fn function(self, code: &Arc<MachineCode>, layout: &link::Layout) -> Function {
        Function {
            name: self.name.into(),
            code: FunctionCode::Machine {
                kernel: code.kernel(layout.sections[self.section] + self.offset),
                code: Arc::clone(code),
            },
            kind: self.kind,
            params: self.params,
            group_bytes: self.group_bytes,
            cost: Cost::default(),
        }
    }
}

/// How the variable that describes the kernel NAME is called.
const DESCRIPTION: &str = "rig_kernel_";

/// The object's global functions, with what the object says of them.
fn kernels<'a>(object: &Object<'a>) -> Result<Vec<Kernel<'a>>, String> {
    let mut kernels = Vec::new();
    for symbol in object.symbols.iter().filter(|symbol| symbol.global && symbol.function) {
        let Place::Section { section, offset } = symbol.place else { continue };
        let within = &object.sections[section];
        if within.segment != Segment::Code || offset >= within.size {
            return Err(format!("the function {} does not lie in code of the object", symbol.name));
        }
        let name = symbol.name;
        kernels.push(Kernel { name, section, offset, kind: Kind::Group, params: None, group_bytes: 0 });
    }
    kernels.sort_by_key(|kernel| kernel.name);
    if let Some(twice) = kernels.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(format!("the object has two functions {}", twice[0].name));
    }
    for symbol in &object.symbols {
        let Some(name) = symbol.name.strip_prefix(DESCRIPTION).filter(|_| symbol.global) else { continue };
        let Place::Section { section, offset } = symbol.place else { continue };
        let at = kernels
            .binary_search_by_key(&name, |kernel| kernel.name)
            .map_err(|_| format!("the object describes a kernel {name} and has no global function of that name"))?;
        // PANIC: the search gave the index.
        describe(&mut kernels[at], object.sections[section].data, offset)?;
    }
    Ok(kernels)
}

/// Reads a `struct rig_kernel` of the header at `offset` of its section's bytes.
fn describe(kernel: &mut Kernel<'_>, data: &[u8], offset: u64) -> Result<(), String> {
    let name = kernel.name;
    let end = |start: usize| start.checked_add(size_of::<KernelRecord>());
    let bytes = usize::try_from(offset).ok().and_then(|start| data.get(start..end(start)?));
    let bytes = bytes.ok_or_else(|| format!("the description of {name} does not lie in data of the object"))?;
    // The object is for this host, so its words are of the host's order.
    let KernelRecord { version, kind, params, group_bytes } = bytemuck::pod_read_unaligned(bytes);
    if version != 1 {
        return Err(format!("the description of {name} is of version {version}, and this rig knows version 1"));
    }
    kernel.kind = match kind {
        0 => Kind::Group,
        1 => Kind::Thread,
        _ => return Err(format!("the description of {name} gives the kind {kind}: 0 is group, 1 is thread")),
    };
    if group_bytes > GROUP_BYTES_MAX {
        return Err(format!(
            "{name} asks for {group_bytes} bytes of group memory, and a group has at most {GROUP_BYTES_MAX}"
        ));
    }
    kernel.params = (params != u32::MAX).then_some(params as usize);
    kernel.group_bytes = group_bytes;
    Ok(())
}

#[cfg(test)]
mod tests;
