/* A fill for a Metal device and one for a host device, which do the same. */
#include "../../../host/include/rig_host.h"
#include "rig_metal.h"

/* What a fill gets from the test: for Metal the recorded launches, for the host the function. */
struct work {
  const rig_metal_icb *icb;
  const rig_host_entry *spin;
};

/* Three rounds of spin over slot 0: of the recorded launches one has one round, and one has two. */
int32_t on_metal(rig_metal_encoder *encoder, const rig_metal_slot *slots, size_t slot_count, void *user) {
  const struct work *work = user;
  (void)slots, (void)slot_count;
  return encoder->execute(encoder, work->icb);
}

/* The same. */
int32_t on_host(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user) {
  const struct work *work = user;
  struct {
    void *y;
    uint32_t n;
    uint32_t rounds;
  } params = {slots[0].host, (uint32_t)(slots[0].len / 4), 1};
  rig_host_launch launch = {work->spin, &params, sizeof params, {(params.n + 63) / 64, 1, 1}, {64, 1, 1}, 0, 0};
  (void)slot_count;
  if (encoder->launch(encoder, &launch)) return 1;
  params.rounds = 2;
  return encoder->launch(encoder, &launch);
}
