//! LLVM's C API with Rust's ownership: the part of it that the engine uses.
//!
//! # Invariants
//!
//! 1. A [`Context`] owns all that is made in it. Handles ([`Module`], [`Value`], [`Type`], …) carry its lifetime, come
//!    from LLVM alone, and are never null.
//! 2. A value is looked at while its module lives; the engine removes values only through methods that consume what they
//!    remove, or whose callers drop what refers to it.
//! 3. A context and its handles are used by one thread: none of them is `Send`.
//!
//! Errors that LLVM reports to a context's handler are kept there ([`Context::complaint`]); those by which LLVM would end
//! the process are caught by `guard`.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Once;

use llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use llvm_sys::bit_writer::LLVMWriteBitcodeToMemoryBuffer;
use llvm_sys::core::*;
use llvm_sys::debuginfo::LLVMStripModuleDebugInfo;
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use llvm_sys::ir_reader::LLVMParseIRInContext;
use llvm_sys::linker::LLVMLinkModules2;
use llvm_sys::prelude::*;
use llvm_sys::support::LLVMParseCommandLineOptions;
use llvm_sys::target::{
    LLVMABISizeOfType, LLVMDisposeTargetData, LLVMGetModuleDataLayout, LLVMInitializeX86AsmPrinter,
    LLVMInitializeX86Target, LLVMInitializeX86TargetInfo, LLVMInitializeX86TargetMC, LLVMOffsetOfElement,
    LLVMSetModuleDataLayout,
};
use llvm_sys::target_machine::*;
use llvm_sys::transforms::pass_builder::*;
use llvm_sys::{LLVMDiagnosticSeverity, LLVMIntPredicate, LLVMLinkage, LLVMOpcode, LLVMTypeKind};

/// Calls one function of LLVM's C API with handles of this module.
macro_rules! llvm {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the handles among the arguments are alive and of the kind that the function wants (invariants 1 and
        // 2), pointers and lengths are those of the slices they were taken from, and the context is this thread's (3).
        unsafe { $function($($argument),*) }
    };
}

/// A text that LLVM allocated, taken over.
fn take_message(message: *mut c_char) -> String {
    let Some(message) = NonNull::new(message) else { return String::new() };
    // SAFETY: LLVM's messages end with a zero byte, and this one is not freed yet.
    let text = unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned();
    llvm!(LLVMDisposeMessage(message.as_ptr()));
    text
}

/// The text of an error, which is taken over; nothing for success.
pub(crate) fn take_error(error: LLVMErrorRef) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    let message = llvm!(LLVMGetErrorMessage(error));
    // SAFETY: the message ends with a zero byte and is disposed of below.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    llvm!(LLVMDisposeErrorMessage(message));
    Err(text)
}

/// A C string of a name: what comes after a zero byte is cut off.
pub(crate) fn c_string(text: &str) -> CString {
    let end = text.bytes().position(|byte| byte == 0).unwrap_or(text.len());
    CString::new(&text.as_bytes()[..end]).unwrap_or_default()
}

/// Registers the target of this processor, once.
pub(crate) fn initialize() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        llvm!(LLVMInitializeX86TargetInfo());
        llvm!(LLVMInitializeX86Target());
        llvm!(LLVMInitializeX86TargetMC());
        llvm!(LLVMInitializeX86AsmPrinter());
        // Old debug information would be upgraded, and complained about on the error output; it is stripped instead.
        let words = [c"rig-metal-model".as_ptr(), c"-disable-auto-upgrade-debug-info".as_ptr()];
        llvm!(LLVMParseCommandLineOptions(words.len() as i32, words.as_ptr(), c"".as_ptr()));
    });
}

/// An LLVM context, and the errors that it has reported.
pub(crate) struct Context {
    raw: LLVMContextRef,
    complaints: Box<RefCell<Vec<String>>>,
}

/// Keeps what LLVM reports; without a handler an error would end the process.
extern "C" fn keep_diagnostic(info: LLVMDiagnosticInfoRef, complaints: *mut c_void) {
    if !matches!(llvm!(LLVMGetDiagInfoSeverity(info)), LLVMDiagnosticSeverity::LLVMDSError) {
        return;
    }
    let text = take_message(llvm!(LLVMGetDiagInfoDescription(info)));
    // SAFETY: the pointer is that of the box in `Context`, which outlives its LLVM context; LLVM calls on its thread.
    let complaints = unsafe { &*complaints.cast::<RefCell<Vec<String>>>() };
    complaints.borrow_mut().push(text);
}

impl Context {
    pub(crate) fn new() -> Self {
        initialize();
        let complaints = Box::<RefCell<Vec<String>>>::default();
        let raw = llvm!(LLVMContextCreate());
        let pointer = (&raw const *complaints).cast_mut().cast();
        llvm!(LLVMContextSetDiagnosticHandler(raw, Some(keep_diagnostic), pointer));
        Self { raw, complaints }
    }

    /// What LLVM has reported since the last question, if anything.
    pub(crate) fn complaint(&self) -> Option<String> {
        let all = self.complaints.take();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn blame(&self, otherwise: String) -> String {
        self.complaint().unwrap_or(otherwise)
    }

    /// A module of bitcode.
    pub(crate) fn parse_bitcode(&self, bytes: &[u8]) -> Result<Module<'_>, String> {
        let name = c"module";
        let buffer =
            llvm!(LLVMCreateMemoryBufferWithMemoryRangeCopy(bytes.as_ptr().cast(), bytes.len(), name.as_ptr()));
        let mut module = ptr::null_mut();
        let failed = llvm!(LLVMParseBitcodeInContext2(self.raw, buffer, &raw mut module)) != 0;
        llvm!(LLVMDisposeMemoryBuffer(buffer));
        if failed || module.is_null() {
            return Err(self.blame("LLVM cannot read the bitcode".to_owned()));
        }
        llvm!(LLVMStripModuleDebugInfo(module));
        Ok(Module { raw: module, context: self })
    }

    /// A module of IR text.
    pub(crate) fn parse_text(&self, text: &str) -> Result<Module<'_>, String> {
        let text_c = c_string(text);
        let name = c"text";
        // LLVM's reader of text wants a zero byte behind the text: the copy has it.
        let buffer =
            llvm!(LLVMCreateMemoryBufferWithMemoryRangeCopy(text_c.as_ptr(), text_c.as_bytes().len(), name.as_ptr()));
        let (mut module, mut message) = (ptr::null_mut(), ptr::null_mut());
        // The buffer becomes the parser's.
        let failed = llvm!(LLVMParseIRInContext(self.raw, buffer, &raw mut module, &raw mut message)) != 0;
        let why = take_message(message);
        if failed || module.is_null() {
            return Err(self.blame(why));
        }
        Ok(Module { raw: module, context: self })
    }

    pub(crate) fn metadata_kind(&self, name: &str) -> u32 {
        llvm!(LLVMGetMDKindIDInContext(self.raw, name.as_ptr().cast(), name.len() as u32))
    }

    pub(crate) fn int(&self, bits: u32) -> Type<'_> {
        Type::of(llvm!(LLVMIntTypeInContext(self.raw, bits)))
    }

    pub(crate) fn raw(&self) -> LLVMContextRef {
        self.raw
    }

    pub(crate) fn enum_attribute(&self, name: &str) -> LLVMAttributeRef {
        llvm!(LLVMCreateEnumAttribute(self.raw, attribute_kind(name), 0))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        llvm!(LLVMContextDispose(self.raw));
    }
}

/// The number of an attribute that is no string.
pub(crate) fn attribute_kind(name: &str) -> u32 {
    llvm!(LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()))
}

/// A module. It is disposed of with its handle.
pub(crate) struct Module<'c> {
    raw: LLVMModuleRef,
    context: &'c Context,
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        llvm!(LLVMDisposeModule(self.raw));
    }
}

impl<'c> Module<'c> {
    pub(crate) fn raw(&self) -> LLVMModuleRef {
        self.raw
    }

    pub(crate) fn context(&self) -> &'c Context {
        self.context
    }

    pub(crate) fn function(&self, name: &str) -> Option<Value<'c>> {
        let name = c_string(name);
        Value::maybe(llvm!(LLVMGetNamedFunction(self.raw, name.as_ptr())))
    }

    pub(crate) fn global(&self, name: &str) -> Option<Value<'c>> {
        let name = c_string(name);
        Value::maybe(llvm!(LLVMGetNamedGlobal(self.raw, name.as_ptr())))
    }

    /// The functions, declarations included.
    pub(crate) fn functions(&self) -> Vec<Value<'c>> {
        let first = llvm!(LLVMGetFirstFunction(self.raw));
        collect(first, |at| llvm!(LLVMGetNextFunction(at)))
    }

    pub(crate) fn globals(&self) -> Vec<Value<'c>> {
        let first = llvm!(LLVMGetFirstGlobal(self.raw));
        collect(first, |at| llvm!(LLVMGetNextGlobal(at)))
    }

    /// The nodes of a named list of metadata.
    pub(crate) fn named_metadata(&self, name: &str) -> Vec<Value<'c>> {
        let name = c_string(name);
        let count = llvm!(LLVMGetNamedMetadataNumOperands(self.raw, name.as_ptr())) as usize;
        let mut raw = vec![ptr::null_mut(); count];
        llvm!(LLVMGetNamedMetadataOperands(self.raw, name.as_ptr(), raw.as_mut_ptr()));
        raw.into_iter().filter_map(Value::maybe).collect()
    }

    /// Takes another module's content into this one.
    pub(crate) fn link(&self, other: Module<'c>) -> Result<(), String> {
        let raw = other.raw;
        std::mem::forget(other);
        if llvm!(LLVMLinkModules2(self.raw, raw)) != 0 {
            return Err(self.context.blame("LLVM cannot link the modules".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn verify(&self) -> Result<(), String> {
        let mut message = ptr::null_mut();
        let action = LLVMVerifierFailureAction::LLVMReturnStatusAction;
        let failed = llvm!(LLVMVerifyModule(self.raw, action, &raw mut message)) != 0;
        let why = take_message(message);
        if failed { Err(self.context.blame(why)) } else { Ok(()) }
    }

    /// Makes it a module of the machine's.
    pub(crate) fn retarget(&self, machine: &Machine) {
        llvm!(LLVMSetTarget(self.raw, machine.triple.as_ptr()));
        let layout = llvm!(LLVMCreateTargetDataLayout(machine.raw));
        llvm!(LLVMSetModuleDataLayout(self.raw, layout));
        llvm!(LLVMDisposeTargetData(layout));
    }

    pub(crate) fn size_of(&self, kind: Type<'c>) -> u64 {
        let layout = llvm!(LLVMGetModuleDataLayout(self.raw));
        llvm!(LLVMABISizeOfType(layout, kind.raw))
    }

    /// One step of an address: what it is from, by which constant, and by which indices times strides. Nothing for what
    /// is no such step, or one whose constant is negative.
    pub(crate) fn address_step(&self, pointer: Value<'c>) -> Option<AddressStep<'c>> {
        if llvm!(LLVMIsAGetElementPtrInst(pointer.raw)).is_null() {
            return None;
        }
        let layout = llvm!(LLVMGetModuleDataLayout(self.raw));
        let operands = pointer.operands();
        let mut kind = Type::of(llvm!(LLVMGetGEPSourceElementType(pointer.raw)));
        let mut step = AddressStep { base: *operands.first()?, constant: 0, terms: Vec::new() };
        for (depth, index) in operands.iter().skip(1).enumerate() {
            if depth > 0 && matches!(kind.kind(), LLVMTypeKind::LLVMStructTypeKind) {
                let field = u32::try_from(index.constant_int()?).ok()?;
                step.constant = step.constant.checked_add(llvm!(LLVMOffsetOfElement(layout, kind.raw, field)))?;
                kind = Type::of(llvm!(LLVMStructGetTypeAtIndex(kind.raw, field)));
                continue;
            }
            if depth > 0 {
                kind = Type::of(llvm!(LLVMGetElementType(kind.raw)));
            }
            let stride = self.size_of(kind);
            match index.constant_signed() {
                Some(constant) => {
                    let bytes = u64::try_from(constant).ok()?.checked_mul(stride)?;
                    step.constant = step.constant.checked_add(bytes)?;
                }
                None => step.terms.push((stride, *index)),
            }
        }
        Some(step)
    }

    /// Runs passes by the names that `opt` knows.
    pub(crate) fn run_passes(&self, passes: &str, machine: &Machine) -> Result<(), String> {
        let passes = c_string(passes);
        let options = llvm!(LLVMCreatePassBuilderOptions());
        let error = llvm!(LLVMRunPasses(self.raw, passes.as_ptr(), machine.raw, options));
        llvm!(LLVMDisposePassBuilderOptions(options));
        take_error(error).map_err(|why| self.context.blame(why))?;
        self.context.complaint().map_or(Ok(()), Err)
    }

    /// The machine code, a relocatable object.
    pub(crate) fn object(&self, machine: &Machine) -> Result<Vec<u8>, String> {
        let (mut message, mut buffer) = (ptr::null_mut(), ptr::null_mut());
        let kind = LLVMCodeGenFileType::LLVMObjectFile;
        let (to, why) = (&raw mut buffer, &raw mut message);
        let failed = llvm!(LLVMTargetMachineEmitToMemoryBuffer(machine.raw, self.raw, kind, why, to)) != 0;
        let why = take_message(message);
        if failed {
            return Err(self.context.blame(why));
        }
        let object = take_buffer(buffer);
        self.context.complaint().map_or(Ok(object), Err)
    }

    /// The module as bitcode.
    pub(crate) fn bitcode(&self) -> Vec<u8> {
        take_buffer(llvm!(LLVMWriteBitcodeToMemoryBuffer(self.raw)))
    }
}

/// The bytes of a buffer of LLVM's, which is taken over.
fn take_buffer(buffer: LLVMMemoryBufferRef) -> Vec<u8> {
    let (start, len) = (llvm!(LLVMGetBufferStart(buffer)), llvm!(LLVMGetBufferSize(buffer)));
    // SAFETY: the buffer holds `len` bytes from `start` until it is disposed of below.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) }.to_vec();
    llvm!(LLVMDisposeMemoryBuffer(buffer));
    bytes
}

/// A step of an address (`Module::address_step`).
pub(crate) struct AddressStep<'c> {
    pub(crate) base: Value<'c>,
    pub(crate) constant: u64,
    /// Strides and indices.
    pub(crate) terms: Vec<(u64, Value<'c>)>,
}

fn collect<'c>(first: LLVMValueRef, next: impl Fn(LLVMValueRef) -> LLVMValueRef) -> Vec<Value<'c>> {
    let mut all = Vec::new();
    let mut at = first;
    while let Some(value) = Value::maybe(at) {
        at = next(at);
        all.push(value);
    }
    all
}

/// A type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Type<'c> {
    raw: LLVMTypeRef,
    of: PhantomData<&'c Context>,
}

impl<'c> Type<'c> {
    fn of(raw: LLVMTypeRef) -> Self {
        Self { raw, of: PhantomData }
    }

    pub(crate) fn raw(self) -> LLVMTypeRef {
        self.raw
    }

    pub(crate) fn kind(self) -> LLVMTypeKind {
        llvm!(LLVMGetTypeKind(self.raw))
    }

    pub(crate) fn bits(self) -> Option<u32> {
        matches!(self.kind(), LLVMTypeKind::LLVMIntegerTypeKind).then(|| llvm!(LLVMGetIntTypeWidth(self.raw)))
    }

    /// The address space of a pointer.
    pub(crate) fn space(self) -> Option<u32> {
        matches!(self.kind(), LLVMTypeKind::LLVMPointerTypeKind).then(|| llvm!(LLVMGetPointerAddressSpace(self.raw)))
    }

    /// The elements of a vector: how many, and of which type.
    pub(crate) fn vector(self) -> Option<(u32, Self)> {
        if !matches!(self.kind(), LLVMTypeKind::LLVMVectorTypeKind) {
            return None;
        }
        Some((llvm!(LLVMGetVectorSize(self.raw)), Self::of(llvm!(LLVMGetElementType(self.raw)))))
    }

    /// The type as IR text.
    pub(crate) fn text(self) -> String {
        take_message(llvm!(LLVMPrintTypeToString(self.raw)))
    }
}

/// A value: a constant, a global, an instruction, a node of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Value<'c> {
    raw: LLVMValueRef,
    of: PhantomData<&'c Context>,
}

impl<'c> Value<'c> {
    pub(crate) fn maybe(raw: LLVMValueRef) -> Option<Self> {
        (!raw.is_null()).then_some(Self { raw, of: PhantomData })
    }

    pub(crate) fn raw(self) -> LLVMValueRef {
        self.raw
    }

    pub(crate) fn kind(self) -> Type<'c> {
        Type::of(llvm!(LLVMTypeOf(self.raw)))
    }

    pub(crate) fn name(self) -> String {
        let mut len = 0;
        let start = llvm!(LLVMGetValueName2(self.raw, &raw mut len));
        if start.is_null() {
            return String::new();
        }
        // SAFETY: LLVM answers a name of `len` bytes that lives until the value is renamed.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    pub(crate) fn rename(self, name: &str) {
        llvm!(LLVMSetValueName2(self.raw, name.as_ptr().cast(), name.len()));
    }

    /// Functions and globals: whether it has no body or value.
    pub(crate) fn is_declaration(self) -> bool {
        llvm!(LLVMIsDeclaration(self.raw)) != 0
    }

    pub(crate) fn is_function(self) -> bool {
        !llvm!(LLVMIsAFunction(self.raw)).is_null()
    }

    pub(crate) fn set_linkage(self, linkage: LLVMLinkage) {
        llvm!(LLVMSetLinkage(self.raw, linkage));
    }

    pub(crate) fn forget_section(self) {
        llvm!(LLVMSetSection(self.raw, c"".as_ptr()));
    }

    pub(crate) fn initializer(self) -> Option<Self> {
        Self::maybe(llvm!(LLVMGetInitializer(self.raw)))
    }

    pub(crate) fn set_initializer(self, value: Self) {
        llvm!(LLVMSetInitializer(self.raw, value.raw));
        llvm!(LLVMSetExternallyInitialized(self.raw, 0));
    }

    /// The type that a global holds, or a function's type.
    pub(crate) fn value_type(self) -> Type<'c> {
        Type::of(llvm!(LLVMGlobalGetValueType(self.raw)))
    }

    pub(crate) fn delete_global(self) {
        llvm!(LLVMDeleteGlobal(self.raw));
    }

    pub(crate) fn delete_function(self) {
        llvm!(LLVMDeleteFunction(self.raw));
    }

    /// A global of another name and the same address space, to stand in for this one for a while.
    pub(crate) fn twin(self, module: &Module<'c>) -> Self {
        let space = self.kind().space().unwrap_or(0);
        let kind = self.value_type().raw;
        let raw = llvm!(LLVMAddGlobalInAddressSpace(module.raw, kind, c"rig_twin".as_ptr(), space));
        Self { raw, of: PhantomData }
    }

    pub(crate) fn has_uses(self) -> bool {
        !llvm!(LLVMGetFirstUse(self.raw)).is_null()
    }

    pub(crate) fn replace_uses(self, with: Self) {
        llvm!(LLVMReplaceAllUsesWith(self.raw, with.raw));
    }

    pub(crate) fn params(self) -> Vec<Self> {
        let mut raw = vec![ptr::null_mut(); llvm!(LLVMCountParams(self.raw)) as usize];
        llvm!(LLVMGetParams(self.raw, raw.as_mut_ptr()));
        raw.into_iter().filter_map(Self::maybe).collect()
    }

    /// The type of what a function returns.
    pub(crate) fn return_type(self) -> Type<'c> {
        Type::of(llvm!(LLVMGetReturnType(self.value_type().raw)))
    }

    /// The instructions of a function, in order.
    pub(crate) fn instructions(self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut block = llvm!(LLVMGetFirstBasicBlock(self.raw));
        while !block.is_null() {
            all.extend(collect(llvm!(LLVMGetFirstInstruction(block)), |at| llvm!(LLVMGetNextInstruction(at))));
            block = llvm!(LLVMGetNextBasicBlock(block));
        }
        all
    }

    pub(crate) fn opcode(self) -> LLVMOpcode {
        llvm!(LLVMGetInstructionOpcode(self.raw))
    }

    pub(crate) fn is_instruction(self) -> bool {
        !llvm!(LLVMIsAInstruction(self.raw)).is_null()
    }

    /// The function that a call calls, if it is known.
    pub(crate) fn callee(self) -> Option<Self> {
        if llvm!(LLVMIsACallInst(self.raw)).is_null() {
            return None;
        }
        Self::maybe(llvm!(LLVMGetCalledValue(self.raw))).filter(|callee| callee.is_function())
    }

    pub(crate) fn operands(self) -> Vec<Self> {
        let count = u32::try_from(llvm!(LLVMGetNumOperands(self.raw))).unwrap_or(0);
        (0..count).filter_map(|at| Self::maybe(llvm!(LLVMGetOperand(self.raw, at)))).collect()
    }

    pub(crate) fn set_operand(self, at: u32, value: Self) {
        llvm!(LLVMSetOperand(self.raw, at, value.raw));
    }

    pub(crate) fn erase_instruction(self) {
        llvm!(LLVMInstructionEraseFromParent(self.raw));
    }

    pub(crate) fn forget_metadata(self, kind: u32) {
        llvm!(LLVMSetMetadata(self.raw, kind, ptr::null_mut()));
    }

    pub(crate) fn add_attribute(self, attribute: LLVMAttributeRef) {
        llvm!(LLVMAddAttributeAtIndex(self.raw, llvm_sys::LLVMAttributeFunctionIndex, attribute));
    }

    pub(crate) fn remove_string_attribute(self, name: &str) {
        let at = llvm_sys::LLVMAttributeFunctionIndex;
        llvm!(LLVMRemoveStringAttributeAtIndex(self.raw, at, name.as_ptr().cast(), name.len() as u32));
    }

    /// Takes an attribute off a function (`at` 0xffff_ffff), its result (0) or a parameter (from 1).
    pub(crate) fn remove_attribute(self, at: u32, name: &str) {
        llvm!(LLVMRemoveEnumAttributeAtIndex(self.raw, at, attribute_kind(name)));
    }

    /// The value of a constant integer.
    pub(crate) fn constant_int(self) -> Option<u64> {
        if llvm!(LLVMIsAConstantInt(self.raw)).is_null() {
            return None;
        }
        Some(llvm!(LLVMConstIntGetZExtValue(self.raw)))
    }

    /// The value of a constant integer, with its sign.
    pub(crate) fn constant_signed(self) -> Option<i64> {
        if llvm!(LLVMIsAConstantInt(self.raw)).is_null() {
            return None;
        }
        Some(llvm!(LLVMConstIntGetSExtValue(self.raw)))
    }

    pub(crate) fn int(kind: Type<'c>, value: u64) -> Self {
        Self { raw: llvm!(LLVMConstInt(kind.raw, value, 0)), of: PhantomData }
    }

    pub(crate) fn undefined(kind: Type<'c>) -> Self {
        Self { raw: llvm!(LLVMGetUndef(kind.raw)), of: PhantomData }
    }

    pub(crate) fn zero(kind: Type<'c>) -> Self {
        Self { raw: llvm!(LLVMConstNull(kind.raw)), of: PhantomData }
    }

    pub(crate) fn vector(elements: &[Self]) -> Self {
        let mut raw: Vec<_> = elements.iter().map(|element| element.raw).collect();
        Self { raw: llvm!(LLVMConstVector(raw.as_mut_ptr(), raw.len() as u32)), of: PhantomData }
    }

    /// A constant of another type with the same bits.
    pub(crate) fn bit_cast(self, to: Type<'c>) -> Self {
        Self { raw: llvm!(LLVMConstBitCast(self.raw, to.raw)), of: PhantomData }
    }

    /// A constant address `bytes` from a global's.
    pub(crate) fn constant_offset(self, context: &'c Context, bytes: u64) -> Self {
        let (byte, word) = (context.int(8), context.int(64));
        let mut offset = Self::int(word, bytes).raw;
        Self { raw: llvm!(LLVMConstGEP2(byte.raw, self.raw, &raw mut offset, 1)), of: PhantomData }
    }

    /// The text of a string of metadata.
    pub(crate) fn metadata_string(self) -> Option<String> {
        if llvm!(LLVMIsAMDString(self.raw)).is_null() {
            return None;
        }
        let mut len = 0;
        let start = llvm!(LLVMGetMDString(self.raw, &raw mut len));
        // SAFETY: LLVM answers a string of `len` bytes that lives as long as the context.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len as usize) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The operands of a node of metadata; those that are null are left out as `None`.
    pub(crate) fn metadata_operands(self) -> Option<Vec<Option<Self>>> {
        if llvm!(LLVMIsAMDNode(self.raw)).is_null() {
            return None;
        }
        let mut raw = vec![ptr::null_mut(); llvm!(LLVMGetMDNodeNumOperands(self.raw)) as usize];
        llvm!(LLVMGetMDNodeOperands(self.raw, raw.as_mut_ptr()));
        Some(raw.into_iter().map(Self::maybe).collect())
    }
}

/// Makes instructions before others.
pub(crate) struct Builder<'c> {
    raw: LLVMBuilderRef,
    of: PhantomData<&'c Context>,
}

impl<'c> Builder<'c> {
    pub(crate) fn new(context: &'c Context) -> Self {
        Self { raw: llvm!(LLVMCreateBuilderInContext(context.raw)), of: PhantomData }
    }

    /// The divisor of a division, or one where the division would trap: by zero, or of the least number by minus one.
    pub(crate) fn safe_divisor(&self, division: Value<'c>, signed: bool) -> Option<Value<'c>> {
        let (dividend, divisor) = (*division.operands().first()?, *division.operands().get(1)?);
        let kind = divisor.kind();
        let bits = kind.vector().map_or(kind, |(_, element)| element).bits()?;
        let constant = |value: u64| match kind.vector() {
            Some((count, element)) => Value::vector(&vec![Value::int(element, value); count as usize]),
            None => Value::int(kind, value),
        };
        llvm!(LLVMPositionBuilderBefore(self.raw, division.raw));
        let mut traps = self.equal(divisor, Value::zero(kind));
        if signed {
            let least = self.equal(dividend, constant(1_u64.checked_shl(bits - 1).unwrap_or(0)));
            let minus_one = self.equal(divisor, constant(u64::MAX));
            let overflows = llvm!(LLVMBuildAnd(self.raw, least.raw, minus_one.raw, c"".as_ptr()));
            traps.raw = llvm!(LLVMBuildOr(self.raw, traps.raw, overflows, c"".as_ptr()));
        }
        let raw = llvm!(LLVMBuildSelect(self.raw, traps.raw, constant(1).raw, divisor.raw, c"".as_ptr()));
        Some(Value { raw, of: PhantomData })
    }

    fn equal(&self, one: Value<'c>, other: Value<'c>) -> Value<'c> {
        let raw = llvm!(LLVMBuildICmp(self.raw, LLVMIntPredicate::LLVMIntEQ, one.raw, other.raw, c"".as_ptr()));
        Value { raw, of: PhantomData }
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        llvm!(LLVMDisposeBuilder(self.raw));
    }
}

/// What code is made for: this processor.
pub(crate) struct Machine {
    raw: LLVMTargetMachineRef,
    triple: CString,
    /// The processor's name and what it can do: part of what names an object in the cache.
    pub(crate) processor: String,
}

impl Machine {
    /// This processor, with the code generator's own passes at a level.
    pub(crate) fn host(optimize: bool) -> Result<Self, String> {
        initialize();
        let triple = c"x86_64-unknown-linux-gnu".to_owned();
        let (mut target, mut message) = (ptr::null_mut(), ptr::null_mut());
        if llvm!(LLVMGetTargetFromTriple(triple.as_ptr(), &raw mut target, &raw mut message)) != 0 {
            return Err(take_message(message));
        }
        let (name, features) =
            (take_message(llvm!(LLVMGetHostCPUName())), take_message(llvm!(LLVMGetHostCPUFeatures())));
        let (name_c, features_c) = (c_string(&name), c_string(&features));
        let level = if optimize {
            LLVMCodeGenOptLevel::LLVMCodeGenLevelDefault
        } else {
            LLVMCodeGenOptLevel::LLVMCodeGenLevelNone
        };
        let raw = llvm!(LLVMCreateTargetMachine(
            target,
            triple.as_ptr(),
            name_c.as_ptr(),
            features_c.as_ptr(),
            level,
            LLVMRelocMode::LLVMRelocPIC,
            LLVMCodeModel::LLVMCodeModelSmall
        ));
        if raw.is_null() {
            return Err(format!("LLVM has no code generator for the processor {name}"));
        }
        Ok(Self { raw, triple, processor: format!("{name} {features}") })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        llvm!(LLVMDisposeTargetMachine(self.raw));
    }
}
