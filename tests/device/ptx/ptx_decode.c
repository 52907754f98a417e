/* Decodes an instruction: the parts of its name, and its operands. A part or an instruction that is not known here is
 * an error, so nothing is ignored silently. */
#include "device/ptx/ptx_parser.h"

#include <stdio.h>
#include <string.h>

#include "device/ptx/ptx_operations.h"

enum { MOST_PARTS = 14 };

/* The name split at its points. */
typedef struct name_parts {
    ptx_token part[MOST_PARTS];
    int n;
} name_parts;

static bool is(const ptx_token *t, const char *text)
{
    return ptx_token_is(t, text);
}

static _Noreturn void refuse(ptx_parser *p, const ptx_instruction *i, const char *why)
{
    ptx_parse_fail(p, i->line, "%s: '%s'", why, i->name);
}

static name_parts split(ptx_parser *p, const ptx_token *name)
{
    name_parts parts = {.n = 0};
    for (size_t at = 0; at <= name->length; at++) {
        size_t end = at;
        while (end < name->length && name->text[end] != '.')
            end++;
        if (parts.n == MOST_PARTS)
            ptx_parse_fail(p, name->line, "a name of more than %d parts", MOST_PARTS);
        parts.part[parts.n++] = (ptx_token){PTX_WORD, name->text + at, end - at, name->line};
        at = end;
    }
    return parts;
}

static bool has(const name_parts *parts, const char *text)
{
    for (int k = 1; k < parts->n; k++)
        if (is(&parts->part[k], text))
            return true;
    return false;
}

// clang-format off
static const struct { const char *name; ptx_type type; } types[] = {
    {"b8", {PTX_BITS, 8, 1}}, {"b16", {PTX_BITS, 16, 1}}, {"b32", {PTX_BITS, 32, 1}},
    {"b64", {PTX_BITS, 64, 1}}, {"u8", {PTX_UNSIGNED, 8, 1}}, {"u16", {PTX_UNSIGNED, 16, 1}},
    {"u32", {PTX_UNSIGNED, 32, 1}}, {"u64", {PTX_UNSIGNED, 64, 1}}, {"s8", {PTX_SIGNED, 8, 1}},
    {"s16", {PTX_SIGNED, 16, 1}}, {"s32", {PTX_SIGNED, 32, 1}}, {"s64", {PTX_SIGNED, 64, 1}},
    {"f16", {PTX_FLOAT, 16, 1}}, {"f32", {PTX_FLOAT, 32, 1}}, {"f64", {PTX_FLOAT, 64, 1}},
    {"f16x2", {PTX_FLOAT, 16, 2}}, {"bf16", {PTX_BF16, 16, 1}}, {"bf16x2", {PTX_BF16, 16, 2}},
    {"pred", {PTX_PREDICATE, 1, 1}},
};
static const struct { const char *name; int comparison; bool with_nan; } comparisons[] = {
    {"eq", PTX_EQ, false},  {"ne", PTX_NE, false},  {"lt", PTX_LT, false},  {"le", PTX_LE, false},
    {"gt", PTX_GT, false},  {"ge", PTX_GE, false},  {"lo", PTX_LT, false},  {"ls", PTX_LE, false},
    {"hi", PTX_GT, false},  {"hs", PTX_GE, false},  {"equ", PTX_EQ, true},  {"neu", PTX_NE, true},
    {"ltu", PTX_LT, true},  {"leu", PTX_LE, true},  {"gtu", PTX_GT, true},  {"geu", PTX_GE, true},
    {"num", PTX_NUM, false}, {"nan", PTX_NAN, true},
};
static const struct { const char *name; ptx_rounding rounding; } roundings[] = {
    {"rn", PTX_NEAREST}, {"rz", PTX_TO_ZERO}, {"rm", PTX_DOWN}, {"rp", PTX_UP},
    {"rni", PTX_NEAREST_INTEGER}, {"rzi", PTX_TO_ZERO_INTEGER}, {"rmi", PTX_DOWN_INTEGER}, {"rpi", PTX_UP_INTEGER},
};
static const struct { const char *name; ptx_space space; } spaces[] = {
    {"global", PTX_GLOBAL}, {"const", PTX_CONST}, {"shared", PTX_SHARED}, {"shared::cta", PTX_SHARED},
    {"local", PTX_LOCAL}, {"param", PTX_PARAM},
};
/* Parts that change nothing here: orders of memory, since lanes run one after the other; hints; parts that a decoder
 * reads. */
static const char *const ignored[] = {
    "uni", "sync", "aligned", "nc", "volatile", "relaxed", "acquire", "release", "acq_rel", "weak", "gpu", "cta", "sys",
    "noftz", "to", "lo", "L1::no_allocate", "L1::evict_last", "L1::evict_first", "L2::128B", "L2::256B",
};
// clang-format on

/* Reads a part that many instructions have. Returns false for any other part. */
static bool read_part(const ptx_token *part, ptx_instruction *i)
{
    for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++)
        if (is(part, types[k].name)) {
            i->type = i->type.kind == PTX_NO_TYPE ? types[k].type : i->type;
            i->from = types[k].type;
            return true;
        }
    for (size_t k = 0; k < sizeof(roundings) / sizeof(roundings[0]); k++)
        if (is(part, roundings[k].name)) {
            i->rounding = roundings[k].rounding;
            return true;
        }
    for (size_t k = 0; k < sizeof(spaces) / sizeof(spaces[0]); k++)
        if (is(part, spaces[k].name)) {
            i->space = spaces[k].space;
            return true;
        }
    for (size_t k = 0; k < sizeof(ignored) / sizeof(ignored[0]); k++)
        if (is(part, ignored[k]))
            return true;
    if (is(part, "v2") || is(part, "v4") || is(part, "v8"))
        i->vector = part->text[1] - '0';
    else if (is(part, "ftz"))
        i->flush = true;
    else if (is(part, "sat"))
        i->saturate = true;
    else if (is(part, "approx"))
        i->approximate = true;
    else if (is(part, "NaN"))
        i->with_nan = true;
    else if (is(part, "wide"))
        i->wide = true;
    else if (is(part, "hi"))
        i->high = true;
    else
        return false;
    return true;
}

/* Reads all parts but the first. Parts of `own` are left to the instruction's decoder. */
static void read_parts(ptx_parser *p, const name_parts *parts, const char *const *own, ptx_instruction *i)
{
    i->vector = 1;
    for (int k = 1; k < parts->n; k++) {
        bool known = false;
        for (const char *const *o = own; o != NULL && *o != NULL && !known; o++)
            known = is(&parts->part[k], *o);
        if (!known && !read_part(&parts->part[k], i))
            refuse(p, i, "an unknown instruction");
    }
    i->bytes = i->type.bits * i->type.packed / 8;
}

/* ---- Operands ---- */
static void want(ptx_parser *p, const ptx_instruction *i, bool right)
{
    if (!right)
        refuse(p, i, "unexpected operands");
}

static void add_out(ptx_parser *p, ptx_instruction *i, const ptx_operand *o)
{
    want(p, i, o->kind == PTX_SLOT || o->kind == PTX_VECTOR);
    const int n = o->kind == PTX_VECTOR ? o->n : 1;
    for (int k = 0; k < n; k++) {
        const int slot = o->kind == PTX_VECTOR ? o->slots[k] : o->slot;
        want(p, i, slot >= PTX_NO_SLOT && i->n_out < PTX_MOST_OUT);
        i->out[i->n_out++] = slot;
    }
}

static void add_in(ptx_parser *p, ptx_instruction *i, const ptx_operand *o)
{
    want(p, i, o->kind == PTX_SLOT || o->kind == PTX_VECTOR);
    const int n = o->kind == PTX_VECTOR ? o->n : 1;
    for (int k = 0; k < n; k++) {
        const int slot = o->kind == PTX_VECTOR ? o->slots[k] : o->slot;
        want(p, i, slot != PTX_NO_SLOT && i->n_in < PTX_MOST_IN);
        i->in[i->n_in++] = slot;
    }
}

static void set_address(ptx_parser *p, ptx_instruction *i, const ptx_operand *o)
{
    want(p, i, o->kind == PTX_ADDRESS);
    i->base = o->slot;
    i->offset = o->offset;
}

/* ---- Instructions ---- */
typedef void decoder(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i);

static void decode_compute(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char *const with_mode[] = {"clamp", "wrap", "l", "r", "full", NULL};
    const bool shifts_pair = is(&parts->part[0], "shf"), divides = is(&parts->part[0], "div");
    read_parts(p, parts, shifts_pair || divides ? with_mode : NULL, i);
    const ptx_token *name = &parts->part[0];
    const ptx_operation *op = ptx_operation_find(name->text, name->length, i->type);
    if (op == NULL)
        refuse(p, i, "an unknown instruction");
    const bool real = i->type.kind == PTX_FLOAT || i->type.kind == PTX_BF16;
    const bool whole = i->from.kind != PTX_FLOAT && i->from.kind != PTX_BF16;
    if (real && (i->rounding == PTX_TO_ZERO || i->rounding == PTX_DOWN || i->rounding == PTX_UP))
        refuse(p, i, "a rounding that the interpreter does not have");
    if ((i->wide || i->high) && i->type.kind != PTX_UNSIGNED && i->type.kind != PTX_SIGNED)
        refuse(p, i, "an unknown instruction");
    if (i->wide && i->type.bits == 64)
        refuse(p, i, "an unknown instruction");
    if (!real && whole && i->saturate && op->class_ != PTX_CLASS_CONVERT)
        refuse(p, i, "an unknown instruction");
    i->approximate = i->approximate || (divides && has(parts, "full"));
    if (shifts_pair) {
        i->wide = has(parts, "clamp");
        i->high = has(parts, "l");
    }
    i->kind = PTX_COMPUTE;
    i->class_ = op->class_;
    i->compute = op->compute;
    int sources = op->class_ == PTX_CLASS_CONVERT ? (i->type.packed == 2 ? 2 : 1) : op->n_sources;
    want(p, i, n == 1 + sources);
    if (is(name, "lop3")) {
        want(p, i, o[4].is_immediate);
        i->offset = (int64_t)o[4].immediate;
        sources = 3;
    }
    add_out(p, i, &o[0]);
    want(p, i, i->n_out == 1 && i->out[0] >= 0 && o[0].pair == PTX_NO_SLOT);
    for (int k = 0; k < sources; k++)
        add_in(p, i, &o[1 + k]);
    want(p, i, i->n_in == sources);
}

/* mov has forms with a vector on one side. */
static void decode_move(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    want(p, i, n == 2);
    if (o[0].kind != PTX_VECTOR && o[1].kind != PTX_VECTOR) {
        decode_compute(p, parts, o, n, i);
        return;
    }
    read_parts(p, parts, NULL, i);
    i->class_ = PTX_CLASS_MOVE;
    i->kind = o[0].kind == PTX_VECTOR ? PTX_UNPACK : PTX_PACK;
    add_out(p, i, &o[0]);
    add_in(p, i, &o[1]);
    const int elements = i->kind == PTX_PACK ? i->n_in : i->n_out;
    want(p, i, (i->kind == PTX_PACK ? i->n_out : i->n_in) == 1 && (elements == 2 || elements == 4));
    want(p, i, i->kind == PTX_UNPACK || i->out[0] >= 0);
    i->bytes = i->type.bits / 8 / elements; /* size of an element */
    want(p, i, i->bytes > 0);
}

static void decode_address(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    decode_compute(p, parts, o, n, i);
    i->high = has(parts, "to");
}

static void decode_compare(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char *const logical[] = {"and", "or", "xor"};
    name_parts rest = {.part = {parts->part[0]}, .n = 1};
    bool compares = false;
    for (int k = 1; k < parts->n; k++) {
        bool taken = false;
        for (size_t c = 0; c < sizeof(comparisons) / sizeof(comparisons[0]) && !taken && !compares; c++)
            if (is(&parts->part[k], comparisons[c].name)) {
                i->comparison = comparisons[c].comparison;
                i->with_nan = comparisons[c].with_nan;
                taken = compares = true;
            }
        for (size_t l = 0; l < sizeof(logical) / sizeof(logical[0]) && !taken; l++)
            if (is(&parts->part[k], logical[l])) {
                i->also = ptx_operation_find(logical[l], strlen(logical[l]), (ptx_type){PTX_PREDICATE, 1, 1})->compute;
                taken = true;
            }
        if (!taken)
            rest.part[rest.n++] = parts->part[k];
    }
    read_parts(p, &rest, NULL, i);
    const ptx_operation *op = ptx_operation_find("setp", 4, i->type);
    if (op == NULL || !compares)
        refuse(p, i, "an unknown instruction");
    i->kind = PTX_COMPUTE;
    i->class_ = op->class_;
    i->compute = op->compute;
    want(p, i, n == (i->also != NULL ? 4 : 3));
    add_out(p, i, &o[0]);
    want(p, i, i->n_out == 1 && i->out[0] >= 0 && o[0].pair == PTX_NO_SLOT);
    for (int k = 1; k < n; k++)
        add_in(p, i, &o[k]);
    want(p, i, i->n_in == n - 1);
}

static void decode_load(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    read_parts(p, parts, NULL, i);
    want(p, i, n == 2 && i->bytes > 0);
    i->kind = PTX_LOAD;
    i->class_ = PTX_CLASS_MEMORY;
    add_out(p, i, &o[0]);
    set_address(p, i, &o[1]);
    want(p, i, i->n_out == i->vector);
}

static void decode_store(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    read_parts(p, parts, NULL, i);
    want(p, i, n == 2 && i->bytes > 0 && i->space != PTX_PARAM && i->space != PTX_CONST);
    i->kind = PTX_STORE;
    i->class_ = PTX_CLASS_MEMORY;
    set_address(p, i, &o[0]);
    add_in(p, i, &o[1]);
    want(p, i, i->n_in == i->vector);
}

static void decode_atomic(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char *const operations[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", NULL};
    const int first = is(&parts->part[0], "atom"); /* red has no result */
    read_parts(p, parts, operations, i);
    for (int k = 1; k < parts->n && i->also == NULL; k++)
        for (const char *const *operation = operations; *operation != NULL; operation++)
            if (is(&parts->part[k], *operation))
                i->also = ptx_atomic_find(*operation, strlen(*operation), i->type);
    if (i->also == NULL || i->vector != 1 || i->bytes < 2 ||
        (i->space != PTX_GLOBAL && i->space != PTX_SHARED && i->space != PTX_GENERIC))
        refuse(p, i, "an unknown instruction");
    i->kind = PTX_ATOMIC;
    i->class_ = PTX_CLASS_MEMORY;
    want(p, i, n == first + 2 || n == first + 3);
    if (first == 1)
        add_out(p, i, &o[0]);
    set_address(p, i, &o[first]);
    for (int k = first + 1; k < n; k++)
        add_in(p, i, &o[k]);
    want(p, i, i->n_out == first && i->n_in == n - first - 1);
}

static void decode_branch(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char *const own[] = {"idx", NULL};
    read_parts(p, parts, own, i);
    i->class_ = PTX_CLASS_CONTROL;
    i->kind = is(&parts->part[0], "brx") ? PTX_BRANCH_INDEXED : PTX_BRANCH;
    want(p, i, n == (i->kind == PTX_BRANCH ? 1 : 2) && o[n - 1].kind == PTX_NAME);
    if (i->kind == PTX_BRANCH_INDEXED)
        add_in(p, i, &o[0]);
}

static void decode_exit(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    (void)o;
    read_parts(p, parts, NULL, i);
    i->kind = PTX_EXIT;
    i->class_ = PTX_CLASS_CONTROL;
    want(p, i, n == 0);
}

static void decode_barrier(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char *const own[] = {"warp", NULL};
    read_parts(p, parts, own, i);
    i->class_ = PTX_CLASS_CONTROL;
    i->kind = has(parts, "warp") ? PTX_WARP_BARRIER : PTX_BARRIER;
    if (!has(parts, "sync"))
        refuse(p, i, "an unknown instruction");
    want(p, i, n == 1 || (n == 2 && i->kind == PTX_BARRIER));
    for (int k = 0; k < n; k++)
        add_in(p, i, &o[k]);
    want(p, i, i->n_in == n);
}

static void decode_shuffle(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char *const own[] = {"up", "down", "bfly", "idx", NULL};
    read_parts(p, parts, own, i);
    for (int k = 1; k < parts->n; k++)
        for (const char *const *mode = own; *mode != NULL; mode++)
            i->mode = is(&parts->part[k], *mode) ? **mode : i->mode;
    if (!has(parts, "sync") || i->mode == '\0' || i->type.bits != 32)
        refuse(p, i, "an unknown instruction");
    i->kind = PTX_SHUFFLE;
    i->class_ = PTX_CLASS_WARP;
    want(p, i, n == 5);
    add_out(p, i, &o[0]);
    want(p, i, i->n_out == 1 && i->out[0] >= 0 && o[0].pair >= PTX_NO_SLOT);
    i->out[i->n_out++] = o[0].pair;
    for (int k = 1; k < n; k++)
        add_in(p, i, &o[k]);
    want(p, i, i->n_in == 4);
}

static void decode_vote(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const struct {
        const char *name;
        char mode;
    } modes[] = {{"all", 'a'}, {"any", 'y'}, {"uni", 'u'}, {"ballot", 'b'}};
    static const char *const own[] = {"all", "any", "ballot", NULL};
    read_parts(p, parts, own, i);
    for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++)
        i->mode = has(parts, modes[k].name) ? modes[k].mode : i->mode;
    if (!has(parts, "sync") || i->mode == '\0')
        refuse(p, i, "an unknown instruction");
    i->kind = PTX_VOTE;
    i->class_ = PTX_CLASS_WARP;
    want(p, i, n == 3);
    add_out(p, i, &o[0]);
    add_in(p, i, &o[1]);
    add_in(p, i, &o[2]);
    want(p, i, i->n_out == 1 && i->out[0] >= 0 && i->n_in == 2);
}

/* A product of a warp on tensor cores: 16 x 8 += 16 x 16 by 16 x 8, of bfloat16. */
static void decode_multiply(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char form[] = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
    (void)parts;
    if (strcmp(i->name, form) != 0)
        refuse(p, i, "an unknown instruction");
    i->kind = PTX_MULTIPLY;
    i->class_ = PTX_CLASS_TENSOR;
    want(p, i, n == 4 && o[0].n == 4 && o[1].n == 4 && o[2].n == 2 && o[3].n == 4);
    add_out(p, i, &o[0]);
    for (int k = 1; k < n; k++)
        add_in(p, i, &o[k]);
    for (int k = 0; k < 4; k++)
        want(p, i, i->out[k] >= 0);
}

static void decode_load_matrix(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char *const own[] = {"m8n8", "x1", "x2", "x4", "trans", NULL};
    read_parts(p, parts, own, i);
    i->kind = PTX_LOAD_MATRIX;
    i->class_ = PTX_CLASS_WARP;
    i->transposed = has(parts, "trans");
    i->vector = has(parts, "x4") ? 4 : has(parts, "x2") ? 2 : 1;
    if (!has(parts, "m8n8") || i->space != PTX_SHARED || i->type.bits != 16)
        refuse(p, i, "an unknown instruction");
    want(p, i, n == 2);
    add_out(p, i, &o[0]);
    set_address(p, i, &o[1]);
    want(p, i, i->n_out == i->vector);
    for (int k = 0; k < i->n_out; k++)
        want(p, i, i->out[k] >= 0);
}

static void decode_copy(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char *const own[] = {"async", "ca", "cg", "commit_group", "wait_group", "wait_all", NULL};
    read_parts(p, parts, own, i);
    if (!has(parts, "async"))
        refuse(p, i, "an unknown instruction");
    i->class_ = PTX_CLASS_MEMORY;
    if (has(parts, "commit_group") || has(parts, "wait_all")) {
        i->kind = has(parts, "wait_all") ? PTX_COPY_WAIT : PTX_COPY_COMMIT;
        want(p, i, n == 0);
        return;
    }
    if (has(parts, "wait_group")) {
        i->kind = PTX_COPY_WAIT;
        want(p, i, n == 1 && o[0].is_immediate && o[0].immediate < 1 << 20);
        i->offset = (int64_t)o[0].immediate; /* groups that may be under way */
        return;
    }
    i->kind = PTX_COPY;
    i->space = PTX_SHARED;
    want(p, i, (n == 3 || n == 4) && o[2].is_immediate && (has(parts, "ca") || has(parts, "cg")));
    set_address(p, i, &o[0]);
    want(p, i, o[1].kind == PTX_ADDRESS);
    i->from_base = o[1].slot;
    i->from_offset = o[1].offset;
    i->bytes = (int)o[2].immediate;
    want(p, i, i->bytes == 16 || (has(parts, "ca") && (i->bytes == 4 || i->bytes == 8)));
    if (n == 4)
        add_in(p, i, &o[3]);
}

static void decode_nothing(ptx_parser *p, const name_parts *parts, const ptx_operand *o, int n, ptx_instruction *i)
{
    static const char *const own[] = {"sc", "gl", "L2", "L1", NULL};
    (void)o;
    (void)n;
    read_parts(p, parts, own, i);
    i->kind = PTX_NOTHING;
    i->class_ = PTX_CLASS_CONTROL;
}

void ptx_decode(ptx_parser *p, const ptx_token *name, const ptx_operand *operands, int n, ptx_instruction *i)
{
    static const struct {
        const char *name;
        decoder *decode;
    } decoders[] = {
        {"mov", decode_move},
        {"setp", decode_compare},
        {"cvta", decode_address},
        {"ld", decode_load},
        {"st", decode_store},
        {"atom", decode_atomic},
        {"red", decode_atomic},
        {"bra", decode_branch},
        {"brx", decode_branch},
        {"ret", decode_exit},
        {"exit", decode_exit},
        {"bar", decode_barrier},
        {"barrier", decode_barrier},
        {"shfl", decode_shuffle},
        {"vote", decode_vote},
        {"mma", decode_multiply},
        {"ldmatrix", decode_load_matrix},
        {"cp", decode_copy},
        {"membar", decode_nothing},
        {"fence", decode_nothing},
        {"prefetch", decode_nothing},
    };
    const name_parts parts = split(p, name);
    for (size_t k = 0; k < sizeof(decoders) / sizeof(decoders[0]); k++)
        if (is(&parts.part[0], decoders[k].name)) {
            decoders[k].decode(p, &parts, operands, n, i);
            return;
        }
    decode_compute(p, &parts, operands, n, i);
}
