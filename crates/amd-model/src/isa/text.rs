//! Instructions as llvm-objdump 19 writes them.

use super::exchange::Exchange;
use super::inst::{Extra, Format, Inst};
use super::scalar::GET_REALTIME;
use super::wave::{EXCHANGED, LITERAL, VECTOR};
use std::fmt::{self, Display, Formatter, Write};

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.format {
            Format::Sopp => control(self, f),
            Format::Sopk => constant(self, f),
            Format::Smem => scalar_load(self, f),
            Format::Ds => group_memory(self, f),
            Format::Flat | Format::Global | Format::Scratch => vector_memory(self, f),
            Format::Vopd => dual(self, f),
            Format::Mubuf => f.write_str(self.row.name),
            _ => arithmetic(self, f),
        }
    }
}

/// Registers of one kind, as one or as a range.
fn registers(prefix: &str, first: u16, count: u8) -> String {
    match count {
        0 | 1 => format!("{prefix}{first}"),
        _ => format!("{prefix}[{first}:{}]", first + u16::from(count) - 1),
    }
}

/// A scalar register or a special value by its operand number.
fn scalar(operand: u16, count: u8) -> String {
    let name = match (operand, count) {
        (106, 2) => "vcc",
        (126, 2) => "exec",
        (106, _) => "vcc_lo",
        (107, _) => "vcc_hi",
        (124, _) => "null",
        (125, _) => "m0",
        (126, _) => "exec_lo",
        (127, _) => "exec_hi",
        (235, _) => "src_shared_base",
        (236, _) => "src_shared_limit",
        (237, _) => "src_private_base",
        (238, _) => "src_private_limit",
        (239, _) => "src_pops_exiting_wave_id",
        (251, _) => "src_vccz",
        (252, _) => "src_execz",
        (253, _) => "src_scc",
        (240, _) => "0.5",
        (241, _) => "-0.5",
        (242, _) => "1.0",
        (243, _) => "-1.0",
        (244, _) => "2.0",
        (245, _) => "-2.0",
        (246, _) => "4.0",
        (247, _) => "-4.0",
        (248, 2) => "0.15915494309189532",
        (248, _) => "0.15915494",
        _ => "",
    };
    match operand {
        _ if !name.is_empty() => name.to_owned(),
        0..=105 => registers("s", operand, count),
        108..=123 => registers("ttmp", operand - 108, count),
        128..=192 => (operand - 128).to_string(),
        193..=208 => (192 - i32::from(operand)).to_string(),
        _ => format!("src_{operand}"),
    }
}

/// The constant that follows. One that needs no word of its own is written as if it had none, save where it always has.
fn following(inst: &Inst, n: usize) -> String {
    let always = matches!((inst.row.shape.extra, n), (Extra::ConstantMiddle, 1) | (Extra::ConstantLast, 2));
    match inst.literal as i32 {
        value if inst.takes16(n) && !always => format!("{:#x}", value & 0xffff),
        value @ -16..=64 if !always => value.to_string(),
        value => format!("{value:#x}"),
    }
}

/// Source `n`, without changes of its sign.
fn operand(inst: &Inst, n: usize) -> String {
    let (operand, count) = (inst.src[n], inst.row.shape.src[n]);
    match operand {
        LITERAL => following(inst, n),
        VECTOR.. => registers("v", operand - VECTOR, count),
        EXCHANGED => registers("v", (inst.literal & 0xff) as u16, 1),
        _ => scalar(operand, count),
    }
}

/// A source with its sign's changes. VOP3P writes these after the operands.
fn source(inst: &Inst, n: usize) -> String {
    let text = operand(inst, n);
    if inst.format == Format::Vop3p {
        return text;
    }
    let text = if inst.abs >> n & 1 != 0 { format!("|{text}|") } else { text };
    match inst.neg >> n & 1 {
        0 => text,
        _ if inst.src[n] < VECTOR && inst.src[n] > 127 && inst.src[n] != EXCHANGED && inst.abs >> n & 1 == 0 => {
            format!("neg({text})")
        }
        _ => format!("-{text}"),
    }
}

/// Writes operands with commas between them.
fn list(f: &mut Formatter<'_>, operands: &[String]) -> fmt::Result {
    for (n, operand) in operands.iter().enumerate() {
        write!(f, "{}{operand}", if n == 0 { " " } else { ", " })?;
    }
    Ok(())
}

/// The suffix that tells encodings of one name apart.
fn suffix(inst: &Inst) -> &'static str {
    let code = inst.words[0] >> 16 & 0x3ff;
    match inst.format {
        Format::Vopc if inst.exchange != Exchange::None => "",
        _ if inst.exchange != Exchange::None => "_dpp",
        Format::Vop1 if ["v_nop", "v_swap_b32", "v_readfirstlane_b32"].contains(&inst.row.name) => "",
        Format::Vop1 | Format::Vopc => "_e32",
        Format::Vop2 if !matches!(inst.row.shape.extra, Extra::ConstantMiddle | Extra::ConstantLast) => "_e32",
        Format::Vop3 | Format::Vop3Sd if code < 512 && inst.row.name != "v_nop" => "_e64",
        _ => "",
    }
}

/// A message with an answer, by its number.
fn message(number: u16) -> String {
    let name = match number {
        128 => "MSG_RTN_GET_DOORBELL",
        129 => "MSG_RTN_GET_DDID",
        130 => "MSG_RTN_GET_TMA",
        GET_REALTIME => "MSG_RTN_GET_REALTIME",
        132 => "MSG_RTN_SAVE_WAVE",
        133 => "MSG_RTN_GET_TBA",
        _ => return format!("{number:#x}"),
    };
    format!("sendmsg({name})")
}

fn arithmetic(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let shape = inst.row.shape;
    write!(f, "{}{}", inst.row.name, suffix(inst))?;
    let scalar_format = matches!(inst.format, Format::Sop1 | Format::Sop2 | Format::Sopc);
    let mut operands = Vec::new();
    if shape.dst > 0 {
        let register = u16::from(inst.dst);
        let vector = !scalar_format && shape.extra.vector_dst();
        operands.push(if vector { registers("v", register, shape.dst) } else { scalar(register, shape.dst) });
    }
    let compares = inst.row.name.starts_with("v_cmp_");
    if compares || matches!(shape.extra, Extra::CarryOut | Extra::CarryInOut) {
        operands.push(scalar(u16::from(inst.sdst), 1));
    }
    operands.extend((0..3).filter(|&n| shape.src[n] > 0).map(|n| source(inst, n)));
    if inst.row.name.starts_with("s_sendmsg_rtn") {
        operands.push(message(inst.src[0]));
    }
    list(f, &operands)?;
    if inst.format == Format::Vop3p {
        packed(inst, f)?;
    } else if inst.op_sel != 0 {
        let sources = shape.src.iter().filter(|&&count| count > 0).count();
        let permutes = inst.row.name.starts_with("v_permlane");
        let shown = if permutes { vec![0, 1] } else { (0..sources).chain([3]).collect() };
        let halves: Vec<u8> = shown.into_iter().map(|n| inst.op_sel >> n & 1).collect();
        bits(f, "op_sel", &halves)?;
    }
    exchange(inst, f)?;
    if inst.clamp {
        f.write_str(" clamp")?;
    }
    f.write_str(["", " mul:2", " mul:4", " div:2"][usize::from(inst.omod)])
}

/// How lanes are exchanged.
fn exchange(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let control = inst.literal;
    if matches!(inst.exchange, Exchange::Eights | Exchange::EightsInactive) {
        let lanes: Vec<String> = (0..8).map(|n| (control >> (8 + 3 * n) & 7).to_string()).collect();
        write!(f, " dpp8:[{}]", lanes.join(","))?;
        return f.write_str(if inst.exchange == Exchange::Eights { "" } else { " fi:1" });
    }
    if inst.exchange == Exchange::None {
        return Ok(());
    }
    let (pattern, n) = (control >> 8 & 0x1ff, control >> 8 & 15);
    match pattern {
        0..=0xff => {
            let lanes: Vec<String> = (0..4).map(|n| (pattern >> (2 * n) & 3).to_string()).collect();
            write!(f, " quad_perm:[{}]", lanes.join(","))
        }
        0x101..=0x10f => write!(f, " row_shl:{n}"),
        0x111..=0x11f => write!(f, " row_shr:{n}"),
        0x121..=0x12f => write!(f, " row_ror:{n}"),
        0x140 => f.write_str(" row_mirror"),
        0x141 => f.write_str(" row_half_mirror"),
        0x150..=0x15f => write!(f, " row_share:{n}"),
        0x160..=0x16f => write!(f, " row_xmask:{n}"),
        _ => write!(f, " /* Invalid dpp_ctrl value */"),
    }?;
    write!(f, " row_mask:{:#x} bank_mask:{:#x}", control >> 28, control >> 24 & 15)?;
    f.write_str(if control >> 19 & 1 != 0 { " bound_ctrl:1" } else { "" })?;
    f.write_str(if control >> 18 & 1 != 0 { " fi:1" } else { "" })
}

/// The halves and signs of VOP3P, where they are not the usual ones.
fn packed(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let sources = inst.row.shape.src.iter().filter(|&&count| count > 0).count();
    let of = |mask: u8| (0..sources).map(|n| mask >> n & 1).collect::<Vec<u8>>();
    for (name, mask, usual) in
        [("op_sel", inst.op_sel, 0), ("op_sel_hi", inst.op_sel_hi, 7), ("neg_lo", inst.neg, 0), ("neg_hi", inst.abs, 0)]
    {
        let mixes = inst.row.name.starts_with("v_fma_mix");
        let usual = if mixes { 0 } else { usual };
        if of(mask) != of(usual) && !(mixes && name.starts_with("neg")) {
            bits(f, name, &of(mask))?;
        }
    }
    Ok(())
}

fn bits(f: &mut Formatter<'_>, name: &str, bits: &[u8]) -> fmt::Result {
    let bits: Vec<String> = bits.iter().map(u8::to_string).collect();
    write!(f, " {name}:[{}]", bits.join(","))
}

fn dual(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let half = |inst: &Inst, f: &mut Formatter<'_>| {
        write!(f, "v_dual_{}", inst.row.name.trim_start_matches("v_"))?;
        let sources = (0..3).filter(|&n| inst.row.shape.src[n] > 0 && inst.row.shape.extra != Extra::CarryIn || n < 2);
        let mut operands = vec![registers("v", u16::from(inst.dst), 1)];
        operands.extend(sources.filter(|&n| inst.row.shape.src[n] > 0).map(|n| source(inst, n)));
        list(f, &operands)
    };
    half(inst, f)?;
    match &inst.second {
        None => Ok(()),
        Some(second) => {
            f.write_str(" :: ")?;
            half(second, f)
        }
    }
}

fn control(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let value = inst.literal & 0xffff;
    f.write_str(inst.row.name)?;
    match inst.row.name {
        "s_barrier" | "s_code_end" | "s_wait_idle" => Ok(()),
        "s_endpgm" if value == 0 => Ok(()),
        "s_clause" | "s_set_inst_prefetch_distance" | "s_round_mode" => write!(f, " {value:#x}"),
        "s_delay_alu" => delay(value, f),
        "s_waitcnt" => waits(value, f),
        "s_waitcnt_depctr" => dependences(value, f),
        "s_sendmsg" => match value {
            1 => f.write_str(" sendmsg(MSG_INTERRUPT)"),
            3 => f.write_str(" sendmsg(MSG_DEALLOC_VGPRS)"),
            _ => write!(f, " {value:#x}"),
        },
        "s_nop" | "s_sleep" | "s_trap" | "s_setprio" if value > 64 => write!(f, " {value:#x}"),
        _ => write!(f, " {value}"),
    }
}

fn delay(value: u32, f: &mut Formatter<'_>) -> fmt::Result {
    const WHAT: [&str; 12] = [
        "NO_DEP",
        "VALU_DEP_1",
        "VALU_DEP_2",
        "VALU_DEP_3",
        "VALU_DEP_4",
        "TRANS32_DEP_1",
        "TRANS32_DEP_2",
        "TRANS32_DEP_3",
        "FMA_ACCUM_CYCLE_1",
        "SALU_CYCLE_1",
        "SALU_CYCLE_2",
        "SALU_CYCLE_3",
    ];
    const SKIP: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];
    let parts = [
        ("instid0", value & 15, &WHAT[..]),
        ("instskip", value >> 4 & 7, &SKIP[..]),
        ("instid1", value >> 7 & 15, &WHAT[..]),
    ];
    let shown = parts.iter().filter(|(_, value, _)| *value != 0);
    let shown: Vec<String> =
        shown.map(|(name, value, names)| format!("{name}({})", names.get(*value as usize).unwrap_or(&"?"))).collect();
    if shown.is_empty() { f.write_str(" 0") } else { write!(f, " {}", shown.join(" | ")) }
}

fn waits(value: u32, f: &mut Formatter<'_>) -> fmt::Result {
    let counters = [("vmcnt", value >> 10 & 63, 63), ("expcnt", value & 7, 7), ("lgkmcnt", value >> 4 & 63, 63)];
    let all = counters.iter().all(|(_, count, most)| count == most);
    let mut shown = counters.iter().filter(|(_, count, most)| all || count != most);
    shown.try_for_each(|(name, count, _)| write!(f, " {name}({count})"))
}

fn dependences(value: u32, f: &mut Formatter<'_>) -> fmt::Result {
    let counters = [
        ("hold_cnt", value >> 7 & 1, 1),
        ("sa_sdst", value & 1, 1),
        ("va_vdst", value >> 12 & 15, 15),
        ("va_sdst", value >> 9 & 7, 7),
        ("va_ssrc", value >> 8 & 1, 1),
        ("va_vcc", value >> 1 & 1, 1),
        ("vm_vsrc", value >> 2 & 7, 7),
    ];
    if value & 0x60 != 0 {
        return write!(f, " {value:#x}");
    }
    let all = counters.iter().all(|(_, count, most)| count == most);
    let mut shown = counters.iter().filter(|(_, count, most)| all || count != most);
    shown.try_for_each(|(name, count, _)| write!(f, " depctr_{name}({count})"))
}

/// The part of a hardware register that the constant names.
fn hardware(value: u32) -> String {
    let (register, offset, width) = (value & 63, value >> 6 & 31, (value >> 11 & 31) + 1);
    let name = match register {
        1 => "HW_REG_MODE".to_owned(),
        2 => "HW_REG_STATUS".to_owned(),
        15 => "HW_REG_SH_MEM_BASES".to_owned(),
        29 => "HW_REG_SHADER_CYCLES".to_owned(),
        _ => register.to_string(),
    };
    if (offset, width) == (0, 32) { format!("hwreg({name})") } else { format!("hwreg({name}, {offset}, {width})") }
}

fn constant(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let (value, register) = (inst.literal & 0xffff, scalar(u16::from(inst.dst), 1));
    f.write_str(inst.row.name)?;
    match inst.row.name {
        "s_version" => write!(f, " {value:#x}"),
        "s_getreg_b32" => write!(f, " {register}, {}", hardware(value)),
        "s_setreg_b32" => write!(f, " {}, {register}", hardware(value)),
        "s_setreg_imm32_b32" => write!(f, " {}, {:#x}", hardware(value), inst.offset),
        _ => write!(f, " {register}, {value:#x}"),
    }
}

fn caches(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    for (n, name) in ["glc", "slc", "dlc"].into_iter().enumerate() {
        if inst.cache >> n & 1 != 0 {
            write!(f, " {name}")?;
        }
    }
    Ok(())
}

fn scalar_load(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(inst.row.name)?;
    if inst.row.shape.dst == 0 {
        return Ok(());
    }
    let (to, base) = (scalar(u16::from(inst.dst), inst.row.shape.dst), scalar(inst.src[0], 2));
    write!(f, " {to}, {base}, ")?;
    let mut offset = String::new();
    let sign = if inst.offset < 0 { "-" } else { "" };
    write!(offset, "{sign}{:#x}", inst.offset.unsigned_abs())?;
    match (inst.src[1], inst.offset) {
        (124, 0) => f.write_str("null"),
        (124, _) => f.write_str(&offset),
        (register, 0) => f.write_str(&scalar(register, 1)),
        (register, _) => write!(f, "{} offset:{offset}", scalar(register, 1)),
    }?;
    caches(inst, f)
}

fn group_memory(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let shape = inst.row.shape;
    f.write_str(inst.row.name)?;
    let mut operands = Vec::new();
    if shape.dst > 0 {
        operands.push(registers("v", u16::from(inst.dst), shape.dst));
    }
    operands.extend((0..3).filter(|&n| shape.src[n] > 0).map(|n| source(inst, n)));
    list(f, &operands)?;
    if inst.row.name == "ds_swizzle_b32" {
        return swizzle(inst.offset as u32, f);
    }
    let parts = if inst.row.name.contains("2addr") {
        [("offset0", inst.offset & 0xff), ("offset1", inst.offset >> 8 & 0xff)]
    } else {
        [("offset", inst.offset), ("", 0)]
    };
    for (name, value) in parts.into_iter().filter(|(_, value)| *value != 0) {
        write!(f, " {name}:{value}")?;
    }
    Ok(())
}

fn swizzle(pattern: u32, f: &mut Formatter<'_>) -> fmt::Result {
    let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
    let group = 32 - and;
    if pattern == 0 {
        Ok(())
    } else if pattern & 0xff00 == 0x8000 {
        let lane = |n: u32| pattern >> (2 * n) & 3;
        write!(f, " offset:swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3))
    } else if pattern & 1 << 15 != 0 {
        write!(f, " offset:{pattern}")
    } else if and == 31 && or == 0 && xor.count_ones() == 1 {
        write!(f, " offset:swizzle(SWAP,{xor})")
    } else if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        write!(f, " offset:swizzle(REVERSE,{})", xor + 1)
    } else if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        write!(f, " offset:swizzle(BROADCAST,{group},{or})")
    } else {
        let letter = |n: u32| {
            let [p0, p1] = [0, 1 << n].map(|bit| ((bit & and | or) ^ xor) >> n & 1);
            match (p0, p1) {
                (0, 0) => '0',
                (1, 1) => '1',
                (0, _) => 'p',
                _ => 'i',
            }
        };
        let letters: String = (0..5).rev().map(letter).collect();
        write!(f, " offset:swizzle(BITMASK_PERM,\"{letters}\")")
    }
}

fn vector_memory(inst: &Inst, f: &mut Formatter<'_>) -> fmt::Result {
    let shape = inst.row.shape;
    let prefix = match inst.format {
        Format::Global => "global",
        Format::Scratch => "scratch",
        _ => "flat",
    };
    write!(f, "{prefix}_{}", inst.row.name)?;
    let mut operands = Vec::new();
    if shape.dst > 0 && (!inst.row.name.starts_with("atomic") || inst.cache & 1 != 0) {
        operands.push(registers("v", u16::from(inst.dst), shape.dst));
    }
    let address = if inst.sdst == 124 && inst.format != Format::Scratch { 2 } else { 1 };
    operands.push(match inst.src[0] {
        VECTOR.. => registers("v", inst.src[0] - VECTOR, address),
        _ => "off".to_owned(),
    });
    if shape.src[1] > 0 {
        operands.push(source(inst, 1));
    }
    if inst.format != Format::Flat {
        let count = if inst.format == Format::Scratch { 1 } else { 2 };
        operands.push(if inst.sdst == 124 { "off".to_owned() } else { scalar(u16::from(inst.sdst), count) });
    }
    list(f, &operands)?;
    if inst.offset != 0 {
        write!(f, " offset:{}", inst.offset)?;
    }
    caches(inst, f)
}
