/* Copies within the GPU's memory: 16 bytes a thread and round, neighbours by neighbours, and the last bytes by one thread
   each.

   clang-19 -x c -std=c23 -target amdgcn-amd-amdhsa -mcpu=gfx1100 -nogpulib -O2 -fvisibility=hidden copy.c -o copy.co */
typedef unsigned char u8;
typedef unsigned u32;
typedef unsigned long u64;
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

#define GLOBAL __attribute__((address_space(1)))

__attribute__((amdgpu_kernel, visibility("protected"))) void
rig_copy(const GLOBAL u32x4 *from, GLOBAL u32x4 *to, u64 pieces, u32 threads, u32 rest)
{
	u32 thread = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
	for (u64 piece = thread; piece < pieces; piece += threads)
		to[piece] = from[piece];
	if (thread < rest) {
		const GLOBAL u8 *last = (const GLOBAL u8 *)(from + pieces);
		((GLOBAL u8 *)(to + pieces))[thread] = last[thread];
	}
}
