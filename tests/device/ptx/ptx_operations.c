#include "device/ptx/ptx_operations.h"

#include <string.h>

static ptx_family family_of(ptx_type t)
{
    if (t.kind == PTX_PREDICATE)
        return PTX_TRUTH;
    if (t.kind == PTX_BF16 || (t.kind == PTX_FLOAT && t.bits == 16))
        return PTX_HALF;
    if (t.kind == PTX_FLOAT)
        return t.bits == 32 ? PTX_F32 : PTX_F64;
    return t.kind == PTX_NO_TYPE ? PTX_ANY : PTX_INTEGERS;
}

static bool is_named(const char *row, const char *name, size_t length)
{
    return strlen(row) == length && memcmp(row, name, length) == 0;
}

const ptx_operation *ptx_operation_find(const char *name, size_t length, ptx_type type)
{
    static const ptx_operation *const tables[] = {ptx_integer_operations, ptx_float_operations, ptx_convert_operations};
    const ptx_family family = family_of(type);
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
        for (const ptx_operation *o = tables[t]; o->name != NULL; o++)
            if (is_named(o->name, name, length) && (o->family == PTX_ANY || o->family == family))
                return o;
    return NULL;
}

/* ---- Atomics: a is the memory's value, b and c are sources ---- */
static uint64_t exchange(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)a;
    (void)c;
    return ptx_narrow(b, i->type.bits);
}

static uint64_t compare_and_swap(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return ptx_narrow(a, i->type.bits) == ptx_narrow(b, i->type.bits) ? ptx_narrow(c, i->type.bits) : a;
}

ptx_compute *ptx_atomic_find(const char *name, size_t length, ptx_type type)
{
    static const char *const computed[] = {"add", "min", "max", "and", "or", "xor"};
    if (is_named("exch", name, length))
        return exchange;
    if (is_named("cas", name, length))
        return compare_and_swap;
    for (size_t k = 0; k < sizeof(computed) / sizeof(computed[0]); k++)
        if (is_named(computed[k], name, length)) {
            const ptx_operation *o = ptx_operation_find(name, length, type);
            return o != NULL ? o->compute : NULL;
        }
    return NULL;
}
