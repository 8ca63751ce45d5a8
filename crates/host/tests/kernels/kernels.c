/* Kernels that use all that an object may: calls, tables, constants, variables, host functions, group memory. */
#include <math.h>
#include <string.h>

#include "rig_host.h"

struct pair {
  const float *x;
  float *y;
  uint64_t n;
};

static uint64_t first(const rig_group *at) { return (uint64_t)at->group[0] * at->threads[0]; }

static uint64_t last(const rig_group *at, uint64_t n) {
  uint64_t end = first(at) + at->threads[0];
  return end < n ? end : n;
}

RIG_GROUP_KERNEL(add, sizeof(struct pair), 0) {
  const struct pair *p = params;
  const float *restrict x = p->x;
  float *restrict y = p->y;
  uint64_t end = last(at, p->n);
  for (uint64_t i = first(at); i < end; i++) y[i] += x[i];
}

/* Functions of the host, near and through a table of pointers that is relocated. */
typedef float (*unary)(float);
static float twice(float x) { return 2 * x; }
unary const table[] = {expf, tanhf, twice, sqrtf, fabsf};

RIG_GROUP_KERNEL(apply, sizeof(struct pair), 0) {
  const struct pair *p = params;
  uint64_t end = last(at, p->n);
  for (uint64_t i = first(at); i < end; i++) p->y[i] = table[i % 5](p->x[i]) + expf(-p->x[i]) + powf(p->x[i], 0.25f);
}

/* A jump table, which compilers place among the constants with relative relocations. */
static float choose(uint32_t which, float x) {
  switch (which) {
    case 0: return x + 1;
    case 1: return x * 3;
    case 2: return x - 7;
    case 3: return logf(x);
    case 4: return x / 5;
    case 5: return -x;
    case 6: return fmaf(x, x, 1);
    default: return 0;
  }
}

RIG_GROUP_KERNEL(choices, sizeof(struct pair), 0) {
  const struct pair *p = params;
  uint64_t end = last(at, p->n);
  for (uint64_t i = first(at); i < end; i++) p->y[i] = choose((uint32_t)i % 8, p->x[i]);
}

/* Variables: with a value, zero, common, and one that points to another. */
uint32_t started = 41;
static uint32_t zeroed[1000];
uint32_t common_count;
uint32_t *pointer = &started;

RIG_GROUP_KERNEL(variables, 8, 0) {
  uint32_t *out = *(uint32_t *const *)params;
  (void)at;
  started++;
  zeroed[999] += 2;
  common_count += 3;
  out[0] = *pointer;
  out[1] = zeroed[999];
  out[2] = common_count;
  memset(out + 3, 7, 4);
  memcpy(out + 4, "rig", 4);
}

/* Without a declaration: a group kernel whose parameters are unknown. */
void plain(const void *params, const rig_group *at) {
  uint32_t *out = *(uint32_t *const *)params;
  out[at->group[0] + at->groups[0] * (at->group[1] + at->groups[1] * at->group[2])] =
      at->group[0] | at->group[1] << 8 | at->group[2] << 16 | at->threads[2] << 24;
}

/* A thread kernel: each group sums its part by halves in group memory. */
RIG_THREAD_KERNEL(sum, sizeof(struct pair), 16) {
  const struct pair *p = params;
  float *shared = at->group_memory;
  uint32_t t = at->thread[0], n = at->threads[0];
  uint64_t i = first(at) + t;
  shared[t] = i < p->n ? p->x[i] : 0;
  at->barrier(at);
  for (uint32_t half = n / 2; half > 0; half /= 2) {
    if (t < half) shared[t] += shared[t + half];
    at->barrier(at);
  }
  if (t == 0) p->y[at->group[0]] = shared[0];
}

/* Threads that return before others meet. */
RIG_THREAD_KERNEL(uneven, sizeof(struct pair), 0) {
  const struct pair *p = params;
  uint32_t t = at->thread[0];
  for (uint32_t round = 0; round < t; round++) at->barrier(at);
  p->y[t] = p->x[t] + 1;
}
