//! The loader against objects made for the purpose: whole, broken, and made to harm.

use object::write::{Object as Writer, Relocation, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope, elf,
};

use super::*;

/// An object under construction, with a section of code.
struct Build {
    writer: Writer<'static>,
    code: object::write::SectionId,
}

impl Build {
    fn new(architecture: Architecture) -> Build {
        let mut writer = Writer::new(BinaryFormat::Elf, architecture, Endianness::Little);
        let code = writer.section_id(object::write::StandardSection::Text);
        Build { writer, code }
    }

    /// The machine that the tests run on.
    fn host() -> Build {
        Build::new(if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 })
    }

    fn symbol(&mut self, name: &str, value: u64, kind: SymbolKind, section: SymbolSection) -> object::write::SymbolId {
        self.writer.add_symbol(Symbol {
            name: name.into(),
            value,
            size: 0,
            kind,
            scope: SymbolScope::Linkage,
            weak: false,
            section,
            flags: SymbolFlags::None,
        })
    }

    fn function(&mut self, name: &str, code: &[u8]) -> u64 {
        let at = self.writer.append_section_data(self.code, code, 16);
        self.symbol(name, at, SymbolKind::Text, SymbolSection::Section(self.code));
        at
    }

    fn undefined(&mut self, name: &str) -> object::write::SymbolId {
        self.symbol(name, 0, SymbolKind::Unknown, SymbolSection::Undefined)
    }

    fn relocate(&mut self, offset: u64, symbol: object::write::SymbolId, kind: u32, addend: i64) {
        let flags = RelocationFlags::Elf { r_type: elf::RelocationType(kind) };
        self.writer.add_relocation(self.code, Relocation { offset, symbol, addend, flags }).unwrap();
    }

    fn data(&mut self, name: &str, bytes: &[u8]) {
        let data = self.writer.section_id(object::write::StandardSection::ReadOnlyData);
        let at = self.writer.append_section_data(data, bytes, 8);
        self.symbol(name, at, SymbolKind::Data, SymbolSection::Section(data));
    }

    fn bytes(&self) -> Vec<u8> {
        self.writer.write().unwrap()
    }
}

/// The relocation that holds a symbol's whole address.
const ABSOLUTE: u32 = if cfg!(target_arch = "aarch64") { 257 } else { 1 };

/// An object with all that the loader knows: code, constants, variables, zeros, a call of the host, a description.
fn whole() -> Build {
    let mut build = Build::host();
    let at = build.function("kernel", &[0x90; 40]);
    let memset = build.undefined("memset");
    build.relocate(at + 8, memset, ABSOLUTE, 0);
    build.data("rig_kernel_kernel", &[1_u32, 1, 24, 64].map(u32::to_le_bytes).concat());
    let variables = build.writer.section_id(object::write::StandardSection::Data);
    build.writer.append_section_data(variables, &[7; 33], 32);
    let zeros = build.writer.section_id(object::write::StandardSection::UninitializedData);
    build.writer.append_section_bss(zeros, 10_000, 64);
    build
}

fn refused(bytes: &[u8], words: &[&str]) {
    match load(bytes) {
        Ok(functions) => panic!("{} functions were loaded of an object without {words:?}", functions.len()),
        Err(why) => assert!(words.iter().all(|word| why.contains(word)), "{why}: {words:?}"),
    }
}

#[test]
fn a_whole_object_gives_its_kernels() {
    let functions = load(&whole().bytes()).unwrap();
    let [kernel] = &functions[..] else { panic!("{} functions", functions.len()) };
    assert_eq!((kernel.name.as_str(), kernel.kind), ("kernel", Kind::Thread));
    assert_eq!((kernel.params, kernel.group_bytes), (Some(24), 64));
}

#[test]
fn an_object_cut_at_any_length_is_refused() {
    let bytes = whole().bytes();
    for len in 0..bytes.len() {
        assert!(load(&bytes[..len]).is_err(), "{len} of {} bytes were enough", bytes.len());
    }
    // Wherever it lies: no part of an object need be aligned.
    let mut shifted = vec![0];
    shifted.extend(&bytes);
    assert!(load(&shifted[1..]).is_ok());
}

#[test]
fn no_flip_of_bytes_crashes_the_loader() {
    let whole = whole().bytes();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut loaded, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random(6) {
            let at = random(bytes.len());
            bytes[at] = match random(3) {
                0 => bytes[at] ^ 1 << random(8),
                1 => 0xff,
                _ => random(256) as u8,
            };
        }
        match load(&bytes) {
            Ok(_) => loaded += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(loaded > 100 && refused > 100, "{loaded} loaded, {refused} refused");
}

#[test]
fn objects_for_other_machines_are_refused_by_their_name() {
    let other = if cfg!(target_arch = "aarch64") { Architecture::X86_64 } else { Architecture::Aarch64 };
    let (theirs, ours) = if cfg!(target_arch = "aarch64") { ("x86-64", "aarch64") } else { ("aarch64", "x86-64") };
    refused(&Build::new(other).bytes(), &["is for", theirs, ours]);
    refused(&Build::new(Architecture::Riscv64).bytes(), &["riscv"]);
    refused(&Build::new(Architecture::I386).bytes(), &["x86 of 32 bits"]);
    let mut amd = whole().bytes();
    amd[18..20].copy_from_slice(&224_u16.to_le_bytes());
    refused(&amd, &["an AMD GPU"]);
    let mut shared = whole().bytes();
    shared[16] = 3;
    refused(&shared, &["shared library", "-c"]);
    let big = Writer::new(BinaryFormat::Elf, Architecture::PowerPc64, Endianness::Big).write().unwrap();
    refused(&big, &["powerpc64"]);
}

#[test]
fn every_symbol_that_the_host_does_not_give_is_named() {
    let mut build = whole();
    for (i, name) in ["printf", "malloc", "cosf", "printf"].iter().enumerate() {
        let symbol = build.undefined(name);
        build.relocate(8 * i as u64, symbol, ABSOLUTE, 0);
    }
    refused(&build.bytes(), &["needs `malloc`, `printf`,"]);
    // What nothing refers to is not needed.
    let mut build = whole();
    build.undefined("printf");
    assert!(load(&build.bytes()).is_ok());
}

#[test]
fn sizes_that_no_memory_could_hold_are_refused() {
    for size in [IMAGE_BYTES_MAX + 1, 1 << 40, u64::MAX - 100_000, u64::MAX] {
        let mut build = whole();
        let zeros = build.writer.add_section(vec![], b".bss.huge".to_vec(), SectionKind::UninitializedData);
        build.writer.append_section_bss(zeros, size, 1);
        refused(&build.bytes(), &["more than 134217728 bytes", ".bss.huge"]);
    }
    let mut build = whole();
    build.symbol("common", 8, SymbolKind::Data, SymbolSection::Common);
    let mut bytes = build.bytes();
    let symbol = symbol_at(&bytes, 0xfff2).unwrap();
    bytes[symbol + 16..symbol + 24].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    refused(&bytes, &["more than 134217728 bytes", "common"]);
}

/// Where the entry of the first symbol of the section `section` stands in the file.
fn symbol_at(bytes: &[u8], section: u16) -> Option<usize> {
    let table = (0..headers(bytes)).map(|i| header_at(bytes, i)).find(|&at| word(bytes, at + 4) == 2)?;
    let (start, len) = (quad(bytes, table + 24), quad(bytes, table + 32));
    (start..start + len).step_by(24).find(|&at| bytes[at + 6..at + 8] == section.to_le_bytes())
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn quad(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// The number of section headers (e_shnum), and where the nth stands (e_shoff).
fn headers(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[60], bytes[61]]))
}

fn header_at(bytes: &[u8], nth: usize) -> usize {
    quad(bytes, 40) + 64 * nth
}

/// The header of the first section of relocations.
fn relocations_at(bytes: &[u8]) -> usize {
    (0..headers(bytes)).map(|i| header_at(bytes, i)).find(|&at| word(bytes, at + 4) == 4).unwrap()
}

#[test]
fn relocations_outside_of_their_section_or_of_unknown_kinds_are_refused() {
    let with = |offset, kind| {
        let mut build = whole();
        let memset = build.undefined("memcpy");
        build.relocate(offset, memset, kind, 0);
        build.bytes()
    };
    refused(&with(40, ABSOLUTE), &["stands at 40, outside of its 40 bytes"]);
    refused(&with(u64::MAX, ABSOLUTE), &["stands at 18446744073709551615"]);
    refused(&with(33, ABSOLUTE), &["+0x21 for memcpy", "past the end"]);
    assert!(load(&with(32, ABSOLUTE)).is_ok());
    refused(&with(0, 9999), &["type 9999", "for memcpy", "does not know"]);
    refused(&with(0, if cfg!(target_arch = "aarch64") { 545 } else { 23 }), &["thread-local"]);
    // A symbol that is not there, and a section that is not there.
    let mut bytes = whole().bytes();
    let entry = quad(&bytes, relocations_at(&bytes) + 24);
    bytes[entry + 12..entry + 16].copy_from_slice(&9999_u32.to_le_bytes());
    refused(&bytes, &["names the symbol 9999"]);
    let mut bytes = whole().bytes();
    let header = relocations_at(&bytes);
    bytes[header + 44..header + 48].copy_from_slice(&9999_u32.to_le_bytes());
    refused(&bytes, &["broken"]);
}

#[test]
fn a_bomb_of_relocations_is_refused_before_it_goes_off() {
    let mut build = whole();
    let memset = build.undefined("memcpy");
    for _ in 0..RELOCATIONS_MAX / 16 {
        build.relocate(0, memset, ABSOLUTE, 0);
    }
    let mut bytes = build.bytes();
    assert!(load(&bytes).is_ok());
    // The same relocations again and again: one more section header each costs the file 64 bytes.
    let (count, table) = (headers(&bytes), quad(&bytes, 40));
    let all = bytes[table..table + 64 * count].to_vec();
    let bomb = bytes[relocations_at(&bytes)..][..64].to_vec();
    bytes.truncate(bytes.len().next_multiple_of(8));
    let end = bytes.len();
    bytes.extend(all);
    for _ in 0..1000 {
        bytes.extend(&bomb);
    }
    bytes[40..48].copy_from_slice(&(end as u64).to_le_bytes());
    bytes[60..62].copy_from_slice(&(count as u16 + 1000).to_le_bytes());
    refused(&bytes, &["tables of relocations overlap"]);
}

#[test]
fn what_the_host_would_not_run_as_the_object_means_is_refused() {
    let section = |name: &str, kind| {
        let mut build = whole();
        let id = build.writer.add_section(vec![], name.as_bytes().to_vec(), kind);
        build.writer.append_section_data(id, &[0; 8], 8);
        build.bytes()
    };
    refused(&section(".tdata", SectionKind::Tls), &["thread-local variables (.tdata)"]);
    refused(&section(".ctors", SectionKind::Data), &["constructors"]);
    let mut arrays = section(".starts", SectionKind::Data);
    let header = (0..headers(&arrays)).map(|i| header_at(&arrays, i)).rfind(|&at| quad(&arrays, at + 32) == 8).unwrap();
    arrays[header + 4] = elf::SHT_INIT_ARRAY.0 as u8;
    refused(&arrays, &["constructors or destructors (.starts)"]);
    let mut both = Build::host();
    both.function("f", &[0; 16]);
    both.writer.section_mut(both.code).flags = object::SectionFlags::Elf {
        sh_type: elf::SHT_PROGBITS,
        sh_flags: elf::SHF_ALLOC | elf::SHF_WRITE | elf::SHF_EXECINSTR,
    };
    refused(&both.bytes(), &["both writable and executable"]);
    let mut ifunc = whole();
    let id = ifunc.symbol("chosen", 0, SymbolKind::Text, SymbolSection::Section(ifunc.code));
    ifunc.writer.symbol_mut(id).flags =
        SymbolFlags::Elf { st_info: elf::SymbolInfo(0x1a), st_other: elf::SymbolOther(0) };
    refused(&ifunc.bytes(), &["ifunc", "chosen"]);
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let with = |name: &str, words: [u32; 4]| {
        let mut build = Build::host();
        build.function("f", &[0; 16]);
        build.data(name, &words.map(u32::to_le_bytes).concat());
        build.bytes()
    };
    assert_eq!(load(&with("rig_kernel_f", [1, 0, u32::MAX, 0])).unwrap()[0].params, None);
    refused(&with("rig_kernel_f", [2, 0, 0, 0]), &["f is of version 2"]);
    refused(&with("rig_kernel_f", [1, 2, 0, 0]), &["the kind 2"]);
    refused(&with("rig_kernel_f", [1, 0, 0, u32::MAX]), &["4294967295 bytes of group memory"]);
    refused(&with("rig_kernel_g", [1, 0, 0, 0]), &["describes a kernel g"]);
    let mut short = Build::host();
    short.function("f", &[0; 16]);
    short.data("rig_kernel_f", &[1, 0, 0, 0]);
    refused(&short.bytes(), &["does not lie in data"]);
    let mut outside = Build::host();
    outside.function("f", &[0; 16]);
    outside.symbol("g", 16, SymbolKind::Text, SymbolSection::Section(outside.code));
    refused(&outside.bytes(), &["the function g does not lie in code"]);
}

/// Links an object of another machine too: linking is pure.
fn linked(bytes: &[u8], base: u64) -> (link::Layout, Vec<u8>) {
    let host = |name: &str| (name == "memcpy").then_some(0x7fff_1234_5678);
    let object = parse::parse(bytes).unwrap();
    let layout = link::layout(&object, 4096, &host).unwrap();
    let mut image = vec![0; layout.len as usize];
    link::link(&object, &layout, base, &mut image, &host).unwrap();
    (layout, image)
}

#[test]
fn an_aarch64_object_reaches_the_host_through_a_veneer_and_its_data_by_pages() {
    let mut build = Build::new(Architecture::Aarch64);
    // bl memcpy; adrp x0, variable; ldr x1, [x0, :lo12:variable]; adrp x2, :got:memcpy; ldr x2, [x2, :got_lo12:memcpy]
    let code = [0x9400_0000_u32, 0x9000_0000, 0xf940_0001, 0x9000_0002, 0xf940_0042].map(u32::to_le_bytes).concat();
    build.function("kernel", &code);
    let memcpy = build.undefined("memcpy");
    let data = build.writer.section_id(object::write::StandardSection::Data);
    let at = build.writer.append_section_data(data, &[5; 24], 8);
    let variable = build.symbol("variable", at + 16, SymbolKind::Data, SymbolSection::Section(data));
    for (offset, symbol, kind) in [(0, memcpy, 283), (4, variable, 275), (8, variable, 286)] {
        build.relocate(offset, symbol, kind, 0);
    }
    for (offset, kind) in [(12, 311), (16, 312)] {
        build.relocate(offset, memcpy, kind, 0);
    }
    let base = 0x5555_5000_0000;
    let (layout, image) = linked(&build.bytes(), base);
    let instruction = |at: usize| word(&image, at) as u32;
    // The veneer stands after the code, on 16 bytes; the slot opens the constants; the variables follow on their page.
    assert_eq!(instruction(0), 0x9400_0008);
    assert_eq!(quad(&image, 4096), 0x7fff_1234_5678);
    assert_eq!([36, 40].map(instruction), [0xf940_0210, 0xd61f_0200]);
    assert_eq!(instruction(32), 0xb000_0010);
    // Two pages on, at 16 bytes: adrp x0; ldr x1, [x0, #16].
    assert_eq!(layout.sections, [0, 8192]);
    assert_eq!([4, 8].map(instruction), [0xd000_0000, 0xf940_0801]);
    assert_eq!([12, 16].map(instruction), [0xb000_0002, 0xf940_0042]);
}

#[test]
fn an_x86_64_object_reaches_the_host_through_a_veneer_or_a_slot() {
    let mut build = Build::new(Architecture::X86_64);
    build.function("kernel", &[0; 32]);
    let memcpy = build.undefined("memcpy");
    for (offset, kind, addend) in [(0, 4, -4), (8, 41, -4), (16, 1, 0), (24, 2, 0)] {
        build.relocate(offset, memcpy, kind, addend);
    }
    let (_, image) = linked(&build.bytes(), 0x5555_5000_0000);
    // A call of the veneer at 32 and a load of the slot at 4096, from the end of their fields; an address; a distance.
    assert_eq!(word(&image, 0), 32 - 4);
    assert_eq!(word(&image, 8), 4096 - 12);
    assert_eq!(quad(&image, 16), 0x7fff_1234_5678);
    assert_eq!(word(&image, 24), 32 - 24);
    assert_eq!(image[32..38], [0xff, 0x25, 0xda, 0x0f, 0, 0]);
    assert_eq!(quad(&image, 4096), 0x7fff_1234_5678);
}

/// Promise H03.
#[test]
#[cfg(target_os = "linux")]
fn code_is_executable_and_variables_are_writable_and_nothing_is_both() {
    if std::env::var_os("RIG_TEST_COMPILERS").is_some() {
        println!("skipped: an emulator shows the protections of its own pages");
        return;
    }
    let functions = load(&whole().bytes()).unwrap();
    let FunctionCode::Machine { kernel, .. } = &functions[0].code else { panic!("no machine code") };
    let start = *kernel as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let flags = |address: usize| {
        let line = maps.lines().find(|line| {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let bounds = [from, to].map(|bound| usize::from_str_radix(bound, 16).unwrap());
            (bounds[0]..bounds[1]).contains(&address)
        });
        line.unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let page = map::page_bytes() as usize;
    assert_eq!([0, 1, 2].map(|nth| flags(start + nth * page)), ["r-xp", "r--p", "rw-p"]);
    assert!(!maps.lines().any(|line| line.contains(" rwx")), "{maps}");
}
