/* The rows that are written once in `vec`, in files *_vec.c. Each of these files is compiled once for each instruction
 * set, after the header with its vectors (tools/module.cmake). VEC_NAME gives a function the name of the set. */
#ifndef TESS_DEVICE_CPU_VEC_ROWS_H
#define TESS_DEVICE_CPU_VEC_ROWS_H

#include "device/cpu/vec_typed.h"

#define DECLARE_VEC(name, type) tess_status VEC_NAME(name)(tess_stream * s, const type *args);
#define DECLARE_REF(name, type)
#define DECLARE_ROW(name, type, tables, ...) DECLARE_##tables(name, type)
TESS_KERNEL_ROWS(DECLARE_ROW)

void VEC_NAME(encode_8bit)(const tess_code_map *map, const float *x, int n, uint8_t *codes, float *most);
void VEC_NAME(decode_8bit)(const tess_code_map *map, const uint8_t *codes, float most, int n, float *x);
void VEC_NAME(round_randomly)(const tess_moment_random *random, const float *x, int n, uint16_t *y);

static inline void fill_vec_rows(tess_kernels *k)
{
#define FILL_VEC(name) k->name = VEC_NAME(name);
#define FILL_REF(name)
#define FILL_ROW(name, type, tables, ...) FILL_##tables(name)
    TESS_KERNEL_ROWS(FILL_ROW)
    k->encode_8bit = VEC_NAME(encode_8bit);
    k->decode_8bit = VEC_NAME(decode_8bit);
    k->round_randomly = VEC_NAME(round_randomly);
}

#endif
