/* The kernel of `rig bench` for AMD's GPUs: each thread of the one group counts its number up.

   clang-19 -x c -std=c23 -target amdgcn-amd-amdhsa -mcpu=gfx1100 -nogpulib -O2 -fvisibility=hidden amd.c -o amd.co */
__attribute__((amdgpu_kernel, visibility("protected"))) void
rig_count(unsigned __attribute__((address_space(1))) *numbers)
{
	numbers[__builtin_amdgcn_workitem_id_x()] += 1;
}
