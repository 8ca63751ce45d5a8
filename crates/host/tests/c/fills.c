/* Fills in C, for both devices of the host. Compiled as C and as C++. */
#include <string.h>

#include "rig_host.h"

/* What a fill gets from the test: functions that rig resolved. */
struct functions {
  const rig_host_entry *spin;
};

/* The parameters of the kernel spin. */
struct spin {
  uint32_t *y;
  uint32_t n;
  uint32_t rounds;
};

/* The data of the task add. */
struct add {
  uint32_t *y;
  uint32_t n;
  uint32_t by;
};

/* Leaves a reason, and answers that there is one. */
static int32_t fail(char *why, size_t why_bytes, const char *reason) {
  strncpy(why, reason, why_bytes - 1);
  why[why_bytes - 1] = 0;
  return 7;
}

#ifdef __cplusplus
extern "C" {
#endif

int32_t add(void *data, char *why, size_t why_bytes);
int32_t refuses(void *data, char *why, size_t why_bytes);
int32_t aligned(void *data, char *why, size_t why_bytes);
rig_host_launch spin_of(const rig_host_entry *entry, const struct spin *params, uint64_t params_len);
int32_t steps(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user);
int32_t fails(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user);
int32_t silent(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user);
int32_t task_fails(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user);
int32_t no_data(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user);
int32_t wrong_size(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user);

/* Adds to every number. */
int32_t add(void *data, char *why, size_t why_bytes) {
  struct add *of = (struct add *)data;
  if ((uintptr_t)data % 16 != 0) return fail(why, why_bytes, "the data stand on no 16 bytes");
  for (uint32_t i = 0; i < of->n; i++) of->y[i] += of->by;
  return 0;
}

int32_t refuses(void *data, char *why, size_t why_bytes) {
  (void)data;
  return fail(why, why_bytes, "the reason of a task in C");
}

int32_t aligned(void *data, char *why, size_t why_bytes) {
  return (uintptr_t)data % 16 == 0 ? 0 : fail(why, why_bytes, "no data stand on no 16 bytes");
}

rig_host_launch spin_of(const rig_host_entry *entry, const struct spin *params, uint64_t params_len) {
  rig_host_launch launch = {entry, params, params_len, {1, 1, 1}, {64, 1, 1}, 0, 0};
  launch.groups[0] = (params->n + 63) / 64;
  return launch;
}

/* Slot 0 to slot 1, zeros in the first half of it, then spin, one more for each, and spin again. */
int32_t steps(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user) {
  const struct functions *functions = (const struct functions *)user;
  uint32_t *y = (uint32_t *)slots[1].host;
  uint32_t n = (uint32_t)(slots[1].len / 4);
  struct spin params = {y, n, 3};
  struct add one = {y, n, 1};
  rig_host_launch launch = spin_of(functions->spin, &params, sizeof params);
  if (encoder->version != RIG_HOST_VERSION || slot_count != 2) return 2;
  if (encoder->copy(encoder, slots[0].host, y, slots[1].len)) return 1;
  if (encoder->set(encoder, y, 0, slots[1].len / 2)) return 1;
  if (encoder->launch(encoder, &launch)) return 1;
  if (encoder->task(encoder, add, &one, sizeof one)) return 1;
  if (encoder->launch(encoder, &launch)) return 1;
  /* What was handed over is copied, so this changes nothing. */
  memset(&params, 255, sizeof params);
  memset(&one, 255, sizeof one);
  return 0;
}

int32_t fails(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user) {
  (void)slots, (void)slot_count, (void)user;
  return fail(encoder->why, encoder->why_bytes, "the reason of a fill in C");
}

int32_t silent(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user) {
  (void)encoder, (void)slots, (void)slot_count, (void)user;
  return 7;
}

int32_t task_fails(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user) {
  (void)slots, (void)slot_count, (void)user;
  return encoder->task(encoder, refuses, 0, 0);
}

int32_t no_data(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user) {
  (void)slots, (void)slot_count, (void)user;
  return encoder->task(encoder, aligned, 0, 0);
}

/* Answers what a launch with parameters of another size does. */
int32_t wrong_size(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user) {
  const struct functions *functions = (const struct functions *)user;
  struct spin params = {(uint32_t *)slots[1].host, 64, 3};
  rig_host_launch launch = spin_of(functions->spin, &params, sizeof params - 4);
  (void)slot_count;
  return encoder->launch(encoder, &launch);
}

#ifdef __cplusplus
}
#endif
