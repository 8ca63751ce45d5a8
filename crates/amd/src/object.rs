//! Code objects: what an ELF file for AMD's GPUs holds, seen to hold it.
//!
//! Sources: LLVM's "User Guide for AMDGPU Backend": the ELF header, the note records, the code object's metadata and the
//! kernel descriptor.
//!
//! # Invariants
//!
//! 1. Every index and range of an [`Object`] is checked: its segments lie in the file and, loaded, below [`LOADED_MOST`]
//!    bytes; its functions' descriptors and their entries lie in what is loaded; what is relocated too.
//! 2. Beside what is loaded, no file makes the reader take more memory than a small multiple of its length, or more time:
//!    nothing in it is read once for each of two others that name it.

use std::collections::HashMap;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym};

use crate::kernel::{DESCRIPTOR_BYTES, Function};
use crate::msgpack;

/// The most bytes that a code object takes loaded.
const LOADED_MOST: u64 = 1 << 30;
/// The operating system of code objects: `ELFOSABI_AMDGPU_HSA`.
const OS_ABI: u8 = 64;
/// Versions of the code object: `ELFABIVERSION_AMDGPU_HSA_V4` to `_V6`.
const ABI_VERSIONS: std::ops::RangeInclusive<u8> = 2..=4;
/// The bits of the flags that name the architecture: `EF_AMDGPU_MACH`.
const FLAGS_MACH: u32 = 0xff;
/// The type of the note that holds the metadata, and its owner.
const NOTE_METADATA: u32 = 32;
const NOTE_OWNER: &[u8] = b"AMDGPU";
/// `R_AMDGPU_ABS64` and `R_AMDGPU_RELATIVE64`.
const ABSOLUTE_64: u32 = 3;
const RELATIVE_64: u32 = 13;
/// The bytes of a relocation in the file: `Elf64_Rela`.
const RELOCATION_BYTES: usize = 24;

/// A code object.
#[derive(Debug)]
pub(crate) struct Object {
    /// The bytes as they are loaded, from address 0 of the object on.
    bytes: Vec<u8>,
    /// Where 8 bytes of an address stand, and the address from the object's start.
    relocations: Vec<(usize, u64)>,
    /// The functions, in the order of the metadata.
    pub functions: Vec<Function>,
}

type Header = FileHeader64<LE>;

impl Object {
    /// Reads a file for the architecture of this name and number.
    pub fn read(file: &[u8], arch: &str, mach: u32) -> Result<Object, String> {
        let wrong = |what: &str| format!("the image is no code object for {arch}: {what}");
        let broken =
            |what: &'static str| move |error: object::read::Error| format!("the code object's {what}: {error}");
        let header = Header::parse(file).map_err(|_| wrong("it is no ELF file of 64 bits"))?;
        let endian = header.endian().map_err(|_| wrong("it is no little-endian ELF file"))?;
        check_header(header, endian, mach).map_err(|what| wrong(&what))?;
        let segments = header.program_headers(endian, file).map_err(broken("program headers"))?;
        let bytes = load(segments, endian, file)?;
        let sections = header.sections(endian, file).map_err(broken("sections"))?;
        let functions = functions(segments, endian, file, &bytes, &symbols(&sections, endian, file)?)?;
        let relocations = relocations(&sections, endian, file, bytes.len())?;
        Ok(Object { bytes, relocations, functions })
    }

    /// The bytes that it takes loaded.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes as they are loaded at `base`.
    pub fn at(mut self, base: u64) -> (Vec<u8>, Vec<Function>) {
        for (place, address) in self.relocations {
            // PANIC: invariant 1.
            self.bytes[place..place + 8].copy_from_slice(&base.wrapping_add(address).to_le_bytes());
        }
        (self.bytes, self.functions)
    }
}

/// What is not as the header of a code object for the architecture is.
fn check_header(header: &Header, endian: LE, mach: u32) -> Result<(), String> {
    let ident = header.e_ident();
    let (machine, kind, flags) = (header.e_machine(endian), header.e_type(endian), header.e_flags(endian).0);
    if machine != elf::EM_AMDGPU {
        return Err(format!("it is for the machine {}", machine.0));
    }
    if ident.os_abi.0 != OS_ABI {
        return Err(format!("it is for the operating system {}, not for HSA", ident.os_abi.0));
    }
    if !ABI_VERSIONS.contains(&ident.abi_version) {
        return Err(format!("its version is {}: versions 4, 5 and 6 are known", u32::from(ident.abi_version) + 2));
    }
    if kind != elf::ET_DYN {
        return Err("it is not linked".into());
    }
    if flags & FLAGS_MACH != mach {
        return Err(format!("it is for the architecture {:#x} and not {mach:#x}", flags & FLAGS_MACH));
    }
    Ok(())
}

/// The segments, each at its place.
fn load(segments: &[ProgramHeader64<LE>], endian: LE, file: &[u8]) -> Result<Vec<u8>, String> {
    let loaded = || segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let end_of = |segment: &ProgramHeader64<LE>| segment.p_vaddr(endian).checked_add(segment.p_memsz(endian));
    // At once, and zero as the system gives it: what an object asks for in zeros costs nothing before they are copied.
    let most = loaded().filter_map(end_of).filter(|&end| end <= LOADED_MOST).max().unwrap_or(0);
    let mut bytes = vec![0; most as usize];
    let mut copied = 0;
    for segment in loaded() {
        let (start, len) = (segment.p_vaddr(endian), segment.p_memsz(endian));
        let data =
            segment.data(endian, file).map_err(|()| "a segment of the code object leaves the file".to_string())?;
        if end_of(segment).is_none_or(|end| end > LOADED_MOST) || data.len() as u64 > len {
            return Err(format!("the code object loads {len} bytes at {start:#x}: more than {LOADED_MOST}"));
        }
        copied += data.len();
        if copied > file.len() {
            return Err("the segments of the code object overlap in the file".into());
        }
        // PANIC: `bytes` holds the highest end, and the data is no longer than the segment.
        bytes[start as usize..start as usize + data.len()].copy_from_slice(data);
    }
    if bytes.is_empty() { Err("the code object loads nothing".into()) } else { Ok(bytes) }
}

/// The addresses of the symbols that are defined, by their names: of equal names the first.
fn symbols<'a>(
    sections: &SectionTable<'a, Header>,
    endian: LE,
    file: &'a [u8],
) -> Result<HashMap<&'a [u8], u64>, String> {
    let mut all = HashMap::new();
    for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
        let table =
            sections.symbols(endian, file, kind).map_err(|error| format!("the code object's symbols: {error}"))?;
        for symbol in table.iter().filter(|symbol| !symbol.is_undefined(endian)) {
            if let Ok(name) = symbol.name(endian, table.strings()) {
                all.entry(name).or_insert(symbol.st_value(endian));
            }
        }
    }
    Ok(all)
}

/// The functions that the metadata names.
fn functions(
    segments: &[ProgramHeader64<LE>],
    endian: LE,
    file: &[u8],
    bytes: &[u8],
    symbols: &HashMap<&[u8], u64>,
) -> Result<Vec<Function>, String> {
    let note = segments.iter().find_map(|segment| {
        let mut notes = segment.notes(endian, file).ok()??;
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(endian).0 == NOTE_METADATA && note.name() == NOTE_OWNER {
                return Some(note.desc());
            }
        }
        None
    });
    let note = note.ok_or("the code object has no metadata")?;
    let metadata = msgpack::read(note).ok_or("the code object's metadata is no MessagePack")?;
    let kernels = metadata.get("amdhsa.kernels").ok_or("the code object's metadata names no functions")?;
    let mut functions = Vec::new();
    for kernel in kernels.elements() {
        let symbol = kernel.get(".symbol").and_then(msgpack::Value::text).ok_or("a function without a symbol")?;
        let address = symbols.get(symbol.as_bytes()).copied();
        let address = address.ok_or_else(|| format!("the code object has no symbol {symbol}"))?;
        let descriptor = usize::try_from(address).ok().and_then(|at| bytes.get(at..at.checked_add(DESCRIPTOR_BYTES)?));
        let descriptor = descriptor.and_then(|bytes| bytes.try_into().ok());
        let descriptor = descriptor.ok_or_else(|| format!("the descriptor {symbol} is outside of what is loaded"))?;
        functions.push(Function::read(kernel, address, descriptor, bytes.len() as u64)?);
    }
    Ok(functions)
}

/// What is to be relocated.
fn relocations(
    sections: &SectionTable<'_, Header>,
    endian: LE,
    file: &[u8],
    len: usize,
) -> Result<Vec<(usize, u64)>, String> {
    let mut all = Vec::new();
    for section in sections.iter() {
        let Some((relas, link)) = section.rela(endian, file).map_err(|error| format!("relocations: {error}"))? else {
            continue;
        };
        // Relocations that a linked object keeps for other tools have no addresses of the loaded object.
        if section.sh_flags(endian).0 & elf::SHF_ALLOC.0 == 0 {
            continue;
        }
        let table = sections.symbol_table_by_index(endian, file, link);
        let table = table.map_err(|error| format!("the symbols of relocations: {error}"))?;
        // Each has its own bytes in the file: tables that overlap could name more than any memory holds.
        if relas.len() > (file.len() / RELOCATION_BYTES).saturating_sub(all.len()) {
            return Err("the code object's tables of relocations overlap".into());
        }
        for rela in relas {
            let (kind, addend) = (rela.r_type(endian, false), rela.r_addend(endian).cast_unsigned());
            let address = match kind.0 {
                RELATIVE_64 => addend,
                ABSOLUTE_64 => {
                    let symbol = rela.symbol(endian, false).and_then(|index| table.symbol(index).ok());
                    let symbol = symbol.filter(|symbol| !symbol.is_undefined(endian));
                    let symbol = symbol.ok_or("the code object needs a symbol that it does not define")?;
                    symbol.st_value(endian).wrapping_add(addend)
                }
                other => return Err(format!("the code object has a relocation of type {other}")),
            };
            let place = usize::try_from(rela.r_offset(endian))
                .ok()
                .filter(|at| at.checked_add(8).is_some_and(|end| end <= len));
            all.push((place.ok_or("a relocation is outside of what is loaded")?, address));
        }
    }
    Ok(all)
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
