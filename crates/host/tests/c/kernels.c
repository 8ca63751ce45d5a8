/* A kernel that a fill in C launches, and one of the other kind. Compiled as C and as C++. */
#include "rig_host.h"

struct spin {
  uint32_t *y;
  uint32_t n;
  uint32_t rounds;
};

RIG_GROUP_KERNEL(spin, sizeof(struct spin), 0) {
  const struct spin *p = (const struct spin *)params;
  uint64_t start = (uint64_t)at->group[0] * at->threads[0];
  for (uint64_t i = start; i < start + at->threads[0] && i < p->n; i++) {
    uint32_t number = p->y[i];
    for (uint32_t round = 0; round < p->rounds; round++) number = number * 1664525u + 1013904223u;
    p->y[i] = number;
  }
}

RIG_THREAD_KERNEL(meet, 0, 4) {
  (void)params;
  at->barrier(at);
}
