/* The results of instructions, by the first word of their names. */
#ifndef TESS_TESTS_DEVICE_PTX_PTX_OPERATIONS_H
#define TESS_TESTS_DEVICE_PTX_PTX_OPERATIONS_H

#include "device/ptx/ptx_program.h"

/* The types that a row is for. */
typedef enum ptx_family {
    PTX_ANY,
    PTX_INTEGERS, /* bits, signed and unsigned */
    PTX_F32,
    PTX_F64,
    PTX_HALF, /* f16 and bf16, and pairs of them */
    PTX_TRUTH /* predicates */
} ptx_family;

typedef struct ptx_operation {
    const char *name;
    ptx_family family;
    ptx_class class_;
    int n_sources;
    ptx_compute *compute;
} ptx_operation;

/* The operations of each file; they end with a row without a name. */
extern const ptx_operation ptx_integer_operations[], ptx_float_operations[], ptx_convert_operations[];

typedef enum ptx_comparison {
    PTX_EQ,
    PTX_NE,
    PTX_LT,
    PTX_LE,
    PTX_GT,
    PTX_GE,
    PTX_NUM, /* neither operand is NaN */
    PTX_NAN
} ptx_comparison;

/* Returns the row for a name and a type; NULL: there is none. */
const ptx_operation *ptx_operation_find(const char *name, size_t length, ptx_type type);

/* Returns the low bits of a value that a type of this many bits has. */
static inline uint64_t ptx_narrow(uint64_t x, int bits)
{
    return bits >= 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

/* Extends the sign of a value of this many bits. */
static inline int64_t ptx_signed(uint64_t x, int bits)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);
    return bits >= 64 ? (int64_t)x : (int64_t)((ptx_narrow(x, bits) ^ sign) - sign);
}

float ptx_float(uint64_t bits);
uint64_t ptx_float_bits(float x);
double ptx_double(uint64_t bits);
uint64_t ptx_double_bits(double x);
/* Values of the 16-bit types, which float32 holds exactly. */
float ptx_half(uint64_t bits, ptx_type_kind kind);
/* Rounds to nearest even. NaN becomes 0x7fff, as on a GPU. The double form rounds once. */
uint64_t ptx_half_bits(double x, ptx_type_kind kind);

/* Operations of atomics on a value of memory: the new value. Types: add, min, max, and, or, xor, exch, cas (c is stored
 * if the memory holds b). Returns NULL if there is no such operation for the type. */
ptx_compute *ptx_atomic_find(const char *name, size_t length, ptx_type type);

#endif
