/* The sum of each group's elements: a kernel of threads that meet at barriers. One thread an element; the threads of a
   group are a power of two, and the launch gives 4 bytes of group memory to each. */
#include "rig_host.h"

typedef struct {
    const float *x; /* read */
    float *sums;    /* one a group, written */
    uint32_t n;
} reduce_params;

RIG_THREAD_KERNEL(reduce, sizeof(reduce_params), 0) {
    const reduce_params *p = params;
    float *shared = at->group_memory;
    uint32_t thread = at->thread[0];
    uint64_t i = (uint64_t)at->group[0] * at->threads[0] + thread;
    shared[thread] = i < p->n ? p->x[i] : 0.0f;
    at->barrier(at);
    for (uint32_t half = at->threads[0] / 2; half > 0; half /= 2) {
        if (thread < half) {
            shared[thread] += shared[thread + half];
        }
        at->barrier(at);
    }
    if (thread == 0) {
        p->sums[at->group[0]] = shared[0];
    }
}
