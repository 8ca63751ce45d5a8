/* Fills in C. Compiled as C and as C++. */
#include <string.h>

#include "rig_metal.h"

/* Runs the indirect command buffer user, starts the next command buffer, and runs it again. */
int32_t twice(rig_metal_encoder *encoder, const rig_metal_slot *slots, size_t slot_count, void *user) {
  if (encoder->version != RIG_METAL_VERSION || slot_count != 1 || !slots[0].host || !slots[0].buffer) return 2;
  if (!encoder->device || !encoder->compute(encoder) || !encoder->command_buffer(encoder) || !encoder->fence(encoder)) return 3;
  if (encoder->execute(encoder, (const rig_metal_icb *)user)) return 1;
  if (encoder->end(encoder)) return 1;
  if (encoder->next(encoder)) return 1;
  return encoder->execute(encoder, (const rig_metal_icb *)user);
}

/* Fails with a reason. */
int32_t fails(rig_metal_encoder *encoder, const rig_metal_slot *slots, size_t slot_count, void *user) {
  (void)slots, (void)slot_count, (void)user;
  strncpy(encoder->why, "the reason of a fill in C", encoder->why_bytes - 1);
  return 7;
}

/* Fails without one. */
int32_t silent(rig_metal_encoder *encoder, const rig_metal_slot *slots, size_t slot_count, void *user) {
  (void)encoder, (void)slots, (void)slot_count, (void)user;
  return 7;
}

/* Starts another command buffer, and answers what that did. */
int32_t another(rig_metal_encoder *encoder, const rig_metal_slot *slots, size_t slot_count, void *user) {
  (void)slots, (void)slot_count, (void)user;
  return encoder->next(encoder);
}

/* Records count launches of one entry with the parameters after one another, 16 bytes each. */
rig_metal_icb *record(const rig_metal *metal, const rig_metal_entry *entry, const char *params, size_t count, uint32_t threads,
                      char *why, size_t why_bytes) {
  rig_metal_indirect launches[8];
  memset(launches, 0, sizeof launches);
  if (metal->version != RIG_METAL_VERSION || count > 8) return 0;
  for (size_t i = 0; i < count; i++) {
    rig_metal_indirect launch = {entry, params + 16 * i, 16, {1, 1, 1}, {threads, 1, 1}, 0, 0};
    launches[i] = launch;
  }
  return metal->icb(metal, launches, count, why, why_bytes);
}
