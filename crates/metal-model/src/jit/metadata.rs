//! The reader of a module's metadata.
//!
//! Metadata is foreign: a node that is not as it should be is left out, or is what software Metal cannot run.

use llvm_sys::LLVMTypeKind;

use super::llvm::{Module, Value};
use crate::metadata::{Access, Argument, ArgumentKind, Builtin, FunctionConstant, Reflection, Space};

/// What a module says.
pub(crate) struct Facts<'c> {
    pub(crate) reflection: Reflection,
    /// The parameter of each argument of the reflection.
    pub(crate) parameters: Vec<usize>,
    /// The global of each function constant of the reflection.
    pub(crate) constants: Vec<Value<'c>>,
    pub(crate) flush_denormals: bool,
    pub(crate) fast_math: bool,
}

/// The strings and numbers of a node.
struct Node(Vec<Option<Item>>);

#[derive(Clone, Debug, PartialEq)]
enum Item {
    Text(String),
    Number(u64),
    Other,
}

impl Node {
    fn new(node: Value<'_>) -> Option<Self> {
        let item = |value: Value<'_>| {
            value.metadata_string().map(Item::Text).or_else(|| value.constant_int().map(Item::Number))
        };
        let operands = node.metadata_operands()?;
        Some(Self(operands.into_iter().map(|each| each.map(|value| item(value).unwrap_or(Item::Other))).collect()))
    }

    fn text(&self, at: usize) -> Option<&str> {
        match self.0.get(at)? {
            Some(Item::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn number(&self, at: usize) -> Option<u64> {
        match self.0.get(at)? {
            Some(Item::Number(number)) => Some(*number),
            _ => None,
        }
    }

    fn find(&self, key: &str) -> Option<usize> {
        (0..self.0.len()).find(|&at| self.text(at) == Some(key))
    }

    fn number_of(&self, key: &str) -> Option<u64> {
        self.number(self.find(key)? + 1)
    }

    fn text_of(&self, key: &str) -> Option<&str> {
        self.text(self.find(key)? + 1)
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// What a module says of the kernel `name`; nothing if it does not list it.
pub(crate) fn read<'c>(module: &Module<'c>, name: &str) -> Option<Facts<'c>> {
    let function = module.function(name).filter(|function| !function.is_declaration())?;
    let kernel = module.named_metadata("air.kernel").into_iter().find_map(|node| {
        let operands = node.metadata_operands()?;
        (operands.first().copied().flatten() == Some(function)).then_some(operands)
    })?;
    let arguments = kernel.get(2).copied().flatten()?.metadata_operands()?;
    let params = function.params();
    let (mut reflection, mut parameters) = (Reflection::default(), Vec::new());
    for node in arguments.into_iter().flatten() {
        let (parameter, argument) = argument(node, &params)?;
        parameters.push(parameter);
        reflection.arguments.push(argument);
    }
    let limits = kernel.iter().skip(3).flatten().filter_map(|node| Node::new(*node));
    reflection.max_total_threads =
        limits.filter_map(|node| node.number_of("air.max_work_group_size")).map(small).next();
    reflection.static_threadgroup_bytes = threadgroup_bytes(module);
    let mut constants = Vec::new();
    for node in module.named_metadata("air.function_constants") {
        let Some((global, constant)) = constant(node) else { continue };
        constants.push(global);
        reflection.constants.push(constant);
    }
    let option = |name: &str| {
        module
            .named_metadata("air.compile_options")
            .into_iter()
            .filter_map(Node::new)
            .any(|node| node.find(name) == Some(0))
    };
    Some(Facts {
        reflection,
        parameters,
        constants,
        flush_denormals: option("air.compile.denorms_disable"),
        fast_math: option("air.compile.fast_math_enable"),
    })
}

/// Bytes of the module's threadgroup variables, each from a multiple of 16.
fn threadgroup_bytes(module: &Module<'_>) -> u32 {
    let variables = module.globals().into_iter().filter(|global| global.kind().space() == Some(3));
    let bytes = variables.map(|global| module.size_of(global.value_type()).next_multiple_of(16));
    small(bytes.fold(0, u64::saturating_add))
}

/// An argument, and its parameter's place.
fn argument<'c>(node: Value<'c>, params: &[Value<'c>]) -> Option<(usize, Argument)> {
    let read = Node::new(node)?;
    let parameter = usize::try_from(read.number(0)?).ok().filter(|&at| at < params.len())?;
    let mut kind_at = 1;
    let mut predicate = None;
    if read.text(1) == Some("air.function_constant") {
        let condition = node.metadata_operands()?.get(2).copied().flatten().and_then(Node::new);
        predicate = Some(condition.and_then(|node| node.text(2).map(str::to_owned)).unwrap_or_default());
        kind_at = 3;
    }
    let kind = read.text(kind_at)?;
    let space = params[parameter].kind().space().map(u64::from);
    let kind = match kind {
        "air.buffer" | "air.indirect_buffer" => buffer(&read, read.number_of("air.address_space").or(space)?),
        other => match Builtin::from_metadata(other) {
            Some(builtin) => ArgumentKind::Builtin(builtin),
            None => ArgumentKind::Unsupported(other.to_owned()),
        },
    };
    let name = read.text_of("air.arg_name").unwrap_or_default().to_owned();
    let used = read.find("air.arg_unused").is_none();
    Some((parameter, Argument { name, used, predicate, kind }))
}

fn buffer(node: &Node, space: u64) -> ArgumentKind {
    let location = node.find("air.location_index");
    let index = location.and_then(|at| node.number(at + 1)).map_or(u32::MAX, small);
    let data_size = node.number_of("air.arg_type_size").unwrap_or(0);
    let alignment = node.number_of("air.arg_type_align_size").map_or(1, small);
    if space == 3 {
        return ArgumentKind::Threadgroup { index, data_size, alignment };
    }
    let access = match (node.find("air.read"), node.find("air.write")) {
        (Some(_), None) => Access::Read,
        (None, Some(_)) => Access::Write,
        _ => Access::ReadWrite,
    };
    ArgumentKind::Buffer {
        index,
        space: if space == 2 { Space::Constant } else { Space::Device },
        access,
        data_size,
        alignment,
        is_struct: node.find("air.struct_type_info").is_some(),
        reference: node.find("air.buffer_size").is_some(),
        type_name: node.text_of("air.arg_type_name").unwrap_or_default().to_owned(),
    }
}

/// A function constant: `!{global, !"type", !"name", i32 index, i1 required}`.
fn constant(node: Value<'_>) -> Option<(Value<'_>, FunctionConstant)> {
    let global = node.metadata_operands()?.first().copied().flatten()?;
    matches!(global.kind().kind(), LLVMTypeKind::LLVMPointerTypeKind).then_some(())?;
    let read = Node::new(node)?;
    let constant = FunctionConstant {
        name: read.text(2)?.to_owned(),
        index: small(read.number(3)?),
        type_name: read.text(1)?.to_owned(),
        required: read.number(4) != Some(0),
    };
    Some((global, constant))
}
