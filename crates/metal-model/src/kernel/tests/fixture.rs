//! What the tests of kernels are made with: modules from text, memory, dispatches.

use super::*;
use crate::address::gpu_address;

/// Memory that kernels read and write.
pub(super) struct Memory<T>(pub(super) Vec<T>);

impl<T: Copy> Memory<T> {
    pub(super) fn address(&mut self) -> u64 {
        gpu_address(self.0.as_mut_ptr().expose_provenance() as u64)
    }

    fn bytes(&self) -> u64 {
        size_of_val(self.0.as_slice()) as u64
    }

    pub(super) fn range(&mut self) -> (u64, u64) {
        (self.address(), self.bytes())
    }

    pub(super) fn bound(&mut self) -> Option<Bound> {
        Some(Bound { address: self.address(), len: self.bytes() })
    }

    pub(super) fn get(&self, at: usize) -> T {
        // SAFETY: the kernel that may have written it has ended.
        unsafe { (&raw const self.0[at]).read_volatile() }
    }

    pub(super) fn all(&self) -> Vec<T> {
        (0..self.0.len()).map(|at| self.get(at)).collect()
    }
}

/// A module of the kernel `k`: what comes before it, its parameters, its body, and a node of metadata for each argument.
pub(super) fn module(head: &str, parameters: &str, body: &str, arguments: &[String]) -> String {
    let nodes: Vec<_> = (10..10 + arguments.len()).map(|number| format!("!{number}")).collect();
    let mut text = format!(
        "target datalayout = \"{LAYOUT}\"\ntarget triple = \"air64_v26-apple-macosx14.0.0\"\n{head}\n\
         define void @k({parameters}) {{\n{body}\n}}\n\
         !air.kernel = !{{!4}}\n!4 = !{{ptr @k, !5, !6}}\n!5 = !{{}}\n!6 = !{{{}}}\n\
         !air.compile_options = !{{!7}}\n!7 = !{{!\"air.compile.denorms_disable\"}}\n",
        nodes.join(", ")
    );
    for (node, argument) in nodes.iter().zip(arguments) {
        text.push_str(&format!("{node} = {argument}\n"));
    }
    text
}

const LAYOUT: &str = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-f32:32:32-f64:64:64-v16:16:16-v24:32:32-v32:32:32-v48:64:64-v64:64:64-v96:128:128-v128:128:128-v192:256:256-v256:256:256-v512:512:512-v1024:1024:1024-n8:16:32";

/// A buffer argument: its parameter, its index, its address space, the bytes of its type. Those of constant memory are
/// references.
pub(super) fn buffer(parameter: usize, index: usize, space: u32, bytes: u32) -> String {
    let (access, reference) = match space {
        2 => ("air.read", format!("!\"air.buffer_size\", i32 {bytes}, ")),
        _ => ("air.read_write", String::new()),
    };
    format!(
        "!{{i32 {parameter}, !\"air.buffer\", {reference}!\"air.location_index\", i32 {index}, i32 1, !\"{access}\", !\"air.address_space\", i32 {space}, !\"air.arg_type_size\", i32 {bytes}, !\"air.arg_type_align_size\", i32 4, !\"air.arg_type_name\", !\"uint\", !\"air.arg_name\", !\"argument{index}\"}}"
    )
}

/// A threadgroup argument.
pub(super) fn threadgroup(parameter: usize, index: usize, bytes: u32) -> String {
    buffer(parameter, index, 3, bytes)
}

/// A built-in argument.
pub(super) fn builtin(parameter: usize, name: &str) -> String {
    format!("!{{i32 {parameter}, !\"air.{name}\", !\"air.arg_type_name\", !\"uint\", !\"air.arg_name\", !\"place\"}}")
}

/// The thread's place in the grid.
pub(super) fn thread_in_grid(parameter: usize) -> String {
    builtin(parameter, "thread_position_in_grid")
}

pub(super) fn library(name: &str, text: &str) -> Library {
    Library::open(Arc::new(pack(&[(name, text)]).unwrap())).unwrap()
}

pub(super) fn compile(library: &Library, constants: &Constants) -> Result<Kernel, CompileError> {
    Kernel::compile(library, "k", constants, &CompileOptions::default())
}

pub(super) fn kernel(name: &str, text: &str) -> Kernel {
    Kernel::compile(&library(name, text), name, &Constants::default(), &CompileOptions::default()).unwrap()
}

pub(super) fn slots(bound: &[Option<Bound>]) -> [Option<Bound>; 31] {
    let mut buffers = [None; 31];
    buffers[..bound.len()].copy_from_slice(bound);
    buffers
}

/// A dispatch with nothing bound.
pub(super) fn dispatch(groups: [u32; 3], threads: [u32; 3], resident: &Residency) -> Dispatch<'_> {
    Dispatch { groups, threads, grid: None, buffers: &[None; 31], threadgroup: &[0; 31], resident }
}

pub(super) fn run(
    kernel: &Kernel,
    groups: [u32; 3],
    threads: [u32; 3],
    bound: &[Option<Bound>],
    resident: &Residency,
) -> Result<(), Violation> {
    let buffers = slots(bound);
    kernel.dispatch(&Dispatch { buffers: &buffers, ..dispatch(groups, threads, resident) }, &Workers::new(2))
}
