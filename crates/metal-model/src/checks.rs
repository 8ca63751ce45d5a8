//! Checks of what compiled kernels do to memory, put into their IR.
//!
//! Each load, store, atomic operation, copy and fill by a pointer to device or constant memory is by a GPU address: it
//! is translated, and before it the bytes are compared with the range that the pointer may reach. Those by a pointer to
//! threadgroup memory or to a variable of the thread are compared with the variable.
//!
//! # The ranges
//!
//! What a pointer may reach is decided where it comes into being, at its *root*: a buffer argument may reach what is
//! bound; a pointer read from memory, or made of an integer, what holds the address (`rig_reach`: a bound buffer or a
//! resident allocation). From there on three numbers go with the pointer: the root, the range's bytes, and how far from
//! the range's start the pointer is. A check compares the last two, both of which LLVM moves out of loops where they do
//! not change; only an access that fails asks the host, which knows why.
//!
//! A loop with a check in it is run one thread at a time. So a kernel whose threads never meet has a second loop over a
//! group's threads, without checks, for the groups of which `jit::prove` shows that no access leaves its range; what is
//! provided for it here is the attribute that says so, and the alignment that each access states.
//!
//! # Invariants
//!
//! 1. Instrumentation runs once, on a module that was inlined, before any pass that moves memory accesses.
//! 2. What a check compares is computed from the same values as the address, so that no pass can tell them apart.
//! 3. An access of size n at offset o of a range of m bytes passes if o + n <= m, for all values of 64 bits, and if its
//!    address is a multiple of the alignment that the access states.
//! 4. An access that fails its check does not happen: the host abandons the dispatch and never returns to it.
//! 5. Constant memory does not change in a dispatch: loads from it are marked as such.
//!
//! Threads: a module belongs to one thread.

mod bounds;
#[expect(unsafe_code, reason = "handles of LLVM's C API")]
mod build;

#[cfg(test)]
mod tests;

use llvm_sys::{LLVMLinkage, LLVMOpcode};

use crate::address::GPU_BIAS;
use crate::jit::abi;
use crate::jit::llvm::{Machine, Module, Value};
use crate::jit::translate;
use crate::kernel::Checks;
use bounds::{Bounds, Memory};
pub(crate) use build::alignment;
use build::{Build, has_attribute};

/// The checks themselves, inlined at each access, and what they call.
///
/// `%less` is the size less one: a range shorter than the access has room for nothing.
const SUPPORT: &str = r#"
declare { i64, i64 } @rig_reach(i64) nounwind willreturn memory(none) speculatable
declare void @rig_check(i64, i64, i32, i64) nounwind cold memory(inaccessiblemem: readwrite)
declare void @rig_violation(i32, i64, i64) nounwind cold noreturn memory(inaccessiblemem: readwrite)

define { i64, i64 } @rig.reach(i64 %root) alwaysinline nounwind {
  %range = call { i64, i64 } @rig_reach(i64 %root)
  ret { i64, i64 } %range
}

define void @rig.device(i64 %offset, i64 %bytes, i64 %address, i64 %less, i64 %mask, i32 %access, i64 %root) alwaysinline nounwind {
  %room = call i64 @llvm.usub.sat.i64(i64 %bytes, i64 %less)
  %inside = icmp ult i64 %offset, %room
  %beside = and i64 %address, %mask
  %aligned = icmp eq i64 %beside, 0
  %right = select i1 %inside, i1 %aligned, i1 false
  br i1 %right, label %done, label %ask, !prof !0
ask:
  %size = add i64 %less, 1
  br i1 %aligned, label %outside, label %misaligned
misaligned:
  call void @rig_violation(i32 2, i64 %address, i64 %size)
  unreachable
outside:
  call void @rig_check(i64 %address, i64 %size, i32 %access, i64 %root)
  br label %done
done:
  ret void
}

define void @rig.device.many(i64 %offset, i64 %bytes, i64 %address, i64 %size, i32 %access, i64 %root) alwaysinline nounwind {
  %none = icmp eq i64 %size, 0
  br i1 %none, label %done, label %some
some:
  %less = sub i64 %size, 1
  call void @rig.device(i64 %offset, i64 %bytes, i64 %address, i64 %less, i64 0, i32 %access, i64 %root)
  br label %done
done:
  ret void
}

define void @rig.local(i64 %offset, i64 %bytes, i64 %address, i64 %size, i32 %kind) alwaysinline nounwind {
  %less = sub i64 %size, 1
  %room = call i64 @llvm.usub.sat.i64(i64 %bytes, i64 %less)
  %inside = icmp ult i64 %offset, %room
  %none = icmp eq i64 %size, 0
  %right = or i1 %inside, %none
  br i1 %right, label %done, label %outside, !prof !0
outside:
  call void @rig_violation(i32 %kind, i64 %address, i64 %size)
  unreachable
done:
  ret void
}

!0 = !{!"branch_weights", i32 1000000, i32 1}
"#;

/// One access by one pointer.
struct Access<'c> {
    instruction: Value<'c>,
    /// Which operand is the pointer.
    operand: u32,
    size: Size<'c>,
    align: u64,
    /// What it does: `abi::ACCESS_READ` and so on.
    how: u32,
}

/// How many bytes.
#[derive(Clone, Copy)]
enum Size<'c> {
    Fixed(u64),
    Counted(Value<'c>),
}

/// The functions of [`SUPPORT`].
struct Support<'c> {
    reach: Value<'c>,
    device: Value<'c>,
    many: Value<'c>,
    local: Value<'c>,
}

/// Translates the accesses of all functions of a module by GPU addresses, and checks them if asked to. The module's
/// functions that are to be inlined are, first.
///
/// A function with the string attribute [`abi::UNCHECKED`] is translated and not checked.
///
/// # Errors
/// LLVM's reason where it refuses.
pub(crate) fn instrument(module: &Module<'_>, machine: &Machine, checks: Checks) -> Result<(), String> {
    module.run_passes("always-inline,function(sroa)", machine)?;
    let support = match checks {
        Checks::Instrumented => Some(support(module, machine)?),
        Checks::None => None,
    };
    for function in module.functions() {
        let own = support.as_ref().is_some_and(|support| support.is(function));
        if function.is_declaration() || own {
            continue;
        }
        let checked = support.as_ref().filter(|_| !has_attribute(function, abi::UNCHECKED));
        instrument_function(module, function, checked);
    }
    Ok(())
}

/// Links the support into the module.
fn support<'c>(module: &Module<'c>, machine: &Machine) -> Result<Support<'c>, String> {
    let text = module.context().parse_text(SUPPORT)?;
    text.retarget(machine);
    module.link(text)?;
    let find = |name: &str| {
        let function = module.function(name).ok_or_else(|| format!("{name} was not linked"))?;
        function.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        Ok::<_, String>(function)
    };
    Ok(Support {
        reach: find("rig.reach")?,
        device: find("rig.device")?,
        many: find("rig.device.many")?,
        local: find("rig.local")?,
    })
}

impl<'c> Support<'c> {
    fn is(&self, function: Value<'c>) -> bool {
        [self.reach, self.device, self.many, self.local].contains(&function)
    }
}

fn instrument_function<'c>(module: &Module<'c>, function: Value<'c>, support: Option<&Support<'c>>) {
    let build = Build::new(module);
    let accesses: Vec<_> =
        function.instructions().into_iter().flat_map(|instruction| accesses(&build, instruction)).collect();
    if let Some(support) = support {
        let mut bounds = Bounds::new(&build, support.reach);
        for access in &accesses {
            check(&build, &mut bounds, support, access);
        }
    }
    for access in &accesses {
        translate(&build, access);
    }
}

/// What an instruction does to memory.
fn accesses<'c>(build: &Build<'c>, instruction: Value<'c>) -> Vec<Access<'c>> {
    let operands = instruction.operands();
    let (size, align) = match instruction.opcode() {
        LLVMOpcode::LLVMLoad => (Size::Fixed(build.stored(instruction.kind())), alignment(instruction)),
        LLVMOpcode::LLVMStore => (Size::Fixed(build.stored(operands[0].kind())), alignment(instruction)),
        LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg => {
            (Size::Fixed(build.stored(operands[1].kind())), alignment(instruction))
        }
        // A copy's or a fill's third argument.
        _ => match operands.get(2) {
            Some(&size) => (size.constant_int().map_or(Size::Counted(size), Size::Fixed), 1),
            None => return Vec::new(),
        },
    };
    let how = |operand| match (instruction.opcode(), operand) {
        (LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg, _) => abi::ACCESS_ATOMIC,
        (LLVMOpcode::LLVMStore, _) | (LLVMOpcode::LLVMCall, 0) => abi::ACCESS_WRITE,
        _ => abi::ACCESS_READ,
    };
    let operands = translate::pointers(instruction).iter();
    operands.map(|&operand| Access { instruction, operand, size, align, how: how(operand) }).collect()
}

/// Puts the check before an access.
fn check<'c>(build: &Build<'c>, bounds: &mut Bounds<'_, 'c>, support: &Support<'c>, access: &Access<'c>) {
    let pointer = access.instruction.operands()[access.operand as usize];
    let Some(range) = bounds.of(pointer) else { return };
    if matches!(access.size, Size::Fixed(0)) || range.holds(access.size) {
        return;
    }
    build.before(access.instruction);
    let size = match access.size {
        Size::Fixed(size) => build.int(size),
        Size::Counted(size) => build.widened(size),
    };
    let kind = match range.memory {
        Memory::Device => {
            let address = build.address(pointer);
            let how = build.small(access.how);
            match access.size {
                Size::Fixed(size) => {
                    let (less, mask) = (build.int(size - 1), build.int(access.align.max(1) - 1));
                    build.call(support.device, &[range.offset, range.bytes, address, less, mask, how, range.root]);
                }
                Size::Counted(_) => {
                    build.call(support.many, &[range.offset, range.bytes, address, size, how, range.root]);
                }
            }
            return;
        }
        Memory::Threadgroup => abi::VIOLATION_THREADGROUP,
        Memory::Private => abi::VIOLATION_PRIVATE,
    };
    // The address of a thread's own variable stays unknown, so that the variable may still live in a register.
    let address = match range.memory {
        Memory::Threadgroup => build.address(pointer),
        _ => range.offset,
    };
    build.call(support.local, &[range.offset, range.bytes, address, size, build.small(kind)]);
}

/// Takes the bias off the address of an access.
fn translate<'c>(build: &Build<'c>, access: &Access<'c>) {
    let pointer = access.instruction.operands()[access.operand as usize];
    let Some(space @ (1 | 2)) = pointer.kind().space() else { return };
    build.before(access.instruction);
    let host = build.moved(pointer, build.int(GPU_BIAS.wrapping_neg()));
    access.instruction.set_operand(access.operand, host);
    if space == 2 && access.instruction.opcode() == LLVMOpcode::LLVMLoad {
        build.never_changes(access.instruction);
    }
}
