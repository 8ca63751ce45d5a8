//! Pipelines: functions compiled for the GPU.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use objc2::{
    DefinedClass, define_class,
    rc::Retained,
    runtime::{NSObject, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSError, NSString, NSUInteger};

use super::{
    Life, MTLComputePipelineReflection, ResourceState, again, bindings, create,
    device::Device,
    errors,
    library::{FunctionFacts, refused},
};
use crate::{
    kernel::Kernel,
    machine::{Machine, What},
    metadata::{Access, ArgumentKind, Space},
    protocol::{MTLAllocation, MTLComputePipelineState, MTLDevice, MTLLibraryError, MTLPipelineOption},
};

/// A buffer that a kernel uses.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub(crate) name: String,
    pub(crate) index: u8,
    /// Bytes that must be bound, where the argument is a reference.
    pub(crate) bytes: u64,
    pub(crate) alignment: u64,
    pub(crate) constant: bool,
    pub(crate) writes: bool,
}

/// A pipeline, without its object.
pub(crate) struct PipelineFacts {
    life: Life,
    pub(crate) machine: Machine,
    pub(crate) name: String,
    pub(crate) code: Kernel,
    pub(crate) max_threads: usize,
    pub(crate) static_memory: usize,
    pub(crate) indirect: bool,
    pub(crate) whole_simdgroups: bool,
    pub(crate) needs: Vec<Need>,
    /// Indices of threadgroup memory that it uses.
    pub(crate) threadgroup: Vec<u8>,
}

impl ResourceState for PipelineFacts {
    fn life(&self) -> &Life {
        &self.life
    }

    fn range(&self) -> Option<(u64, u64)> {
        None
    }

    fn allocated(&self) -> u64 {
        0
    }

    fn describe(&self) -> String {
        format!("the pipeline of {}", self.name)
    }
}

/// What a pipeline is made from.
pub(crate) struct Plan {
    pub(crate) function: Arc<FunctionFacts>,
    pub(crate) device: Retained<Device>,
    pub(crate) label: Option<String>,
    pub(crate) max_threads: usize,
    pub(crate) indirect: bool,
    pub(crate) whole_simdgroups: bool,
    pub(crate) options: MTLPipelineOption,
}

/// A pipeline, and what its arguments are where that was asked for.
pub(crate) type Made = (Retained<Pipeline>, Option<Retained<MTLComputePipelineReflection>>);

/// What a pipeline's object holds.
pub(crate) struct Variables {
    facts: Arc<PipelineFacts>,
    device: Retained<Device>,
    label: Option<String>,
}

impl Drop for Variables {
    fn drop(&mut self) {
        self.facts.life.end();
    }
}

define_class!(
    // SAFETY: NSObject asks nothing of subclasses, and the class has no Drop of its own.
    #[unsafe(super(NSObject))]
    #[name = "RigModelPipeline"]
    #[ivars = Variables]
    pub(crate) struct Pipeline;

    unsafe impl NSObjectProtocol for Pipeline {}

    unsafe impl MTLAllocation for Pipeline {
        #[unsafe(method(allocatedSize))]
        fn allocated_size(&self) -> NSUInteger {
            0
        }
    }

    unsafe impl MTLComputePipelineState for Pipeline {
        #[unsafe(method_id(label))]
        fn label(&self) -> Option<Retained<NSString>> {
            self.ivars().label.as_deref().map(NSString::from_str)
        }

        #[unsafe(method_id(reflection))]
        fn reflection(&self) -> Option<Retained<MTLComputePipelineReflection>> {
            self.told()
        }

        #[unsafe(method_id(device))]
        fn device(&self) -> Retained<ProtocolObject<dyn MTLDevice>> {
            ProtocolObject::from_retained(self.ivars().device.clone())
        }

        #[unsafe(method(maxTotalThreadsPerThreadgroup))]
        fn max_threads(&self) -> NSUInteger {
            self.ivars().facts.max_threads
        }

        #[unsafe(method(threadExecutionWidth))]
        fn width(&self) -> NSUInteger {
            32
        }

        #[unsafe(method(staticThreadgroupMemoryLength))]
        fn static_memory(&self) -> NSUInteger {
            self.ivars().facts.static_memory
        }

        #[unsafe(method(supportIndirectCommandBuffers))]
        fn supports_indirect(&self) -> bool {
            self.ivars().facts.indirect
        }
    }
);

impl Pipeline {
    pub(crate) fn facts(&self) -> &Arc<PipelineFacts> {
        &self.ivars().facts
    }

    /// What its arguments are, where macOS has that message.
    fn told(&self) -> Option<Retained<MTLComputePipelineReflection>> {
        let facts = &self.ivars().facts;
        if facts.machine.macos().0 < 26 {
            facts.machine.violate("-[MTLComputePipelineState reflection]", "macOS has it from version 26 on");
            return None;
        }
        Some(bindings::reflection(&facts.machine, facts.code.reflection()))
    }
}

/// Compiles a pipeline. Blocks.
pub(crate) fn compile(plan: &Plan) -> Result<Made, Retained<NSError>> {
    let machine = plan.device.machine();
    if !machine.permits(What::Pipeline) {
        return Err(errors::library(MTLLibraryError::Internal, "the compiler refuses the function"));
    }
    let tally = &machine.0.tally;
    let at_once = tally.compiling.fetch_add(1, Ordering::Relaxed) + 1;
    tally.compiling_most.fetch_max(at_once, Ordering::Relaxed);
    let _compiling = Compiling(&tally.compiling);
    machine.0.gate.await_compiles();
    // TIMEOUT: what the test said that a compile takes at least; nothing is ordered by it.
    std::thread::sleep(machine.0.config.compile_time);
    let function = &plan.function;
    let code = Kernel::compile(&function.source, &function.name, &function.constants, &machine.0.config.compile);
    let code = code.map_err(|why| refused(&why))?;
    tally.compiled.fetch_add(1, Ordering::Relaxed);
    let facts = facts(plan, code)?;
    let wanted = plan.options.intersects(MTLPipelineOption::BindingInfo | MTLPipelineOption::BufferTypeInfo);
    let reflection = wanted.then(|| bindings::reflection(machine, facts.code.reflection()));
    let variables = Variables { facts: Arc::new(facts), device: again(&*plan.device), label: plan.label.clone() };
    Ok((create!(Pipeline, machine, variables), reflection))
}

/// Counts a compile while it lasts.
struct Compiling<'a>(&'a AtomicU64);

impl Drop for Compiling<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the pipeline of a plan is.
fn facts(plan: &Plan, code: Kernel) -> Result<PipelineFacts, Retained<NSError>> {
    let machine = plan.device.machine();
    let config = &machine.0.config;
    let name = &plan.function.name;
    let reflection = code.reflection().clone();
    let static_memory = reflection.static_threadgroup_bytes as usize;
    if static_memory > config.threadgroup_memory {
        let why = format!(
            "{name} has {static_memory} bytes of threadgroup memory, and the GPU {} bytes",
            config.threadgroup_memory
        );
        return Err(errors::library(MTLLibraryError::CompileFailure, &why));
    }
    let mut most = config.max_threads.into_iter().max().unwrap_or(0).min(1024);
    if let Some(max) = reflection.max_total_threads {
        most = most.min(max as usize);
    }
    if plan.max_threads > 0 {
        if plan.max_threads > most {
            let why = format!("{name} cannot have threadgroups of {} threads; {most} are the most", plan.max_threads);
            return Err(errors::library(MTLLibraryError::CompileFailure, &why));
        }
        most = plan.max_threads;
    }
    let (mut needs, mut threadgroup) = (Vec::new(), Vec::new());
    for argument in reflection.arguments.iter().filter(|argument| argument.used && argument.predicate.is_none()) {
        match &argument.kind {
            ArgumentKind::Buffer { index, space, access, data_size, alignment, reference, .. } => needs.push(Need {
                name: argument.name.clone(),
                index: u8::try_from(*index).unwrap_or(u8::MAX),
                bytes: if *reference { *data_size } else { 0 },
                alignment: u64::from(*alignment).max(1),
                constant: *space == Space::Constant,
                writes: *access != Access::Read,
            }),
            ArgumentKind::Threadgroup { index, .. } => threadgroup.push(u8::try_from(*index).unwrap_or(u8::MAX)),
            _ => {}
        }
    }
    Ok(PipelineFacts {
        life: Life::default(),
        machine: machine.clone(),
        name: name.clone(),
        max_threads: most,
        static_memory,
        indirect: plan.indirect,
        whole_simdgroups: plan.whole_simdgroups,
        needs,
        threadgroup,
        code,
    })
}
