//! The entry of a kernel's machine code, as IR text.
//!
//! A kernel whose threads never meet becomes a loop over the threads of a group (`rig_group`): what is the same for all
//! threads is loaded before the loop, and said not to change, so that LLVM may run several threads in one vector. One
//! whose threads meet becomes a function of one thread (`rig_thread`), which fibers call.

use std::fmt::Write;
use std::mem::offset_of;

use super::abi::{GroupContext, LANES};
use super::llvm::{Type, Value};
use super::metadata::Facts;
use super::specialize::KERNEL;
use crate::metadata::{ArgumentKind, Builtin};

/// Runs all threads of a group: `void (ptr group, i32 x, i32 y, i32 z)`, the group's place.
pub(crate) const GROUP_ENTRY: &str = "rig_group";
/// Runs one thread: `void (ptr group, i32 x, i32 y, i32 z)`, its place in the group.
pub(crate) const THREAD_ENTRY: &str = "rig_thread";
/// The pointer to the running thread's context, which the host sets.
pub(crate) const CONTEXT: &str = "rig_context";

/// What each thread of a group shares, loaded: `%name = load ...`.
fn shared_u32(text: &mut String, name: &str, offset: usize) {
    let _ = write!(
        text,
        "  %{name}_at = getelementptr i8, ptr %group, i64 {offset}\n  %{name} = load i32, ptr %{name}_at, !invariant.load !0\n"
    );
}

/// The values that all threads of a group share.
fn shared(text: &mut String) {
    let vectors = [
        ("groups", offset_of!(GroupContext, groups)),
        ("threads", offset_of!(GroupContext, threads)),
        ("grid", offset_of!(GroupContext, grid)),
        ("stride", offset_of!(GroupContext, stride)),
    ];
    for (name, offset) in vectors {
        for (axis, letter) in ["x", "y", "z"].into_iter().enumerate() {
            shared_u32(text, &format!("{name}_{letter}"), offset + axis * 4);
        }
    }
    for letter in ["x", "y", "z"] {
        // No group reaches past 2³² threads on an axis: the dispatch is refused.
        let _ = writeln!(text, "  %first_{letter} = mul nuw i32 %place_{letter}, %stride_{letter}");
    }
    text.push_str(
        "  %plane = mul nuw nsw i32 %threads_x, %threads_y\n  %all = mul nuw nsw i32 %plane, %threads_z\n\
         \x20 %all_up = add nuw nsw i32 %all, 31\n  %simdgroups = lshr i32 %all_up, 5\n\
         \x20 %quads_up = add nuw nsw i32 %all, 3\n  %quads = lshr i32 %quads_up, 2\n\
         \x20 %whole_plane = mul nuw nsw i32 %stride_x, %stride_y\n  %whole = mul nuw nsw i32 %whole_plane, %stride_z\n\
         \x20 %whole_up = add nuw nsw i32 %whole, 31\n  %whole_simdgroups = lshr i32 %whole_up, 5\n",
    );
}

/// The buffers and threadgroup arguments, loaded. Their indices are those of slots: others are refused before.
fn pointers(text: &mut String, facts: &Facts<'_>, params: &[Value<'_>]) {
    for (argument, &parameter) in facts.reflection.arguments.iter().zip(&facts.parameters) {
        let (index, base) = match argument.kind {
            ArgumentKind::Buffer { index, .. } => (index, offset_of!(GroupContext, buffers)),
            ArgumentKind::Threadgroup { index, .. } => (index, offset_of!(GroupContext, threadgroup)),
            _ => continue,
        };
        let kind = params[parameter].kind().text();
        let offset = base + index as usize * 8;
        let _ = write!(
            text,
            "  %slot{parameter} = getelementptr i8, ptr %group, i64 {offset}\n\
             \x20 %argument{parameter} = load {kind}, ptr %slot{parameter}, !invariant.load !0\n"
        );
    }
}

/// The values of a built-in, by axis.
pub(super) fn builtin(builtin: Builtin) -> [&'static str; 3] {
    match builtin {
        Builtin::ThreadPositionInGrid => ["global_x", "global_y", "global_z"],
        Builtin::ThreadgroupPositionInGrid => ["place_x", "place_y", "place_z"],
        Builtin::ThreadPositionInThreadgroup => ["local_x", "local_y", "local_z"],
        Builtin::ThreadsPerGrid | Builtin::GridSize => ["grid_x", "grid_y", "grid_z"],
        Builtin::ThreadgroupsPerGrid => ["groups_x", "groups_y", "groups_z"],
        Builtin::ThreadsPerThreadgroup => ["threads_x", "threads_y", "threads_z"],
        Builtin::DispatchThreadsPerThreadgroup => ["stride_x", "stride_y", "stride_z"],
        Builtin::ThreadIndexInThreadgroup => ["linear"; 3],
        Builtin::ThreadIndexInSimdgroup => ["lane"; 3],
        Builtin::SimdgroupIndexInThreadgroup => ["simdgroup"; 3],
        Builtin::SimdgroupsPerThreadgroup => ["simdgroups"; 3],
        Builtin::DispatchSimdgroupsPerThreadgroup => ["whole_simdgroups"; 3],
        Builtin::ThreadsPerSimdgroup => ["width"; 3],
        Builtin::ThreadIndexInQuadgroup => ["quad_lane"; 3],
        Builtin::QuadgroupIndexInThreadgroup => ["quad"; 3],
        Builtin::QuadgroupsPerThreadgroup => ["quads"; 3],
        Builtin::GridOrigin => ["zero"; 3],
    }
}

/// An i32 value as an integer of another width.
fn resized(text: &mut String, to: &str, bits: u32, value: &str, kind: &str) {
    let operation = match bits {
        32 => "or",
        0..32 => "trunc",
        _ => "zext",
    };
    let _ = match operation {
        "or" => writeln!(text, "  %{to} = or i32 %{value}, 0"),
        _ => writeln!(text, "  %{to} = {operation} i32 %{value} to {kind}"),
    };
}

/// A built-in as the parameter's type wants it: an integer, or a vector of two or three.
fn builtin_argument(text: &mut String, parameter: usize, kind: Type<'_>, names: [&str; 3]) -> Result<(), String> {
    if let Some(bits) = kind.bits() {
        resized(text, &format!("argument{parameter}"), bits, names[0], &kind.text());
        return Ok(());
    }
    let refused = || format!("a built-in of the type {}", kind.text());
    let (count, element) = kind.vector().filter(|(count, _)| *count <= 3).ok_or_else(refused)?;
    let bits = element.bits().ok_or_else(refused)?;
    let (whole, part) = (kind.text(), element.text());
    let mut last = "poison".to_owned();
    for (axis, name) in names.into_iter().enumerate().take(count as usize) {
        resized(text, &format!("part{parameter}_{axis}"), bits, name, &part);
        let to = if axis + 1 == count as usize {
            format!("%argument{parameter}")
        } else {
            format!("%join{parameter}_{axis}")
        };
        let _ = writeln!(text, "  {to} = insertelement {whole} {last}, {part} %part{parameter}_{axis}, i64 {axis}");
        last = to;
    }
    Ok(())
}

/// What one thread's place gives, from `%local_x` and so on, and the call of the kernel.
fn thread(text: &mut String, facts: &Facts<'_>, params: &[Value<'_>], kernel: &str) -> Result<(), String> {
    for letter in ["x", "y", "z"] {
        let _ = writeln!(text, "  %global_{letter} = add nuw i32 %first_{letter}, %local_{letter}");
    }
    let _ = write!(
        text,
        "  %row = mul nuw nsw i32 %local_y, %threads_x\n  %layer = mul nuw nsw i32 %local_z, %plane\n\
         \x20 %in_layer = add nuw nsw i32 %row, %local_x\n  %linear = add nuw nsw i32 %layer, %in_layer\n\
         \x20 %lane = and i32 %linear, {}\n  %simdgroup = lshr i32 %linear, 5\n\
         \x20 %quad_lane = and i32 %linear, 3\n  %quad = lshr i32 %linear, 2\n\
         \x20 %width = or i32 0, {LANES}\n  %zero = or i32 0, 0\n",
        LANES - 1
    );
    let mut call = vec![String::new(); params.len()];
    for (argument, &parameter) in facts.reflection.arguments.iter().zip(&facts.parameters) {
        let kind = params[parameter].kind();
        if let ArgumentKind::Builtin(which) = argument.kind {
            builtin_argument(text, parameter, kind, builtin(which))?;
        }
        call[parameter] = format!("{} %argument{parameter}", kind.text());
    }
    for (parameter, text) in call.iter_mut().enumerate().filter(|(_, text)| text.is_empty()) {
        // A parameter that the metadata does not name: nothing is known to hand it.
        *text = format!("{} poison", params[parameter].kind().text());
    }
    let _ = writeln!(text, "  call void @{kernel}({})", call.join(", "));
    Ok(())
}

/// The greatest values of what threads are handed, for the proof: `%global_x` and so on are those of the last thread.
pub(super) fn greatest(text: &mut String) {
    shared(text);
    for letter in ["x", "y", "z"] {
        let _ = write!(
            text,
            "  %local_{letter} = add i32 %threads_{letter}, -1\n\
             \x20 %global_{letter} = add nuw i32 %first_{letter}, %local_{letter}\n"
        );
    }
    let last_lane = LANES - 1;
    let _ = write!(
        text,
        "  %linear = add i32 %all, -1\n  %lane = or i32 0, {last_lane}\n  %simdgroup = lshr i32 %linear, 5\n\
         \x20 %quad_lane = or i32 0, 3\n  %quad = lshr i32 %linear, 2\n  %width = or i32 0, {LANES}\n  %zero = or i32 0, 0\n"
    );
}

fn declaration(params: &[Value<'_>], kernel: &str) -> String {
    let kinds: Vec<_> = params.iter().map(|parameter| parameter.kind().text()).collect();
    format!("declare void @{kernel}({})\n", kinds.join(", "))
}

/// The loop over the threads of a group, a function with these attributes.
pub(crate) fn group_loop(
    facts: &Facts<'_>,
    params: &[Value<'_>],
    name: &str,
    kernel: &str,
    attributes: &str,
) -> Result<String, String> {
    let mut text = declaration(params, kernel);
    let _ = writeln!(
        text,
        "define void @{name}(ptr noalias %group, i32 %place_x, i32 %place_y, i32 %place_z) {attributes} {{\nentry:"
    );
    shared(&mut text);
    pointers(&mut text, facts, params);
    text.push_str(
        "  br label %layers\nlayers:\n  %local_z = phi i32 [ 0, %entry ], [ %next_z, %layers_end ]\n  br label %rows\n\
         rows:\n  %local_y = phi i32 [ 0, %layers ], [ %next_y, %rows_end ]\n  br label %threads\n\
         threads:\n  %local_x = phi i32 [ 0, %rows ], [ %next_x, %threads ]\n",
    );
    thread(&mut text, facts, params, kernel)?;
    text.push_str(
        "  %next_x = add nuw nsw i32 %local_x, 1\n  %more_x = icmp ult i32 %next_x, %threads_x\n\
         \x20 br i1 %more_x, label %threads, label %rows_end\n\
         rows_end:\n  %next_y = add nuw nsw i32 %local_y, 1\n  %more_y = icmp ult i32 %next_y, %threads_y\n\
         \x20 br i1 %more_y, label %rows, label %layers_end\n\
         layers_end:\n  %next_z = add nuw nsw i32 %local_z, 1\n  %more_z = icmp ult i32 %next_z, %threads_z\n\
         \x20 br i1 %more_z, label %layers, label %exit\nexit:\n  ret void\n}\n!0 = !{}\n",
    );
    Ok(text)
}

/// One thread that runs on a fiber.
pub(crate) fn fiber_thread(facts: &Facts<'_>, params: &[Value<'_>]) -> Result<String, String> {
    let mut text = declaration(params, KERNEL);
    let place = offset_of!(GroupContext, group);
    let _ = write!(
        text,
        "@{CONTEXT} = global ptr null\n\
         define linkonce_odr ptr @rig_ctx() alwaysinline nounwind {{\n  %context = load ptr, ptr @{CONTEXT}\n  ret ptr %context\n}}\n\
         define void @{THREAD_ENTRY}(ptr noalias %group, i32 %local_x, i32 %local_y, i32 %local_z) {{\nentry:\n"
    );
    for (axis, letter) in ["x", "y", "z"].into_iter().enumerate() {
        shared_u32(&mut text, &format!("place_{letter}"), place + axis * 4);
    }
    shared(&mut text);
    pointers(&mut text, facts, params);
    thread(&mut text, facts, params, KERNEL)?;
    text.push_str("  ret void\n}\n!0 = !{}\n");
    Ok(text)
}
