//! Reads an object's bytes into sections, symbols and relocations, and refuses what the host's devices cannot run.
//!
//! # Invariants
//!
//! 1. Every index and range in an [`Object`] is checked: sections of symbols and relocations exist, and a relocation's
//!    place begins inside its section's bytes.
//! 2. The sections' sizes add up to at most [`IMAGE_BYTES_MAX`], and the relocations to at most [`RELOCATIONS_MAX`].

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable};
use object::read::{SectionIndex, SymbolIndex};

use super::{Arch, IMAGE_BYTES_MAX, RELOCATIONS_MAX};

/// What an object holds that is loaded.
pub(crate) struct Object<'a> {
    pub(crate) arch: Arch,
    pub(crate) sections: Vec<Section<'a>>,
    /// By their index in the file; the first is none.
    pub(crate) symbols: Vec<Symbol<'a>>,
    pub(crate) relocations: Vec<Relocation>,
}

/// Memory of one protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Executed, not written.
    Code,
    /// Read alone.
    Constants,
    /// Read and written.
    Variables,
}

/// A section that is loaded.
pub(crate) struct Section<'a> {
    pub(crate) name: &'a str,
    pub(crate) segment: Segment,
    /// Its bytes in the file; none where it is zeros.
    pub(crate) data: &'a [u8],
    pub(crate) size: u64,
    /// A power of two.
    pub(crate) align: u64,
}

/// A symbol.
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a str,
    pub(crate) place: Place<'a>,
    pub(crate) global: bool,
    pub(crate) function: bool,
}

/// Where a symbol lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    Section {
        section: usize,
        offset: u64,
    },
    Absolute(u64),
    /// In no section of the object. Zero where it is weak and the host has none.
    Undefined {
        weak: bool,
    },
    /// In the section of this name, which is not loaded.
    Left(&'a str),
}

/// A relocation.
pub(crate) struct Relocation {
    pub(crate) section: usize,
    pub(crate) offset: u64,
    pub(crate) kind: u32,
    /// An index of [`Object::symbols`].
    pub(crate) symbol: usize,
    pub(crate) addend: i64,
}

type Header = FileHeader64<LE>;

/// What the bytes hold, or why the host cannot run them.
pub(crate) fn parse(bytes: &[u8]) -> Result<Object<'_>, String> {
    let arch = arch(bytes)?;
    let header = Header::parse(bytes).map_err(broken)?;
    let table = header.sections(LE, bytes).map_err(broken)?;
    if table.len() < 2 {
        return Err("the object has no sections".into());
    }
    let mut reader = Reader { bytes, table, sections: Vec::new(), loaded: Vec::new(), size: 0 };
    reader.read_sections()?;
    let symbols = reader.read_symbols()?;
    let relocations = reader.read_relocations(symbols.len())?;
    Ok(Object { arch, sections: reader.sections, symbols, relocations })
}

fn broken(error: object::read::Error) -> String {
    format!("the object is broken or cut short: {error}")
}

/// Which machine the object is for; refuses what is no relocatable object of one that the loader knows.
fn arch(bytes: &[u8]) -> Result<Arch, String> {
    // e_ident: class at 4, byte order at 5; then e_type and e_machine (System V ABI, ELF header).
    let Some(&[class, order]) = bytes.get(4..6) else { return Err("the object is cut short in its header".into()) };
    let half = |at: usize| match (bytes.get(at..at + 2), order) {
        (Some(&[a, b]), 2) => Ok(u16::from_be_bytes([a, b])),
        (Some(&[a, b]), _) => Ok(u16::from_le_bytes([a, b])),
        _ => Err("the object is cut short in its header".to_owned()),
    };
    let (kind, machine) = (half(16)?, half(18)?);
    let machine = match (machine, class, order) {
        (62, 2, 1) => Ok(Arch::X86_64),
        (183, 2, 1) => Ok(Arch::Aarch64),
        (62, ..) => Err("x86-64 with 32-bit addresses (x32)".to_owned()),
        (183, ..) => Err("aarch64, big-endian or with 32-bit addresses".to_owned()),
        (3, ..) => Err("x86 of 32 bits".to_owned()),
        (40, ..) => Err("arm of 32 bits".to_owned()),
        (243, ..) => Err("riscv".to_owned()),
        (21, ..) => Err("powerpc64".to_owned()),
        (22, ..) => Err("s390x".to_owned()),
        (258, ..) => Err("loongarch".to_owned()),
        (190, ..) => Err("an NVIDIA GPU".to_owned()),
        (224, ..) => Err("an AMD GPU".to_owned()),
        (247, ..) => Err("bpf".to_owned()),
        (other, ..) => Err(format!("the machine {other}")),
    };
    let arch = machine.map_err(|name| format!("the object is for {name}, and host devices run x86-64 and aarch64"))?;
    match kind {
        1 => Ok(arch),
        2 | 3 => Err("the file is a program or shared library: give the object that the compiler makes with -c".into()),
        other => Err(format!("the file is ELF of the type {other}, and no relocatable object (type 1)")),
    }
}

/// Reads one object.
struct Reader<'a> {
    bytes: &'a [u8],
    table: SectionTable<'a, Header, &'a [u8]>,
    sections: Vec<Section<'a>>,
    /// For each section of the file, its place in `sections` if it is loaded.
    loaded: Vec<Option<usize>>,
    /// What the loaded sections take.
    size: u64,
}

impl<'a> Reader<'a> {
    fn name(&self, header: &SectionHeader64<LE>) -> Result<&'a str, String> {
        let name = self.table.section_name(LE, header).map_err(broken)?;
        std::str::from_utf8(name).map_err(|_| "a section's name is not UTF-8".into())
    }

    fn read_sections(&mut self) -> Result<(), String> {
        for header in self.table.iter() {
            let loaded = match self.section(header)? {
                Some(section) => Some(self.add(section)?),
                None => None,
            };
            self.loaded.push(loaded);
        }
        Ok(())
    }

    /// Adds a section; gives its place.
    fn add(&mut self, section: Section<'a>) -> Result<usize, String> {
        // Padding to the alignment counts too.
        let grown = self.size.checked_add(section.size).and_then(|size| size.checked_add(section.align));
        self.size = grown.filter(|&size| size <= IMAGE_BYTES_MAX).ok_or_else(|| {
            format!(
                "the object takes more than {IMAGE_BYTES_MAX} bytes: its section {} alone is {} bytes",
                section.name, section.size
            )
        })?;
        self.sections.push(section);
        Ok(self.sections.len() - 1)
    }

    /// The section, if it is one to load.
    fn section(&self, header: &'a SectionHeader64<LE>) -> Result<Option<Section<'a>>, String> {
        let (flags, kind, size) = (header.sh_flags(LE), header.sh_type(LE), header.sh_size(LE));
        let name = self.name(header)?;
        // Also of sections that are not loaded: an object whose end is missing is refused whatever is missing.
        let data = header.data(LE, self.bytes).map_err(broken)?;
        // Unwinding tables: nothing unwinds through an object's functions.
        let tables = [".eh_frame", ".gcc_except_table"].iter().any(|table| name.starts_with(table));
        if !flags.contains(elf::SHF_ALLOC) || kind == elf::SHT_NOTE || tables || size == 0 {
            return Ok(None);
        }
        if flags.contains(elf::SHF_TLS) {
            return Err(format!("the object has thread-local variables ({name}), which no kernel can have"));
        }
        let arrays = [elf::SHT_INIT_ARRAY, elf::SHT_FINI_ARRAY, elf::SHT_PREINIT_ARRAY];
        if arrays.contains(&kind) || name.starts_with(".ctors") || name.starts_with(".dtors") {
            return Err(format!("the object has constructors or destructors ({name}), which nothing would call"));
        }
        let segment = match (flags.contains(elf::SHF_EXECINSTR), flags.contains(elf::SHF_WRITE)) {
            (true, true) => return Err(format!("the section {name} is both writable and executable")),
            (true, false) => Segment::Code,
            (false, true) => Segment::Variables,
            (false, false) => Segment::Constants,
        };
        let align = header.sh_addralign(LE).max(1);
        if !align.is_power_of_two() || align > ALIGN_MAX {
            return Err(format!(
                "the section {name} asks to be aligned to {align}: powers of two up to {ALIGN_MAX} do"
            ));
        }
        Ok(Some(Section { name, segment, data, size, align }))
    }

    fn symbol_table(&self) -> Result<(SectionIndex, SymbolTable<'a, Header, &'a [u8]>), String> {
        let table = self.table.symbols(LE, self.bytes, elf::SHT_SYMTAB).map_err(broken)?;
        Ok((table.section(), table))
    }

    fn read_symbols(&mut self) -> Result<Vec<Symbol<'a>>, String> {
        let (_, table) = self.symbol_table()?;
        // The first entry of a symbol table is none; a relocation against it means the address 0.
        let mut symbols = vec![Symbol { name: "", place: Place::Absolute(0), global: false, function: false }];
        for (index, symbol) in table.enumerate().skip_while(|(index, _)| index.0 == 0) {
            let name = table.symbol_name(LE, symbol).map_err(broken)?;
            let name = std::str::from_utf8(name).map_err(|_| "a symbol's name is not UTF-8")?;
            let kind = symbol.st_type();
            if kind == elf::STT_TLS {
                return Err(format!("the object uses the thread-local variable {name}, which no kernel can have"));
            }
            if kind == elf::STT_GNU_IFUNC {
                return Err(format!("the object chooses the function {name} when it is loaded (ifunc)"));
            }
            let place = self.place(&table, index, symbol, name)?;
            let function = kind == elf::STT_FUNC;
            symbols.push(Symbol { name, place, global: !symbol.is_local(), function });
        }
        Ok(symbols)
    }

    fn place(
        &mut self,
        table: &SymbolTable<'a, Header, &'a [u8]>,
        index: SymbolIndex,
        symbol: &'a elf::Sym64<LE>,
        name: &'a str,
    ) -> Result<Place<'a>, String> {
        let value = symbol.st_value(LE);
        if symbol.is_common(LE) {
            return self.common(name, value, symbol.st_size(LE));
        }
        if symbol.is_absolute(LE) {
            return Ok(Place::Absolute(value));
        }
        let Some(section) = table.symbol_section(LE, symbol, index).map_err(broken)? else {
            if symbol.is_undefined(LE) {
                return Ok(Place::Undefined { weak: symbol.is_weak() });
            }
            return Err(format!("the symbol {name} stands in the reserved section {:#x}", symbol.st_shndx(LE).0));
        };
        let header = self.table.section(section).map_err(broken)?;
        Ok(match self.loaded[section.0] {
            Some(section) => Place::Section { section, offset: value },
            None => Place::Left(self.name(header)?),
        })
    }

    /// Gives a place to a variable that C leaves to the linker (-fcommon); its value is its alignment.
    fn common(&mut self, name: &'a str, align: u64, size: u64) -> Result<Place<'a>, String> {
        let align = align.max(1);
        if !align.is_power_of_two() || align > ALIGN_MAX {
            return Err(format!(
                "the variable {name} asks to be aligned to {align}: powers of two up to {ALIGN_MAX} do"
            ));
        }
        let section = self.add(Section { name, segment: Segment::Variables, data: &[], size, align })?;
        Ok(Place::Section { section, offset: 0 })
    }

    fn read_relocations(&self, symbols: usize) -> Result<Vec<Relocation>, String> {
        let symbol_table = self.symbol_table()?.0;
        let mut relocations = Vec::new();
        for header in self.table.iter() {
            let kind = header.sh_type(LE);
            if kind != elf::SHT_RELA && kind != elf::SHT_REL {
                continue;
            }
            let target = self.table.section(header.info_link(LE)).map_err(broken)?;
            // PANIC: `loaded` holds an item for each section, and this one exists.
            let Some(section) = self.loaded[header.info_link(LE).0] else { continue };
            let target = self.name(target)?;
            let Some((entries, table)) = header.rela(LE, self.bytes).map_err(broken)? else {
                return Err(format!(
                    "the relocations of {target} have no addends (REL), which no 64-bit compiler makes"
                ));
            };
            if table != symbol_table {
                return Err(format!("the relocations of {target} name no symbol table of the object"));
            }
            // Each has its own bytes in the file.
            if entries.len() > (self.bytes.len() / size_of::<elf::Rela64<LE>>()).saturating_sub(relocations.len()) {
                return Err("the object's tables of relocations overlap".into());
            }
            if entries.len() > RELOCATIONS_MAX - relocations.len() {
                return Err(format!("the object has more than {RELOCATIONS_MAX} relocations"));
            }
            for entry in entries {
                relocations.push(self.relocation(section, entry, symbols)?);
            }
        }
        Ok(relocations)
    }

    fn relocation(&self, section: usize, entry: &elf::Rela64<LE>, symbols: usize) -> Result<Relocation, String> {
        let (offset, symbol) = (entry.r_offset(LE), entry.r_sym(LE, false) as usize);
        let within = &self.sections[section];
        if offset >= within.data.len() as u64 {
            let (name, len) = (within.name, within.data.len());
            return Err(format!("a relocation of {name} stands at {offset}, outside of its {len} bytes"));
        }
        if symbol >= symbols {
            return Err(format!("a relocation of {} names the symbol {symbol} of {symbols}", within.name));
        }
        Ok(Relocation { section, offset, kind: entry.r_type(LE, false).0, symbol, addend: entry.r_addend(LE) })
    }
}

/// The most that a section's start may be aligned to: the smallest page.
pub(crate) const ALIGN_MAX: u64 = 4096;
