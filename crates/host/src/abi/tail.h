#ifdef __cplusplus
}
#define RIG_EXTERN extern "C"
#else
#define RIG_EXTERN
#endif

#define RIG_KERNEL_(name, kind, params_bytes, group_bytes)                                                \
  RIG_EXTERN const struct rig_kernel rig_kernel_##name;                                                   \
  RIG_EXTERN const struct rig_kernel rig_kernel_##name = {1, kind, (uint32_t)(params_bytes), group_bytes}; \
  RIG_EXTERN void name(const void *params, const rig_group *at);                                          \
  RIG_EXTERN void name(const void *params, const rig_group *at)

// Defines a kernel: its name, the bytes of its parameters, the bytes of group memory that it needs beside what a launch asks
// for; then its body, which sees params and at.
#define RIG_GROUP_KERNEL(name, params_bytes, group_bytes) RIG_KERNEL_(name, 0, params_bytes, group_bytes)
#define RIG_THREAD_KERNEL(name, params_bytes, group_bytes) RIG_KERNEL_(name, 1, params_bytes, group_bytes)

#endif
