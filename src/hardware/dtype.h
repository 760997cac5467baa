/* Number formats: their sizes and names as files and plans spell them. */
#ifndef TDP_HARDWARE_DTYPE_H
#define TDP_HARDWARE_DTYPE_H

typedef enum { DTYPE_FP32, DTYPE_TF32, DTYPE_FP16, DTYPE_BF16, DTYPE_FP8, DTYPE_FP4, DTYPE_COUNT } DType;

extern const char *const dtype_names[]; /* NULL-terminated, indexed by DType */
extern const double dtype_bytes[DTYPE_COUNT];

#endif
