; Made as Apple's compiler lowers rig_count of metal.metal.
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-f32:32:32-f64:64:64-v16:16:16-v24:32:32-v32:32:32-v48:64:64-v64:64:64-v96:128:128-v128:128:128-v192:256:256-v256:256:256-v512:512:512-v1024:1024:1024-n8:16:32"
target triple = "air64_v26-apple-macosx14.0.0"

define void @rig_count(ptr addrspace(2) noundef align 8 dereferenceable(8) "air-buffer-no-alias" %a, i32 noundef %i) #0 {
  %i.wide = zext i32 %i to i64
  %numbers = load ptr addrspace(1), ptr addrspace(2) %a, align 8
  %at = getelementptr inbounds i32, ptr addrspace(1) %numbers, i64 %i.wide
  %number = load i32, ptr addrspace(1) %at, align 4
  %next = add i32 %number, 1
  store i32 %next, ptr addrspace(1) %at, align 4
  ret void
}

attributes #0 = { mustprogress nounwind "no-builtins" }

!air.version = !{!0}
!air.language_version = !{!1}
!air.compile_options = !{!2, !3}
!air.kernel = !{!9}

!0 = !{i32 2, i32 6, i32 0}
!1 = !{!"Metal", i32 3, i32 1, i32 0}
!2 = !{!"air.compile.denorms_disable"}
!3 = !{!"air.compile.fast_math_disable"}
!4 = !{}
!5 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"uint", !"air.arg_name", !"numbers"}
!6 = !{i32 0, i32 8, i32 0, !"uint", !"numbers", !"air.indirect_argument", !5}
!7 = !{i32 0, !"air.indirect_buffer", !"air.buffer_size", i32 8, !"air.location_index", i32 0, i32 1, !"air.read", !"air.address_space", i32 2, !"air.struct_type_info", !6, !"air.arg_type_size", i32 8, !"air.arg_type_align_size", i32 8, !"air.arg_type_name", !"args", !"air.arg_name", !"a"}
!8 = !{i32 1, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
!9 = !{ptr @rig_count, !4, !10}
!10 = !{!7, !8}
