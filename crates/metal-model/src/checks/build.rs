//! What the checks ask of LLVM's IR and put into it: a builder, and questions about instructions.
//!
//! Handles are those of `jit::llvm`, with its invariants: they come from LLVM, live as long as their module, and stay
//! on one thread.

use std::ptr;

use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::target::{
    LLVMABISizeOfType, LLVMGetModuleDataLayout, LLVMOffsetOfElement, LLVMStoreSizeOfType, LLVMTargetDataRef,
};
use llvm_sys::{LLVMOpcode, LLVMTypeKind};

use crate::jit::llvm::{Context, Module, Type, Value};

/// Calls one function of LLVM's C API with handles of this module.
macro_rules! llvm {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the handles among the arguments are alive and of the kind that the function wants (the callers below
        // have looked at opcodes and types), and pointers and lengths are those of the slices they were taken from.
        unsafe { $function($($argument),*) }
    };
}

/// A block of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Block(LLVMBasicBlockRef);

/// Writes instructions at a place.
pub(super) struct Build<'c> {
    raw: LLVMBuilderRef,
    context: &'c Context,
    layout: LLVMTargetDataRef,
    invariant: u32,
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        llvm!(LLVMDisposeBuilder(self.raw));
    }
}

/// What LLVM made, which is never null.
fn made<'c>(raw: LLVMValueRef) -> Value<'c> {
    // PANIC: LLVM's builder answers a value for every instruction it is asked for.
    Value::maybe(raw).expect("a value that LLVM made")
}

impl<'c> Build<'c> {
    pub(super) fn new(module: &Module<'c>) -> Self {
        let context = module.context();
        Self {
            raw: llvm!(LLVMCreateBuilderInContext(context.raw())),
            context,
            layout: llvm!(LLVMGetModuleDataLayout(module.raw())),
            invariant: context.metadata_kind("invariant.load"),
        }
    }

    /// Goes before an instruction.
    pub(super) fn before(&self, instruction: Value<'c>) {
        llvm!(LLVMPositionBuilderBefore(self.raw, instruction.raw()));
    }

    /// Goes to where a value is first there: behind the instruction, or behind the phis of its block, or to the
    /// function's start.
    pub(super) fn after(&self, value: Value<'c>) {
        let raw = value.raw();
        let mut at = if value.is_instruction() {
            llvm!(LLVMGetNextInstruction(raw))
        } else {
            let function = llvm!(LLVMGetParamParent(raw));
            let entry = llvm!(LLVMGetEntryBasicBlock(function));
            llvm!(LLVMGetFirstInstruction(entry))
        };
        while !at.is_null() && is(at, LLVMOpcode::LLVMPHI) {
            at = llvm!(LLVMGetNextInstruction(at));
        }
        llvm!(LLVMPositionBuilderBefore(self.raw, at));
    }

    pub(super) fn word(&self) -> Type<'c> {
        self.context.int(64)
    }

    /// A constant of 64 bits.
    pub(super) fn int(&self, value: u64) -> Value<'c> {
        Value::int(self.word(), value)
    }

    /// A constant of 32 bits.
    pub(super) fn small(&self, value: u32) -> Value<'c> {
        Value::int(self.context.int(32), value.into())
    }

    pub(super) fn add(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        made(llvm!(LLVMBuildAdd(self.raw, a.raw(), b.raw(), c"".as_ptr())))
    }

    pub(super) fn sub(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        made(llvm!(LLVMBuildSub(self.raw, a.raw(), b.raw(), c"".as_ptr())))
    }

    pub(super) fn mul(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        made(llvm!(LLVMBuildMul(self.raw, a.raw(), b.raw(), c"".as_ptr())))
    }

    pub(super) fn select(&self, condition: Value<'c>, yes: Value<'c>, no: Value<'c>) -> Value<'c> {
        made(llvm!(LLVMBuildSelect(self.raw, condition.raw(), yes.raw(), no.raw(), c"".as_ptr())))
    }

    /// An integer as one of 64 bits, its sign spread or its upper bits dropped.
    pub(super) fn widened(&self, value: Value<'c>) -> Value<'c> {
        made(llvm!(LLVMBuildIntCast2(self.raw, value.raw(), self.word().raw(), 1, c"".as_ptr())))
    }

    /// A pointer's address as an integer.
    pub(super) fn address(&self, pointer: Value<'c>) -> Value<'c> {
        made(llvm!(LLVMBuildPtrToInt(self.raw, pointer.raw(), self.word().raw(), c"".as_ptr())))
    }

    /// The pointer so many bytes on.
    pub(super) fn moved(&self, pointer: Value<'c>, bytes: Value<'c>) -> Value<'c> {
        let mut index = bytes.raw();
        made(llvm!(LLVMBuildGEP2(self.raw, self.context.int(8).raw(), pointer.raw(), &raw mut index, 1, c"".as_ptr())))
    }

    /// A load of what no store changes while the code runs.
    pub(super) fn constant_load(&self, kind: Type<'c>, pointer: Value<'c>) -> Value<'c> {
        let load = made(llvm!(LLVMBuildLoad2(self.raw, kind.raw(), pointer.raw(), c"".as_ptr())));
        self.never_changes(load);
        load
    }

    /// Says of a load that no store changes what it reads while the code runs.
    pub(super) fn never_changes(&self, load: Value<'c>) {
        let empty = llvm!(LLVMMDNodeInContext2(self.context.raw(), ptr::null_mut(), 0));
        let empty = llvm!(LLVMMetadataAsValue(self.context.raw(), empty));
        llvm!(LLVMSetMetadata(load.raw(), self.invariant, empty));
    }

    pub(super) fn call(&self, function: Value<'c>, arguments: &[Value<'c>]) -> Value<'c> {
        let mut raw: Vec<_> = arguments.iter().map(|argument| argument.raw()).collect();
        let (kind, count) = (function.value_type().raw(), u32::try_from(raw.len()).unwrap_or(u32::MAX));
        made(llvm!(LLVMBuildCall2(self.raw, kind, function.raw(), raw.as_mut_ptr(), count, c"".as_ptr())))
    }

    /// A member of a structure that a call answered.
    pub(super) fn member(&self, whole: Value<'c>, index: u32) -> Value<'c> {
        made(llvm!(LLVMBuildExtractValue(self.raw, whole.raw(), index, c"".as_ptr())))
    }

    /// An empty phi of 64 bits at the start of the block of another phi.
    pub(super) fn phi_beside(&self, phi: Value<'c>) -> Value<'c> {
        self.before(phi);
        made(llvm!(LLVMBuildPhi(self.raw, self.word().raw(), c"".as_ptr())))
    }

    /// Gives a phi its value where control comes from a block.
    pub(super) fn comes(&self, phi: Value<'c>, from: Block, value: Value<'c>) {
        let (mut value, mut block) = (value.raw(), from.0);
        llvm!(LLVMAddIncoming(phi.raw(), &raw mut value, &raw mut block, 1));
    }

    /// The bytes that a value of a type takes, with what follows it in an array.
    pub(super) fn stride(&self, kind: Type<'c>) -> u64 {
        llvm!(LLVMABISizeOfType(self.layout, kind.raw()))
    }

    /// The bytes that a store of a type writes.
    pub(super) fn stored(&self, kind: Type<'c>) -> u64 {
        llvm!(LLVMStoreSizeOfType(self.layout, kind.raw()))
    }

    /// What a computation of an address is made of. None where it is one of many addresses at once.
    pub(super) fn steps(&self, pointer: Value<'c>) -> Option<Steps<'c>> {
        let raw = pointer.raw();
        let count = u32::try_from(llvm!(LLVMGetNumOperands(raw))).ok()?;
        let operand = |at| made::<'c>(llvm!(LLVMGetOperand(raw, at)));
        pointer.kind().space()?;
        let mut steps = Steps { base: operand(0), fixed: 0, scaled: Vec::new() };
        let mut kind = llvm!(LLVMGetGEPSourceElementType(raw));
        for at in 1..count {
            let index = operand(at);
            let scale = if at == 1 {
                llvm!(LLVMABISizeOfType(self.layout, kind))
            } else if matches!(llvm!(LLVMGetTypeKind(kind)), LLVMTypeKind::LLVMStructTypeKind) {
                let member = u32::try_from(index.constant_int()?).ok()?;
                steps.fixed = steps.fixed.wrapping_add(llvm!(LLVMOffsetOfElement(self.layout, kind, member)));
                kind = llvm!(LLVMStructGetTypeAtIndex(kind, member));
                continue;
            } else {
                kind = llvm!(LLVMGetElementType(kind));
                llvm!(LLVMABISizeOfType(self.layout, kind))
            };
            if llvm!(LLVMIsAConstantInt(index.raw())).is_null() {
                steps.scaled.push((index, scale));
            } else {
                let index = llvm!(LLVMConstIntGetSExtValue(index.raw())).cast_unsigned();
                steps.fixed = steps.fixed.wrapping_add(index.wrapping_mul(scale));
            }
        }
        Some(steps)
    }
}

/// An address taken apart: a base, bytes that are known, and indices times bytes.
pub(super) struct Steps<'c> {
    pub(super) base: Value<'c>,
    pub(super) fixed: u64,
    pub(super) scaled: Vec<(Value<'c>, u64)>,
}

fn is(raw: LLVMValueRef, opcode: LLVMOpcode) -> bool {
    llvm!(LLVMGetInstructionOpcode(raw)) == opcode
}

/// What a pointer is made by.
pub(super) enum Made<'c> {
    /// Steps from another pointer: an instruction or a constant.
    Steps,
    /// The same address as another pointer.
    Same(Value<'c>),
    /// One of several, by where control comes from.
    Phi(Vec<(Value<'c>, Block)>),
    /// One of two.
    Select(Value<'c>, Value<'c>, Value<'c>),
    /// A place of so many bytes in the thread's private memory.
    Place(u64),
    /// A variable of the module of so many bytes.
    Variable(u64),
    /// A load from a pointer.
    Load(Value<'c>),
    /// Null, or of no meaning.
    Nothing,
    /// A parameter of the function.
    Parameter,
    /// A call, an integer: none of these.
    Other,
}

impl<'c> Build<'c> {
    /// What a pointer is made by.
    pub(super) fn made_by(&self, pointer: Value<'c>) -> Made<'c> {
        let raw = pointer.raw();
        let operand = |at| made::<'c>(llvm!(LLVMGetOperand(raw, at)));
        if !llvm!(LLVMIsAGlobalVariable(raw)).is_null() {
            return Made::Variable(self.stride(pointer.value_type()));
        }
        let opcode = if pointer.is_instruction() {
            llvm!(LLVMGetInstructionOpcode(raw))
        } else if !llvm!(LLVMIsAConstantExpr(raw)).is_null() {
            llvm!(LLVMGetConstOpcode(raw))
        } else if llvm!(LLVMIsConstant(raw)) != 0 {
            return Made::Nothing;
        } else {
            return Made::Parameter;
        };
        match opcode {
            LLVMOpcode::LLVMGetElementPtr => Made::Steps,
            LLVMOpcode::LLVMBitCast | LLVMOpcode::LLVMAddrSpaceCast => Made::Same(operand(0)),
            LLVMOpcode::LLVMSelect => Made::Select(operand(0), operand(1), operand(2)),
            LLVMOpcode::LLVMLoad => Made::Load(operand(0)),
            LLVMOpcode::LLVMPHI => Made::Phi(incoming(pointer)),
            LLVMOpcode::LLVMAlloca => {
                let kind = llvm!(LLVMGetAllocatedType(raw));
                let (one, count) = (llvm!(LLVMABISizeOfType(self.layout, kind)), operand(0).constant_int());
                count.map_or(Made::Other, |count| Made::Place(one.wrapping_mul(count)))
            }
            _ => Made::Other,
        }
    }
}

/// The values of a phi, and where control comes from with each.
pub(super) fn incoming<'c>(phi: Value<'c>) -> Vec<(Value<'c>, Block)> {
    let raw = phi.raw();
    (0..llvm!(LLVMCountIncoming(raw)))
        .map(|at| (made(llvm!(LLVMGetIncomingValue(raw, at))), Block(llvm!(LLVMGetIncomingBlock(raw, at)))))
        .collect()
}

/// The alignment that a load, a store or an atomic operation states.
pub(crate) fn alignment(instruction: Value<'_>) -> u64 {
    u64::from(llvm!(LLVMGetAlignment(instruction.raw())))
}

/// Whether a function has a string attribute.
pub(super) fn has_attribute(function: Value<'_>, name: &str) -> bool {
    let at = llvm_sys::LLVMAttributeFunctionIndex;
    !llvm!(LLVMGetStringAttributeAtIndex(function.raw(), at, name.as_ptr().cast(), name.len() as u32)).is_null()
}
