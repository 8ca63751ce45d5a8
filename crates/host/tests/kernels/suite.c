/* The kernels of the conformance suite. */
#include "rig_host.h"

struct add {
  const float *x;
  float *y;
  uint32_t n;
};

struct one {
  uint32_t *y;
  uint32_t n;
  union {
    uint32_t whole;
    float real;
  } value;
};

static uint32_t number(const rig_group *at) { return at->group[0] * at->threads[0] + at->thread[0]; }

RIG_THREAD_KERNEL(add, 24, 0) {
  const struct add *p = params;
  uint32_t i = number(at);
  if (i < p->n) p->y[i] += p->x[i];
}

RIG_THREAD_KERNEL(scale, sizeof(struct one), 0) {
  const struct one *p = params;
  uint32_t i = number(at);
  if (i < p->n) ((float *)p->y)[i] *= p->value.real;
}

RIG_THREAD_KERNEL(iota, sizeof(struct one), 0) {
  const struct one *p = params;
  uint32_t i = number(at);
  if (i < p->n) p->y[i] = p->value.whole + i;
}

RIG_THREAD_KERNEL(spin, sizeof(struct one), 0) {
  const struct one *p = params;
  uint32_t i = number(at);
  if (i >= p->n) return;
  for (uint32_t round = 0; round < p->value.whole; round++) p->y[i] = p->y[i] * 1664525 + 1013904223;
}
