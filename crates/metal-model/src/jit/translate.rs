//! Which operands of an instruction it reaches memory by.

use llvm_sys::LLVMOpcode;

use super::llvm::Value;

/// Which operands of an instruction it reaches memory by.
pub(crate) fn pointers(instruction: Value<'_>) -> &'static [u32] {
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
