/* Kernels that fault in hardware. */
#include "rig_host.h"

void bad_address(const void *params, const rig_group *at) {
  (void)params, (void)at;
  *(volatile int *)64 = 1;
}

void bad_instruction(const void *params, const rig_group *at) {
  (void)params, (void)at;
  __builtin_trap();
}

void bad_division(const void *params, const rig_group *at) {
  (void)params;
  volatile int zero = (int)at->reserved, one = 1;
  one = one / zero;
}
