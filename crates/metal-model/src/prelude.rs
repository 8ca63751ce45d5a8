//! The bodies of Metal's own functions: for each `air.*` function that a library's code declares, LLVM IR that does the
//! same on this machine.
//!
//! A body is chosen by the family that the name spells and by the types of the declaration, so one body serves every
//! width, every vector and both signs. Every body is to be inlined, before anything else is done with the module: only
//! then are the call sites of the lanes' exchange numbered, and the accesses to memory checked.
//!
//! Invariants:
//! 1. A body has exactly the type of the declaration it stands for.
//! 2. A body reaches device, constant and threadgroup memory by plain loads, stores and atomic instructions in their
//!    address spaces and by no call, so that `checks` sees them all.
//! 3. What the lanes of a SIMD-group tell each other goes through [`EXCHANGE`] alone, and every body that calls it does
//!    so once, outside any branch.
//! 4. Half and bfloat arithmetic is done in float and rounded once, to the nearest, ties to even.
//! 5. The fast forms are the precise ones: Metal's bounds for the fast forms are wider.
//!
//! Out of scope, refused by name: textures, samplers, ray tracing, mesh and tessellation, imageblocks, tensors, and the
//! encoding of commands by the GPU.
//!
//! Threads: pure functions.

mod atomic;
mod convert;
mod float;
mod host;
mod integer;
mod lanes;
mod matrix;
mod pack;
mod types;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::jit::abi;
pub use host::symbols;
use types::{Name, Scalar, Type};
use writer::{Value, Writer};

/// Answers the running thread's context (`jit::abi`).
pub(crate) const CONTEXT: &str = "rig_ctx";
/// Where the threads of a threadgroup meet.
pub(crate) const BARRIER: &str = "rig_barrier";
/// Where the lanes of a SIMD-group meet and tell each other some bytes.
pub(crate) const EXCHANGE: &str = "rig_exchange";
/// Stands for the number of every call site: the engine gives each its own once the bodies are inlined.
const SITE: i64 = 0;

/// The threads of a SIMD-group.
const LANES: u32 = abi::LANES as u32;

/// The type of a function, as IR text: `float`, `<2 x half>`, `ptr addrspace(3)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The result's type.
    pub result: String,
    /// The parameters' types.
    pub parameters: Vec<String>,
}

/// What the module says of all its functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ModuleOptions {
    /// `air.compile.denorms_disable`: results too small for a normal number are zero. The thread that runs the code
    /// sees to it; no body depends on it.
    pub flush_denormals: bool,
    /// `air.compile.fast_math_enable`. No body depends on it.
    pub fast_math: bool,
}

/// The body of one function.
#[derive(Clone, Debug)]
pub struct Body {
    /// The definition. The declarations of what it calls are in `needs`.
    pub text: String,
    /// What it calls.
    pub needs: Needs,
}

/// What bodies call outside their text.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// The declarations, by the name of the function.
    pub declares: BTreeMap<&'static str, String>,
}

/// A function that software Metal does not have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("software Metal has no {name}: {why}")]
pub struct Unsupported {
    /// The function's name.
    pub name: String,
    /// What it belongs to, or that it is unknown.
    pub why: &'static str,
}

/// The body of `name` with this type.
///
/// # Errors
/// [`Unsupported`] names the function where software Metal has no such function, or none with this type.
pub fn body(name: &str, signature: &Signature, options: &ModuleOptions) -> Result<Body, Unsupported> {
    let _ = options;
    let refused = |why| Unsupported { name: name.to_owned(), why };
    let parsed = Name::parse(name).ok_or_else(|| refused("it is no function of Metal"))?;
    let unknown = || refused(out_of_scope(parsed.family));
    let result = Type::parse(&signature.result).ok_or_else(unknown)?;
    let mut parameters = Vec::new();
    for (index, text) in signature.parameters.iter().enumerate() {
        parameters.push(Value::new(Type::parse(text).ok_or_else(unknown)?, format_args!("%a{index}")));
    }
    let mut writer = Writer::default();
    let value = write(&mut writer, &parsed, result, &parameters).ok_or_else(unknown)?;
    match (result, value) {
        (Type::Void, _) => writer.line("ret void"),
        (_, value) if value.ty == result => writer.line(format_args!("ret {}", value.typed())),
        _ => return Err(refused("its type is not one that Metal gives it")),
    }
    let needs = Needs { declares: std::mem::take(&mut writer.declares) };
    let parameters: Vec<String> = parameters.iter().map(Value::typed).collect();
    let text = format!(
        "define linkonce_odr {result} @\"{name}\"({}) alwaysinline nounwind {{\n{}}}\n",
        parameters.join(", "),
        writer.into_text()
    );
    Ok(Body { text, needs })
}

/// Writes the instructions of one function. None where the family is unknown or its types are not what the family
/// takes.
fn write(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    control(w, name, result, arguments)
        .or_else(|| convert::write(w, name, result, arguments))
        .or_else(|| matrix::write(w, name, result, arguments))
        .or_else(|| lanes::write(w, name, result, arguments))
        .or_else(|| atomic::write(w, name, result, arguments))
        .or_else(|| pack::write(w, name, result, arguments))
        .or_else(|| integer::write(w, name, result, arguments))
        .or_else(|| float::write(w, name, result, arguments))
}

/// Barriers and what the compiler tells or asks.
fn control(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    Some(match (name.family, arguments) {
        ("wg" | "threadgroup", [_, _]) if name.suffixes == ["barrier"] => {
            let context = context(w);
            w.call(Type::Void, BARRIER, &[&context, &Value::int(SITE)], "convergent nounwind")
        }
        ("simdgroup", [_, _]) if name.suffixes == ["barrier"] => {
            lanes::meet(w);
            Value::new(Type::Void, "")
        }
        // The compiler assumes it where the program says that a value is the same in every thread.
        ("is_uniform", [_]) => Value::one(Scalar::Int(1), "true"),
        ("get_simdgroup_size", []) => Value::new(result, LANES),
        ("get_quadgroup_size", []) => Value::new(result, lanes::QUAD),
        ("normalize_function_constant_predicate", [predicate]) if predicate.ty == result => {
            let zero = Value::new(predicate.ty, 0);
            let is = w.compare("icmp ne", predicate, &zero);
            w.cast("zext", &is, result)
        }
        _ => return None,
    })
}

/// The running thread's context.
fn context(w: &mut Writer) -> Value {
    w.call(Type::Pointer(0), CONTEXT, &[], "nounwind willreturn memory(none)")
}

/// To what part of Metal a family belongs that software Metal leaves out.
fn out_of_scope(family: &str) -> &'static str {
    const PARTS: [(&[&str], &str); 8] = [
        (&["texture", "sampler", "_depth_", "depth_2d", "depth_cube", "sample_"], "it works on textures"),
        (&["intersect", "acceleration_structure", "ray_data"], "it belongs to ray tracing"),
        (&["mesh", "object_"], "it belongs to mesh shaders"),
        (&["patch", "control_point", "tess"], "it belongs to tessellation"),
        (&["imageblock", "discard_fragment", "dfdx", "dfdy", "fwidth", "coverage"], "it belongs to rendering"),
        (&["tensor", "cooperative", "16x16x16"], "it works on tensors"),
        (&["_command", "command_buffer"], "it encodes commands on the GPU"),
        (&["function_table", "function_handle"], "it calls through tables of functions"),
    ];
    PARTS
        .iter()
        .find(|(words, _)| words.iter().any(|word| family.contains(word)))
        .map_or("no such function is known, or none with its type", |(_, why)| why)
}
