//! A decoded instruction, and the rows of the tables that say what each opcode is called and does.

use super::bus::Bus;
use super::exchange::Exchange;
use super::fault::FaultKind;
use super::wave::Wave;

/// What an instruction does.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// It changes registers alone.
    Registers(fn(&mut Wave, &Inst)),
    /// It reaches memory.
    Memory(fn(&mut Wave, &Inst, &mut Outside<'_>) -> Result<(), FaultKind>),
    /// It steers the wave.
    Control(fn(&mut Wave, &Inst) -> Result<Flow, FaultKind>),
}

/// What the wave does after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// It goes on.
    Next,
    /// It lets others go first.
    Yield,
    /// It waits for the other waves of its group.
    Barrier,
    /// It has ended.
    End,
}

/// What is outside a wave's registers.
pub(super) struct Outside<'a> {
    /// Global memory.
    pub bus: &'a mut dyn Bus,
    /// Group memory.
    pub group: &'a mut [u8],
}

/// One opcode of one format.
pub(super) struct Row {
    /// The opcode in its format.
    pub code: u16,
    /// Its name, without the suffix that tells encodings apart.
    pub name: &'static str,
    /// Registers of the destination and of each source, of 32 bits.
    pub shape: Shape,
    /// What it does.
    pub run: Run,
}

/// How many registers of 32 bits an instruction's operands have; 0 means that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The destination.
    pub dst: u8,
    /// The sources.
    pub src: [u8; 3],
    /// What else stands among the operands.
    pub extra: Extra,
}

/// Operands beside the usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    /// None.
    None,
    /// The destination is read too (fmac): its registers count among the sources.
    Accumulates,
    /// A mask of lanes comes out (vcc in VOP2).
    CarryOut,
    /// A mask of lanes goes in (vcc in VOP2) as the last source.
    CarryIn,
    /// Both.
    CarryInOut,
    /// The destination is a scalar register.
    ScalarDst,
    /// A constant of 32 bits stands between the sources (fmamk).
    ConstantMiddle,
    /// A constant of 32 bits is the last source (fmaak).
    ConstantLast,
}

/// The formats of machine words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    /// VOP3 with a scalar destination.
    Vop3Sd,
    Vop3p,
    Vopd,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
}

/// A decoded instruction. Sources are numbered as in the machine word: 0 to 127 scalar registers, 128 to 255 constants and
/// special values, 256 and up vector registers.
#[derive(Clone)]
pub(super) struct Inst {
    /// The opcode's row.
    pub row: &'static Row,
    /// Its format.
    pub format: Format,
    /// Words that it takes, 1 to 3.
    pub len: u8,
    /// The destination's number: a scalar register's, or a vector register's without the 256.
    pub dst: u8,
    /// The scalar destination beside it (VOP3 with carry), or the scalar base (memory).
    pub sdst: u8,
    /// The sources.
    pub src: [u16; 3],
    /// The constant that follows the instruction, or an immediate of 16 bits, sign-extended.
    pub literal: u32,
    /// Sources to negate, by bit.
    pub neg: u8,
    /// Sources whose sign goes first, by bit. In VOP3P: sources whose high half is negated.
    pub abs: u8,
    /// Halves to take and to write, by bit.
    pub op_sel: u8,
    /// VOP3P: the half that the high result takes of each source, by bit.
    pub op_sel_hi: u8,
    /// The result is clamped.
    pub clamp: bool,
    /// The result is multiplied: 1 by 2, 2 by 4, 3 by a half.
    pub omod: u8,
    /// Memory: added to the address, in bytes; of DS, both offsets of 8 bits.
    pub offset: i32,
    /// Memory: bit 0 glc, 1 slc, 2 dlc.
    pub cache: u8,
    /// One more than the highest vector register that the operands name.
    pub vectors: u16,
    /// How the first source is exchanged between lanes.
    pub exchange: Exchange,
    /// The words.
    pub words: [u32; 3],
    /// The second instruction of VOPD.
    pub second: Option<Box<Inst>>,
}

impl Inst {
    /// An instruction without operands.
    pub(super) fn new(row: &'static Row, format: Format, words: [u32; 3]) -> Self {
        Self {
            row,
            format,
            len: 1,
            dst: 0,
            sdst: 0,
            src: [0; 3],
            literal: 0,
            neg: 0,
            abs: 0,
            op_sel: 0,
            op_sel_hi: 0,
            clamp: false,
            omod: 0,
            offset: 0,
            cache: 0,
            vectors: 0,
            exchange: Exchange::None,
            words,
            second: None,
        }
    }
}

impl Inst {
    /// Whether source `n` has 16 bits.
    pub(super) fn takes16(&self, n: usize) -> bool {
        match self.row.name {
            "v_mad_u32_u16" | "v_mad_i32_i16" => n < 2,
            name => name.starts_with("v_") && ["_f16", "_i16", "_u16", "_b16"].iter().any(|end| name.ends_with(end)),
        }
    }
}

/// A shape without extras.
pub(super) const fn shape(dst: u8, src: [u8; 3]) -> Shape {
    Shape { dst, src, extra: Extra::None }
}

/// A shape with an extra.
pub(super) const fn with(dst: u8, src: [u8; 3], extra: Extra) -> Shape {
    Shape { dst, src, extra }
}

/// A row that changes registers alone.
pub(super) const fn row(code: u16, name: &'static str, shape: Shape, run: fn(&mut Wave, &Inst)) -> Row {
    Row { code, name, shape, run: Run::Registers(run) }
}

/// A row that steers the wave.
pub(super) const fn control(
    code: u16,
    name: &'static str,
    shape: Shape,
    run: fn(&mut Wave, &Inst) -> Result<Flow, FaultKind>,
) -> Row {
    Row { code, name, shape, run: Run::Control(run) }
}

/// A row that reaches memory.
pub(super) const fn memory(
    code: u16,
    name: &'static str,
    shape: Shape,
    run: fn(&mut Wave, &Inst, &mut Outside<'_>) -> Result<(), FaultKind>,
) -> Row {
    Row { code, name, shape, run: Run::Memory(run) }
}
