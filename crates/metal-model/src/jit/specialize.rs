//! A module made one of this machine's: function constants set, Apple's decorations taken off, Metal's own functions
//! given their bodies, everything inlined into the kernel.

use std::collections::BTreeMap;

use llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMTypeKind};

use super::llvm::{Builder, Context, Machine, Module, Type, Value};
use super::metadata::Facts;
use crate::address::GPU_BIAS;
use crate::kernel::{CompileError, ConstantValue, Constants};
use crate::prelude::{self, ModuleOptions, Signature};

/// What the kernel is named in its module from here on.
pub(crate) const KERNEL: &str = "rig_kernel";

/// The name of the table of the module's constant variables.
pub(crate) const TABLES: &str = "rig_tables";

/// Gives the function constants their values.
pub(crate) fn constants(
    module: &Module<'_>,
    name: &str,
    facts: &Facts<'_>,
    values: &Constants,
) -> Result<(), CompileError> {
    for (constant, &global) in facts.reflection.constants.iter().zip(&facts.constants) {
        let kind = global.value_type();
        let given = values.by_name.get(&constant.name).or_else(|| values.by_index.get(&constant.index));
        let value = match given {
            None if constant.required => {
                return Err(CompileError::MissingConstant {
                    name: name.to_owned(),
                    constant: constant.name.clone(),
                    index: constant.index,
                });
            }
            None => Value::zero(kind),
            Some(given) => {
                value(module, kind, &constant.type_name, given).ok_or_else(|| CompileError::ConstantType {
                    name: name.to_owned(),
                    constant: constant.name.clone(),
                    expected: constant.type_name.clone(),
                })?
            }
        };
        global.set_initializer(value);
        global.forget_section();
        answer_defined(module, global, given.is_some());
    }
    Ok(())
}

/// Answers the questions whether a function constant was given a value.
fn answer_defined(module: &Module<'_>, global: Value<'_>, given: bool) {
    let asks = |instruction: &Value<'_>| {
        let callee = instruction.callee().map(Value::name);
        callee.is_some_and(|name| name == "air.is_function_constant_defined") && instruction.operands()[0] == global
    };
    for function in module.functions() {
        for question in function.instructions().into_iter().filter(asks) {
            question.replace_uses(Value::int(question.kind(), given.into()));
            question.erase_instruction();
        }
    }
}

/// The bits of a value, and how many.
fn bits(value: &ConstantValue) -> Option<(u64, u32, &'static str)> {
    Some(match *value {
        ConstantValue::Bool(value) => (u64::from(value), 8, "bool"),
        ConstantValue::I8(value) => (u64::from(value.cast_unsigned()), 8, "char"),
        ConstantValue::U8(value) => (u64::from(value), 8, "uchar"),
        ConstantValue::I16(value) => (u64::from(value.cast_unsigned()), 16, "short"),
        ConstantValue::U16(value) => (u64::from(value), 16, "ushort"),
        ConstantValue::I32(value) => (u64::from(value.cast_unsigned()), 32, "int"),
        ConstantValue::U32(value) => (u64::from(value), 32, "uint"),
        ConstantValue::I64(value) => (value.cast_unsigned(), 64, "long"),
        ConstantValue::U64(value) => (value, 64, "ulong"),
        ConstantValue::F16(bits) => (u64::from(bits), 16, "half"),
        ConstantValue::BF16(bits) => (u64::from(bits), 16, "bfloat"),
        ConstantValue::F32(value) => (u64::from(value.to_bits()), 32, "float"),
        ConstantValue::Vector(_) => return None,
    })
}

/// A value as a constant of a type, if it is of the type that the source names.
fn value<'c>(module: &Module<'c>, kind: Type<'c>, type_name: &str, given: &ConstantValue) -> Option<Value<'c>> {
    if let ConstantValue::Vector(elements) = given {
        let (count, element) = kind.vector()?;
        // `float4` of four values, `float`; a vector of three may be held in four.
        let name = type_name.strip_suffix(|last: char| last.is_ascii_digit())?;
        let wanted = type_name.get(name.len()..)?.parse::<usize>().ok()?;
        if elements.len() != wanted || (count as usize) < wanted {
            return None;
        }
        let mut values = Vec::new();
        for given in elements {
            values.push(value(module, element, name, given)?);
        }
        values.resize(count as usize, Value::undefined(element));
        return Some(Value::vector(&values));
    }
    let (bits, width, name) = bits(given)?;
    if name != type_name {
        return None;
    }
    match kind.kind() {
        LLVMTypeKind::LLVMIntegerTypeKind => {
            let held = kind.bits()?;
            // A bool is held in one bit or a byte; the rest as wide as it is.
            (held == width || name == "bool").then(|| Value::int(kind, bits))
        }
        LLVMTypeKind::LLVMHalfTypeKind | LLVMTypeKind::LLVMBFloatTypeKind if width == 16 => {
            Some(Value::int(module.context().int(16), bits).bit_cast(kind))
        }
        LLVMTypeKind::LLVMFloatTypeKind if width == 32 => {
            Some(Value::int(module.context().int(32), bits).bit_cast(kind))
        }
        _ => None,
    }
}

/// Takes off what Apple's compiler wrote for Apple's: sections, and facts about GPU addresses that do not hold for this
/// machine's.
pub(crate) fn strip(module: &Module<'_>, kernel: Value<'_>) {
    let context = module.context();
    for name in ["llvm.compiler.used", "llvm.used"] {
        if let Some(global) = module.global(name) {
            global.delete_global();
        }
    }
    for global in module.globals() {
        global.forget_section();
        if !global.is_declaration() && !global.name().starts_with("llvm.") {
            global.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        }
    }
    for function in module.functions() {
        for attribute in STRING_ATTRIBUTES {
            function.remove_string_attribute(attribute);
        }
        if function.is_declaration() {
            continue;
        }
        function.forget_section();
        for at in 1..=function.params().len() as u32 {
            for attribute in ["noalias", "dereferenceable", "dereferenceable_or_null", "nonnull", "readnone", "nofree"]
            {
                function.remove_attribute(at, attribute);
            }
        }
        let whole = llvm_sys::LLVMAttributeFunctionIndex;
        for attribute in ["noinline", "optnone", "memory", "optsize", "minsize", "convergent", "strictfp"] {
            function.remove_attribute(whole, attribute);
        }
        function.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        if function != kernel {
            function.add_attribute(context.enum_attribute("alwaysinline"));
        }
    }
    kernel.set_linkage(LLVMLinkage::LLVMExternalLinkage);
}

const STRING_ATTRIBUTES: [&str; 7] = [
    "frame-pointer",
    "min-legal-vector-width",
    "no-builtins",
    "stack-protector-buffer-size",
    "target-cpu",
    "target-features",
    "unsafe-fp-math",
];

/// Runs the module's initializers at compile time, which copy function constants. What LLVM cannot run so is refused.
pub(crate) fn initialize(module: &Module<'_>, machine: &Machine) -> Result<(), String> {
    let has = || {
        let list = module.global("llvm.global_ctors");
        let entries = list.and_then(Value::initializer).map_or(0, |entries| entries.operands().len());
        (list, entries)
    };
    if has().1 > 0 {
        module.run_passes("globalopt", machine)?;
    }
    match has() {
        (_, count) if count > 0 => Err("an initializer that must run at run time".to_owned()),
        (Some(list), _) => {
            list.delete_global();
            Ok(())
        }
        (None, _) => Ok(()),
    }
}

/// Defines each `air.*` function that the module calls, and inlines all but the kernel.
pub(crate) fn prelude(module: &Module<'_>, machine: &Machine, options: &ModuleOptions) -> Result<(), String> {
    let mut declares = BTreeMap::new();
    let mut text = String::new();
    for function in module.functions() {
        let name = function.name();
        if !function.is_declaration() || name.starts_with("llvm.") {
            continue;
        }
        if !function.has_uses() {
            function.delete_function();
            continue;
        }
        let parameters = function.params().into_iter().map(|parameter| parameter.kind().text()).collect();
        let signature = Signature { result: function.return_type().text(), parameters };
        let body = prelude::body(&name, &signature, options).map_err(|refused| refused.to_string())?;
        text.push_str(&body.text);
        declares.extend(body.needs.declares);
    }
    for declare in declares.values() {
        text.push_str(declare);
        text.push('\n');
    }
    if !text.is_empty() {
        let bodies = module.context().parse_text(&text).map_err(|why| format!("a body of the prelude: {why}"))?;
        bodies.retarget(machine);
        module.link(bodies)?;
    }
    module.run_passes("always-inline", machine)
}

/// Forgets what accesses are said not to overlap: a test may bind one buffer twice.
pub(crate) fn forget_aliasing(kernel: Value<'_>, context: &Context) {
    let scopes = ["alias.scope", "noalias"].map(|kind| context.metadata_kind(kind));
    for instruction in kernel.instructions() {
        for kind in scopes {
            instruction.forget_metadata(kind);
        }
    }
}

/// Lets no division of integers trap: what Metal leaves undefined is a number here, as it is on a GPU.
pub(crate) fn guard_divisions(kernel: Value<'_>, context: &Context) {
    let builder = Builder::new(context);
    for instruction in kernel.instructions() {
        let signed = match instruction.opcode() {
            LLVMOpcode::LLVMSDiv | LLVMOpcode::LLVMSRem => true,
            LLVMOpcode::LLVMUDiv | LLVMOpcode::LLVMURem => false,
            _ => continue,
        };
        let constant = instruction.operands().get(1).and_then(|divisor| divisor.constant_signed());
        if constant.is_some_and(|divisor| divisor != 0 && divisor != -1) {
            continue;
        }
        if let Some(divisor) = builder.safe_divisor(instruction, signed) {
            instruction.set_operand(1, divisor);
        }
    }
}

/// Numbers the calls where threads meet, in the order of the IR. Answers whether there are any.
pub(crate) fn number_sites(kernel: Value<'_>) -> bool {
    let mut next = 0;
    for instruction in kernel.instructions() {
        let Some(callee) = instruction.callee() else { continue };
        let name = callee.name();
        if name == prelude::BARRIER || name == prelude::EXCHANGE {
            next += 1;
            let site = &instruction.operands()[1];
            instruction.set_operand(1, Value::int(site.kind(), next));
        }
    }
    next > 0
}

/// Lets the kernel reach the module's constant variables by GPU addresses, and lists where they lie. Answers whether
/// there are any.
pub(crate) fn bias_tables(module: &Module<'_>, machine: &Machine) -> Result<bool, String> {
    let tables: Vec<_> = module
        .globals()
        .into_iter()
        .filter(|global| global.kind().space() == Some(2) && !global.is_declaration() && global.has_uses())
        .collect();
    if tables.is_empty() {
        return Ok(false);
    }
    let mut text = String::new();
    let mut list = Vec::new();
    for (place, table) in tables.iter().enumerate() {
        let bytes = module.size_of(table.value_type());
        table.rename(&format!("rig_table_{place}"));
        table.set_linkage(LLVMLinkage::LLVMExternalLinkage);
        text.push_str(&format!("@rig_table_{place} = external addrspace(2) global i8\n"));
        list.push(format!("i64 ptrtoint (ptr addrspace(2) @rig_table_{place} to i64), i64 {bytes}"));
    }
    let count = list.len() * 2 + 1;
    list.insert(0, format!("i64 {}", list.len()));
    for table in tables {
        // The address is taken twice: what replaces it refers to it too.
        let stand_in = table.twin(module);
        table.replace_uses(stand_in.constant_offset(module.context(), GPU_BIAS));
        stand_in.replace_uses(table);
        stand_in.delete_global();
    }
    text.push_str(&format!("@{TABLES} = constant [{count} x i64] [{}]\n", list.join(", ")));
    let listing = module.context().parse_text(&text)?;
    listing.retarget(machine);
    module.link(listing).map(|()| true)
}
