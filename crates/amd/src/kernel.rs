//! A function of a code object: its descriptor, which the GPU reads, and its metadata, which tells of its arguments.
//!
//! Source: LLVM's "User Guide for AMDGPU Backend", the tables of the kernel descriptor and of the metadata of versions 4
//! and 5.

use crate::msgpack::Value;

/// The bytes of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: usize = 64;
/// The most bytes of a function's arguments. Compilers keep far below: HIP takes 4 KiB.
pub(crate) const ARGUMENTS_MOST: u64 = 64 << 10;
/// `ENABLE_WAVEFRONT_SIZE32` and `USES_DYNAMIC_STACK` of the descriptor's properties.
const WAVE_32: u16 = 1 << 10;
const USES_DYNAMIC_STACK: u16 = 1 << 11;
/// The bytes that each thread has for what a compiler cannot tell the size of, beside those that it tells: deep calls, calls of
/// unknown functions, arrays of lengths that values choose.
pub(crate) const STACK_BYTES: u32 = 16 << 10;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub name: String,
    /// The descriptor's address from the object's start.
    pub descriptor: u64,
    /// The bytes of group memory that it declares.
    pub group: u32,
    /// The bytes of private memory of each thread, with those of a stack whose size nobody knows.
    pub private: u32,
    /// The threads of a wave.
    pub lanes: u32,
    /// The bytes of all its arguments.
    pub kernarg: u32,
    /// The bytes of those that a launch gives.
    pub params: u32,
    /// The arguments behind them, which describe the launch.
    pub hidden: Vec<Hidden>,
    /// The most threads of a group.
    pub threads: u32,
    /// The threads along x, y, z that it was compiled for, if it was for one size alone.
    pub fixed: Option<[u32; 3]>,
    /// Why it cannot be launched, if it cannot.
    pub refusal: Option<String>,
}

/// An argument that describes the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// Where it stands in the arguments.
    pub at: u32,
    pub what: What,
}

/// What a hidden argument holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Groups along an axis, 32 bits.
    Groups(u8),
    /// Threads of a group along an axis, 16 bits.
    Threads(u8),
    /// How many axes the grid has, 16 bits.
    Dimensions,
}

impl What {
    fn bytes(self) -> u32 {
        if let What::Groups(_) = self { 4 } else { 2 }
    }
}

/// How an argument of this kind is filled: as the launch says, with zeros, or not at all.
fn hidden(kind: &str) -> Result<Option<What>, ()> {
    Ok(Some(match kind {
        "hidden_block_count_x" => What::Groups(0),
        "hidden_block_count_y" => What::Groups(1),
        "hidden_block_count_z" => What::Groups(2),
        "hidden_group_size_x" => What::Threads(0),
        "hidden_group_size_y" => What::Threads(1),
        "hidden_group_size_z" => What::Threads(2),
        "hidden_grid_dims" => What::Dimensions,
        // Groups are whole, and grids start at zero.
        "hidden_none" | "hidden_remainder_x" | "hidden_remainder_y" | "hidden_remainder_z" => return Ok(None),
        "hidden_global_offset_x" | "hidden_global_offset_y" | "hidden_global_offset_z" => return Ok(None),
        // Where the runtime of HIP or OpenCL would have put nothing either.
        "hidden_completion_action" | "hidden_multigrid_sync_arg" => return Ok(None),
        _ => return Err(()),
    }))
}

fn word(bytes: &[u8; DESCRIPTOR_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn number(kernel: &Value<'_>, key: &str) -> Option<u64> {
    kernel.get(key)?.number()
}

impl Function {
    /// Reads the function whose descriptor is at `address` of an object of `loaded` bytes.
    pub fn read(
        kernel: &Value<'_>,
        address: u64,
        descriptor: &[u8; DESCRIPTOR_BYTES],
        loaded: u64,
    ) -> Result<Function, String> {
        let name = kernel.get(".name").and_then(Value::text).ok_or("the code object has a function without a name")?;
        let [group, private, kernarg] = [0, 4, 8].map(|at| word(descriptor, at));
        let told = |key: &str| number(kernel, key).unwrap_or(0);
        for (what, key, is) in [
            ("group memory", ".group_segment_fixed_size", group),
            ("private memory", ".private_segment_fixed_size", private),
            ("arguments", ".kernarg_segment_size", kernarg),
        ] {
            if told(key) != u64::from(is) {
                return Err(format!("{name}: its descriptor has {is} bytes of {what}, and its metadata {}", told(key)));
            }
        }
        if u64::from(kernarg) > ARGUMENTS_MOST {
            return Err(format!("{name}: {kernarg} bytes of arguments are more than {ARGUMENTS_MOST}"));
        }
        let entry = u64::from(word(descriptor, 16)) | u64::from(word(descriptor, 20)) << 32;
        let entry = address.wrapping_add(entry);
        if !address.is_multiple_of(64) || !entry.is_multiple_of(256) || entry >= loaded {
            return Err(format!("{name}: its descriptor at {address:#x} or its code at {entry:#x} is out of place"));
        }
        let properties = u16::from_le_bytes([descriptor[56], descriptor[57]]);
        let is_open =
            properties & USES_DYNAMIC_STACK != 0 || kernel.get(".uses_dynamic_stack") == Some(&Value::Bool(true));
        let mut function = Function {
            name: name.into(),
            descriptor: address,
            group,
            private: private.saturating_add(if is_open { STACK_BYTES } else { 0 }),
            lanes: if properties & WAVE_32 != 0 { 32 } else { 64 },
            kernarg,
            params: kernarg,
            hidden: Vec::new(),
            threads: number(kernel, ".max_flat_workgroup_size").map_or(1024, |most| most.min(1024) as u32),
            fixed: fixed(kernel),
            refusal: None,
        };
        if let Some(arguments) = kernel.get(".args") {
            function.arguments(arguments)?;
        }
        Ok(function)
    }

    /// Takes in what the metadata says of the arguments.
    fn arguments(&mut self, arguments: &Value<'_>) -> Result<(), String> {
        let mut params = 0;
        for argument in arguments.elements() {
            let kind = argument.get(".value_kind").and_then(Value::text).unwrap_or("");
            let (at, size) = (number(argument, ".offset").unwrap_or(0), number(argument, ".size").unwrap_or(0));
            let end = at.checked_add(size).filter(|&end| end <= self.kernarg.into());
            let end = end.ok_or_else(|| format!("{}: an argument at {at} leaves the arguments", self.name))? as u32;
            if !kind.starts_with("hidden_") {
                params = params.max(end);
                continue;
            }
            match hidden(kind) {
                Ok(None) => {}
                Ok(Some(what)) if at as u32 + what.bytes() <= self.kernarg => {
                    self.hidden.push(Hidden { at: at as u32, what });
                }
                _ => {
                    let why =
                        format!("{} needs what its runtime passes in {kind}: this driver has no such thing", self.name);
                    self.refusal.get_or_insert(why);
                }
            }
        }
        if self.hidden.iter().any(|hidden| hidden.at < params) {
            return Err(format!("{}: its arguments overlap", self.name));
        }
        self.params = params;
        Ok(())
    }
}

/// The one size of group that a function was compiled for.
fn fixed(kernel: &Value<'_>) -> Option<[u32; 3]> {
    let [x, y, z] = kernel.get(".reqd_workgroup_size")?.elements() else { return None };
    let along = |value: &Value<'_>| value.number().and_then(|number| u32::try_from(number).ok());
    Some([along(x)?, along(y)?, along(z)?])
}
