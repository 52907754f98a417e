/* Integers, bits and predicates. The bits above a type's own are 0 in registers. */
#include "device/ptx/ptx_operations.h"

static uint64_t narrow(const ptx_instruction *i, uint64_t x)
{
    return ptx_narrow(x, i->type.bits);
}

static bool is_signed(const ptx_instruction *i)
{
    return i->type.kind == PTX_SIGNED;
}

/* The full product of two sources. */
static unsigned __int128 product(const ptx_instruction *i, uint64_t a, uint64_t b)
{
    if (is_signed(i))
        return (unsigned __int128)((__int128)ptx_signed(a, i->type.bits) * ptx_signed(b, i->type.bits));
    return (unsigned __int128)narrow(i, a) * narrow(i, b);
}

static uint64_t move(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return narrow(i, a);
}

static uint64_t add(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return narrow(i, a + b);
}

static uint64_t subtract(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return narrow(i, a - b);
}

/* The result of mul and mad has the low half of the product, the high half, or all of it. */
static uint64_t multiply_add(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    if (i->wide)
        return ptx_narrow((uint64_t)product(i, a, b) + c, 2 * i->type.bits);
    return narrow(i, (uint64_t)(i->high ? product(i, a, b) >> i->type.bits : product(i, a, b)) + c);
}

/* The caller has refused a divisor of 0. */
static uint64_t divide(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    if (!is_signed(i))
        return narrow(i, a) / narrow(i, b);
    int64_t divisor = ptx_signed(b, i->type.bits);
    return divisor == -1 ? narrow(i, 0 - a) : narrow(i, (uint64_t)(ptx_signed(a, i->type.bits) / divisor));
}

static uint64_t remainder_of(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    if (!is_signed(i))
        return narrow(i, a) % narrow(i, b);
    int64_t divisor = ptx_signed(b, i->type.bits);
    return divisor == -1 ? 0 : narrow(i, (uint64_t)(ptx_signed(a, i->type.bits) % divisor));
}

static bool is_less(const ptx_instruction *i, uint64_t a, uint64_t b)
{
    return is_signed(i) ? ptx_signed(a, i->type.bits) < ptx_signed(b, i->type.bits) : narrow(i, a) < narrow(i, b);
}

static uint64_t minimum(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return narrow(i, is_less(i, b, a) ? b : a);
}

static uint64_t maximum(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return narrow(i, is_less(i, a, b) ? b : a);
}

static uint64_t bits_and(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return narrow(i, a & b);
}

static uint64_t bits_or(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return narrow(i, a | b);
}

static uint64_t bits_xor(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return narrow(i, a ^ b);
}

static uint64_t bits_not(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return narrow(i, ~a);
}

static uint64_t negate(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return narrow(i, 0 - a);
}

static uint64_t magnitude(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return narrow(i, ptx_signed(a, i->type.bits) < 0 ? 0 - a : a);
}

/* Shifts clamp their count to the number of bits. */
static uint64_t shift_left(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    b = ptx_narrow(b, 32);
    return b >= (uint64_t)i->type.bits ? 0 : narrow(i, a << b);
}

static uint64_t shift_right(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    const uint64_t bits = (uint64_t)i->type.bits;
    b = ptx_narrow(b, 32);
    if (is_signed(i))
        return narrow(i, (uint64_t)(ptx_signed(a, i->type.bits) >> (b >= bits ? bits - 1 : b)));
    return b >= bits ? 0 : narrow(i, a) >> b;
}

/* shf: the pair (b, a) shifted; `wide` stands for .clamp, `high` for a shift to the left. */
static uint64_t shift_pair(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t pair = ptx_narrow(b, 32) << 32 | ptx_narrow(a, 32);
    const uint64_t n = i->wide ? (ptx_narrow(c, 32) < 32 ? ptx_narrow(c, 32) : 32) : c & 31;
    return ptx_narrow(i->high ? pair << n >> 32 : pair >> n, 32);
}

/* Byte k of the result is the byte of (b, a) that digit k of c names; a digit of 8 and more repeats its sign. */
static uint64_t permute(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t bytes = ptx_narrow(a, 32) | ptx_narrow(b, 32) << 32;
    uint64_t result = 0;
    (void)i;
    for (int k = 0; k < 4; k++) {
        unsigned digit = c >> (4 * k) & 15;
        uint64_t byte = bytes >> (8 * (digit & 7)) & 255;
        if (digit & 8)
            byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * k);
    }
    return result;
}

static uint64_t extract(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    const int bits = i->type.bits;
    const int at = (int)(b & 255), n = (int)(c & 255);
    const int sign_at = at + n - 1 < bits - 1 ? at + n - 1 : bits - 1;
    const bool sign = is_signed(i) && n > 0 && narrow(i, a) >> sign_at & 1;
    uint64_t result = 0;
    for (int k = 0; k < bits; k++)
        result |= (uint64_t)(k < n && at + k < bits ? narrow(i, a) >> (at + k) & 1 : sign) << k;
    return n == 0 ? 0 : result;
}

/* lop3: bit k of the result is the bit of the table (the sixth name) that the bits k of a, b and c choose. */
static uint64_t look_up(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t result = 0;
    for (int k = 0; k < 32; k++)
        result |= (uint64_t)(i->offset >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1) << k;
    return result;
}

static uint64_t leading_zeros(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    a = narrow(i, a);
    return a == 0 ? (uint64_t)i->type.bits : (uint64_t)(__builtin_clzll(a) - (64 - i->type.bits));
}

static uint64_t count_ones(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return (uint64_t)__builtin_popcountll(narrow(i, a));
}

static uint64_t reverse(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t result = 0;
    (void)b;
    (void)c;
    for (int k = 0; k < i->type.bits; k++)
        result |= (a >> k & 1) << (i->type.bits - 1 - k);
    return result;
}

/* The position of the highest bit that differs from the sign; -1: there is none. */
static uint64_t find_highest(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    if (is_signed(i) && ptx_signed(a, i->type.bits) < 0)
        a = ~a;
    a = narrow(i, a);
    return a == 0 ? UINT32_MAX : 63 - (uint64_t)__builtin_clzll(a);
}

static uint64_t choose(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return narrow(i, c & 1 ? a : b);
}

static uint64_t compare(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    const bool less = is_less(i, a, b), equal = narrow(i, a) == narrow(i, b);
    const bool results[] = {[PTX_EQ] = equal,           [PTX_NE] = !equal, [PTX_LT] = less,  [PTX_LE] = less || equal,
                            [PTX_GT] = !less && !equal, [PTX_GE] = !less,  [PTX_NUM] = true, [PTX_NAN] = false};
    const uint64_t result = results[i->comparison];
    return i->also != NULL ? i->also(i, result, c, 0) & 1 : result;
}

/* cvta: addresses of a space to generic ones, and back (`high`). */
static uint64_t convert_address(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t window = i->space == PTX_SHARED  ? PTX_SHARED_WINDOW
                            : i->space == PTX_LOCAL ? PTX_LOCAL_WINDOW
                            : i->space == PTX_PARAM ? PTX_PARAM_WINDOW
                                                    : 0;
    (void)b;
    (void)c;
    return i->high ? a - window : a + window;
}

static uint64_t is_in_space(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t window = a & PTX_WINDOW_MASK;
    (void)b;
    (void)c;
    return i->space == PTX_SHARED  ? window == PTX_SHARED_WINDOW
           : i->space == PTX_LOCAL ? window == PTX_LOCAL_WINDOW
           : i->space == PTX_PARAM ? window == PTX_PARAM_WINDOW
                                   : window == 0;
}

// clang-format off
const ptx_operation ptx_integer_operations[] = {
    {"mov",       PTX_ANY,      PTX_CLASS_MOVE,    1, move},
    {"selp",      PTX_ANY,      PTX_CLASS_MOVE,    3, choose},
    {"cvta",      PTX_INTEGERS, PTX_CLASS_MOVE,    1, convert_address},
    {"isspacep",  PTX_ANY,      PTX_CLASS_INTEGER, 1, is_in_space},
    {"setp",      PTX_INTEGERS, PTX_CLASS_INTEGER, 3, compare},
    {"add",       PTX_INTEGERS, PTX_CLASS_INTEGER, 2, add},
    {"sub",       PTX_INTEGERS, PTX_CLASS_INTEGER, 2, subtract},
    {"mul",       PTX_INTEGERS, PTX_CLASS_INTEGER, 2, multiply_add},
    {"mad",       PTX_INTEGERS, PTX_CLASS_INTEGER, 3, multiply_add},
    {"div",       PTX_INTEGERS, PTX_CLASS_SPECIAL, 2, divide},
    {"rem",       PTX_INTEGERS, PTX_CLASS_SPECIAL, 2, remainder_of},
    {"min",       PTX_INTEGERS, PTX_CLASS_INTEGER, 2, minimum},
    {"max",       PTX_INTEGERS, PTX_CLASS_INTEGER, 2, maximum},
    {"and",       PTX_INTEGERS, PTX_CLASS_INTEGER, 2, bits_and},
    {"or",        PTX_INTEGERS, PTX_CLASS_INTEGER, 2, bits_or},
    {"xor",       PTX_INTEGERS, PTX_CLASS_INTEGER, 2, bits_xor},
    {"not",       PTX_INTEGERS, PTX_CLASS_INTEGER, 1, bits_not},
    {"and",       PTX_TRUTH,    PTX_CLASS_INTEGER, 2, bits_and},
    {"or",        PTX_TRUTH,    PTX_CLASS_INTEGER, 2, bits_or},
    {"xor",       PTX_TRUTH,    PTX_CLASS_INTEGER, 2, bits_xor},
    {"not",       PTX_TRUTH,    PTX_CLASS_INTEGER, 1, bits_not},
    {"neg",       PTX_INTEGERS, PTX_CLASS_INTEGER, 1, negate},
    {"abs",       PTX_INTEGERS, PTX_CLASS_INTEGER, 1, magnitude},
    {"shl",       PTX_INTEGERS, PTX_CLASS_INTEGER, 2, shift_left},
    {"shr",       PTX_INTEGERS, PTX_CLASS_INTEGER, 2, shift_right},
    {"shf",       PTX_INTEGERS, PTX_CLASS_INTEGER, 3, shift_pair},
    {"prmt",      PTX_INTEGERS, PTX_CLASS_INTEGER, 3, permute},
    {"bfe",       PTX_INTEGERS, PTX_CLASS_INTEGER, 3, extract},
    {"lop3",      PTX_INTEGERS, PTX_CLASS_INTEGER, 4, look_up},
    {"clz",       PTX_INTEGERS, PTX_CLASS_INTEGER, 1, leading_zeros},
    {"popc",      PTX_INTEGERS, PTX_CLASS_INTEGER, 1, count_ones},
    {"brev",      PTX_INTEGERS, PTX_CLASS_INTEGER, 1, reverse},
    {"bfind",     PTX_INTEGERS, PTX_CLASS_INTEGER, 1, find_highest},
    {NULL, PTX_ANY, PTX_CLASS_INTEGER, 0, NULL},
};
// clang-format on
