//! What fuzzing reaches of this crate's parsers: no part of its interface.

use std::collections::BTreeMap;

use crate::msgpack::{self, Value};
use crate::object::Object;
use crate::sys::Played;
use crate::topology;

/// A function of a code object, as far as a reader can hold it to the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its descriptor's address from the object's start.
    pub descriptor: u64,
    /// The bytes of its arguments, and of those that a launch gives.
    pub arguments: (u32, u32),
    /// Where each hidden argument stands.
    pub hidden: Vec<u32>,
}

/// Reads a code object for gfx1100: the bytes as they are loaded at `base`, and the functions.
///
/// # Errors
///
/// It is none.
pub fn object(file: &[u8], base: u64) -> Result<(Vec<u8>, Vec<Function>), String> {
    // EF_AMDGPU_MACH_AMDGCN_GFX1100.
    let object = Object::read(file, "gfx1100", 0x41)?;
    let (bytes, functions) = object.at(base);
    let functions = functions.into_iter().map(|function| Function {
        descriptor: function.descriptor,
        arguments: (function.kernarg, function.params),
        hidden: function.hidden.iter().map(|hidden| hidden.at).collect(),
    });
    Ok((bytes, functions.collect()))
}

/// Reads the first value of MessagePack bytes, and writes it anew: in as few bytes as it takes, and nil for what the reader does
/// not keep. None where the bytes are no MessagePack.
#[must_use]
pub fn msgpack(bytes: &[u8]) -> Option<Vec<u8>> {
    let value = msgpack::read(bytes)?;
    let mut written = Vec::new();
    write(&value, &mut written);
    Some(written)
}

fn write(value: &Value<'_>, to: &mut Vec<u8>) {
    let head = |first: u8, len: usize, to: &mut Vec<u8>| {
        to.push(first);
        to.extend((len as u32).to_be_bytes());
    };
    match value {
        // A float, which the reader does not keep either.
        Value::Other => to.extend([0xca, 0, 0, 0, 0]),
        Value::Nil => to.push(0xc0),
        Value::Bool(value) => to.push(0xc2 + u8::from(*value)),
        Value::Unsigned(number) => {
            to.push(0xcf);
            to.extend(number.to_be_bytes());
        }
        Value::Negative(number) => {
            to.push(0xd3);
            to.extend(number.to_be_bytes());
        }
        Value::Text(text) => {
            head(0xdb, text.len(), to);
            to.extend(text.as_bytes());
        }
        Value::Array(values) => {
            head(0xdd, values.len(), to);
            values.iter().for_each(|value| write(value, to));
        }
        Value::Map(entries) => {
            head(0xdf, entries.len(), to);
            entries.iter().for_each(|(key, value)| {
                write(key, to);
                write(value, to);
            });
        }
    }
}

/// Reads a topology of these files below the folder of nodes, such as `1/properties`: the compute units and the bytes of memory
/// of each GPU.
#[must_use]
pub fn topology(files: &BTreeMap<String, String>) -> Vec<(u32, u64)> {
    let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let gpus = topology::gpus(&Played::below(topology::NODES, files)).unwrap_or_default();
    gpus.iter().map(|node| (node.compute_units() * node.shader_engines().min(1), node.vram)).collect()
}
