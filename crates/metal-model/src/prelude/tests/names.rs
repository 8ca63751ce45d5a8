//! Names: each function that a large library of kernels declares has a body of its type, and what is out of scope is
//! refused by name.

use super::harness::{module, signature};
use crate::jit::llvm::{Context, initialize};
use crate::prelude::{BARRIER, EXCHANGE, ModuleOptions, body};

/// The functions that MLX 0.32's library of 17,248 functions declares, with their types.
const MLX: &str = include_str!("mlx-functions.txt");

#[test]
fn every_function_that_mlx_declares_has_a_body_that_llvm_verifies() {
    initialize();
    let functions: Vec<_> =
        MLX.lines().map(|line| line.split_once(' ').unwrap()).map(|(name, ty)| (name, signature(ty))).collect();
    assert_eq!(functions.len(), 224);
    let body = module(functions.iter().map(|(name, ty)| (*name, ty))).unwrap();
    let context = Context::new();
    let parsed = context.parse_text(&body.text).unwrap();
    parsed.verify().unwrap();
    for (name, ty) in &functions {
        let function = parsed.function(name).unwrap();
        assert!(!function.is_declaration(), "{name}");
        let text = function.value_type().text();
        assert_eq!(&signature(&text), ty, "{name}");
    }
    assert!(body.needs.declares.contains_key(BARRIER) && body.needs.declares.contains_key(EXCHANGE));
}

#[test]
fn what_is_out_of_scope_is_refused_by_name_and_with_the_reason() {
    let refused = |name: &str, ty: &str| body(name, &signature(ty), &ModuleOptions::default()).unwrap_err().to_string();
    let texture = "air.sample_texture_2d.v4f32";
    let text = refused(texture, "<4 x float> (ptr addrspace(1), ptr addrspace(2), <2 x float>)");
    assert!(text.contains(texture) && text.contains("texture"), "{text}");
    assert!(refused("air.intersect.instancing", "i32 (ptr)").contains("ray tracing"));
    assert!(refused("air.draw_mesh_thing", "void (ptr)").contains("mesh"));
    assert!(refused("air.set_pipeline_state_compute_command", "void (ptr)").contains("commands"));
    assert!(refused("air.get_depth_texture_3d", "i32 (ptr)").contains("texture"));
    assert!(refused("air.no_such_thing.f32", "float (float)").contains("air.no_such_thing.f32"));
    assert!(refused("printf", "i32 (ptr)").contains("printf"));
}

#[test]
fn a_type_that_a_family_does_not_have_is_refused() {
    let refused = |name: &str, ty: &str| body(name, &signature(ty), &ModuleOptions::default()).is_err();
    assert!(refused("air.fma.f32", "float (float, float)"));
    assert!(refused("air.exp.f64", "double (double)"));
    assert!(refused("air.min.s.i32", "i32 (i32)"));
    assert!(refused("air.simd_sum.i32", "i64 (i32)"));
    assert!(refused("air.convert.f.f16.f.f32.wrong", "half (float)"));
    assert!(refused("air.atomic.global.nand.i32", "i32 (ptr addrspace(1), i32, i32, i32, i1)"));
}

#[test]
fn only_what_meets_calls_where_threads_meet() {
    let calls = |name: &str, ty: &str, callee: &str| {
        body(name, &signature(ty), &ModuleOptions::default()).unwrap().needs.declares.contains_key(callee)
    };
    let (float, matrix) = ("float (float)", "<64 x float> (float)");
    for callee in [BARRIER, EXCHANGE] {
        assert!(!calls("air.exp.f32", float, callee));
        assert!(!calls("air.simdgroup_matrix_8x8_init_filled.v64f32.f32", matrix, callee));
    }
    assert!(calls("air.wg.barrier", "void (i32, i32)", BARRIER));
    assert!(calls("air.simdgroup.barrier", "void (i32, i32)", EXCHANGE));
    assert!(calls("air.simd_sum.f32", float, EXCHANGE));
}
