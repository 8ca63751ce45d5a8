//! Every instruction that the decoder knows, as LLVM writes it.
//!
//! The table `text.txt` holds machine words and LLVM's text for them. The words come from the decoder's own tables with
//! operands of a fixed seed, so the test that makes them anew, where llvm-mc is, sees that the table is complete and true.
//! With `RIG_WRITE_TABLE=1` it writes the table instead.

use super::fixtures::tool;
use crate::isa::compare::{VOPC, VOPCX};
use crate::isa::decode::{SHORT, decode};
use crate::isa::exchange::{ROWS, SWIZZLE};
use crate::isa::inst::{Extra, Inst, Row};
use crate::isa::memory::{DS, DS_MORE, MUBUF, SMEM, VMEM};
use crate::isa::packed::VOP3P;
use crate::isa::scalar::{SOP1, SOP2, SOPC, SOPK, SOPP};
use crate::isa::vector::{DUAL, VOP1, VOP2};
use crate::isa::vector3::VOP3;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const TABLE: &str = include_str!("text.txt");
/// Encodings of each opcode in the table, and where LLVM is asked.
const EACH: usize = 4;
const MANY: usize = 40;

/// Numbers of a seed, how many vector registers there are, and whether float constants are none.
struct Random(u64, u32, bool);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }

    fn one_of(&mut self, values: &[u32]) -> u32 {
        values[self.below(values.len() as u32) as usize]
    }

    /// A scalar register, even where it is a pair or more.
    fn scalar(&mut self, count: u8) -> u32 {
        match count {
            0 => 0,
            1 => {
                let any = self.below(106);
                self.one_of(&[any, any, any, 106, 107, 125, 126])
            }
            2 => {
                let any = self.below(52) * 2;
                self.one_of(&[any, any, any, 106, 126])
            }
            _ => self.below(20) * 4,
        }
    }

    /// A scalar source: a register or a constant that needs no word of its own.
    fn scalar_source(&mut self, count: u8) -> u32 {
        let register = self.scalar(count);
        let constant = 128 + self.below(81);
        let float = if self.2 { constant } else { 240 + self.below(9) };
        if count == 0 { 0 } else { self.one_of(&[register, register, register, constant, float, 255]) }
    }

    fn vector(&mut self) -> u32 {
        self.below(self.1)
    }

    fn source(&mut self, count: u8) -> u32 {
        let (vector, scalar) = (256 + self.vector(), self.scalar_source(count));
        if count == 0 { 0 } else { self.one_of(&[vector, vector, scalar]) }
    }
}

fn is_float(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap();
    matches!(last, "f32" | "f64") && !name.contains("_class_") || name == "v_cndmask_b32"
}

/// Whether the last operand's source takes floats too.
fn sources_are_floats(name: &str) -> bool {
    is_float(name)
        && !name.contains("_f32_i")
        && !name.contains("_f32_u")
        && !name.contains("_f64_i")
        && !name.contains("_f64_u")
        && !name.contains("_f32_f16")
}

/// A row's words in its short encoding, with the constant where one follows.
fn short(format: &str, row: &Row, r: &mut Random) -> Vec<u32> {
    // In short encodings of 16 bits, registers from v128 on are high halves.
    (r.1, r.2) = (if row.name.contains("16") { 128 } else { 240 }, whole16(row.name));
    let words = short_words(format, row, r);
    (r.1, r.2) = (240, false);
    words
}

fn short_words(format: &str, row: &Row, r: &mut Random) -> Vec<u32> {
    let (code, [a, b, c], shape) = (u32::from(row.code), row.shape.src, row.shape);
    let constant = r.below(u32::MAX);
    let mut words = match format {
        "SOP2" => vec![1 << 31 | code << 23 | r.scalar(shape.dst) << 16 | r.scalar_source(b) << 8 | r.scalar_source(a)],
        "SOP1" if row.name == "s_setpc_b64" => vec![0xbe80_0000 | code << 8 | r.scalar(2)],
        "SOP1" if row.name.starts_with("s_sendmsg") => {
            vec![0xbe80_0000 | r.scalar(shape.dst) << 16 | code << 8 | (128 + r.below(6))]
        }
        "SOP1" => vec![0xbe80_0000 | r.scalar(shape.dst) << 16 | code << 8 | r.scalar_source(a)],
        "SOPC" => vec![0xbf00_0000 | code << 16 | r.scalar_source(b) << 8 | r.scalar_source(a)],
        "SOPK" => {
            let register = if row.name.starts_with("s_waitcnt") { 124 } else { r.scalar(shape.dst) };
            let value =
                if row.name.contains("reg") { 1 | r.below(4) << 6 | r.below(8) << 11 } else { r.below(1 << 16) };
            vec![0xb000_0000 | code << 23 | register << 16 | value]
        }
        "SOPP" => vec![0xbf80_0000 | code << 16 | sopp(row.name, r)],
        "VOP1" => {
            let to = if shape.extra == Extra::ScalarDst { r.scalar(1) } else { r.vector() };
            let from = if ["v_swap_b32", "v_movrels_b32"].contains(&row.name) || shape.extra == Extra::ScalarDst {
                256 + r.vector()
            } else {
                r.source(a)
            };
            if a == 0 { vec![0x7e00_0000] } else { vec![0x7e00_0000 | to << 17 | code << 9 | from] }
        }
        "VOP2" => vec![code << 25 | r.vector() << 17 | r.vector() << 9 | r.source(a)],
        "VOPC" => vec![0x7c00_0000 | code << 17 | r.vector() << 9 | r.source(a)],
        _ => unreachable!("{format}"),
    };
    let fields: &[u32] = match format {
        "SOP2" | "SOPC" => &[words[0] & 0xff, words[0] >> 8 & 0xff],
        "SOP1" => &[words[0] & 0xff],
        "VOP1" | "VOP2" | "VOPC" => &[words[0] & 0x1ff],
        _ => &[],
    };
    let follows = matches!(shape.extra, Extra::ConstantMiddle | Extra::ConstantLast);
    // What the constant of fmamk is, a source must be too.
    if fields.contains(&255) || follows {
        words.push(constant | 0x100);
    }
    let _ = c;
    words
}

fn sopp(name: &str, r: &mut Random) -> u32 {
    match name {
        "s_barrier" | "s_code_end" | "s_wait_idle" | "s_endpgm" => 0,
        "s_sendmsg" => r.one_of(&[1, 3]),
        "s_delay_alu" => r.below(12) | r.below(6) << 4 | r.below(12) << 7,
        "s_round_mode" | "s_denorm_mode" => r.below(16),
        "s_waitcnt_depctr" => r.below(1 << 16) & !0x60,
        "s_setprio" | "s_sethalt" => r.below(4),
        _ => r.below(1 << 16),
    }
}

/// Whether it works on integers of 16 bits, for which float constants mean little.
fn whole16(name: &str) -> bool {
    ["_i16", "_u16", "_b16"].iter().any(|end| name.ends_with(end))
}

/// A row's words in VOP3.
fn long(code: u32, row: &Row, r: &mut Random) -> Vec<u32> {
    r.2 = whole16(row.name);
    let words = long_words(code, row, r);
    r.2 = false;
    words
}

fn long_words(code: u32, row: &Row, r: &mut Random) -> Vec<u32> {
    let shape = row.shape;
    let [a, b, c] = shape.src;
    if a == 0 {
        return vec![0xd400_0000 | code << 16, 0];
    }
    let carries = matches!(shape.extra, Extra::CarryOut | Extra::CarryInOut);
    let compare = row.name.starts_with("v_cmp");
    let to = match shape.extra {
        Extra::ScalarDst => r.below(106),
        _ if row.name.starts_with("v_cmpx") => 126,
        _ if compare => r.below(106),
        _ => r.vector(),
    };
    let mut sources = [r.source(a), r.source(b), r.source(c)];
    if matches!(shape.extra, Extra::CarryIn | Extra::CarryInOut) {
        sources[2] = r.below(106);
    }
    if row.name.contains("readlane") || row.name.contains("readfirst") {
        sources = [256 + r.vector(), if b > 0 { r.below(106) } else { 0 }, 0];
    }
    if row.name.contains("movrels") {
        sources[0] = 256 + r.vector();
    }
    if row.name.contains("writelane") {
        sources = [r.below(106), r.below(106), 0];
    }
    if row.name.contains("div_scale") {
        // The first source is one of the others.
        sources[0] = sources[1 + r.below(2) as usize];
    }
    let mut words = vec![0xd400_0000 | code << 16 | to, sources[0] | sources[1] << 9 | sources[2] << 18];
    if carries {
        words[0] |= r.scalar(1).min(106) << 8;
    }
    let signs =
        (1 << shape.src.iter().filter(|&&n| n > 0).count().min(if row.name == "v_cndmask_b32" { 2 } else { 3 })) - 1;
    if sources_are_floats(row.name) && !row.name.contains("ldexp") && !row.name.contains("div_scale") {
        words[0] |= (r.below(8) & signs) << 8;
        words[1] |= (r.below(8) & signs) << 29;
    }
    if is_float(row.name)
        && !compare
        && !row.name.contains("pk_")
        && row.name != "v_cndmask_b32"
        && !row.name.contains("32_f")
    {
        words[0] |= r.below(2) << 15;
        words[1] |= if row.name.contains("scale") { 0 } else { r.below(4) << 27 };
    }
    if sources.contains(&255) {
        words.push(r.below(u32::MAX) | 0x100);
    }
    words
}

/// A row's words with lanes exchanged.
fn dpp(format: &str, row: &Row, r: &mut Random) -> Vec<u32> {
    let words = short_words(format, row, r);
    let any = r.below(256);
    let n = 1 + r.below(15);
    let pattern = r.one_of(&[any, 0x100 + n, 0x110 + n, 0x120 + n, 0x140, 0x141, 0x150 + n, 0x160 + n]);
    let signs = if is_float(row.name) && sources_are_floats(row.name) {
        r.below(if row.shape.src[1] > 0 { 16 } else { 4 })
    } else {
        0
    };
    let rows = r.vector() | pattern << 8 | r.below(4) << 18 | signs << 20 | r.below(256) << 24;
    let eights = r.vector() | r.below(1 << 24) << 8;
    match r.below(4) {
        0 => vec![words[0] & !0x1ff | 233, eights],
        1 => vec![words[0] & !0x1ff | 234, eights],
        _ => vec![words[0] & !0x1ff | 250, rows],
    }
}

/// Words of formats of memory.
fn memory(format: &str, row: &Row, r: &mut Random) -> Vec<u32> {
    let (code, shape) = (u32::from(row.code), row.shape);
    match format {
        "SMEM" if shape.dst == 0 => vec![0xf400_0000 | code << 18, 0],
        "SMEM" => {
            let to = if shape.dst > 2 { r.below(20) * 4 } else { r.below(40) * 2 };
            let register = r.below(106);
            let from = r.one_of(&[124, 124, register]);
            let offset = r.one_of(&[0, 4, 0x7_fffc, 0x1f_fff0]);
            vec![0xf400_0000 | code << 18 | r.below(2) << 14 | to << 6 | r.below(52), from << 25 | offset]
        }
        "DS" => {
            let two = row.name.contains("2addr");
            let offset = if two { r.below(1 << 16) } else { r.one_of(&[0, 4, 0xfffc]) };
            let [_, b, c] = shape.src;
            let data = [if b > 0 { r.vector() } else { 0 }, if c > 0 { r.vector() } else { 0 }];
            let to = if shape.dst > 0 { r.vector() } else { 0 };
            vec![0xd800_0000 | code << 18 | offset, to << 24 | data[1] << 16 | data[0] << 8 | r.vector()]
        }
        "SCRATCH" => {
            let (any, vector) = (r.below(106), r.below(2));
            let base = r.one_of(&[124, any]);
            let offset = r.one_of(&[0, 16, 0xfff, 0x1ff0]);
            let caches = r.below(2) << 14 | r.below(2) << 15 | r.below(2) << 13;
            let to = if shape.dst > 0 { r.vector() } else { 0 };
            let data = if shape.src[1] > 0 { r.vector() } else { 0 };
            let address = if vector == 1 { r.vector() } else { 0 };
            vec![0xdc01_0000 | code << 18 | caches | offset, to << 24 | vector << 23 | base << 16 | data << 8 | address]
        }
        "FLAT" | "GLOBAL" => {
            let global = format == "GLOBAL";
            let pair = r.below(50) * 2;
            let base = if global { r.one_of(&[124, pair]) } else { 124 };
            let offset = if global { r.one_of(&[0, 16, 0xfff, 0x1ff0]) } else { r.one_of(&[0, 16, 0xfff]) };
            let atomic = row.name.starts_with("atomic");
            let glc = r.below(2);
            let to = if shape.dst > 0 && (!atomic || glc == 1) { r.vector() } else { 0 };
            let data = if shape.src[1] > 0 { r.vector() } else { 0 };
            let caches = glc << 14 | r.below(2) << 15 | r.below(2) << 13;
            vec![
                0xdc00_0000 | code << 18 | u32::from(global) << 17 | caches | offset,
                to << 24 | base << 16 | data << 8 | r.vector(),
            ]
        }
        _ => vec![0xe000_0000 | code << 18, 0],
    }
}

/// Two instructions in one word.
fn dual(x: u16, y: u16, r: &mut Random) -> Vec<u32> {
    let literal = |number: u16| number == 1 || number == 2;
    let constant = r.below(u32::MAX) | 0x100;
    let mut source = |number: u16, bank: u32| {
        let vector = 256 + (r.below(60) * 4 + bank);
        let scalar = r.below(20);
        // The first source of both may be scalar; with a constant only where it is the same.
        if literal(number) { vector } else { r.one_of(&[vector, vector, scalar]) }
    };
    let (a, b) = (source(x, 0), source(y, 1));
    let second = |number: u16, value: u32| if number == 8 { 0 } else { value };
    let (c, d) = (second(x, r.below(60) * 4 + 2), second(y, r.below(60) * 4 + 3));
    let (to_x, to_y) = (r.below(120) * 2, r.below(120));
    let mut words =
        vec![0xc800_0000 | u32::from(x) << 22 | u32::from(y) << 17 | c << 9 | a, to_x << 24 | to_y << 17 | d << 9 | b];
    if literal(x) || literal(y) {
        words.push(constant);
    }
    words
}

/// Machine words for every row of every table, each with its format and name.
fn encodings(each_opcode: usize) -> Vec<(String, Vec<u32>)> {
    let mut r = Random(11, 240, false);
    let mut made = Vec::new();
    let mut each = |format: &str, rows: &[Row], encode: &dyn Fn(&Row, &mut Random) -> Vec<u32>| {
        for row in rows {
            for _ in 0..each_opcode {
                made.push((format!("{format} {}", row.name), encode(row, &mut r)));
            }
        }
    };
    let comparisons: Vec<&[Row]> = VOPC.iter().chain(&VOPCX).copied().collect();
    for (format, rows) in
        [("SOP1", SOP1), ("SOP2", SOP2), ("SOPC", SOPC), ("SOPK", SOPK), ("SOPP", SOPP), ("VOP1", VOP1), ("VOP2", VOP2)]
    {
        each(format, rows, &|row, r| short(format, row, r));
    }
    for rows in comparisons {
        each("VOPC", rows, &|row, r| short("VOPC", row, r));
        each("VOP3", rows, &|row, r| long(u32::from(row.code), row, r));
    }
    each("VOP3", ROWS, &|row, r| {
        let code = u32::from(row.code);
        let sources = (256 + r.vector()) | r.below(100) << 9 | r.below(100) << 18;
        vec![0xd400_0000 | code << 16 | r.below(4) << 11 | r.vector(), sources]
    });
    each("DS", SWIZZLE, &|row, r| {
        let (and, or, xor, any) = (r.one_of(&[31, 31, 28, 16, 7]), r.one_of(&[0, 0, 3, 5]), r.below(32), r.below(256));
        let offset = r.one_of(&[and | or << 5, and | xor << 10, and | or << 5 | xor << 10, 0x8000 | any, 31 | 4 << 10]);
        vec![0xd800_0000 | u32::from(row.code) << 18 | offset, r.vector() << 24 | r.vector()]
    });
    let narrow = |row: &&Row| !row.name.contains("64") && !row.name.contains("16") && !SHORT.contains(&row.name);
    let exchanged = VOP1.iter().filter(|row| row.code > 0).map(|row| ("VOP1", row));
    let exchanged = exchanged.chain(VOP2.iter().map(|row| ("VOP2", row)));
    let exchanged = exchanged.chain(VOPC.iter().copied().flatten().map(|row| ("VOPC", row)));
    for (format, row) in exchanged.filter(|(_, row)| {
        narrow(row) && !["v_mov", "v_fmac_dx9"].iter().any(|start| row.name.starts_with(start)) | (row.code == 1)
    }) {
        each(&format!("DPP {format}"), std::slice::from_ref(row), &|row, r| dpp(format, row, r));
    }
    each("VOP3", VOP3, &|row, r| long(u32::from(row.code), row, r));
    // What has no form in VOP3 stays out.
    let two = VOP2.iter().filter(|row| !SHORT.contains(&row.name));
    two.for_each(|row| each("VOP3", std::slice::from_ref(row), &|row, r| long(256 + u32::from(row.code), row, r)));
    let one = VOP1.iter().filter(|row| !SHORT.contains(&row.name));
    one.for_each(|row| each("VOP3", std::slice::from_ref(row), &|row, r| long(384 + u32::from(row.code), row, r)));
    each("VOP3P", VOP3P, &packed);
    for (format, rows) in
        [("SMEM", SMEM), ("DS", DS), ("DS", DS_MORE), ("FLAT", VMEM), ("GLOBAL", VMEM), ("MUBUF", MUBUF)]
    {
        each(format, rows, &|row, r| memory(format, row, r));
    }
    for &(y, _) in DUAL {
        for &(x, _) in DUAL.iter().filter(|(x, _)| *x < 16) {
            made.push((format!("VOPD {x} {y}"), dual(x, y, &mut r)));
        }
    }
    for row in VMEM.iter().filter(|row| !row.name.starts_with("atomic")) {
        for _ in 0..each_opcode {
            made.push((format!("SCRATCH {}", row.name), memory("SCRATCH", row, &mut r)));
        }
    }
    made
}

fn packed(row: &Row, r: &mut Random) -> Vec<u32> {
    let [_, _, c] = row.shape.src;
    let sources = [256 + r.vector(), 256 + r.vector(), if c > 0 { 256 + r.vector() } else { 0 }];
    let count = if c > 0 { 7 } else { 3 };
    let high = if c > 0 { r.below(8) } else { r.below(4) | 4 };
    let select = r.below(8) & count;
    vec![
        0xcc00_0000 | u32::from(row.code) << 16 | r.vector() | select << 11 | (high >> 2) << 14,
        sources[0] | sources[1] << 9 | sources[2] << 18 | (high & 3) << 27,
    ]
}

/// What llvm-mc writes for words that it encodes the same way again.
fn llvm(tool: &str, encodings: &[(String, Vec<u32>)]) -> BTreeMap<Vec<u32>, String> {
    let mut child = Command::new(tool)
        .args(["-triple=amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-disassemble", "-show-encoding"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines: String = encodings
        .iter()
        .map(|(_, words)| {
            let bytes: Vec<String> =
                words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:#04x}")).collect();
            bytes.join(",") + "\n"
        })
        .collect();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| {
            let (text, encoding) = line.trim().split_once("; encoding: [")?;
            let bytes: Vec<u8> = encoding
                .trim_end_matches(']')
                .split(',')
                .map(|byte| u8::from_str_radix(byte.trim_start_matches("0x"), 16).unwrap())
                .collect();
            let words = bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
            Some((words, text.split_whitespace().collect::<Vec<_>>().join(" ")))
        })
        .collect()
}

/// The table's lines: words, then text.
fn table(text: &str) -> Vec<(Vec<u32>, String)> {
    text.lines()
        .map(|line| {
            let (words, text) = line.split_once(": ").unwrap();
            (words.split(' ').map(|word| u32::from_str_radix(word, 16).unwrap()).collect(), text.to_owned())
        })
        .collect()
}

fn decoded(words: &[u32]) -> Inst {
    // What follows an instruction is none of its business.
    let mut three = [0xa5a5_a5a5; 3];
    three[..words.len()].copy_from_slice(words);
    decode(three).unwrap_or_else(|fault| panic!("{words:x?}: {fault}"))
}

#[test]
fn every_line_of_the_table_is_decoded_to_llvms_text_and_length() {
    let mut wrong = Vec::new();
    let lines = table(TABLE);
    for (words, text) in &lines {
        let inst = decoded(words);
        if inst.to_string() != *text || usize::from(inst.len) != words.len() {
            wrong.push(format!("{words:08x?}\n  llvm: {text}\n  here: {inst}"));
        }
    }
    let count = wrong.len();
    wrong.truncate(40);
    assert!(count == 0, "{count} of {}:\n{}", lines.len(), wrong.join("\n"));
}

#[test]
fn many_operands_of_every_opcode_read_as_llvm_writes_them() {
    let Some(tool) = tool(&["llvm-mc-19", "llvm-mc"]) else {
        println!("skipped: no llvm-mc 19.1.7");
        return;
    };
    let encodings = encodings(MANY);
    let made: BTreeSet<&Vec<u32>> = encodings.iter().map(|(_, words)| words).collect();
    let mut known = llvm(&tool, &encodings);
    // After words that are no instruction LLVM goes on in their midst.
    known.retain(|words, _| made.contains(words));
    assert!(known.len() > 10_000, "{}", known.len());
    let wrong: Vec<String> = known
        .iter()
        .filter(|(words, text)| decoded(words).to_string() != **text)
        .map(|(words, text)| format!("{words:08x?}\n  llvm: {text}\n  here: {}", decoded(words)))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), known.len(), wrong[..wrong.len().min(40)].join("\n"));
}

#[test]
fn every_word_of_the_fixtures_reads_as_llvm_writes_it() {
    let Some(tool) = tool(&["llvm-objdump-19", "llvm-objdump"]) else {
        println!("skipped: no llvm-objdump 19.1.7");
        return;
    };
    let mut seen = 0;
    for object in ["suite.co", "work.co", "work_plain.co", "more.co", "faults.co", "hidden.co", "scratch.co"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(object);
        let output = Command::new(&tool).args(["-d", "--mcpu=gfx1100"]).arg(path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for (instruction, place) in text.lines().filter_map(|line| line.split_once("//")) {
            // After the words may stand where a branch leads.
            let words = place.split_once(':').unwrap().1.split('<').next().unwrap();
            let words: Vec<u32> = words.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap()).collect();
            let instruction = instruction.trim();
            if instruction != ".long 0xbfff0000" {
                assert_eq!(decoded(&words).to_string(), instruction.split(" <").next().unwrap(), "{object} {place}");
                seen += 1;
            }
        }
    }
    assert!(seen > 3000, "{seen}");
}

#[test]
fn every_opcode_is_in_the_table() {
    let known: BTreeSet<Vec<u32>> = table(TABLE).into_iter().map(|(words, _)| words).collect();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (name, words) in encodings(EACH) {
        *seen.entry(name).or_default() += usize::from(known.contains(&words));
    }
    let missing: Vec<&String> = seen.iter().filter(|(_, count)| **count == 0).map(|(name, _)| name).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn llvm_writes_the_table() {
    let Some(tool) = tool(&["llvm-mc-19", "llvm-mc"]) else {
        println!("skipped: no llvm-mc 19.1.7");
        return;
    };
    let encodings = encodings(EACH);
    let known = llvm(&tool, &encodings);
    let mut lines = String::new();
    let mut done = BTreeSet::new();
    for (_, words) in &encodings {
        if let Some(text) = known.get(words).filter(|_| done.insert(words.clone())) {
            let words: Vec<String> = words.iter().map(|word| format!("{word:08x}")).collect();
            lines += &format!("{}: {text}\n", words.join(" "));
        }
    }
    if std::env::var_os("RIG_WRITE_TABLE").is_some() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/isa/tests/text.txt"), lines).unwrap();
    } else {
        assert!(lines == TABLE, "the table is not what llvm-mc writes: run this test with RIG_WRITE_TABLE=1");
    }
}
