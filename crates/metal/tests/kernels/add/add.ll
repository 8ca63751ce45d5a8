; Made as Apple's compiler lowers add of ../add.metal.
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-f32:32:32-f64:64:64-v16:16:16-v24:32:32-v32:32:32-v48:64:64-v64:64:64-v96:128:128-v128:128:128-v192:256:256-v256:256:256-v512:512:512-v1024:1024:1024-n8:16:32"
target triple = "air64_v26-apple-macosx14.0.0"

define void @add(ptr addrspace(2) noundef align 8 dereferenceable(16) "air-buffer-no-alias" %a, i32 noundef %i) #0 {
  %i.wide = zext i32 %i to i64
  %x.at = getelementptr inbounds i8, ptr addrspace(2) %a, i64 0
  %x = load ptr addrspace(1), ptr addrspace(2) %x.at, align 8
  %y.at = getelementptr inbounds i8, ptr addrspace(2) %a, i64 8
  %y = load ptr addrspace(1), ptr addrspace(2) %y.at, align 8
  %x.i = getelementptr inbounds float, ptr addrspace(1) %x, i64 %i.wide
  %y.i = getelementptr inbounds float, ptr addrspace(1) %y, i64 %i.wide
  %one = load float, ptr addrspace(1) %x.i, align 4
  %two = load float, ptr addrspace(1) %y.i, align 4
  %sum = fadd float %two, %one
  store float %sum, ptr addrspace(1) %y.i, align 4
  ret void
}

attributes #0 = { mustprogress nounwind "no-builtins" }

!air.version = !{!0}
!air.language_version = !{!1}
!air.compile_options = !{!2, !3}
!air.kernel = !{!11}

!0 = !{i32 2, i32 6, i32 0}
!1 = !{!"Metal", i32 3, i32 1, i32 0}
!2 = !{!"air.compile.denorms_disable"}
!3 = !{!"air.compile.fast_math_disable"}
!4 = !{}
!5 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"float", !"air.arg_name", !"x"}
!6 = !{i32 1, !"air.buffer", !"air.location_index", i32 1, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"float", !"air.arg_name", !"y"}
!7 = !{i32 0, i32 8, i32 0, !"float", !"x", !"air.indirect_argument", !5, i32 8, i32 8, i32 0, !"float", !"y", !"air.indirect_argument", !6}
!8 = !{i32 0, !"air.indirect_buffer", !"air.buffer_size", i32 16, !"air.location_index", i32 0, i32 1, !"air.read", !"air.address_space", i32 2, !"air.struct_type_info", !7, !"air.arg_type_size", i32 16, !"air.arg_type_align_size", i32 8, !"air.arg_type_name", !"args", !"air.arg_name", !"a"}
!9 = !{i32 1, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
!10 = !{!8, !9}
!11 = !{ptr @add, !4, !10}
