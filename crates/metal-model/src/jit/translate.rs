//! Accesses by GPU addresses become accesses by host addresses.

use llvm_sys::LLVMOpcode;

use super::llvm::{Builder, Module, Value};
use crate::address::GPU_BIAS;
use crate::kernel::Checks;

/// Takes the bias off every address in the spaces of buffers.
pub(crate) fn accesses(module: &Module<'_>, _checks: Checks) {
    let builder = Builder::new(module.context());
    for function in module.functions() {
        if function.is_declaration() {
            continue;
        }
        for instruction in function.instructions() {
            for &at in pointers(instruction) {
                let pointer = instruction.operands()[at as usize];
                if matches!(pointer.kind().space(), Some(1 | 2)) {
                    instruction.set_operand(at, builder.offset(instruction, pointer, GPU_BIAS.wrapping_neg()));
                }
            }
        }
    }
}

/// Which operands of an instruction it reaches memory by.
fn pointers(instruction: Value<'_>) -> &'static [u32] {
    match instruction.opcode() {
        LLVMOpcode::LLVMLoad | LLVMOpcode::LLVMAtomicRMW | LLVMOpcode::LLVMAtomicCmpXchg => &[0],
        LLVMOpcode::LLVMStore => &[1],
        LLVMOpcode::LLVMCall => match instruction.callee().map(Value::name) {
            Some(name) if name.starts_with("llvm.memset.") => &[0],
            Some(name) if name.starts_with("llvm.memcpy.") || name.starts_with("llvm.memmove.") => &[0, 1],
            _ => &[],
        },
        _ => &[],
    }
}
