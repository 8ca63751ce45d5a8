//! Kernels of the tests, as Apple's compiler lowers them.

/// What every module starts with.
const HEAD: &str = r#"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-f32:32:32-f64:64:64-v16:16:16-v24:32:32-v32:32:32-v48:64:64-v64:64:64-v96:128:128-v128:128:128-v192:256:256-v256:256:256-v512:512:512-v1024:1024:1024-n8:16:32"
target triple = "air64_v26-apple-macosx14.0.0"
!air.version = !{!0}
!air.language_version = !{!1}
!0 = !{i32 2, i32 6, i32 0}
!1 = !{!"Metal", i32 3, i32 1, i32 0}
"#;

/// The document's kernel: `a.y[i] = a.x[i] + 1`, through pointers in a struct.
pub const ADD: &str = include_str!("../../fixtures/add.ll");

/// `kernel void set(device uint *p [[buffer(0)]], constant uint &v [[buffer(1)]], uint i) { p[i] = v; }`
const SET: &str = r#"
define void @set(ptr addrspace(1) %p, ptr addrspace(2) %v, i32 %i) {
  %value = load i32, ptr addrspace(2) %v, align 4
  %at = zext i32 %i to i64
  %to = getelementptr inbounds i32, ptr addrspace(1) %p, i64 %at
  store i32 %value, ptr addrspace(1) %to, align 4
  ret void
}
!air.kernel = !{!4}
!4 = !{ptr @set, !5, !6}
!5 = !{}
!6 = !{!7, !8, !9}
!7 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"uint", !"air.arg_name", !"p"}
!8 = !{i32 1, !"air.buffer", !"air.buffer_size", i32 4, !"air.location_index", i32 1, i32 1, !"air.read", !"air.address_space", i32 2, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"uint", !"air.arg_name", !"v"}
!9 = !{i32 2, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
"#;

/// `kernel void spin(device uint *p [[buffer(0)]]) { while (*(volatile device uint *)p == 0) {} }`: never ends over zeros.
const SPIN: &str = r#"
define void @spin(ptr addrspace(1) %p) {
  br label %again
again:
  %value = load volatile i32, ptr addrspace(1) %p, align 4
  %zero = icmp eq i32 %value, 0
  br i1 %zero, label %again, label %done
done:
  ret void
}
!air.kernel = !{!4}
!4 = !{ptr @spin, !5, !6}
!5 = !{}
!6 = !{!7}
!7 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"uint", !"air.arg_name", !"p"}
"#;

/// `struct args { device uint *p; uint v; }; kernel void step(constant args &a [[buffer(0)]]) { *a.p = *a.p * 3 + a.v; }`: two
/// steps in another order give another number.
const STEP: &str = r#"
define void @step(ptr addrspace(2) %a) {
  %p = load ptr addrspace(1), ptr addrspace(2) %a, align 8
  %from = getelementptr inbounds i8, ptr addrspace(2) %a, i64 8
  %v = load i32, ptr addrspace(2) %from, align 8
  %old = load i32, ptr addrspace(1) %p, align 4
  %three = mul i32 %old, 3
  %new = add i32 %three, %v
  store i32 %new, ptr addrspace(1) %p, align 4
  ret void
}
!air.kernel = !{!4}
!4 = !{ptr @step, !5, !6}
!5 = !{}
!6 = !{!7}
!7 = !{i32 0, !"air.indirect_buffer", !"air.buffer_size", i32 16, !"air.location_index", i32 0, i32 1, !"air.read", !"air.address_space", i32 2, !"air.struct_type_info", !8, !"air.arg_type_size", i32 16, !"air.arg_type_align_size", i32 8, !"air.arg_type_name", !"args", !"air.arg_name", !"a"}
!8 = !{i32 0, i32 8, i32 0, !"uint", !"p", !"air.indirect_argument", !9, i32 8, i32 4, i32 0, !"uint", !"v", !"air.indirect_argument", !10}
!9 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"uint", !"air.arg_name", !"p"}
!10 = !{i32 1, !"air.indirect_constant", !"air.location_index", i32 1, i32 1, !"air.arg_type_name", !"uint", !"air.arg_name", !"v"}
"#;

/// `kernel void group(device uint *p [[buffer(0)]], threadgroup uint *t [[threadgroup(0)]], uint i)`: through dynamic
/// threadgroup memory.
const GROUP: &str = r#"
define void @group(ptr addrspace(1) %p, ptr addrspace(3) %t, i32 %i) {
  %at = zext i32 %i to i64
  %mine = getelementptr inbounds i32, ptr addrspace(3) %t, i64 %at
  store i32 %i, ptr addrspace(3) %mine, align 4
  %value = load i32, ptr addrspace(3) %mine, align 4
  %to = getelementptr inbounds i32, ptr addrspace(1) %p, i64 %at
  store i32 %value, ptr addrspace(1) %to, align 4
  ret void
}
!air.kernel = !{!4}
!4 = !{ptr @group, !5, !6}
!5 = !{}
!6 = !{!7, !8, !9}
!7 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"uint", !"air.arg_name", !"p"}
!8 = !{i32 1, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 3, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"uint", !"air.arg_name", !"t"}
!9 = !{i32 2, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
"#;

/// A kernel with 40 KiB of threadgroup memory, more than a GPU has.
const LARGE: &str = r#"
@memory = internal addrspace(3) global [10240 x i32] undef, align 4
define void @large(ptr addrspace(1) %p, i32 %i) {
  %at = zext i32 %i to i64
  %mine = getelementptr inbounds [10240 x i32], ptr addrspace(3) @memory, i64 0, i64 %at
  store i32 %i, ptr addrspace(3) %mine, align 4
  %value = load i32, ptr addrspace(3) %mine, align 4
  store i32 %value, ptr addrspace(1) %p, align 4
  ret void
}
!air.kernel = !{!4}
!4 = !{ptr @large, !5, !6}
!5 = !{}
!6 = !{!7, !9}
!7 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"uint", !"air.arg_name", !"p"}
!9 = !{i32 1, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
"#;

/// The tests' library.
pub fn library() -> Vec<u8> {
    let texts = [SET, STEP, GROUP, LARGE, SPIN].map(|text| format!("{HEAD}{text}"));
    let [set, step, group, large, spin] = &texts;
    let modules = [("add", ADD), ("set", set), ("step", step), ("group", group), ("large", large), ("spin", spin)];
    rig_metal_model::container::pack(&modules).unwrap()
}
