//! Compiles bodies and calls them, without the engine: a wrapper loads the arguments from memory and stores the result,
//! and the lanes of a SIMD-group run one after the other, twice, the second time with what all of them gave.

#![expect(unsafe_code, reason = "code compiled at run time is called by its address")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ptr;

use llvm_sys::core::*;
use llvm_sys::execution_engine::*;
use llvm_sys::ir_reader::LLVMParseIRInContext;
use llvm_sys::prelude::*;
use llvm_sys::support::LLVMAddSymbol;
use llvm_sys::target_machine::*;
use llvm_sys::transforms::pass_builder::*;

use crate::jit::abi::ThreadContext;
use crate::prelude::{Body, ModuleOptions, Needs, Signature, Unsupported, body, symbols};

/// Calls one function of LLVM's C API.
macro_rules! llvm {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: handles are alive and of the kind that the function wants, texts end with a zero byte, and pointers
        // and lengths are those of what they were taken from.
        unsafe { $function($($argument),*) }
    };
}

/// A number that memory holds, in bytes.
pub(super) trait Plain: Copy {
    fn bytes(self) -> Vec<u8>;
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($name:ty),*) => {
        $(impl Plain for $name {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes[..size_of::<Self>()].try_into().unwrap())
            }
        })*
    };
}

plain!(u8, i8, u16, i16, u32, i32, u64, i64, f32);

impl Plain for bool {
    fn bytes(self) -> Vec<u8> {
        vec![u8::from(self)]
    }
    fn read(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

/// Bodies, compiled.
pub(super) struct Bodies {
    engine: LLVMExecutionEngineRef,
    context: LLVMContextRef,
    runs: BTreeMap<String, extern "C" fn(*const u8, *mut u8)>,
}

impl Drop for Bodies {
    fn drop(&mut self) {
        llvm!(LLVMDisposeExecutionEngine(self.engine));
        llvm!(LLVMContextDispose(self.context));
    }
}

/// How many bytes each argument takes in the memory that a call reads.
const SLOT: usize = 256;

/// The wrapper of one function: arguments in slots of 256 bytes, pointers as addresses, truths as bytes.
fn wrapper(text: &mut String, name: &str, signature: &Signature) {
    let _ = writeln!(text, "define void @\"run:{name}\"(ptr %arguments, ptr %result) {{");
    let mut arguments = Vec::new();
    for (index, ty) in signature.parameters.iter().enumerate() {
        let _ = writeln!(text, "  %p{index} = getelementptr i8, ptr %arguments, i64 {}", index * SLOT);
        if ty.starts_with("ptr") {
            let _ = writeln!(text, "  %i{index} = load i64, ptr %p{index}, align 8");
            let _ = writeln!(text, "  %x{index} = inttoptr i64 %i{index} to {ty}");
        } else if ty == "i1" {
            let _ = writeln!(text, "  %i{index} = load i8, ptr %p{index}, align 1");
            let _ = writeln!(text, "  %x{index} = trunc i8 %i{index} to i1");
        } else {
            let _ = writeln!(text, "  %x{index} = load {ty}, ptr %p{index}, align 1");
        }
        arguments.push(format!("{ty} %x{index}"));
    }
    let result = &signature.result;
    let call = format!("call {result} @\"{name}\"({})", arguments.join(", "));
    if result == "void" {
        let _ = writeln!(text, "  {call}\n  ret void\n}}");
    } else if result == "i1" {
        let _ = writeln!(
            text,
            "  %r = {call}\n  %b = zext i1 %r to i8\n  store i8 %b, ptr %result, align 1\n  ret void\n}}"
        );
    } else {
        let _ = writeln!(text, "  %r = {call}\n  store {result} %r, ptr %result, align 1\n  ret void\n}}");
    }
}

/// One text with the bodies of all these functions and the declarations of what they call.
pub(super) fn module<'a>(functions: impl IntoIterator<Item = (&'a str, &'a Signature)>) -> Result<Body, Unsupported> {
    let (mut text, mut needs) = (String::new(), Needs::default());
    for (name, signature) in functions {
        let body = body(name, signature, &ModuleOptions::default())?;
        text.push_str(&body.text);
        needs.declares.extend(body.needs.declares);
    }
    for declare in needs.declares.values() {
        let _ = writeln!(text, "{declare}");
    }
    Ok(Body { text, needs })
}

/// `float (<2 x half>, i32)` as a signature.
pub(super) fn signature(text: &str) -> Signature {
    let (result, parameters) = text.split_once(" (").unwrap();
    let parameters = parameters.strip_suffix(')').unwrap();
    let parameters = parameters.split(", ").filter(|text| !text.is_empty()).map(str::to_owned).collect();
    Signature { result: result.to_owned(), parameters }
}

fn initialize() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        crate::jit::llvm::initialize();
        llvm!(LLVMLinkInMCJIT());
    });
}

impl Bodies {
    /// Compiles the bodies of these functions, each a name and a type as in `air.fma.f32 float (float, float, float)`.
    pub(super) fn new(functions: &[&str]) -> Bodies {
        Bodies::with(functions, false)
    }

    /// The same for the oldest processor of this kind, which has no instructions for half and bfloat.
    pub(super) fn plain(functions: &[&str]) -> Bodies {
        Bodies::with(functions, true)
    }

    fn with(functions: &[&str], plain: bool) -> Bodies {
        let functions: Vec<(&str, Signature)> = functions
            .iter()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(name, ty)| (name, signature(ty)))
            .collect();
        let body = module(functions.iter().map(|(name, ty)| (*name, ty))).unwrap();
        let mut text = body.text;
        for (name, ty) in &functions {
            wrapper(&mut text, name, ty);
        }
        let names: Vec<&str> = functions.iter().map(|(name, _)| *name).collect();
        Bodies::compile(&text, &names, plain)
    }

    fn compile(text: &str, names: &[&str], plain: bool) -> Bodies {
        initialize();
        let text = std::ffi::CString::new(text).unwrap();
        let context = llvm!(LLVMContextCreate());
        let (mut module, mut message, mut engine) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // The copy has a zero byte behind the text, and becomes the parser's.
        let (start, len) = (text.as_ptr(), text.as_bytes().len());
        let buffer = llvm!(LLVMCreateMemoryBufferWithMemoryRangeCopy(start, len, c"text".as_ptr()));
        let failed = llvm!(LLVMParseIRInContext(context, buffer, &raw mut module, &raw mut message));
        assert_eq!(failed, 0, "{}", message_text(message));
        optimize(module, plain);
        let mut options = LLVMMCJITCompilerOptions {
            OptLevel: 2,
            CodeModel: LLVMCodeModel::LLVMCodeModelJITDefault,
            NoFramePointerElim: 0,
            EnableFastISel: 0,
            MCJMM: ptr::null_mut(),
        };
        let size = size_of_val(&options);
        let (to, why) = (&raw mut engine, &raw mut message);
        let failed = llvm!(LLVMCreateMCJITCompilerForModule(to, module, &raw mut options, size, why));
        assert_eq!(failed, 0, "{}", message_text(message));
        let mut host = symbols();
        host.extend([
            ("rig_ctx", rig_ctx as *const () as usize),
            ("rig_barrier", rig_barrier as *const () as usize),
            ("rig_exchange", rig_exchange as *const () as usize),
        ]);
        for (name, address) in host {
            let name = std::ffi::CString::new(name).unwrap();
            let address = std::ptr::with_exposed_provenance_mut(address);
            let declared = llvm!(LLVMGetNamedFunction(module, name.as_ptr()));
            if !declared.is_null() {
                llvm!(LLVMAddGlobalMapping(engine, declared, address));
            } else if name.to_bytes().starts_with(b"__") {
                // The code generator calls these by itself.
                llvm!(LLVMAddSymbol(name.as_ptr(), address));
            }
        }
        let mut runs = BTreeMap::new();
        for name in names {
            let wrapper = std::ffi::CString::new(format!("run:{name}")).unwrap();
            let address = llvm!(LLVMGetFunctionAddress(engine, wrapper.as_ptr()));
            assert_ne!(address, 0, "{name} was compiled");
            // SAFETY: the wrapper has this type.
            let run = unsafe { std::mem::transmute::<u64, extern "C" fn(*const u8, *mut u8)>(address) };
            runs.insert((*name).to_owned(), run);
        }
        Bodies { engine, context, runs }
    }

    /// Calls a body; arguments as bytes. The result's bytes are the first ones of the answer.
    pub(super) fn call(&self, name: &str, arguments: &[Vec<u8>]) -> [u8; 256] {
        let mut memory = vec![0u8; SLOT * arguments.len() + 1];
        for (index, bytes) in arguments.iter().enumerate() {
            memory[index * SLOT..][..bytes.len()].copy_from_slice(bytes);
        }
        let mut result = [0u8; 256];
        self.runs[name](memory.as_ptr(), result.as_mut_ptr());
        result
    }

    /// Calls a body on each lane of a SIMD-group whose active lanes these are; arguments by lane.
    pub(super) fn lanes(&self, name: &str, active: u32, arguments: impl Fn(usize) -> Vec<Vec<u8>>) -> Vec<[u8; 256]> {
        let mut results = vec![[0u8; 256]; 32];
        for second in [false, true] {
            for lane in (0..32usize).filter(|lane| active >> lane & 1 != 0) {
                GROUP.with_borrow_mut(|group| {
                    group.context.lane = lane as u32;
                    group.active = if second { active } else { 0 };
                });
                // The first time round the mask is empty, and the result is not looked at.
                results[lane] = self.call(name, &arguments(lane));
            }
        }
        results
    }

    /// Calls a body of elements: the arguments' elements one after the other.
    pub(super) fn one<R: Plain>(&self, name: &str, arguments: &[Vec<u8>]) -> R {
        R::read(&self.call(name, arguments))
    }
}

fn message_text(message: *mut std::ffi::c_char) -> String {
    if message.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: LLVM's messages end with a zero byte.
    unsafe { std::ffi::CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

/// The passes that compiled kernels get, so that what is tested is what runs.
fn optimize(module: LLVMModuleRef, plain: bool) {
    let (mut message, mut target) = (ptr::null_mut(), ptr::null_mut());
    let triple = llvm!(LLVMGetDefaultTargetTriple());
    assert_eq!(llvm!(LLVMGetTargetFromTriple(triple, &raw mut target, &raw mut message)), 0);
    let (name, features) = (llvm!(LLVMGetHostCPUName()), llvm!(LLVMGetHostCPUFeatures()));
    // The engine makes code for the oldest processor where a function does not say otherwise.
    let mut function = if plain { ptr::null_mut() } else { llvm!(LLVMGetFirstFunction(module)) };
    while !function.is_null() {
        llvm!(LLVMAddTargetDependentFunctionAttr(function, c"target-cpu".as_ptr(), name));
        llvm!(LLVMAddTargetDependentFunctionAttr(function, c"target-features".as_ptr(), features));
        function = llvm!(LLVMGetNextFunction(function));
    }
    let level = LLVMCodeGenOptLevel::LLVMCodeGenLevelDefault;
    let (relocation, code) = (LLVMRelocMode::LLVMRelocDefault, LLVMCodeModel::LLVMCodeModelJITDefault);
    let machine =
        llvm!(LLVMCreateTargetMachine(target, triple, c"x86-64".as_ptr(), c"".as_ptr(), level, relocation, code));
    let options = llvm!(LLVMCreatePassBuilderOptions());
    llvm!(LLVMPassBuilderOptionsSetVerifyEach(options, 1));
    let passes = c"verify,always-inline,default<O2>";
    let error = llvm!(LLVMRunPasses(module, passes.as_ptr(), machine, options));
    assert!(error.is_null(), "the passes run");
    llvm!(LLVMDisposePassBuilderOptions(options));
    llvm!(LLVMDisposeTargetMachine(machine));
}

/// The SIMD-group whose lanes run on this thread, one after the other.
struct Group {
    context: ThreadContext,
    active: u32,
    given: Vec<u8>,
    meetings: u32,
}

thread_local! {
    static GROUP: RefCell<Group> = const {
        RefCell::new(Group {
            context: ThreadContext {
                lane: 0,
                simdgroup: 0,
                index: 0,
                lanes: 32,
                local: [0; 3],
                reserved: 0,
                group: ptr::null(),
            },
            active: u32::MAX,
            given: Vec::new(),
            meetings: 0,
        })
    };
}

/// How many barriers this thread has come to.
pub(super) fn meetings() -> u32 {
    GROUP.with_borrow(|group| group.meetings)
}

extern "C" fn rig_ctx() -> *const ThreadContext {
    GROUP.with_borrow(|group| &raw const group.context)
}

extern "C" fn rig_barrier(_context: *const ThreadContext, _site: i32) {
    GROUP.with_borrow_mut(|group| group.meetings += 1);
}

extern "C" fn rig_exchange(
    context: *const ThreadContext,
    _site: i32,
    mine: *const u8,
    size: i32,
    all: *mut *const u8,
) -> i32 {
    GROUP.with_borrow_mut(|group| {
        assert_eq!(context, &raw const group.context);
        let (size, lane) = (size as usize, group.context.lane as usize);
        // Places of lanes that are not active hold rubbish.
        group.given.resize(4096, 0xa5);
        // SAFETY: the body gives that many bytes.
        let mine = unsafe { std::slice::from_raw_parts(mine, size) };
        group.given[lane * size..][..size].copy_from_slice(mine);
        // SAFETY: the body gives a place for a pointer; what it points to stays until the next exchange.
        unsafe { all.write(group.given.as_ptr()) };
        group.active as i32
    })
}
