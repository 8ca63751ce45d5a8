//! From machine words to instructions: which format a word begins, where the fields of each format stand, and how many words
//! it takes.

use super::compare::{VOPC, VOPCX};
use super::exchange::{Exchange, ROWS, SWIZZLE};
use super::fault::{Fault, FaultKind};
use super::inst::{Extra, Format, Inst, Row, Run};
use super::memory::{DS, DS_MORE, MUBUF, SMEM, VMEM};
use super::scalar::{SOP1, SOP2, SOPC, SOPK, SOPP};
use super::vector::{DUAL, MOVE, VOP1, VOP2};
use super::vector3::VOP3;
use super::wave::{EXCHANGED, LITERAL, NULL, VCC, VECTOR, top};

/// The most words that an instruction takes.
pub(super) const WORDS: usize = 3;

/// What VOP1 and VOP2 have and VOP3 has no form of.
pub(super) const SHORT: [&str; 6] =
    ["v_fmamk_f32", "v_fmaak_f32", "v_fmamk_f16", "v_fmaak_f16", "v_swap_b32", "v_readfirstlane_b32"];

/// Decodes the instruction that begins with these words; the words past its end may be anything.
///
/// # Errors
///
/// [`FaultKind::Unknown`] if no table knows it, or [`FaultKind::Unsupported`] if it is known and not done here.
pub(super) fn decode(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let word = words[0];
    let mut inst = match word >> 26 {
        0b101111 if word >> 23 == 0b1_0111_1101 => sop1(words),
        0b101111 if word >> 23 == 0b1_0111_1110 => sopc(words),
        0b101111 if word >> 23 == 0b1_0111_1111 => sopp(words),
        0b101100..=0b101111 => sopk(words),
        0b100000..=0b101011 => sop2(words),
        0b111101 => smem(words),
        0b011111 if word >> 25 == 0b011_1110 => vopc(words),
        0b011111 => vop1(words),
        0b000000..=0b011110 => vop2(words),
        0b110101 => vop3(words),
        0b110011 => vop3p(words),
        0b110010 => vopd(words),
        0b110110 => ds(words),
        0b110111 => flat(words),
        0b111000 => mubuf(words),
        _ => Err(FaultKind::Unknown),
    }?;
    inst.vectors = inst.vectors.max(vectors(&inst));
    halves(&inst)?;
    Ok(inst)
}

/// Whether the result has 16 bits, which the name says.
fn makes16(name: &str) -> bool {
    let last = ["_f16", "_i16", "_u16", "_b16"];
    match name.strip_prefix("v_cvt") {
        Some(rest) => last.iter().any(|end| rest.starts_with(end)),
        None => !name.starts_with("v_cmp") && last.iter().any(|end| name.ends_with(end)),
    }
}

/// Refuses what has other meanings for operands of 16 bits than are done here: registers from v128 on in short encodings,
/// which are high halves, and float constants of integers.
fn halves(inst: &Inst) -> Result<(), FaultKind> {
    if !inst.row.name.contains("16") {
        return Ok(());
    }
    let short = matches!(inst.format, Format::Vop1 | Format::Vop2 | Format::Vopc);
    let mut sources = (0..3).filter(|&n| inst.takes16(n)).map(|n| inst.src[n]);
    let narrow = sources.clone().any(|source| source >= VECTOR + 128) || makes16(inst.row.name) && inst.dst >= 128;
    if short && narrow {
        return Err(FaultKind::Unsupported { what: "high halves of registers in short encodings".to_owned() });
    }
    if !inst.row.name.ends_with("_f16") && sources.any(|source| (240..=248).contains(&source)) {
        return Err(FaultKind::Unsupported { what: "a float constant of an integer of 16 bits".to_owned() });
    }
    Ok(())
}

/// Words that the instruction needs at least, before it is known whether a constant follows.
pub(super) fn fewest(word: u32) -> usize {
    match word >> 26 {
        0b110000..=0b111111 => 2,
        _ => 1,
    }
}

/// Decodes the instruction at an address, fetching no more words than it has.
///
/// # Errors
///
/// As [`decode`], and what the fetch of a word says.
pub(super) fn fetch(
    mut word: impl FnMut(usize) -> Result<u32, Fault>,
) -> Result<Inst, (FaultKind, [u32; WORDS], usize)> {
    let mut words = [0; WORDS];
    let mut have = 0;
    let mut need = 1;
    loop {
        while have < need {
            words[have] = word(have).map_err(|fault| (fault.kind, words, have))?;
            have += 1;
        }
        need = need.max(fewest(words[0]));
        if have < need {
            continue;
        }
        let inst = decode(words).map_err(|kind| (kind, words, have))?;
        if usize::from(inst.len) <= have {
            return Ok(inst);
        }
        need = usize::from(inst.len);
    }
}

fn find<'a>(tables: impl IntoIterator<Item = &'a &'static [Row]>, code: u32) -> Result<&'static Row, FaultKind> {
    let found = tables.into_iter().find_map(|table| table.iter().find(|row| u32::from(row.code) == code));
    found.ok_or(FaultKind::Unknown)
}

/// The highest register that the operands name.
fn vectors(inst: &Inst) -> u16 {
    let shape = inst.row.shape;
    let sources = inst.src.iter().zip(shape.src).map(|(&source, registers)| top(source, registers)).max().unwrap_or(0);
    let vector_format = !matches!(
        inst.format,
        Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp | Format::Smem | Format::Mubuf
    );
    if vector_format && shape.extra.vector_dst() && shape.dst > 0 {
        sources.max(u16::from(inst.dst) + u16::from(shape.dst))
    } else {
        sources
    }
}

/// Takes the constant that follows, if a source names it.
fn literal(inst: &mut Inst) {
    if inst.src.contains(&LITERAL) {
        inst.literal = inst.words[usize::from(inst.len)];
        inst.len += 1;
    }
}

fn sop2(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let word = words[0];
    let mut inst = Inst::new(find([&SOP2], word >> 23 & 0x7f)?, Format::Sop2, words);
    inst.dst = (word >> 16 & 0x7f) as u8;
    inst.src = [(word & 0xff) as u16, (word >> 8 & 0xff) as u16, 0];
    literal(&mut inst);
    Ok(inst)
}

fn sop1(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let word = words[0];
    let mut inst = Inst::new(find([&SOP1], word >> 8 & 0xff)?, Format::Sop1, words);
    inst.dst = (word >> 16 & 0x7f) as u8;
    inst.src[0] = (word & 0xff) as u16;
    literal(&mut inst);
    Ok(inst)
}

fn sopc(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let word = words[0];
    let mut inst = Inst::new(find([&SOPC], word >> 16 & 0x7f)?, Format::Sopc, words);
    inst.src = [(word & 0xff) as u16, (word >> 8 & 0xff) as u16, 0];
    literal(&mut inst);
    Ok(inst)
}

fn sopk(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let word = words[0];
    let mut inst = Inst::new(find([&SOPK], word >> 23 & 0x1f)?, Format::Sopk, words);
    inst.dst = (word >> 16 & 0x7f) as u8;
    inst.literal = word as u16 as i16 as u32;
    if inst.row.shape.extra == Extra::ConstantLast {
        inst.offset = words[1] as i32;
        inst.len = 2;
    }
    Ok(inst)
}

fn sopp(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let word = words[0];
    let mut inst = Inst::new(find([&SOPP], word >> 16 & 0x7f)?, Format::Sopp, words);
    inst.literal = word as u16 as i16 as u32;
    Ok(inst)
}

fn smem(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let [word, second, _] = words;
    let mut inst = Inst::new(find([&SMEM], word >> 18 & 0xff)?, Format::Smem, words);
    inst.len = 2;
    inst.dst = (word >> 6 & 0x7f) as u8;
    inst.src = [((word & 0x3f) * 2) as u16, (second >> 25 & 0x7f) as u16, 0];
    inst.cache = (word >> 14 & 1) as u8 | ((word >> 13 & 1) as u8) << 2;
    inst.offset = ((second & 0x1f_ffff) << 11) as i32 >> 11;
    Ok(inst)
}

/// The first source of VOP1, VOP2 and VOPC: one that says that lanes are exchanged has a control word after it, which names
/// the register and the signs.
fn first_source(inst: &mut Inst, source: u32) -> Result<(), FaultKind> {
    inst.exchange = match source {
        233 => Exchange::Eights,
        234 => Exchange::EightsInactive,
        250 => Exchange::Rows,
        _ => {
            inst.src[0] = source as u16;
            return Ok(());
        }
    };
    let control = inst.words[1];
    let [_, second, _] = inst.row.shape.src;
    let wide = inst.row.shape.dst > 1 || second > 1;
    // A constant would stand where the control word does.
    let constant = matches!(inst.row.shape.extra, Extra::ConstantMiddle | Extra::ConstantLast);
    if wide
        || constant
        || ["v_cmpx", "v_fmac_dx9", "v_movrel"].iter().any(|start| inst.row.name.starts_with(start))
        || !matches!(inst.row.run, Run::Registers(_))
    {
        return Err(FaultKind::Unsupported { what: format!("{} with lanes exchanged", inst.row.name) });
    }
    (inst.src[0], inst.literal, inst.len) = (EXCHANGED, control, 2);
    inst.vectors = (control & 0xff) as u16 + 1;
    if inst.exchange == Exchange::Rows {
        inst.neg = (control >> 20 & 1) as u8 | ((control >> 22 & 1) as u8) << 1;
        inst.abs = (control >> 21 & 1) as u8 | ((control >> 23 & 1) as u8) << 1;
    }
    Ok(())
}

fn vop1(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let word = words[0];
    let mut inst = Inst::new(find([&VOP1], word >> 9 & 0xff)?, Format::Vop1, words);
    inst.dst = (word >> 17 & 0xff) as u8;
    first_source(&mut inst, word & 0x1ff)?;
    // The source is a result too.
    if inst.row.name == "v_swap_b32" && inst.src[0] < VECTOR {
        return Err(FaultKind::Unsupported { what: "v_swap_b32 with what is no vector register".to_owned() });
    }
    literal(&mut inst);
    Ok(inst)
}

fn vop2(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let word = words[0];
    let mut inst = Inst::new(find([&VOP2], word >> 25 & 0x3f)?, Format::Vop2, words);
    inst.dst = (word >> 17 & 0xff) as u8;
    first_source(&mut inst, word & 0x1ff)?;
    inst.src[1] = VECTOR + (word >> 9 & 0xff) as u16;
    implied(&mut inst);
    literal(&mut inst);
    Ok(inst)
}

/// The operands that VOP2 does not name.
fn implied(inst: &mut Inst) {
    match inst.row.shape.extra {
        Extra::Accumulates => inst.src[2] = VECTOR + u16::from(inst.dst),
        Extra::CarryIn | Extra::CarryInOut => inst.src[2] = VCC as u16,
        Extra::ConstantMiddle => inst.src = [inst.src[0], LITERAL, inst.src[1]],
        Extra::ConstantLast => inst.src[2] = LITERAL,
        _ => {}
    }
    inst.sdst = VCC as u8;
}

fn vopc(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let word = words[0];
    let mut inst = Inst::new(find(VOPC.iter().chain(&VOPCX), word >> 17 & 0xff)?, Format::Vopc, words);
    first_source(&mut inst, word & 0x1ff)?;
    inst.src[1] = VECTOR + (word >> 9 & 0xff) as u16;
    inst.sdst = VCC as u8;
    literal(&mut inst);
    Ok(inst)
}

fn vop3(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let [word, second, _] = words;
    let code = word >> 16 & 0x3ff;
    let row = match code {
        0..256 => find(VOPC.iter().chain(&VOPCX), code),
        256..384 => find([&VOP2], code - 256),
        384..512 => find([&VOP1], code - 384),
        _ => find([&VOP3, &ROWS], code),
    }?;
    if SHORT.contains(&row.name) {
        return Err(FaultKind::Unknown);
    }
    let scalar = matches!(row.shape.extra, Extra::CarryOut | Extra::CarryInOut);
    let mut inst = Inst::new(row, if scalar { Format::Vop3Sd } else { Format::Vop3 }, words);
    inst.len = 2;
    inst.dst = (word & 0xff) as u8;
    inst.src = [(second & 0x1ff) as u16, (second >> 9 & 0x1ff) as u16, (second >> 18 & 0x1ff) as u16];
    if row.shape.extra == Extra::Accumulates {
        inst.src[2] = VECTOR + u16::from(inst.dst);
    }
    for (source, registers) in inst.src.iter_mut().zip(row.shape.src) {
        // A field that is no operand may hold anything.
        if registers == 0 && row.shape.extra != Extra::Accumulates {
            *source = 0;
        }
    }
    if scalar {
        inst.sdst = (word >> 8 & 0x7f) as u8;
    } else {
        inst.sdst = inst.dst;
        inst.abs = (word >> 8 & 7) as u8;
        inst.op_sel = (word >> 11 & 15) as u8;
    }
    inst.clamp = word >> 15 & 1 != 0;
    inst.omod = (second >> 27 & 3) as u8;
    inst.neg = (second >> 29 & 7) as u8;
    literal(&mut inst);
    Ok(inst)
}

fn vop3p(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let [word, second, _] = words;
    let mut inst = Inst::new(find([&super::packed::VOP3P], word >> 16 & 0x7f)?, Format::Vop3p, words);
    inst.len = 2;
    inst.dst = (word & 0xff) as u8;
    inst.src = [(second & 0x1ff) as u16, (second >> 9 & 0x1ff) as u16, (second >> 18 & 0x1ff) as u16];
    for (source, registers) in inst.src.iter_mut().zip(inst.row.shape.src) {
        if registers == 0 {
            *source = 0;
        }
    }
    inst.abs = (word >> 8 & 7) as u8;
    inst.op_sel = (word >> 11 & 7) as u8;
    inst.op_sel_hi = (second >> 27 & 3) as u8 | ((word >> 14 & 1) as u8) << 2;
    inst.clamp = word >> 15 & 1 != 0;
    inst.neg = (second >> 29 & 7) as u8;
    literal(&mut inst);
    Ok(inst)
}

/// The row of one half of VOPD.
fn half(code: u32, limit: u32) -> Result<&'static Row, FaultKind> {
    let found = DUAL.iter().find(|(number, _)| u32::from(*number) == code && code < limit);
    match found.ok_or(FaultKind::Unknown)?.1 {
        MOVE => find([&VOP1], 1),
        code => find([&VOP2], u32::from(code)),
    }
}

fn vopd(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let [word, second, _] = words;
    let mut x = Inst::new(half(word >> 22 & 15, 16)?, Format::Vopd, words);
    let mut y = Inst::new(half(word >> 17 & 31, 32)?, Format::Vopd, words);
    x.dst = (second >> 24) as u8;
    // Of the second destination the lowest bit is the other one.
    y.dst = (second >> 16 & 0xfe) as u8 | (!x.dst & 1);
    x.src = [(word & 0x1ff) as u16, VECTOR + (word >> 9 & 0xff) as u16, 0];
    y.src = [(second & 0x1ff) as u16, VECTOR + (second >> 9 & 0xff) as u16, 0];
    for half in [&mut x, &mut y] {
        half.len = 2;
        implied(half);
        if half.row.shape.src[1] == 0 {
            half.src[1] = 0;
        }
        half.vectors = vectors(half);
    }
    if x.src.contains(&LITERAL) || y.src.contains(&LITERAL) {
        x.len = 3;
        (x.literal, y.literal) = (words[2], words[2]);
    }
    x.vectors = x.vectors.max(y.vectors);
    x.second = Some(Box::new(y));
    Ok(x)
}

fn ds(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let [word, second, _] = words;
    if word >> 17 & 1 != 0 {
        return Err(FaultKind::Unsupported { what: "global data share".to_owned() });
    }
    let mut inst = Inst::new(find([&DS, &DS_MORE, &SWIZZLE], word >> 18 & 0xff)?, Format::Ds, words);
    inst.len = 2;
    inst.offset = (word & 0xffff) as i32;
    inst.src =
        [VECTOR + (second & 0xff) as u16, VECTOR + (second >> 8 & 0xff) as u16, VECTOR + (second >> 16 & 0xff) as u16];
    inst.dst = (second >> 24) as u8;
    Ok(inst)
}

fn flat(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let [word, second, _] = words;
    let format = match word >> 16 & 3 {
        0 => Format::Flat,
        1 => Format::Scratch,
        2 => Format::Global,
        _ => return Err(FaultKind::Unknown),
    };
    let mut inst = Inst::new(find([&VMEM], word >> 18 & 0x7f)?, format, words);
    if format == Format::Scratch && inst.row.name.starts_with("atomic") {
        return Err(FaultKind::Unknown);
    }
    inst.len = 2;
    inst.offset = ((word & 0x1fff) << 19) as i32 >> 19;
    inst.cache = (word >> 14 & 1) as u8 | ((word >> 15 & 1) as u8) << 1 | ((word >> 13 & 1) as u8) << 2;
    inst.src = [VECTOR + (second & 0xff) as u16, VECTOR + (second >> 8 & 0xff) as u16, 0];
    inst.sdst = (second >> 16 & 0x7f) as u8;
    inst.dst = (second >> 24) as u8;
    let wide_address = u16::from(inst.sdst == 124 && format != Format::Scratch);
    inst.vectors = inst.src[0] - VECTOR + 1 + wide_address;
    if format == Format::Scratch && second >> 23 & 1 == 0 {
        // Without the bit SVE no vector register is of the address.
        (inst.src[0], inst.vectors) = (NULL as u16, 0);
    }
    Ok(inst)
}

fn mubuf(words: [u32; WORDS]) -> Result<Inst, FaultKind> {
    let mut inst = Inst::new(find([&MUBUF], words[0] >> 18 & 0xff)?, Format::Mubuf, words);
    inst.len = 2;
    Ok(inst)
}
