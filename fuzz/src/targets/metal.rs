//! Metal: the container of libraries, the metadata of their functions, and names with function constants.

use std::fmt::Write as _;
use std::sync::Arc;

use rig_metal_model::container::{Library, pack};
use rig_metal_model::kernel::reflect;
use rig_metal_model::metadata::ArgumentKind;

use crate::constants;
use crate::targets::bytes::Bytes;

/// A library is refused, or every name that it lists finds a function whose code lies within its bytes.
pub fn container(bytes: &[u8]) {
    let Ok(library) = Library::open(Arc::new(bytes.to_vec())) else { return };
    for name in library.names() {
        assert!(library.kind(name).is_some(), "{name} is listed and not found");
        let code = library.bitcode(name).unwrap_or_else(|| panic!("the code of {name} is not there"));
        assert!(code.len() <= bytes.len() && library.hash(name).is_none_or(|hash| hash.len() == 32));
    }
    assert!(library.kind("no such name, of any input").is_none());
}

/// What the nodes of metadata are made of: the words that the reader looks for, and what it does not know.
const WORDS: [&str; 24] = [
    "air.buffer",
    "air.indirect_buffer",
    "air.location_index",
    "air.read",
    "air.write",
    "air.read_write",
    "air.address_space",
    "air.struct_type_info",
    "air.arg_type_size",
    "air.arg_type_align_size",
    "air.arg_type_name",
    "air.arg_name",
    "air.arg_unused",
    "air.buffer_size",
    "air.thread_position_in_grid",
    "air.thread_index_in_threadgroup",
    "air.texture",
    "air.function_constant",
    "air.max_work_group_size",
    "air.compile.denorms_disable",
    "float",
    "bool",
    "",
    "x",
];

/// Nodes of an input's module.
const NODES: usize = 12;

/// A kernel with metadata of any shape has a reflection or is refused. The bytes choose what each node of the metadata holds:
/// texts, numbers, other nodes, the kernel, its variables, nothing.
pub fn metadata(bytes: &[u8]) {
    let text = module(&mut Bytes(bytes));
    let Ok(library) = pack(&[("k", &text)]) else { return };
    let Ok(library) = Library::open(Arc::new(library)) else { panic!("a library that was just written is refused") };
    let Ok(reflection) = reflect(&library, "k") else { return };
    for argument in &reflection.arguments {
        if let ArgumentKind::Unsupported(what) = &argument.kind {
            assert!(!["air.buffer", "air.indirect_buffer"].contains(&what.as_str()), "{what} is supported");
        }
    }
    assert_eq!(reflect(&library, "k").as_ref(), Ok(&reflection), "a second look");
}

fn module(bytes: &mut Bytes<'_>) -> String {
    let mut text = String::from(
        "@c = external addrspace(2) global i32\n@t = internal addrspace(3) global [4 x float] undef\n\
         define void @k(ptr addrspace(1) %a, ptr addrspace(2) %b, ptr addrspace(3) %c, i32 %d) {\n  ret void\n}\n",
    );
    for list in ["air.kernel", "air.function_constants", "air.compile_options"] {
        let nodes: Vec<String> = (0..1 + bytes.below(2)).map(|_| format!("!{}", bytes.below(NODES))).collect();
        let _ = writeln!(text, "!{list} = !{{{}}}", nodes.join(", "));
    }
    // The first nodes are what a reader expects in their places, so that it comes to the others.
    let _ = writeln!(text, "!0 = !{{ptr @k, !{}, !1, !{}}}", bytes.below(NODES), bytes.below(NODES));
    let _ = writeln!(text, "!1 = !{{!2, !3, !{}}}", bytes.below(NODES));
    for node in 2..NODES {
        let mut items: Vec<String> = (0..bytes.below(8)).map(|_| item(bytes)).collect();
        if node < 4 {
            items.insert(0, format!("i32 {}", bytes.below(6)));
        }
        let _ = writeln!(text, "!{node} = !{{{}}}", items.join(", "));
    }
    text
}

fn item(bytes: &mut Bytes<'_>) -> String {
    match bytes.below(16) {
        0 => format!("!{}", bytes.below(NODES)),
        1 => "null".to_owned(),
        2 => "ptr @k".to_owned(),
        3 => "ptr addrspace(2) @c".to_owned(),
        4 => format!("i64 {}", i64::from(bytes.word().cast_signed()) << 24),
        5 => format!("i32 {}", bytes.word().cast_signed()),
        6 => "i128 170141183460469231731687303715884105727".to_owned(),
        7 | 8 => format!("i32 {}", bytes.below(40)),
        _ => format!("!\"{}\"", WORDS[bytes.below(WORDS.len())]),
    }
}

/// A name is refused and the reason quotes it, or it is taken apart with no constant twice, and its parts lie in it.
pub fn constants(bytes: &[u8]) {
    let Ok(name) = std::str::from_utf8(bytes) else { return };
    match constants::parse(name) {
        Err(why) => assert!(why.contains(&format!("{name:?}")), "{why}"),
        Ok(spelling) => {
            assert!(name.contains(spelling.function));
            for (at, (key, value)) in spelling.constants.iter().enumerate() {
                assert!(spelling.constants[..at].iter().all(|(other, _)| other != key), "{key} twice");
                let text = value.type_name();
                let bytes = text[1..].parse::<usize>().map_or(1, |bits| bits / 8);
                assert!(value.bytes()[bytes..].iter().all(|&byte| byte == 0), "{text} has {bytes} bytes");
            }
        }
    }
}
