//! Proofs that no thread of a group leaves the bound buffers, as IR text.
//!
//! A kernel whose threads never meet has two loops over a group's threads: one whose accesses are checked each, and one
//! whose are not. The second is a plain loop that LLVM runs several threads of at once. It runs where the proof holds: a
//! function, made from the kernel, that answers whether all accesses that any thread may make lie within what their
//! pointers may reach.
//!
//! # How it is proved
//!
//! An access is a root and an offset. A root is the same for all threads: a buffer argument, or a pointer in constant
//! memory at a constant offset from a root. An offset is a sum of constants and of indices times strides, and an index
//! is computed from a thread's place, and from numbers in constant memory, by operations that never decrease where their
//! operands increase. So the offset at the greatest places bounds them all, if no step of its computation wraps; and it
//! starts at the root, so none lies before. Alignment is proved by the root's and by the constants and strides. What holds for a group holds for all groups before it on every axis.
//! A kernel in which some access is not of this kind has no proof, and its checked loop alone.
//!
//! Conditions are ignored: what a guard would keep from happening must lie in bounds too, else the checked loop decides.

use std::collections::HashMap;
use std::fmt::Write;
use std::mem::offset_of;

use llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMTypeKind};

use super::abi::{GroupContext, SLOTS};
use super::entry;
use super::llvm::{Machine, Module, Type, Value};
use super::metadata::Facts;
use super::specialize;
use super::translate;
use crate::address::GPU_BIAS;
use crate::checks::alignment;
use crate::metadata::ArgumentKind;

/// Answers whether the threads of all groups up to a place stay in bounds: `i1 (ptr group, i32 x, i32 y, i32 z)`.
pub(crate) const PROOF: &str = "rig_proof";

/// The loop over a group's threads whose accesses are not checked.
pub(crate) const ENTRY: &str = "rig_group_proved";

/// The kernel that it calls.
const KERNEL: &str = "rig_kernel_proved";

/// A root: the names of its address and of the bytes from there to the end of what it may reach.
#[derive(Clone)]
struct Root {
    address: String,
    left: String,
}

struct Proof<'a, 'c> {
    module: &'a Module<'c>,
    /// The argument that each parameter is.
    kinds: HashMap<Value<'c>, &'a ArgumentKind>,
    text: String,
    count: usize,
    /// What must hold, by name.
    conditions: Vec<String>,
    bounds: HashMap<Value<'c>, String>,
    roots: HashMap<Value<'c>, Root>,
}

/// The text of the proof for a kernel; nothing where there is none.
fn text<'c>(module: &Module<'c>, kernel: Value<'c>, facts: &Facts<'c>) -> Option<String> {
    let params = kernel.params();
    let pairs = facts.reflection.arguments.iter().zip(&facts.parameters);
    let kinds = pairs.map(|(argument, &parameter)| (params[parameter], &argument.kind)).collect();
    let (conditions, bounds, roots) = (Vec::new(), HashMap::new(), HashMap::new());
    let mut proof = Proof { module, kinds, text: String::new(), count: 0, conditions, bounds, roots };
    for instruction in kernel.instructions() {
        proof.instruction(instruction)?;
    }
    Some(proof.finish())
}

/// A second kernel beside a module's own, whose accesses are not checked, and the proof that allows it: a module of both,
/// the kernel under the name [`KERNEL`]. Nothing where there is no proof.
pub(crate) fn second<'c>(
    module: &Module<'c>,
    machine: &Machine,
    facts: &Facts<'c>,
) -> Result<Option<Module<'c>>, String> {
    let copy = module.context().parse_bitcode(&module.bitcode())?;
    let kernel = copy.function(specialize::KERNEL).ok_or("the kernel is gone")?;
    kernel.rename(KERNEL);
    copy.run_passes("function(sroa,early-cse,simplifycfg,instcombine)", machine)?;
    let Some(proof) = text(&copy, kernel, facts) else { return Ok(None) };
    let params = kernel.params();
    let entry = entry::group_loop(facts, &params, ENTRY, KERNEL, &format!("\"{}\"", super::abi::UNCHECKED))?;
    for text in [proof, entry] {
        let text = module.context().parse_text(&text)?;
        text.retarget(machine);
        copy.link(text)?;
    }
    kernel.set_linkage(LLVMLinkage::LLVMInternalLinkage);
    kernel.add_attribute(module.context().enum_attribute("alwaysinline"));
    Ok(Some(copy))
}

impl<'c> Proof<'_, 'c> {
    fn finish(mut self) -> String {
        let mut all = "true".to_owned();
        for condition in std::mem::take(&mut self.conditions) {
            all = self.set(&format!("and i1 {all}, {condition}"));
        }
        let mut text = format!(
            "@rig_nothing = private constant [8 x i8] zeroinitializer\n\
             declare {{ i64, i64 }} @rig_reach(i64) nounwind willreturn memory(none)\n\
             declare i64 @llvm.uadd.sat.i64(i64, i64)\ndeclare i64 @llvm.usub.sat.i64(i64, i64)\n\
             declare i64 @llvm.umin.i64(i64, i64)\ndeclare i64 @llvm.umax.i64(i64, i64)\n\
             declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)\n\
             define i1 @{PROOF}(ptr noalias %group, i32 %place_x, i32 %place_y, i32 %place_z) {{\n"
        );
        entry::greatest(&mut text);
        text.push_str(&self.text);
        let _ = write!(text, "  ret i1 {all}\n}}\n!0 = !{{}}\n");
        text
    }

    /// Names the result of an operation.
    fn set(&mut self, operation: &str) -> String {
        self.count += 1;
        let name = format!("%p{}", self.count);
        let _ = writeln!(self.text, "  {name} = {operation}");
        name
    }

    fn require(&mut self, comparison: &str) {
        let condition = self.set(comparison);
        self.conditions.push(condition);
    }

    /// What one instruction asks for.
    fn instruction(&mut self, instruction: Value<'c>) -> Option<()> {
        let operands = instruction.operands();
        let bytes = match instruction.opcode() {
            LLVMOpcode::LLVMLoad => self.module.size_of(instruction.kind()),
            LLVMOpcode::LLVMStore => self.module.size_of(operands[0].kind()),
            LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg => self.module.size_of(operands[1].kind()),
            // Variables of the thread, and what the passes did not make values, are left to the checked loop.
            LLVMOpcode::LLVMAlloca => return None,
            LLVMOpcode::LLVMCall => match translate::pointers(instruction) {
                [] => return Some(()),
                _ => operands[2].constant_int()?,
            },
            _ => return Some(()),
        };
        let align = match instruction.opcode() {
            LLVMOpcode::LLVMCall => 1,
            _ => alignment(instruction).max(1),
        };
        for &at in translate::pointers(instruction) {
            self.access(operands[at as usize], bytes, align)?;
        }
        Some(())
    }

    /// What an access of so many bytes, at addresses that are multiples of `align`, asks for.
    fn access(&mut self, pointer: Value<'c>, bytes: u64, align: u64) -> Option<()> {
        matches!(pointer.kind().space(), Some(1 | 2)).then_some(())?;
        let mut constant = bytes;
        let mut terms = Vec::new();
        let mut at = pointer;
        while let Some(step) = self.module.address_step(at) {
            constant = constant.checked_add(step.constant)?;
            terms.extend(step.terms);
            at = step.base;
        }
        // Steps that are multiples of the alignment leave it to the root and the constant.
        terms.iter().all(|(stride, _)| stride.is_multiple_of(align)).then_some(())?;
        let root = self.root(at)?;
        if align > 1 {
            let start = self.set(&format!("add i64 {}, {}", root.address, constant - bytes));
            let beside = self.set(&format!("and i64 {start}, {}", align - 1));
            self.require(&format!("icmp eq i64 {beside}, 0"));
        }
        let mut end = constant.to_string();
        for (stride, index) in terms {
            let index = self.index(index)?;
            let offset = self.times(&index, &stride.to_string());
            end = self.plus(&end, &offset);
        }
        self.require(&format!("icmp ule i64 {end}, {}", root.left));
        Some(())
    }

    /// The bound of an index of an address, which is extended with its sign.
    fn index(&mut self, index: Value<'c>) -> Option<String> {
        let bound = self.bound(index)?;
        let bits = index.kind().bits()?;
        self.require(&format!("icmp ult i64 {bound}, {}", 1_u64 << (bits.min(64) - 1)));
        Some(bound)
    }

    fn plus(&mut self, one: &str, other: &str) -> String {
        self.set(&format!("call i64 @llvm.uadd.sat.i64(i64 {one}, i64 {other})"))
    }

    fn times(&mut self, one: &str, other: &str) -> String {
        let both = self.set(&format!("call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 {one}, i64 {other})"));
        let over = self.set(&format!("extractvalue {{ i64, i1 }} {both}, 1"));
        let product = self.set(&format!("extractvalue {{ i64, i1 }} {both}, 0"));
        self.set(&format!("select i1 {over}, i64 -1, i64 {product}"))
    }

    /// A pointer that is the same for all threads.
    fn root(&mut self, pointer: Value<'c>) -> Option<Root> {
        if let Some(root) = self.roots.get(&pointer) {
            return Some(root.clone());
        }
        let root = if let Some(step) = self.module.address_step(pointer) {
            step.terms.is_empty().then_some(())?;
            let base = self.root(step.base)?;
            let address = self.set(&format!("add i64 {}, {}", base.address, step.constant));
            let left = self.set(&format!("call i64 @llvm.usub.sat.i64(i64 {}, i64 {})", base.left, step.constant));
            Root { address, left }
        } else if let Some(&&ArgumentKind::Buffer { index, .. }) = self.kinds.get(&pointer) {
            (index < SLOTS as u32).then_some(())?;
            let slot = |base: usize| base + index as usize * 8;
            let address = self.word(slot(offset_of!(GroupContext, buffers)));
            let left = self.word(slot(offset_of!(GroupContext, lengths)));
            Root { address, left }
        } else if pointer.is_instruction() && pointer.opcode() == LLVMOpcode::LLVMLoad {
            let address = self.constant_load(pointer)?;
            let range = self.set(&format!("call {{ i64, i64 }} @rig_reach(i64 {address})"));
            let start = self.set(&format!("extractvalue {{ i64, i64 }} {range}, 0"));
            let len = self.set(&format!("extractvalue {{ i64, i64 }} {range}, 1"));
            let offset = self.set(&format!("sub i64 {address}, {start}"));
            let left = self.set(&format!("call i64 @llvm.usub.sat.i64(i64 {len}, i64 {offset})"));
            Root { address, left }
        } else {
            return None;
        };
        self.roots.insert(pointer, root.clone());
        Some(root)
    }

    fn word(&mut self, offset: usize) -> String {
        let at = self.set(&format!("getelementptr i8, ptr %group, i64 {offset}"));
        self.set(&format!("load i64, ptr {at}, !invariant.load !0"))
    }

    /// What a load from constant memory at a root answers, as 64 bits; the load itself is proved too.
    fn constant_load(&mut self, load: Value<'c>) -> Option<String> {
        let pointer = *load.operands().first()?;
        (pointer.kind().space() == Some(2)).then_some(())?;
        let kind = load.kind();
        let bits = match kind.kind() {
            LLVMTypeKind::LLVMPointerTypeKind => 64,
            LLVMTypeKind::LLVMIntegerTypeKind => kind.bits().filter(|bits| [8, 16, 32, 64].contains(bits))?,
            _ => return None,
        };
        let root = self.root(pointer)?;
        let fits = self.set(&format!("icmp ule i64 {}, {}", bits / 8, root.left));
        self.conditions.push(fits.clone());
        let host = self.set(&format!("sub i64 {}, {GPU_BIAS}", root.address));
        let host = self.set(&format!("inttoptr i64 {host} to ptr"));
        let at = self.set(&format!("select i1 {fits}, ptr {host}, ptr @rig_nothing"));
        let value = self.set(&format!("load i{bits}, ptr {at}, align 1"));
        Some(if bits == 64 { value } else { self.set(&format!("zext i{bits} {value} to i64")) })
    }

    /// The greatest that a value may be in any thread, without its sign; where it might wrap, a condition fails.
    fn bound(&mut self, value: Value<'c>) -> Option<String> {
        if let Some(bound) = self.bounds.get(&value) {
            return Some(bound.clone());
        }
        let bits = value.kind().bits().filter(|&bits| bits <= 64)?;
        let bound = if let Some(constant) = value.constant_int() {
            constant.to_string()
        } else if let Some(&kind) = self.kinds.get(&value) {
            self.builtin(kind, 0, value.kind())?
        } else {
            value.is_instruction().then_some(())?;
            self.operation(value, bits)?
        };
        self.bounds.insert(value, bound.clone());
        Some(bound)
    }

    fn builtin(&mut self, kind: &ArgumentKind, axis: usize, held: Type<'c>) -> Option<String> {
        let ArgumentKind::Builtin(builtin) = kind else { return None };
        let bound = self.set(&format!("zext i32 %{} to i64", entry::builtin(*builtin).get(axis)?));
        self.fits(&bound, held.bits()?);
        Some(bound)
    }

    /// Requires that a bound is one of so many bits.
    fn fits(&mut self, bound: &str, bits: u32) {
        if bits < 64 {
            self.require(&format!("icmp ult i64 {bound}, {}", 1_u64 << bits));
        } else {
            self.require(&format!("icmp ne i64 {bound}, -1"));
        }
    }

    fn operation(&mut self, value: Value<'c>, bits: u32) -> Option<String> {
        let operands = value.operands();
        let opcode = value.opcode();
        let bound = match opcode {
            LLVMOpcode::LLVMAdd | LLVMOpcode::LLVMOr | LLVMOpcode::LLVMXor => {
                let (one, other) = (self.bound(operands[0])?, self.bound(operands[1])?);
                self.plus(&one, &other)
            }
            LLVMOpcode::LLVMMul => {
                let (one, other) = (self.bound(operands[0])?, self.bound(operands[1])?);
                self.times(&one, &other)
            }
            LLVMOpcode::LLVMShl => {
                let shift = operands[1].constant_int().filter(|&shift| shift < u64::from(bits))?;
                let one = self.bound(operands[0])?;
                self.times(&one, &(1_u64 << shift).to_string())
            }
            LLVMOpcode::LLVMAnd => {
                let mask = operands[1].constant_int()?;
                return Some(match self.bound(operands[0]) {
                    Some(one) => self.set(&format!("call i64 @llvm.umin.i64(i64 {one}, i64 {mask})")),
                    None => mask.to_string(),
                });
            }
            LLVMOpcode::LLVMLShr => {
                let shift = operands[1].constant_int().filter(|&shift| shift < u64::from(bits))?;
                let one = self.bound(operands[0])?;
                return Some(self.set(&format!("lshr i64 {one}, {shift}")));
            }
            LLVMOpcode::LLVMUDiv => {
                let divisor = operands[1].constant_int().filter(|&divisor| divisor > 0)?;
                let one = self.bound(operands[0])?;
                return Some(self.set(&format!("udiv i64 {one}, {divisor}")));
            }
            LLVMOpcode::LLVMZExt | LLVMOpcode::LLVMFreeze => return self.bound(operands[0]),
            LLVMOpcode::LLVMSExt => return self.index(operands[0]),
            LLVMOpcode::LLVMTrunc => self.bound(operands[0])?,
            LLVMOpcode::LLVMSelect => {
                let (one, other) = (self.bound(operands[1])?, self.bound(operands[2])?);
                return Some(self.set(&format!("call i64 @llvm.umax.i64(i64 {one}, i64 {other})")));
            }
            LLVMOpcode::LLVMLoad => return self.constant_load(value),
            LLVMOpcode::LLVMExtractElement => {
                let axis = operands[1].constant_int()?;
                let kind = *self.kinds.get(&operands[0])?;
                return self.builtin(kind, usize::try_from(axis).ok()?, value.kind());
            }
            _ => return None,
        };
        self.fits(&bound, bits);
        Some(bound)
    }
}
