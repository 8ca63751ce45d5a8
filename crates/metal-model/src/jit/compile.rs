//! A function of a library as an object, and what the dispatch needs to know of it.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::abi::SLOTS;
use super::guard::guarded;
use super::llvm::{Context, Machine, Module};
use super::metadata::{self, Facts};
use super::{bitcode, cache, entry, prove, specialize};
use crate::checks;
use crate::container::Library;
use crate::kernel::{Checks, CompileError, CompileOptions, Constants, Effort};
use crate::metadata::{ArgumentKind, Reflection};
use crate::prelude::ModuleOptions;

/// How a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A loop over the threads of a group.
    Loop,
    /// A fiber for each thread.
    Fibers,
}

/// Machine code, not linked yet.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) code: Vec<u8>,
    pub(crate) form: Form,
    /// Whether it lists constant variables that the kernel may reach.
    pub(crate) tables: bool,
    /// Whether it has a loop without checks, and the proof that allows it.
    pub(crate) proved: bool,
}

/// What a compile answers.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) object: Object,
    pub(crate) reflection: Reflection,
    pub(crate) flush_denormals: bool,
}

/// What a kernel says of itself.
pub(crate) fn reflect(library: &Library, name: &str) -> Result<Reflection, CompileError> {
    let failed = |why| CompileError::Compiler { name: name.to_owned(), why };
    guarded(|| {
        let context = Context::new();
        let module = bitcode::module(&context, library, name)?;
        Ok(facts(&module, name)?.reflection)
    })
    .map_err(failed)?
}

fn facts<'c>(module: &Module<'c>, name: &str) -> Result<Facts<'c>, CompileError> {
    let damaged =
        || CompileError::Damaged { name: name.to_owned(), why: "its metadata describes no kernel".to_owned() };
    metadata::read(module, name).ok_or_else(damaged)
}

/// Refuses a kernel with an argument that software Metal does not have, by the argument's name.
fn supported(name: &str, reflection: &Reflection) -> Result<(), CompileError> {
    for argument in &reflection.arguments {
        let what = match &argument.kind {
            ArgumentKind::Unsupported(what) => format!("{what}, for the argument {}", argument.name),
            ArgumentKind::Buffer { index, .. } | ArgumentKind::Threadgroup { index, .. }
                if *index as usize >= SLOTS =>
            {
                format!("the index {index}, of the argument {}", argument.name)
            }
            _ => continue,
        };
        return Err(CompileError::Unsupported { name: name.to_owned(), what });
    }
    Ok(())
}

/// Compiles a function, or takes its object from the cache.
pub(crate) fn compile(
    library: &Library,
    name: &str,
    constants: &Constants,
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    let failed = |why| CompileError::Compiler { name: name.to_owned(), why };
    guarded(|| {
        let context = Context::new();
        let module = bitcode::module(&context, library, name)?;
        let facts = facts(&module, name)?;
        supported(name, &facts.reflection)?;
        let machine = Machine::host(options.effort == Effort::Full).map_err(failed)?;
        let key = options.cache.as_ref().map(|folder| (folder, key(library, name, constants, options, &machine)));
        let cached = key.as_ref().and_then(|(folder, key)| cache::take(folder, key));
        let object = match cached {
            // The values of the constants are looked at again: one that is missing is an error each time.
            Some(object) => specialize::constants(&module, name, &facts, constants).map(|()| object)?,
            None => {
                let object = object(&module, name, &facts, constants, options, &machine)?;
                if let Some((folder, key)) = &key {
                    cache::keep(folder, key, &object);
                }
                object
            }
        };
        Ok(Compiled { object, flush_denormals: facts.flush_denormals, reflection: facts.reflection })
    })
    .map_err(failed)?
}

/// What names an object in the cache.
fn key(library: &Library, name: &str, constants: &Constants, options: &CompileOptions, machine: &Machine) -> [u8; 32] {
    let mut text = format!("{} {} {name}\n", env!("CARGO_PKG_VERSION"), env!("RIG_MODEL_SOURCES"));
    let _ = writeln!(text, "{:?} {:?} {}", options.checks, options.effort, machine.processor);
    let _ = writeln!(text, "{:?} {:?}", constants.by_index, constants.by_name);
    let mut hash = Sha256::new();
    hash.update(library.hash(name).unwrap_or_default());
    hash.update(text);
    hash.finalize().into()
}

/// Runs the whole way from the function's module to an object.
fn object(
    module: &Module<'_>,
    name: &str,
    facts: &Facts<'_>,
    constants: &Constants,
    options: &CompileOptions,
    machine: &Machine,
) -> Result<Object, CompileError> {
    let unsupported = |what| CompileError::Unsupported { name: name.to_owned(), what };
    let failed = |why| CompileError::Compiler { name: name.to_owned(), why };
    module.verify().map_err(|why| CompileError::Damaged { name: name.to_owned(), why })?;
    let kernel = module.function(name).ok_or_else(|| failed("the kernel is gone".to_owned()))?;
    specialize::constants(module, name, facts, constants)?;
    module.retarget(machine);
    specialize::strip(module, kernel);
    kernel.rename(specialize::KERNEL);
    specialize::initialize(module, machine).map_err(unsupported)?;
    let module_options = ModuleOptions { flush_denormals: facts.flush_denormals, fast_math: facts.fast_math };
    specialize::prelude(module, machine, &module_options).map_err(unsupported)?;
    if !facts.reflection.constants.is_empty() {
        // What the constants' values leave unused is never read: an argument that they take away is not there.
        module.run_passes("function(sroa,early-cse,simplifycfg,adce)", machine).map_err(failed)?;
    }
    specialize::forget_aliasing(kernel, module.context());
    specialize::guard_divisions(kernel, module.context());
    let meets = specialize::number_sites(kernel);
    let proved = !meets
        && options.checks == Checks::Instrumented
        && options.effort == Effort::Full
        && match prove::second(module, machine, facts).map_err(failed)? {
            Some(second) => module.link(second).map(|()| true).map_err(failed)?,
            None => false,
        };
    let tables = specialize::bias_tables(module, machine).map_err(failed)?;
    let params = kernel.params();
    let text = if meets {
        entry::fiber_thread(facts, &params)
    } else {
        entry::group_loop(facts, &params, entry::GROUP_ENTRY, specialize::KERNEL, "")
    };
    let entry = module.context().parse_text(&text.map_err(unsupported)?).map_err(failed)?;
    entry.retarget(machine);
    module.link(entry).map_err(failed)?;
    kernel.set_linkage(llvm_sys::LLVMLinkage::LLVMInternalLinkage);
    kernel.add_attribute(module.context().enum_attribute("alwaysinline"));
    checks::instrument(module, machine, options.checks).map_err(failed)?;
    if cfg!(debug_assertions) {
        module.verify().map_err(failed)?;
    }
    let passes = match options.effort {
        Effort::Full => "always-inline,default<O2>",
        Effort::Fast => "always-inline,globalopt,function(sroa,simplifycfg,early-cse)",
    };
    module.run_passes(passes, machine).map_err(failed)?;
    let code = module.object(machine).map_err(failed)?;
    let form = if meets { Form::Fibers } else { Form::Loop };
    Ok(Object { code, form, tables, proved })
}
