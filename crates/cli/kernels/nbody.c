/* One step of n bodies that attract each other. One thread a body. Four floats a body: x, y, z and its mass; and x, y, z
   of its velocity and one that is not used. */
#include "rig_host.h"

float sqrtf(float);

typedef struct {
    const float *bodies; /* 4 n, read */
    float *moved;        /* 4 n, written */
    float *velocities;   /* 4 n, read and written */
    float step;          /* the time of the step */
    float softening;     /* added to every squared distance; above 0 */
    uint32_t n;
} nbody_params;

static void body(const nbody_params *p, uint64_t i) {
    const float *at = p->bodies + 4 * i;
    float pull[3] = {0.0f, 0.0f, 0.0f};
    for (uint64_t j = 0; j < p->n; j++) {
        const float *other = p->bodies + 4 * j;
        float dx = other[0] - at[0], dy = other[1] - at[1], dz = other[2] - at[2];
        float squared = dx * dx + dy * dy + dz * dz + p->softening;
        float force = other[3] / (squared * sqrtf(squared));
        pull[0] += force * dx;
        pull[1] += force * dy;
        pull[2] += force * dz;
    }
    for (int axis = 0; axis < 3; axis++) {
        float velocity = p->velocities[4 * i + axis] + p->step * pull[axis];
        p->velocities[4 * i + axis] = velocity;
        p->moved[4 * i + axis] = at[axis] + p->step * velocity;
    }
    p->moved[4 * i + 3] = at[3];
}

RIG_GROUP_KERNEL(nbody, sizeof(nbody_params), 0) {
    const nbody_params *p = params;
    for (uint32_t thread = 0; thread < at->threads[0]; thread++) {
        uint64_t i = (uint64_t)at->group[0] * at->threads[0] + thread;
        if (i < p->n) {
            body(p, i);
        }
    }
}
