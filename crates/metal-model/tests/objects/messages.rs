//! Every message that the protocols declare has a method in its class, with the types that the declaration says.
//!
//! The declarations are read as text, so that none can be left out; what a type is encoded as is said once, below.

use std::collections::BTreeMap;

use objc2::{
    ClassType, Encode,
    runtime::{AnyClass, Bool, Sel},
};
use objc2_foundation::NSRange;
use rig_metal_model::protocol::*;

use crate::fixture::*;

/// The declarations, as they stand in the crate.
const SOURCES: [&str; 6] = [
    include_str!("../../src/protocol/classes.rs"),
    include_str!("../../src/protocol/command.rs"),
    include_str!("../../src/protocol/device.rs"),
    include_str!("../../src/protocol/indirect.rs"),
    include_str!("../../src/protocol/pipeline.rs"),
    include_str!("../../src/protocol/resource.rs"),
];

/// The classes that answer a protocol's messages.
fn classes(owner: &str) -> Vec<&str> {
    match owner {
        "MTLAllocation" => vec!["RigModelBuffer", "RigModelIndirectCommandBuffer", "RigModelPipeline"],
        "MTLResource" => vec!["RigModelBuffer", "RigModelIndirectCommandBuffer"],
        "MTLBuffer" => vec!["RigModelBuffer"],
        "MTLResidencySet" => vec!["RigModelResidencySet"],
        "MTLCommandQueue" => vec!["RigModelCommandQueue"],
        "MTLCommandBuffer" => vec!["RigModelCommandBuffer"],
        "MTLCommandEncoder" => vec!["RigModelComputeEncoder", "RigModelBlitEncoder"],
        "MTLComputeCommandEncoder" => vec!["RigModelComputeEncoder"],
        "MTLBlitCommandEncoder" => vec!["RigModelBlitEncoder"],
        "MTLDevice" => vec!["RigModelDevice"],
        "MTLFence" => vec!["RigModelFence"],
        "MTLIndirectCommandBuffer" => vec!["RigModelIndirectCommandBuffer"],
        "MTLIndirectComputeCommand" => vec!["RigModelIndirectComputeCommand"],
        "MTLLibrary" => vec!["RigModelLibrary"],
        "MTLFunction" => vec!["RigModelFunction"],
        "MTLComputePipelineState" => vec!["RigModelPipeline"],
        "MTLBinding" => vec!["RigModelBufferBinding", "RigModelThreadgroupBinding"],
        "MTLBufferBinding" => vec!["RigModelBufferBinding"],
        "MTLThreadgroupBinding" => vec!["RigModelThreadgroupBinding"],
        class => vec![class],
    }
}

/// How Objective-C encodes a type of a declaration.
fn encoding(of: &str) -> String {
    let structs = [
        ("MTLSize", MTLSize::ENCODING.to_string()),
        ("NSRange", NSRange::ENCODING.to_string()),
        ("bool", Bool::ENCODING.to_string()),
        ("CFTimeInterval", f64::ENCODING.to_string()),
        ("MTLGPUAddress", u64::ENCODING.to_string()),
        ("u64", u64::ENCODING.to_string()),
        ("u8", u8::ENCODING.to_string()),
    ];
    if let Some((_, known)) = structs.iter().find(|(name, _)| *name == of) {
        return known.clone();
    }
    if of.contains("Handler") || of.contains("DynBlock") {
        return "@?".to_owned();
    }
    match of {
        "" => "v",
        "NonNull<c_void>" => "^v",
        "NonNull<NSUInteger>" => "^Q",
        "MTLGPUFamily" | "MTLBindingType" | "MTLLibraryType" => "q",
        _ if of.starts_with("NonNull<NonNull<") || of.starts_with("NonNull<*const") => "^@",
        _ if of.starts_with("Option<&mut") => "^@",
        _ if of.starts_with(['&', 'R']) || of.starts_with("Option<") => "@",
        _ if of == "NSUInteger" || of.starts_with("MTL") => "Q",
        _ => panic!("how is {of} encoded?"),
    }
    .to_owned()
}

/// A message: its selector, the encodings of its arguments, and of its answer.
type Message = (String, Vec<String>, String);

/// The messages of a source, by the protocol or class that has them.
fn messages(source: &str, found: &mut BTreeMap<String, Vec<Message>>) {
    let (mut owner, mut selector) = (String::new(), None);
    let mut lines = source.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("pub unsafe trait ") {
            owner = rest.split(':').next().unwrap().to_owned();
        } else if let Some(rest) = line.strip_prefix("impl ") {
            owner = rest.trim_end_matches(" {").to_owned();
        } else if let Some(rest) = line.strip_prefix("#[unsafe(method(") {
            selector = Some(rest.trim_end_matches("))]").to_owned());
        } else if let Some((_, rest)) = line.split_once("fn ")
            && let Some(selector) = selector.take()
        {
            let mut whole = rest.to_owned();
            while !whole.ends_with(';') {
                whole.push_str(lines.next().unwrap());
            }
            if !owner.starts_with('$') {
                found.entry(owner.clone()).or_default().push(message(&selector, &whole));
            }
        }
    }
}

fn message(selector: &str, declaration: &str) -> Message {
    let declaration = declaration.trim_end_matches(';');
    let (before, answer) = declaration.split_once(") -> ").unwrap_or((declaration.trim_end_matches(')'), ""));
    let parameters = before.split_once('(').unwrap().1;
    // No parameter's type but a block's has a comma that is not one between parameters.
    let parameters = parameters.split(", ").flat_map(|part| part.split(",")).filter(|part| part.contains(": "));
    let mut arguments: Vec<_> = parameters.map(|parameter| encoding(parameter.split_once(": ").unwrap().1)).collect();
    let answer = if answer.starts_with("Result<") { "Retained" } else { answer };
    let selector = selector.strip_suffix(":_").map_or(selector.to_owned(), |selector| {
        arguments.push("^@".to_owned());
        format!("{selector}:")
    });
    (selector, arguments, encoding(answer))
}

#[test]
fn every_declared_message_has_a_method_with_its_types() {
    run(|program| {
        // A class is registered when its first object is made.
        let _set = program.set();
        let _fence = program.device.newFence();
        let commands = program.queue.commandBuffer().unwrap();
        commands.blitCommandEncoder().unwrap().endEncoding();
        commands.computeCommandEncoder().unwrap().endEncoding();
        let descriptor = MTLIndirectCommandBufferDescriptor::new();
        descriptor.setCommandTypes(MTLIndirectCommandType::ConcurrentDispatch);
        let none = MTLResourceOptions::empty();
        // SAFETY: one command is within Metal's bounds.
        let recorded = unsafe {
            program.device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options(&descriptor, 1, none)
        };
        // SAFETY: the command is there.
        let _command = unsafe { recorded.unwrap().indirectComputeCommandAtIndex(0) };
        let _buffer = program.buffer(4);
        let (mut told, options) = (None, MTLPipelineOption::BindingInfo);
        let function = program.function("group");
        // SAFETY: the place outlives the call.
        let pipeline = unsafe {
            let told = Some(&mut told);
            program.device.newComputePipelineStateWithFunction_options_reflection_error(&function, options, told)
        };
        assert_eq!(told.unwrap().bindings().len(), 2);
        drop(pipeline);
        let _others =
            (MTLCommandQueueDescriptor::new(), MTLFunctionConstantValues::new(), MTLCommandBufferDescriptor::new());
        let _classes = [
            MTLComputePipelineDescriptor::class(),
            MTLFunctionConstant::class(),
            MTLType::class(),
            MTLPointerType::class(),
        ];
        check();
    });
}

fn text(encoding: &std::ffi::CStr) -> String {
    encoding.to_str().unwrap().to_owned()
}

fn check() {
    let mut found = BTreeMap::new();
    for source in SOURCES {
        messages(source, &mut found);
    }
    let (mut checked, mut wrong) = (0, Vec::new());
    for (owner, messages) in &found {
        for name in classes(owner) {
            let class =
                AnyClass::get(&std::ffi::CString::new(name).unwrap()).unwrap_or_else(|| panic!("no class {name}"));
            for (selector, arguments, answer) in messages {
                let method = class.instance_method(Sel::register(&std::ffi::CString::new(selector.as_str()).unwrap()));
                let Some(method) = method else {
                    wrong.push(format!("-[{name} {selector}] has no method"));
                    continue;
                };
                let types: Vec<_> =
                    (2..method.arguments_count()).map(|at| text(&method.argument_type(at).unwrap())).collect();
                if (&types, &text(&method.return_type())) != (arguments, answer) {
                    wrong.push(format!(
                        "-[{name} {selector}]: {types:?} -> {}, declared {arguments:?} -> {answer}",
                        text(&method.return_type())
                    ));
                }
                checked += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 200, "{checked} messages are checked");
}
