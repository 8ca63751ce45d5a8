//! Compiles: a function, with the values of its constants, into a pipeline, by Metal and beside the caller.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use block2::RcBlock;
use objc2::Message;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSError;
use parking_lot::{Condvar, Mutex};

use crate::code::text;
use crate::constants::{Key, Value};
use crate::object::Held;
use crate::sys::{
    MTLBinding, MTLBindingType, MTLBufferBinding, MTLComputePipelineDescriptor, MTLComputePipelineReflection,
    MTLComputePipelineState, MTLDataType, MTLDevice, MTLFunction, MTLFunctionConstantValues, MTLLibrary,
    MTLPipelineOption,
};

/// What Metal made of a function.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub pipeline: Held<dyn MTLComputePipelineState>,
    /// The most threads of a threadgroup.
    pub threads: usize,
    /// The bytes of threadgroup memory that the function declares.
    pub group_bytes: usize,
    /// The bytes of the struct at kernel buffer 0: 0 with no buffer 0, none where it points to another type.
    pub params: Option<usize>,
}

/// A compile that Metal does or has done. Metal's thread writes the answer, whoever still wants it.
#[derive(Debug, Default)]
pub(crate) struct Compile {
    answer: Mutex<Option<Result<Made, String>>>,
    answered: Condvar,
}

impl Compile {
    /// Starts one. Inside a pool and a guard.
    pub fn start(
        gpu: &ProtocolObject<dyn MTLDevice>,
        function: &ProtocolObject<dyn MTLFunction>,
        label: &str,
    ) -> Result<Arc<Compile>, String> {
        let compile = Arc::new(Compile::default());
        let descriptor = MTLComputePipelineDescriptor::new();
        descriptor.setComputeFunction(Some(function));
        descriptor.setSupportIndirectCommandBuffers(true);
        descriptor.setLabel(Some(&text(label)));
        let options = MTLPipelineOption::BindingInfo | MTLPipelineOption::BufferTypeInfo;
        let block = of_threads({
            let compile = Arc::clone(&compile);
            move |pipeline, reflection, error| {
                // SAFETY: Metal passes each as an object that is alive during the call, or as null.
                #[expect(unsafe_code, reason = "Metal passes pointers")]
                let answer = unsafe { answer(pipeline, reflection, error) };
                *compile.answer.lock() = Some(answer);
                compile.answered.notify_all();
            }
        });
        // SAFETY: the block takes what Metal's handler of these options gets, and may be called on any thread.
        #[expect(unsafe_code, reason = "gives Metal a block")]
        unsafe {
            gpu.newComputePipelineStateWithDescriptor_options_completionHandler(
                &descriptor,
                options,
                RcBlock::as_ptr(&block),
            );
        }
        Ok(compile)
    }

    /// Waits for the answer. TIMEOUT: none; Metal answers every compile.
    pub fn wait(&self) -> Result<Made, String> {
        let mut answer = self.answer.lock();
        loop {
            if let Some(answer) = &*answer {
                return answer.clone();
            }
            self.answered.wait(&mut answer);
        }
    }
}

type Done = dyn Fn(*mut ProtocolObject<dyn MTLComputePipelineState>, *mut MTLComputePipelineReflection, *mut NSError);

/// A block that may be called on any thread.
fn of_threads(
    closure: impl Fn(*mut ProtocolObject<dyn MTLComputePipelineState>, *mut MTLComputePipelineReflection, *mut NSError)
    + Send
    + Sync
    + 'static,
) -> RcBlock<Done> {
    RcBlock::new(closure)
}

/// What Metal says of a compile.
///
/// # Safety
///
/// Each pointer is null or an object that is alive.
#[expect(unsafe_code, reason = "Metal passes pointers")]
unsafe fn answer(
    pipeline: *mut ProtocolObject<dyn MTLComputePipelineState>,
    reflection: *mut MTLComputePipelineReflection,
    error: *mut NSError,
) -> Result<Made, String> {
    // SAFETY: the caller's promise.
    let (pipeline, reflection) = (unsafe { pipeline.as_ref() }, unsafe { reflection.as_ref() });
    // SAFETY: as above.
    let error = unsafe { error.as_ref() };
    let Some(pipeline) = pipeline else {
        return Err(
            error.map_or_else(|| "Metal does not say why".into(), |error| error.localizedDescription().to_string())
        );
    };
    Ok(Made {
        threads: pipeline.maxTotalThreadsPerThreadgroup(),
        group_bytes: pipeline.staticThreadgroupMemoryLength(),
        pipeline: pipeline.retain().into(),
        params: reflection.and_then(params_of),
    })
}

/// The bytes of the struct at kernel buffer 0: 0 with no buffer 0, none where it points to another type.
fn params_of(reflection: &MTLComputePipelineReflection) -> Option<usize> {
    let bindings = reflection.bindings();
    let first = bindings.iter().find(|binding| binding.r#type() == MTLBindingType::Buffer && binding.index() == 0);
    let Some(first) = first else { return Some(0) };
    // SAFETY: a binding of the type Buffer is an MTLBufferBinding.
    #[expect(unsafe_code, reason = "Metal tells the protocol by the type")]
    let first: Retained<ProtocolObject<dyn MTLBufferBinding>> = unsafe { Retained::cast_unchecked(first) };
    (first.bufferDataType() == MTLDataType::Struct).then(|| first.bufferDataSize())
}

/// The function of a library with values of its constants; none if there is no such function. Inside a pool and a guard.
pub(crate) fn function(
    library: &ProtocolObject<dyn MTLLibrary>,
    name: &str,
    constants: &[(Key<'_>, Value)],
) -> Result<Option<Retained<ProtocolObject<dyn MTLFunction>>>, String> {
    let name = text(name);
    if constants.is_empty() {
        return Ok(library.newFunctionWithName(&name));
    }
    if let Some(function) = library.newFunctionWithName(&name) {
        check(&function, constants)?;
    }
    let values = MTLFunctionConstantValues::new();
    for (key, value) in constants {
        let (kind, bytes) = (metal_type(*value), value.bytes());
        let at = NonNull::from(&bytes).cast::<c_void>();
        match key {
            // SAFETY: the bytes hold a value of the type, which Metal copies.
            #[expect(unsafe_code, reason = "gives Metal a value by its address")]
            Key::Index(index) => unsafe { values.setConstantValue_type_atIndex(at, kind, usize::from(*index)) },
            // SAFETY: as above.
            #[expect(unsafe_code, reason = "gives Metal a value by its address")]
            Key::Name(name) => unsafe { values.setConstantValue_type_withName(at, kind, &text(name)) },
        }
    }
    let function = library.newFunctionWithName_constantValues_error(&name, &values);
    function.map(Some).map_err(|error| format!("Metal cannot specialise {name}: {}", error.localizedDescription()))
}

/// Sees that the function has these constants, of these types.
fn check(function: &ProtocolObject<dyn MTLFunction>, constants: &[(Key<'_>, Value)]) -> Result<(), String> {
    let has = function.functionConstantsDictionary().to_vecs().1;
    for (key, value) in constants {
        let found = has.iter().find(|constant| match key {
            Key::Index(index) => constant.index() == usize::from(*index),
            Key::Name(name) => constant.name().to_string() == *name,
        });
        let Some(found) = found else {
            let listed: Vec<String> =
                has.iter().map(|constant| format!("{} (index {})", constant.name(), constant.index())).collect();
            let listed = if listed.is_empty() { "none".into() } else { listed.join(", ") };
            return Err(format!("{} has no function constant {key}: it has {listed}", function.name()));
        };
        if found.r#type() != metal_type(*value) {
            return Err(format!(
                "the function constant {key} of {} is of another type than {}: {}",
                function.name(),
                value.type_name(),
                type_name(found.r#type())
            ));
        }
    }
    Ok(())
}

/// Metal's name of a value's type.
fn metal_type(value: Value) -> MTLDataType {
    match value {
        Value::Bool(_) => MTLDataType::Bool,
        Value::I8(_) => MTLDataType::Char,
        Value::U8(_) => MTLDataType::UChar,
        Value::I16(_) => MTLDataType::Short,
        Value::U16(_) => MTLDataType::UShort,
        Value::I32(_) => MTLDataType::Int,
        Value::U32(_) => MTLDataType::UInt,
        Value::I64(_) => MTLDataType::Long,
        Value::U64(_) => MTLDataType::ULong,
        Value::F16(_) => MTLDataType::Half,
        Value::F32(_) => MTLDataType::Float,
    }
}

/// A type of Metal's in words.
fn type_name(kind: MTLDataType) -> String {
    let known = [
        Value::Bool(false),
        Value::I8(0),
        Value::U8(0),
        Value::I16(0),
        Value::U16(0),
        Value::I32(0),
        Value::U32(0),
        Value::I64(0),
        Value::U64(0),
        Value::F16(0),
        Value::F32(0.0),
    ];
    let known = known.into_iter().find(|&value| metal_type(value) == kind).map(Value::type_name);
    known.map_or_else(|| format!("Metal's type {}", kind.0), Into::into)
}
