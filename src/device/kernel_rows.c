/* The description of every row, and what follows from it. */
#include "device/kernel_rows.h"

#include <string.h>

/* ---- Work and lists of rows that are composed ---- */
static void add_product(tess_kernel_work *work, const tess_gemm *g, int64_t k)
{
    double m = (double)g->m, n = (double)g->n, terms = (double)k;
    work->flops += 2 * m * n * terms;
    work->bytes += (m * terms + terms * n) * (double)tess_dtype_size(g->ab_dtype);
}

/* The bits: A is transposed, B is transposed, C is added to, K has leaves. */
static int32_t variant_of_gemm(const void *args)
{
    const tess_gemm *g = args;
    return g->trans_a | g->trans_b << 1 | g->accumulate << 2 | (g->leaf > 0) << 9;
}

static int32_t variant_of_gemm_fused(const void *args)
{
    const tess_gemm_fused *f = args;
    return variant_of_gemm(&f->g) | f->n_terms << 3 | (int32_t)f->then << 5 | (f->gate != NULL) << 8;
}

static void work_of_gemm(const void *args, tess_kernel_work *work)
{
    const tess_gemm *g = args;
    double c = (double)g->m * (double)g->n * (double)tess_dtype_size(g->c_dtype);
    add_product(work, g, g->k);
    work->bytes += g->accumulate ? 2 * c : c;
    work->bytes += g->bias != NULL ? (double)g->n * (double)tess_dtype_size(g->ab_dtype) : 0;
}

static void work_of_gemm_fused(const void *args, tess_kernel_work *work)
{
    const tess_gemm_fused *f = args;
    double c = (double)f->g.m * (double)f->g.n * (double)tess_dtype_size(f->g.c_dtype);
    work_of_gemm(&f->g, work);
    for (int i = 0; i < f->n_terms; i++)
        add_product(work, &f->g, f->terms[i].k);
    if (f->then == TESS_THEN_ACT) /* C and y are written, and the gate is read */
        work->bytes += f->gate != NULL ? 2 * c : c;
    if (f->then == TESS_THEN_ACT_BACKWARD) /* up, gate and y instead of C */
        work->bytes += (f->gate != NULL ? 4 : 2) * c + (f->y != NULL ? c : 0) - c;
}

static int64_t count_products(const void *args)
{
    return ((const tess_gemm_grouped *)args)->n_products;
}

static void work_of_gemm_grouped(const void *args, tess_kernel_work *work)
{
    const tess_gemm_grouped *x = args;
    for (int64_t i = 0; i < x->n_products; i++)
        work_of_gemm_fused(&x->products[i], work);
}

#define OF_PRODUCT(member, access)                   \
    {                                                \
        TESS_MEMBER(tess_gemm_fused, member), access \
    }
static const tess_operand_list grouped_lists[] = {{
    .name = "products",
    .at = TESS_MEMBER(tess_gemm_grouped, products),
    .count = count_products,
    .item_bytes = sizeof(tess_gemm_fused),
    .pointers = {OF_PRODUCT(g.a, TESS_READS), OF_PRODUCT(g.b, TESS_READS), OF_PRODUCT(g.bias, TESS_READS),
                 OF_PRODUCT(g.c, TESS_UPDATES), OF_PRODUCT(terms[0].a, TESS_READS), OF_PRODUCT(terms[0].b, TESS_READS),
                 OF_PRODUCT(terms[1].a, TESS_READS), OF_PRODUCT(terms[1].b, TESS_READS), OF_PRODUCT(gate, TESS_UPDATES),
                 OF_PRODUCT(up, TESS_UPDATES), OF_PRODUCT(y, TESS_WRITES)},
}};

/* Products of one job are alike, so the first tells how they are stored. */
static int32_t variant_of_gemm_grouped(const void *args)
{
    const tess_gemm_grouped *x = args;
    return x->n_products > 0 ? variant_of_gemm_fused(&x->products[0]) : 0;
}

/* The channels of a head decide the speed of attention, and its operands do not state them. */
static int32_t variant_of_attention(const void *args)
{
    const tess_attention *a = args;
    return (int32_t)a->head_size << 2 | (a->window > 0) << 1 | (a->state != NULL);
}

static int64_t count_sequences(const void *args)
{
    return ((const tess_attention *)args)->n_seqs;
}

static int64_t count_pages(const void *item)
{
    const tess_attention_seq *s = item;
    return s->pages != NULL ? (s->k_len + TESS_ATTENTION_BLOCK - 1) / TESS_ATTENTION_BLOCK : 0;
}

/* Counts the pairs of a query and a key that it sees. */
static double count_pairs(const tess_attention_seq *s, int64_t window)
{
    const int64_t first = s->k_len - s->q_len + 1; /* keys of the first query; each further one sees one more */
    int64_t n = s->q_len;                          /* number of queries that see fewer keys than the window has */
    if (window > 0 && s->k_len > window)
        n = window > first ? window - first : 0;
    return (double)n * (double)(2 * first + n - 1) / 2 + (double)(s->q_len - n) * (double)window;
}

/* The sum of min(y, most) over y from 1 to n; 0: n is not positive. */
static double sum_up_to(int64_t n, int64_t most)
{
    const int64_t rising = n < most ? n : most;
    return n <= 0 ? 0 : (double)rising * (double)(rising + 1) / 2 + (double)(n - rising) * (double)most;
}

/* Counts the pairs of a query and a key of [k_begin, k_end) that is at least `back` keys before the query's end. */
static double count_pairs_before(const tess_attention_seq *s, int64_t back)
{
    const int64_t from = s->k_len - s->q_len - back, to = s->k_len - back;
    return sum_up_to(to, s->k_end) - sum_up_to(from, s->k_end) - sum_up_to(to, s->k_begin) +
           sum_up_to(from, s->k_begin);
}

/* The same as count_pairs for keys [k_begin, k_end) alone. */
static double count_pairs_of_part(const tess_attention_seq *s, int64_t window)
{
    if (s->k_end <= s->k_begin)
        return 0;
    return count_pairs_before(s, 0) - (window > 0 ? count_pairs_before(s, window) : 0);
}

/* Adds two products of queries and seen keys a head, forward, and the keys and values that are read. */
static void work_of_attention(const void *args, tess_kernel_work *work)
{
    const tess_attention *a = args;
    double size = (double)tess_dtype_size(a->dtype), D = (double)a->head_size;
    for (int64_t i = 0; i < a->n_seqs; i++) {
        const tess_attention_seq *s = &a->seqs[i];
        const double keys = (double)(tess_attention_key_end(a, s) - s->k_begin);
        const double pairs = a->state != NULL ? count_pairs_of_part(s, a->window) : count_pairs(s, a->window);
        work->flops += 2 * 2 * pairs * D * (double)a->n_heads;
        work->bytes += 2 * ((double)s->q_len * (double)a->n_heads + keys * (double)a->n_kv_heads) * D * size;
        work->bytes += a->lse != NULL ? (double)s->q_len * (double)a->n_heads * sizeof(float) : 0;
    }
}

/* The backward pass computes five products, three of them for dq and four for dk and dv, and reads and writes a
 * gradient for every value of the forward pass. */
static void work_of_attention_grad(const void *args, tess_kernel_work *work)
{
    static const double products[] = {
        [TESS_ATTENTION_ALL] = 5, [TESS_ATTENTION_QUERIES] = 3, [TESS_ATTENTION_KEYS] = 4};
    const tess_attention_grad *g = args;
    if (g->wanted == TESS_ATTENTION_SINKS)
        return;
    work_of_attention(&g->forward, work);
    work->flops *= products[g->wanted] / 2;
    work->bytes *= 2;
}

static const tess_operand_list attention_lists[] = {{
    .name = "seqs",
    .at = TESS_MEMBER(tess_attention, seqs),
    .count = count_sequences,
    .item_bytes = sizeof(tess_attention_seq),
    .pointers = {{TESS_MEMBER(tess_attention_seq, k), TESS_READS}, {TESS_MEMBER(tess_attention_seq, v), TESS_READS}},
    .inner = {TESS_MEMBER(tess_attention_seq, pages), count_pages, sizeof(int32_t)},
}};
_Static_assert(offsetof(tess_attention_grad, forward) == 0, "the lists of both directions are the same");

/* The whole table is set to 0, unless gradients are added to it, and each token's row is read and written. */
static void work_of_embedding_grad(const void *args, tess_kernel_work *work)
{
    const tess_embedding_grad_args *a = args;
    double elements = (double)a->T * (double)a->C;
    work->flops = elements;
    work->bytes = elements * ((double)tess_dtype_size(a->dtype) + 2 * sizeof(float));
    work->bytes += a->accumulate ? 0 : (double)a->rows * (double)a->C * sizeof(float);
}

static int64_t count_inputs(const void *args)
{
    return ((const tess_reduction *)args)->n_inputs;
}

static int64_t count_outputs(const void *args)
{
    return ((const tess_reduction *)args)->n_outputs;
}

static int64_t count_reduce_runs(const void *args)
{
    return ((const tess_reduce_runs_args *)args)->n_runs;
}

static void add_reduction(tess_kernel_work *work, const tess_reduction *r, int64_t n)
{
    double inputs = (double)r->n_inputs * (double)n, outputs = (double)r->n_outputs * (double)n;
    work->flops += inputs;
    work->bytes += inputs * (double)tess_dtype_size(r->dtype);
    work->bytes += outputs * (double)tess_dtype_size(r->y_dtype) * (r->accumulate ? 2 : 1);
}

static void work_of_reduction(const void *args, tess_kernel_work *work)
{
    const tess_reduction *r = args;
    add_reduction(work, r, r->n);
}

static void work_of_reduce_runs(const void *args, tess_kernel_work *work)
{
    const tess_reduce_runs_args *a = args;
    for (int64_t i = 0; i < a->n_runs; i++)
        add_reduction(work, &a->of, a->runs[i].n);
}

#define OPERAND_POINTERS(member, count_, access)                                                                   \
    {                                                                                                              \
        .name = #member, .at = TESS_MEMBER(tess_reduction, member), .count = count_, .item_bytes = sizeof(void *), \
        .pointers = {                                                                                              \
            {1, access}                                                                                            \
        }                                                                                                          \
    }
#define LISTS_OF_REDUCTION \
    OPERAND_POINTERS(x, count_inputs, TESS_READS), OPERAND_POINTERS(y, count_outputs, TESS_WRITES)
static const tess_operand_list reduce_lists[] = {LISTS_OF_REDUCTION};
static const tess_operand_list reduce_runs_lists[] = {
    LISTS_OF_REDUCTION,
    {.name = "runs",
     .at = TESS_MEMBER(tess_reduce_runs_args, runs),
     .count = count_reduce_runs,
     .item_bytes = sizeof(tess_reduce_run)},
};
_Static_assert(offsetof(tess_reduce_runs_args, of) == 0, "the lists of a reduction are those of its runs, too");

static int64_t count_value_runs(const void *args)
{
    return ((const tess_convert_runs_args *)args)->n_runs;
}

static void work_of_convert_runs(const void *args, tess_kernel_work *work)
{
    const tess_convert_runs_args *a = args;
    for (int64_t i = 0; i < a->n_runs; i++)
        work->bytes += (double)a->runs[i].n * (double)(tess_dtype_size(a->from) + tess_dtype_size(a->to));
}

static const tess_operand_list convert_runs_lists[] = {{
    .name = "runs",
    .at = TESS_MEMBER(tess_convert_runs_args, runs),
    .count = count_value_runs,
    .item_bytes = sizeof(tess_value_run),
    .pointers = {{TESS_MEMBER(tess_value_run, x), TESS_READS}, {TESS_MEMBER(tess_value_run, y), TESS_WRITES}},
}};
/* ---- The words of the list (kernel_args.h). ARGS is the type of the arguments that are described ---- */
#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))
#define AT(member) TESS_MEMBER(ARGS, member)
#define DTYPE(member) .dtype_of = AT(member)
#define ITEMS(member) .items = AT(member)
#define LISTS(list) .lists = list, .n_lists = COUNT(list)

#define OPERAND(member, access_, ...)                                     \
    {                                                                     \
        .name = #member, .at = AT(member), .access = access_, __VA_ARGS__ \
    }
#define READS(member, ...) OPERAND(member, TESS_READS, __VA_ARGS__)
#define WRITES(member, ...) OPERAND(member, TESS_WRITES, __VA_ARGS__)
#define UPDATES(member, ...) OPERAND(member, TESS_UPDATES, __VA_ARGS__)

/* Sizes: the product of members, half of one, a number. */
#define BY(...)               \
    {                         \
        .of = { __VA_ARGS__ } \
    }
#define HALF_OF(member)               \
    {                                 \
        .of = {AT(member)}, .over = 2 \
    }
#define SEVERAL(n) \
    {              \
        .times = n \
    }
/* Shapes: rows and columns, as many elements, one row, and bytes of another type. */
#define MATRIX(rows_, columns_) .rows = BY(AT(rows_)), .columns = BY(AT(columns_))
#define EACH(rows_) .rows = BY(AT(rows_)), .columns = SEVERAL(1)
#define ROW_OF(columns_) .rows = SEVERAL(1), .columns = BY(AT(columns_))
#define BLOCK(bytes) .rows = SEVERAL(1), .columns = SEVERAL(bytes), BYTES
/* Dtypes of the elements: the call's own one, that of another member, or a fixed one. */
#define OWN .dtype_of = AT(dtype)
#define LIKE(member) .dtype_of = AT(member)
#define FLOATS .dtype = TESS_F32
#define INDICES .dtype = TESS_I32
#define BYTES .dtype = TESS_U8

/* The operands of a product. Rows and columns trade places in memory if trans_a or trans_b is set. */
#define PRODUCT(g)                                                           \
    READS(g a, MATRIX(g m, g k), LIKE(g ab_dtype), .stride = AT(g lda)),     \
        READS(g b, MATRIX(g k, g n), LIKE(g ab_dtype), .stride = AT(g ldb)), \
        READS(g bias, ROW_OF(g n), LIKE(g ab_dtype)),                        \
        UPDATES(g c, MATRIX(g m, g n), LIKE(g c_dtype), .stride = AT(g ldc))
#define TERM(i)                                                                               \
    READS(terms[i].a, MATRIX(g.m, terms[i].k), LIKE(g.ab_dtype), .stride = AT(terms[i].lda)), \
        READS(terms[i].b, MATRIX(terms[i].k, g.n), LIKE(g.ab_dtype), .stride = AT(terms[i].ldb))
_Static_assert(TESS_GEMM_TERMS == 2, "each further term is described");
/* An operand of attention. Its number of rows is that of the sequences together, which no member counts. */
#define TOKENS(member, access, forward, heads, ...)                                                      \
    OPERAND(member, access, .rows = SEVERAL(1), .columns = BY(AT(forward heads), AT(forward head_size)), \
            LIKE(forward dtype), .gathered = true, __VA_ARGS__)

/* ---- The table ---- */
#define ALL(...) __VA_ARGS__
#define DESCRIBE(row_, type_, tables_, operands_, example_, ...)                                \
    static tess_status call_##row_(const tess_kernels *table, tess_stream *s, const void *args) \
    {                                                                                           \
        return table->row_(s, args);                                                            \
    }                                                                                           \
                                                                                                \
    static const tess_kernel_row *describe_##row_(void)                                         \
    {                                                                                           \
        typedef type_ ARGS;                                                                     \
        static const tess_operand operands[] = {ALL operands_};                                 \
        static const ARGS example = {ALL example_};                                             \
        static const tess_kernel_row row = {.name = #row_,                                      \
                                            .args_bytes = sizeof(ARGS),                         \
                                            .call = call_##row_,                                \
                                            .operands = operands,                               \
                                            .n_operands = COUNT(operands),                      \
                                            .example = &example,                                \
                                            __VA_ARGS__};                                       \
        return &row;                                                                            \
    }
TESS_KERNEL_ROWS(DESCRIBE)

const tess_kernel_row *tess_kernel_row_of(tess_kernel_row_id id)
{
#define DESCRIPTION(name, ...) describe_##name,
    static const tess_kernel_row *(*const rows[])(void) = {TESS_KERNEL_ROWS(DESCRIPTION)};
    return rows[id]();
}

/* ---- Members ---- */
static const void *member_at(const void *args, tess_member at)
{
    return (const char *)args + at - 1;
}

int64_t tess_kernel_size_of(const void *args, tess_kernel_size size)
{
    int64_t n = size.times > 0 ? size.times : 1;
    for (int i = 0; i < TESS_SIZE_FACTORS && size.of[i] != 0; i++)
        n *= *(const int64_t *)member_at(args, size.of[i]);
    return size.over > 0 ? n / size.over : n;
}

void tess_kernel_set_size(void *args, tess_member at, int64_t size)
{
    memcpy((char *)args + at - 1, &size, sizeof(size));
}

void tess_kernel_set_dtype(void *args, tess_member at, tess_dtype dtype)
{
    memcpy((char *)args + at - 1, &dtype, sizeof(dtype));
}

void *tess_operand_pointer(const void *args, tess_member at)
{
    void *pointer;
    memcpy(&pointer, member_at(args, at), sizeof(pointer));
    return pointer;
}

void tess_operand_point(void *args, tess_member at, const void *memory)
{
    memcpy((char *)args + at - 1, &memory, sizeof(memory));
}

tess_dtype tess_operand_dtype(const void *args, const tess_operand *operand)
{
    return operand->dtype_of == 0 ? operand->dtype : *(const tess_dtype *)member_at(args, operand->dtype_of);
}

int64_t tess_operand_elements(const void *args, const tess_operand *operand)
{
    return tess_kernel_size_of(args, operand->rows) * tess_kernel_size_of(args, operand->columns);
}

int64_t tess_operand_stride(const void *args, const tess_operand *operand)
{
    return operand->stride != 0 ? *(const int64_t *)member_at(args, operand->stride)
                                : tess_kernel_size_of(args, operand->columns);
}

int64_t tess_operand_below(const void *args, const tess_operand *operand, int64_t rows)
{
    return operand->below.of[0] != 0 ? tess_kernel_size_of(args, operand->below) : rows;
}

bool tess_kernel_has_example(const tess_kernel_row *row)
{
    return row->n_operands > 0 && row->n_lists == 0 && tess_operand_elements(row->example, row->operands) > 0;
}

/* ---- Work ---- */
tess_kernel_work tess_kernel_work_of(const tess_kernel_row *row, const void *args)
{
    tess_kernel_work work = {0};
    if (row->work != NULL) {
        row->work(args, &work);
        return work;
    }
    work.flops = row->flops * (double)tess_operand_elements(args, &row->operands[0]);
    for (int i = 0; i < row->n_operands; i++) {
        const tess_operand *o = &row->operands[i];
        int64_t times = (o->access & TESS_READS ? 1 : 0) + (o->access & TESS_WRITES ? 1 : 0);
        if (tess_operand_pointer(args, o->at) != NULL)
            work.bytes +=
                (double)(times * tess_operand_elements(args, o)) * (double)tess_dtype_size(tess_operand_dtype(args, o));
    }
    return work;
}

/* ---- Copies of arguments ---- */
enum { ALIGNMENT = 16 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t bytes_of_items(int64_t n, size_t item_bytes)
{
    return n > 0 ? aligned((size_t)n * item_bytes) : 0;
}

/* Returns the bytes of the further arrays of a list's items. */
static size_t inner_bytes(const tess_operand_list *list, const char *items, int64_t n)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < n && list->inner.at != 0; i++)
        bytes += bytes_of_items(list->inner.count(items + (size_t)i * list->item_bytes), list->inner.item_bytes);
    return bytes;
}

size_t tess_kernel_args_bytes(const tess_kernel_row *row, const void *args)
{
    size_t bytes = aligned(row->args_bytes);
    for (int l = 0; l < row->n_lists; l++) {
        const tess_operand_list *list = &row->lists[l];
        int64_t n = list->count(args);
        bytes += bytes_of_items(n, list->item_bytes) + inner_bytes(list, tess_operand_pointer(args, list->at), n);
    }
    return bytes;
}

/* Replaces a pointer of `args` by what `move` returns. */
static void move_pointer(void *args, tess_member at, tess_access access, tess_move_fn move, void *self)
{
    const void *pointer = tess_operand_pointer(args, at);
    if (pointer != NULL)
        tess_operand_point(args, at, move(self, pointer, access));
}

/* Copies the further array of an item to `to`, and returns the end of the copy. */
static char *copy_inner(const tess_operand_list *list, char *item, char *to)
{
    int64_t n = list->inner.count(item);
    if (n > 0)
        memcpy(to, tess_operand_pointer(item, list->inner.at), (size_t)n * list->inner.item_bytes);
    tess_operand_point(item, list->inner.at, n > 0 ? to : NULL);
    return to + bytes_of_items(n, list->inner.item_bytes);
}

/* Copies a list to `to`, and returns the end of the copy. */
static char *copy_list(const tess_operand_list *list, void *args, tess_move_fn move, void *self, char *to)
{
    int64_t n = list->count(args);
    char *items = to;
    to += bytes_of_items(n, list->item_bytes);
    if (n > 0)
        memcpy(items, tess_operand_pointer(args, list->at), (size_t)n * list->item_bytes);
    for (int64_t i = 0; i < n; i++) {
        char *item = items + (size_t)i * list->item_bytes;
        for (int p = 0; p < TESS_ITEM_POINTERS && list->pointers[p].at != 0; p++)
            move_pointer(item, list->pointers[p].at, list->pointers[p].access, move, self);
        if (list->inner.at != 0)
            to = copy_inner(list, item, to);
    }
    tess_operand_point(args, list->at, items);
    return to;
}

void tess_kernel_args_copy(const tess_kernel_row *row, const void *args, tess_move_fn move, void *self, void *copy)
{
    char *to = (char *)copy + aligned(row->args_bytes);
    memcpy(copy, args, row->args_bytes);
    for (int i = 0; i < row->n_operands; i++)
        move_pointer(copy, row->operands[i].at, row->operands[i].access, move, self);
    for (int l = 0; l < row->n_lists; l++)
        to = copy_list(&row->lists[l], copy, move, self, to);
}
