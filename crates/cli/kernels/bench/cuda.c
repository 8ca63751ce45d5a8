/* The kernel of `rig bench` for NVIDIA's GPUs: each thread of the one group counts its number up.

   clang-19 --target=nvptx64-nvidia-cuda -march=sm_52 -O2 -S -fno-ident cuda.c -o cuda.ptx */
__attribute__((nvptx_kernel)) void rig_count(unsigned __attribute__((address_space(1))) *numbers)
{
	numbers[__nvvm_read_ptx_sreg_tid_x()] += 1;
}
