/* The table of operations of a device. The rows are functions. The table is filled with the reference kernels
 * (device/ref: scalar C, the definition). Then rows are replaced by faster ones for the machine (device/cpu). No row is
 * NULL.
 *
 * Rules for all rows:
 * - An output row depends on its own inputs alone, and neither the number of rows nor the threads change the order of
 *   its operations.
 * - Sums are added in the order that is stated here (along a row: device/elementwise.h). FMA is used only where stated,
 *   in row sums and in activations.
 * - Every row but gemm and attention gives the same bits on every table.
 * - Matrices are row-major; `ld*` is the number of elements from one row to the next.
 * - Float means float32. An "x" dtype is TESS_F32 or TESS_BF16 (the same for both operands). Rounding to bf16 is to
 *   nearest even. On the host it may be TESS_F16, too: its bits are those of the float32 rows with operands widened and
 *   results rounded, on every table.
 * - Sizes may be 0.
 * - Errors: TESS_E_NOMEM for scratch memory, TESS_E_UNSUPPORTED for a dtype, TESS_E_INVALID for a temperature.
 *
 * Arguments are descriptors or values. Descriptors are memory of the host, read before the call returns: the structures
 * of kernel_args.h, the sequences of attention, runs, and the arrays `x` and `y` of a reduction. Values are memory of
 * the stream's device: everything that descriptors and other arguments point to, such as matrices, ids, positions,
 * targets, tables of angles, work space, and results about them (`finite`, `first`, sums). No row returns a value of a
 * tensor. The one exception is AdamW's `undo`, which is in the host's memory; rows of other devices refuse it. On a
 * device a call only enqueues, so errors about sizes are returned by the next wait (device/device.h). */
#ifndef TESS_DEVICE_KERNELS_H
#define TESS_DEVICE_KERNELS_H

#include "device/kernel_args.h"

typedef struct tess_stream tess_stream;
typedef struct tess_code_map tess_code_map; /* device/moments.h */
typedef struct tess_moment_random tess_moment_random;

typedef struct tess_kernels {
    const char *name;                 /* "ref", "avx2", "avx512", "avx512_bf16", "amx" */
    const struct tess_kernels *plain; /* the float32 and bfloat16 rows that compute those of float16 (widen.c) */

#define TESS_KERNEL_MEMBER(name, type, ...) tess_status (*name)(tess_stream * s, const type *args);
    TESS_KERNEL_ROWS(TESS_KERNEL_MEMBER)
#undef TESS_KERNEL_MEMBER

    /* Converts a block of n elements of an optimizer's moment to its stored form and back (device/moments.h). Works on
     * host memory on every device, in the caller's thread, and gives the same bits on every table. *most is the largest
     * magnitude. */
    void (*encode_8bit)(const tess_code_map *map, const float *x, int n, uint8_t *codes, float *most);
    void (*decode_8bit)(const tess_code_map *map, const uint8_t *codes, float most, int n, float *x);
    void (*round_randomly)(const tess_moment_random *random, const float *x, int n, uint16_t *y);

    /* Loops that keep one core's arithmetic units busy from registers. They return the number of floating-point
     * operations. */
    double (*peak_f32)(int64_t rounds);
    double (*peak_bf16)(int64_t rounds);
} tess_kernels;

/* Returns the fastest table of this machine that TESSERA_CPU_MOST allows, or the one named ("ref", "avx2", "avx512",
 * "avx512_bf16", "amx"). NULL: the table that TESSERA_CPU names, otherwise the fastest. TESS_E_UNSUPPORTED: the message
 * names the features that the CPU lacks. The table is static. A process must request AMX before its threads use it;
 * this call does. */
tess_status tess_kernels_select(const char *name, const tess_kernels **kernels);

/* Writes the CPU's features that matter here, such as "avx512f avx512bw ... amx_bf16". Returns text. */
const char *tess_cpu_features(char *text, size_t size);

/* Fills k with the rows of `table`, extended to float16. k borrows `table`. */
void tess_kernels_widen(const tess_kernels *table, tess_kernels *k);

/* The reference of each row. Those of gemm_fused and gemm_grouped are composed of the other rows of the stream's
 * table. */
#define TESS_KERNEL_REFERENCE(name, type, ...) tess_status tess_ref_##name(tess_stream *s, const type *args);
TESS_KERNEL_ROWS(TESS_KERNEL_REFERENCE)
#undef TESS_KERNEL_REFERENCE

/* Each of these functions fills the rows of one table. Only called if the CPU can run them. */
void tess_kernels_ref(tess_kernels *k);
void tess_kernels_avx2(tess_kernels *k);
void tess_kernels_avx2_gemm(tess_kernels *k);
void tess_kernels_avx2_attention(tess_kernels *k);
void tess_kernels_avx512(tess_kernels *k);
void tess_kernels_avx512_gemm(tess_kernels *k);
void tess_kernels_avx512_attention(tess_kernels *k);
void tess_kernels_avx512_bf16_gemm(tess_kernels *k);
void tess_kernels_amx_gemm(tess_kernels *k);
void tess_kernels_amx_attention(tess_kernels *k);

#endif
