/* Descriptions of kernel rows: every member that they name is part of the arguments, copies of arguments hold their
 * lists and moved pointers, and work is what one counts by hand. */
#include "device/kernel_rows.h"

#include <stdlib.h>

#include "support/test.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Members ---- */
/* Expects a member of `bytes` to lie inside of a structure, aligned; 0: there is none. */
static void expect_inside(const char *name, tess_member at, size_t bytes, size_t structure_bytes)
{
    size_t offset = (size_t)at - 1;
    if (at != 0 && (offset % bytes != 0 || offset + bytes > structure_bytes))
        test_fail(__FILE__, __LINE__, "%s: a member of %zu bytes at %zu of %zu bytes", name, bytes, offset,
                  structure_bytes);
}

static void expect_size_inside(const char *name, tess_kernel_size size, size_t args_bytes)
{
    for (int i = 0; i < TESS_SIZE_FACTORS; i++)
        expect_inside(name, size.of[i], sizeof(int64_t), args_bytes);
    EXPECT(size.of[0] != 0 || size.times > 0);
}

static void every_operand_is_a_member_of_the_arguments(void)
{
    for (int r = 0; r < TESS_KERNEL_ROW_COUNT; r++) {
        const tess_kernel_row *row = tess_kernel_row_of((tess_kernel_row_id)r);
        EXPECT(row->n_operands + row->n_lists > 0);
        EXPECT(row->args_bytes <= sizeof(tess_kernel_args));
        expect_inside(row->name, row->items, sizeof(int64_t), row->args_bytes);
        expect_inside(row->name, row->dtype_of, sizeof(tess_dtype), row->args_bytes);
        for (int i = 0; i < row->n_operands; i++) {
            const tess_operand *o = &row->operands[i];
            EXPECT(o->at != 0 && o->access != 0);
            expect_inside(o->name, o->at, sizeof(void *), row->args_bytes);
            expect_inside(o->name, o->dtype_of, sizeof(tess_dtype), row->args_bytes);
            expect_inside(o->name, o->stride, sizeof(int64_t), row->args_bytes);
            expect_size_inside(o->name, o->rows, row->args_bytes);
            expect_size_inside(o->name, o->columns, row->args_bytes);
        }
    }
}

static void every_list_is_a_member_and_names_members_of_its_items(void)
{
    static const tess_kernel_args none;
    for (int r = 0; r < TESS_KERNEL_ROW_COUNT; r++) {
        const tess_kernel_row *row = tess_kernel_row_of((tess_kernel_row_id)r);
        for (int l = 0; l < row->n_lists; l++) {
            const tess_operand_list *list = &row->lists[l];
            EXPECT(list->at != 0);
            EXPECT_INT(list->count(&none), 0);
            expect_inside(list->name, list->at, sizeof(void *), row->args_bytes);
            expect_inside(list->name, list->inner.at, sizeof(void *), list->item_bytes);
            for (int p = 0; p < TESS_ITEM_POINTERS; p++)
                expect_inside(list->name, list->pointers[p].at, sizeof(void *), list->item_bytes);
        }
    }
}

static void names_are_unique(void)
{
    for (int r = 0; r < TESS_KERNEL_ROW_COUNT; r++) {
        const tess_kernel_row *row = tess_kernel_row_of((tess_kernel_row_id)r);
        for (int i = 0; i < row->n_operands; i++)
            for (int k = 0; k < i; k++)
                EXPECT(strcmp(row->operands[i].name, row->operands[k].name) != 0);
    }
    EXPECT_TEXT(tess_kernel_row_of(TESS_ROW_gemm)->name, "gemm");
    EXPECT_TEXT(tess_kernel_row_of(TESS_ROW_row_sumsq)->name, "row_sumsq");
}

/* Returns an address that only a call of `at` with the same number returns. No memory is there. */
static void *at(int number)
{
    return (void *)((uintptr_t)(number + 1) << 20);
}

/* Lists all pointers among a row's arguments, of operands and to lists. Returns their number. */
static int pointers_of(const tess_kernel_row *row, tess_member *pointers)
{
    int n = 0;
    for (int i = 0; i < row->n_operands; i++)
        pointers[n++] = row->operands[i].at;
    for (int l = 0; l < row->n_lists; l++)
        pointers[n++] = row->lists[l].at;
    return n;
}

static void a_pointer_keeps_what_it_is_set_to(void)
{
    enum { MOST_POINTERS = 32 };
    static const tess_kernel_args none;
    for (int r = 0; r < TESS_KERNEL_ROW_COUNT; r++) {
        const tess_kernel_row *row = tess_kernel_row_of((tess_kernel_row_id)r);
        tess_member pointers[MOST_POINTERS];
        tess_kernel_args args = none;
        EXPECT(row->n_operands + row->n_lists <= MOST_POINTERS);
        int n = pointers_of(row, pointers);
        for (int i = 0; i < n; i++)
            tess_operand_point(&args, pointers[i], at(i));
        for (int i = 0; i < n; i++)
            EXPECT(tess_operand_pointer(&args, pointers[i]) == at(i));
        for (int i = 0; i < n; i++)
            tess_operand_point(&args, pointers[i], NULL);
        EXPECT_SAME((const char *)&args, (const char *)&none, row->args_bytes); /* nothing else was written */
    }
}

/* ---- Copies of arguments ---- */
enum { APART = 0x30, GUARD = 64, GUARD_BYTE = 0xab };
#define ALIGNED(bytes) (((bytes) + 15) / 16 * 16)

/* A copy of a row's arguments, and the calls of its move function. */
typedef struct copy {
    void *args;
    int n_moved;
    const void *moved[32];
    tess_access access[32];
} copy;

static void *move(void *self, const void *pointer, tess_access access)
{
    copy *c = self;
    EXPECT((size_t)c->n_moved < COUNT(c->moved));
    c->moved[c->n_moved] = pointer;
    c->access[c->n_moved++] = access;
    return (char *)(uintptr_t)pointer + APART;
}

static void *moved(const void *pointer)
{
    return (char *)(uintptr_t)pointer + APART;
}

/* Expects that a pointer was moved once, with this access. */
static void expect_moved(const copy *c, const void *pointer, tess_access access)
{
    int n = 0;
    for (int i = 0; i < c->n_moved; i++)
        if (c->moved[i] == pointer) {
            EXPECT_INT(c->access[i], access);
            n++;
        }
    EXPECT_INT(n, 1);
}

/* Copies arguments, whose copy must have `bytes`. Moves each pointer by APART. The source must not change. */
static copy copy_of(tess_kernel_row_id id, const void *args, size_t bytes)
{
    const tess_kernel_row *row = tess_kernel_row_of(id);
    copy c = {0};
    tess_kernel_args before;
    EXPECT_INT(tess_kernel_args_bytes(row, args), bytes);
    memcpy(&before, args, row->args_bytes);
    c.args = aligned_alloc(16, bytes + GUARD);
    EXPECT(c.args != NULL);
    memset(c.args, GUARD_BYTE, bytes + GUARD);
    tess_kernel_args_copy(row, args, move, &c, c.args);
    for (int i = 0; i < GUARD; i++)
        EXPECT_INT(((const unsigned char *)c.args)[bytes + (size_t)i], GUARD_BYTE);
    EXPECT_SAME((const char *)args, (const char *)&before, row->args_bytes);
    return c;
}

/* Expects a list to begin at `offset` of the copy. */
static void expect_list_at(const copy *c, const void *list, size_t offset)
{
    EXPECT_INT((const char *)list - (const char *)c->args, offset);
}

static tess_attention attention_of(const tess_attention_seq *seqs, int64_t n_seqs)
{
    return (tess_attention){.n_seqs = n_seqs,
                            .seqs = seqs,
                            .n_heads = 4,
                            .n_kv_heads = 2,
                            .head_size = 8,
                            .scale = 0.5f,
                            .q = at(0),
                            .out = at(1),
                            .lse = at(2),
                            .dtype = TESS_BF16};
}

/* Sequences of 3 pages, of 1 page, and without pages. */
enum { SEQS = 3, SEQS_BYTES = ALIGNED(SEQS * sizeof(tess_attention_seq)) + 2 * 16 };
static const int32_t three_pages[] = {7, 2, 5}, one_page[] = {4};

static void fill_sequences(tess_attention_seq *seqs)
{
    seqs[0] =
        (tess_attention_seq){.q_begin = 0, .q_len = 3, .k_len = 130, .k = at(10), .v = at(11), .pages = three_pages};
    seqs[1] = (tess_attention_seq){
        .q_begin = 3, .q_len = 1, .k_len = TESS_ATTENTION_BLOCK, .k = at(12), .v = at(13), .pages = one_page};
    seqs[2] = (tess_attention_seq){.q_begin = 4, .q_len = 5, .k_len = 5, .k = at(14), .v = at(15), .pages = NULL};
}

/* Expects copies of the sequences at `offset`, followed by their pages. */
static void expect_sequences(const copy *c, const tess_attention_seq *seqs, const tess_attention_seq *from,
                             size_t offset)
{
    const size_t pages = offset + ALIGNED(SEQS * sizeof(*seqs));
    expect_list_at(c, seqs, offset);
    for (int i = 0; i < SEQS; i++) {
        EXPECT(seqs[i].q_begin == from[i].q_begin && seqs[i].q_len == from[i].q_len && seqs[i].k_len == from[i].k_len);
        EXPECT(seqs[i].k == moved(from[i].k) && seqs[i].v == moved(from[i].v));
        expect_moved(c, from[i].k, TESS_READS);
        expect_moved(c, from[i].v, TESS_READS);
    }
    expect_list_at(c, seqs[0].pages, pages);
    expect_list_at(c, seqs[1].pages, pages + 16);
    EXPECT_SAME(seqs[0].pages, three_pages, COUNT(three_pages));
    EXPECT_SAME(seqs[1].pages, one_page, COUNT(one_page));
    EXPECT(seqs[2].pages == NULL);
}

static void a_copy_of_attention_holds_sequences_and_pages(void)
{
    tess_attention_seq seqs[SEQS], before[SEQS];
    fill_sequences(seqs);
    memcpy(before, seqs, sizeof(before)); /* memcpy takes padding, too */
    const tess_attention a = attention_of(seqs, SEQS);
    copy c = copy_of(TESS_ROW_attention_forward, &a, ALIGNED(sizeof(a)) + SEQS_BYTES);
    const tess_attention *got = c.args;
    EXPECT(got->q == moved(at(0)) && got->out == moved(at(1)) && got->lse == moved(at(2)));
    EXPECT(got->n_seqs == SEQS && got->n_heads == 4 && got->scale == 0.5f && got->dtype == TESS_BF16);
    expect_sequences(&c, got->seqs, seqs, ALIGNED(sizeof(a)));
    expect_moved(&c, at(0), TESS_READS);
    expect_moved(&c, at(1), TESS_WRITES);
    expect_moved(&c, at(2), TESS_WRITES);
    EXPECT_INT(c.n_moved, 3 + 2 * SEQS);
    EXPECT_SAME((const char *)seqs, (const char *)before, sizeof(seqs));
    free(c.args);
}

static void a_copy_of_attention_gradients_holds_the_sequences_of_the_forward_call(void)
{
    tess_attention_seq seqs[SEQS];
    fill_sequences(seqs);
    const tess_attention_grad g = {
        .forward = attention_of(seqs, SEQS), .dout = at(3), .dq = at(4), .dk = at(5), .dv = at(6), .key_end = 9};
    copy c = copy_of(TESS_ROW_attention_backward, &g, ALIGNED(sizeof(g)) + SEQS_BYTES);
    const tess_attention_grad *got = c.args;
    EXPECT(got->forward.q == moved(at(0)) && got->dout == moved(at(3)) && got->key_end == 9);
    EXPECT(got->dq == moved(at(4)) && got->dk == moved(at(5)) && got->dv == moved(at(6)));
    expect_sequences(&c, got->forward.seqs, seqs, ALIGNED(sizeof(g)));
    expect_moved(&c, at(1), TESS_READS); /* out and lse are inputs here */
    expect_moved(&c, at(2), TESS_READS);
    expect_moved(&c, at(4), TESS_WRITES);
    EXPECT_INT(c.n_moved, 7 + 2 * SEQS);
    free(c.args);
}

static void a_copy_of_a_reduction_holds_its_inputs_and_outputs(void)
{
    const void *x[] = {at(0), at(1), at(2)}, *x_before[] = {at(0), at(1), at(2)};
    void *y[] = {at(3), at(4)}, *y_before[] = {at(3), at(4)};
    const tess_reduction r = {
        .x = x, .n_inputs = 3, .divisor = 3, .y = y, .n_outputs = 2, .y_dtype = TESS_BF16, .n = 17, .finite = at(5)};
    copy c = copy_of(TESS_ROW_reduce, &r, ALIGNED(sizeof(r)) + ALIGNED(sizeof(x)) + ALIGNED(sizeof(y)));
    const tess_reduction *got = c.args;
    expect_list_at(&c, got->x, ALIGNED(sizeof(r)));
    expect_list_at(&c, got->y, ALIGNED(sizeof(r)) + ALIGNED(sizeof(x)));
    for (int i = 0; i < 3; i++) {
        EXPECT(got->x[i] == moved(x[i]));
        expect_moved(&c, x[i], TESS_READS);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT(got->y[i] == moved(y[i]));
        expect_moved(&c, y[i], TESS_WRITES);
    }
    EXPECT(got->finite == moved(at(5)) && got->n == 17 && got->divisor == 3 && got->y_dtype == TESS_BF16);
    expect_moved(&c, at(5), TESS_UPDATES);
    EXPECT_INT(c.n_moved, 6);
    EXPECT_SAME(x, x_before, COUNT(x));
    EXPECT_SAME(y, y_before, COUNT(y));
    free(c.args);
}

static void a_copy_of_a_reduction_of_runs_holds_the_runs_too(void)
{
    const void *x[] = {at(0), at(1)};
    void *y = at(2);
    const tess_reduce_run runs[] = {{0, 10, 3}, {5, 13, 2}, {40, 20, 7}};
    const tess_reduce_runs_args args = {
        .of = {.x = x, .n_inputs = 2, .divisor = 1, .y = &y, .n_outputs = 1}, .runs = runs, .n_runs = COUNT(runs)};
    copy c =
        copy_of(TESS_ROW_reduce_runs, &args, ALIGNED(sizeof(args)) + ALIGNED(sizeof(x)) + 16 + ALIGNED(sizeof(runs)));
    const tess_reduce_runs_args *got = c.args;
    expect_list_at(&c, got->of.x, ALIGNED(sizeof(args)));
    expect_list_at(&c, got->of.y, ALIGNED(sizeof(args)) + ALIGNED(sizeof(x)));
    expect_list_at(&c, got->runs, ALIGNED(sizeof(args)) + ALIGNED(sizeof(x)) + 16);
    EXPECT(got->of.x[0] == moved(at(0)) && got->of.x[1] == moved(at(1)) && got->of.y[0] == moved(at(2)));
    EXPECT(got->of.finite == NULL && got->n_runs == COUNT(runs));
    EXPECT_SAME(got->runs, runs, COUNT(runs));
    EXPECT_INT(c.n_moved, 3);
    free(c.args);
}

static void a_copy_of_conversions_moves_both_ends_of_each_run(void)
{
    const tess_value_run runs[] = {{at(0), at(1), 5}, {at(2), at(3), 0}};
    const tess_convert_runs_args args = {.runs = runs, .n_runs = COUNT(runs), .to = TESS_BF16}, none = {.n_runs = 0};
    copy c = copy_of(TESS_ROW_convert_runs, &args, ALIGNED(sizeof(args)) + ALIGNED(sizeof(runs)));
    const tess_convert_runs_args *got = c.args;
    expect_list_at(&c, got->runs, ALIGNED(sizeof(args)));
    for (size_t i = 0; i < COUNT(runs); i++) {
        EXPECT(got->runs[i].x == moved(runs[i].x) && got->runs[i].y == moved(runs[i].y));
        EXPECT(got->runs[i].n == runs[i].n);
        expect_moved(&c, runs[i].x, TESS_READS);
        expect_moved(&c, runs[i].y, TESS_WRITES);
    }
    EXPECT(runs[0].x == at(0) && runs[0].y == at(1) && runs[1].x == at(2) && runs[1].y == at(3));
    EXPECT(got->to == TESS_BF16);
    free(c.args);
    c = copy_of(TESS_ROW_convert_runs, &none, ALIGNED(sizeof(none)));
    EXPECT_INT(c.n_moved, 0);
    free(c.args);
}

static void a_copy_of_a_product_moves_its_terms_and_what_follows(void)
{
    const tess_gemm_fused f = {.g = {.m = 2, .n = 3, .k = 4, .a = at(0), .b = at(1), .c = at(2), .ldc = 3},
                               .n_terms = 1,
                               .terms = {{at(3), 5, at(4), 3, 5}},
                               .then = TESS_THEN_ACT_BACKWARD,
                               .gate = at(5),
                               .up = at(6),
                               .work = at(7)};
    copy c = copy_of(TESS_ROW_gemm_fused, &f, ALIGNED(sizeof(f)));
    const tess_gemm_fused *got = c.args;
    EXPECT(got->g.a == moved(at(0)) && got->g.b == moved(at(1)) && got->g.c == moved(at(2)) && got->g.bias == NULL);
    EXPECT(got->terms[0].a == moved(at(3)) && got->terms[0].b == moved(at(4)));
    EXPECT(got->terms[1].a == NULL && got->terms[1].b == NULL);
    EXPECT(got->gate == moved(at(5)) && got->up == moved(at(6)) && got->y == NULL && got->work == moved(at(7)));
    EXPECT(got->g.k == 4 && got->terms[0].k == 5 && got->then == TESS_THEN_ACT_BACKWARD);
    expect_moved(&c, at(4), TESS_READS);
    expect_moved(&c, at(5), TESS_UPDATES);
    expect_moved(&c, at(7), TESS_WORKS);
    EXPECT_INT(c.n_moved, 8);
    free(c.args);
}

static void a_copy_of_grouped_products_moves_what_each_points_to(void)
{
    const tess_gemm_fused f[] = {
        {.g = {.m = 2, .a = at(0), .b = at(1), .c = at(2), .bias = at(3)}},
        {.g = {.m = 3, .a = at(4), .b = at(5)}, .terms = {{.a = at(6), .b = at(7)}, {.a = at(8), .b = at(9)}}},
        {.g = {.m = 0}, .gate = at(10), .up = at(11), .y = at(12)}};
    const tess_gemm_grouped x = {.products = f, .n_products = COUNT(f), .ab_dtype = TESS_BF16, .work = at(13)};
    copy c = copy_of(TESS_ROW_gemm_grouped, &x, ALIGNED(sizeof(x)) + ALIGNED(sizeof(f)));
    const tess_gemm_grouped *got = c.args;
    expect_list_at(&c, got->products, ALIGNED(sizeof(x)));
    EXPECT(got->products[0].g.c == moved(at(2)) && got->products[0].g.bias == moved(at(3)));
    EXPECT(got->products[1].terms[1].b == moved(at(9)) && got->products[1].g.c == NULL);
    EXPECT(got->products[2].up == moved(at(11)) && got->products[2].g.m == 0 && got->work == moved(at(13)));
    expect_moved(&c, at(7), TESS_READS);
    expect_moved(&c, at(10), TESS_UPDATES);
    expect_moved(&c, at(12), TESS_WRITES);
    EXPECT_INT(c.n_moved, 14);
    free(c.args);
}

static void a_copy_of_adamw_knows_the_memory_of_the_host(void)
{
    const tess_adamw_update u = {.n = 3, .p = at(0), .m = at(1), .v = at(2), .g = at(3), .undo = at(4)};
    copy c = copy_of(TESS_ROW_adamw, &u, ALIGNED(sizeof(u)));
    const tess_adamw_update *got = c.args;
    EXPECT(got->p == moved(at(0)) && got->g == moved(at(3)) && got->copy == NULL);
    expect_moved(&c, at(0), TESS_UPDATES);
    expect_moved(&c, at(3), TESS_READS);
    expect_moved(&c, at(4), TESS_HOST_ONLY);
    EXPECT_INT(c.n_moved, 5);
    free(c.args);
}

/* ---- Work ---- */
static void expect_work(tess_kernel_row_id id, const void *args, double flops, double bytes)
{
    const tess_kernel_row *row = tess_kernel_row_of(id);
    tess_kernel_work work = tess_kernel_work_of(row, args);
    if (work.flops != flops || work.bytes != bytes)
        test_fail(__FILE__, __LINE__, "%s: %.0f flops and %.0f bytes, expected %.0f and %.0f", row->name, work.flops,
                  work.bytes, flops, bytes);
}

static void products_read_their_factors_once(void)
{
    tess_gemm g = {.m = 3, .n = 5, .k = 7, .bias = at(0), .ab_dtype = TESS_BF16, .c_dtype = TESS_F32};
    expect_work(TESS_ROW_gemm, &g, 2 * 3 * 5 * 7, 2 * 3 * 7 + 2 * 7 * 5 + 2 * 5 + 4 * 3 * 5);
    g.bias = NULL;
    g.accumulate = true; /* C is read, too */
    g.ab_dtype = TESS_F32;
    expect_work(TESS_ROW_gemm, &g, 2 * 3 * 5 * 7, 4 * 3 * 7 + 4 * 7 * 5 + 2 * 4 * 3 * 5);
    g.accumulate = false;
    tess_gemm_fused f = {.g = g, .n_terms = 1, .terms = {{.k = 2}}, .then = TESS_THEN_ACT, .gate = at(1)};
    expect_work(TESS_ROW_gemm_fused, &f, 2 * 3 * 5 * 9, 4 * (3 * 9 + 9 * 5) + 3 * 4 * 3 * 5); /* C, y, the gate */
    const tess_gemm_fused products[] = {f, {.g = g}, f};
    expect_work(TESS_ROW_gemm_grouped, &(tess_gemm_grouped){.products = products, .n_products = 3},
                2 * 2 * 3 * 5 * 9 + 2 * 3 * 5 * 7,
                2 * (4 * (3 * 9 + 9 * 5) + 3 * 4 * 3 * 5) + 4 * (3 * 7 + 7 * 5 + 3 * 5));
}

static void a_norm_reads_the_residual_and_writes_the_sum(void)
{
    tess_norm_args a = {.x = at(0), .w = at(1), .y = at(2), .T = 4, .C = 6, .dtype = TESS_BF16};
    expect_work(TESS_ROW_rmsnorm_forward, &a, 5 * 24, 2 * (24 + 6 + 24));
    a.residual = at(3), a.h_out = at(4), a.rstd = at(5);
    expect_work(TESS_ROW_rmsnorm_forward, &a, 5 * 24, 2 * (24 + 24 + 24 + 6 + 24) + 4 * 4);
}

/* 3 queries at the end of 10 keys see a window of 4 keys each, and 2 queries see 1 and 2. */
static void attention_multiplies_what_the_window_shows(void)
{
    const tess_attention_seq seqs[] = {{0, 3, 10, at(3), at(4), NULL}, {3, 2, 2, at(5), at(6), NULL}};
    tess_attention a = attention_of(seqs, COUNT(seqs)); /* 4 heads of 8, 2 key heads, bf16 */
    a.window = 4;
    const double pairs = 4 + 4 + 4 + 1 + 2, q = 5 * 4 * 8, k = 12 * 2 * 8, lse = 5 * 4;
    const double flops = 2 * 2 * pairs * 8 * 4, bytes = 2 * (2 * q + 2 * k) + 4 * lse;
    expect_work(TESS_ROW_attention_forward, &a, flops, bytes);
    a.window = 0;
    expect_work(TESS_ROW_attention_forward, &a, 2 * 2 * (8 + 9 + 10 + 1 + 2) * 8 * 4, bytes);
    a.window = 4;
    expect_work(TESS_ROW_attention_backward, &(tess_attention_grad){.forward = a}, flops / 2 * 5, 2 * bytes);
}

/* Counts the pairs of queries and keys one by one, where attention continues with keys [k_begin, k_end). */
static void attention_multiplies_a_part_of_the_keys(void)
{
    enum { KEYS = 12 };
    for (int queries = 0; queries <= KEYS; queries++)
        for (int begin = 0; begin <= KEYS; begin += 3)
            for (int end = begin; end <= KEYS; end++)
                for (int window = 0; window <= KEYS; window += 5) {
                    const tess_attention_seq s = {
                        .q_len = queries, .k_len = KEYS, .k_begin = begin, .k_end = end, .k = at(3), .v = at(4)};
                    tess_attention a = attention_of(&s, 1);
                    a.window = window;
                    a.state = at(5);
                    int64_t pairs = 0;
                    for (int q = KEYS - queries; q < KEYS; q++)
                        for (int k = begin; k < end; k++)
                            pairs += k <= q && (window == 0 || k > q - window);
                    const tess_kernel_work work =
                        tess_kernel_work_of(tess_kernel_row_of(TESS_ROW_attention_forward), &a);
                    EXPECT(work.flops == 2 * 2 * (double)pairs * 8 * 4);
                }
}

static void an_optimizer_reads_and_writes_its_state(void)
{
    tess_adamw_update u = {.n = 10, .p = at(0), .m = at(1), .v = at(2), .g = at(3), .copy_dtype = TESS_BF16};
    expect_work(TESS_ROW_adamw, &u, 16 * 10, 10 * (3 * 2 * 4 + 4));
    u.copy = at(4);
    u.undo = at(5); /* is not an operand */
    expect_work(TESS_ROW_adamw, &u, 16 * 10, 10 * (3 * 2 * 4 + 4 + 2));
}

static void a_table_of_gradients_is_set_to_0_unless_they_are_added(void)
{
    tess_embedding_grad_args a = {
        .ids = at(0), .dout = at(1), .dtable = at(2), .rows = 10, .T = 6, .C = 4, .dtype = TESS_BF16};
    expect_work(TESS_ROW_embedding_backward, &a, 6 * 4, 6 * 4 * (2 + 2 * 4) + 10 * 4 * 4);
    a.accumulate = true;
    expect_work(TESS_ROW_embedding_backward, &a, 6 * 4, 6 * 4 * (2 + 2 * 4));
}

static void reductions_and_runs_count_their_elements(void)
{
    tess_reduction r = {.n_inputs = 3, .dtype = TESS_BF16, .n_outputs = 2, .y_dtype = TESS_F32, .n = 7};
    expect_work(TESS_ROW_reduce, &r, 3 * 7, 7 * (3 * 2 + 2 * 4));
    r.n_outputs = 1;
    r.accumulate = true;
    const tess_reduce_run runs[] = {{0, 0, 5}, {9, 5, 6}};
    expect_work(TESS_ROW_reduce_runs, &(tess_reduce_runs_args){.of = r, .runs = runs, .n_runs = 2}, 3 * 11,
                11 * (3 * 2 + 2 * 4));
    const tess_value_run values[] = {{at(0), at(1), 5}, {at(2), at(3), 6}};
    expect_work(TESS_ROW_convert_runs, &(tess_convert_runs_args){.runs = values, .n_runs = 2, .to = TESS_BF16}, 0,
                11 * 6);
}

static const test_case cases[] = {
    CASE(every_operand_is_a_member_of_the_arguments),
    CASE(every_list_is_a_member_and_names_members_of_its_items),
    CASE(names_are_unique),
    CASE(a_pointer_keeps_what_it_is_set_to),
    CASE(a_copy_of_attention_holds_sequences_and_pages),
    CASE(a_copy_of_attention_gradients_holds_the_sequences_of_the_forward_call),
    CASE(a_copy_of_a_reduction_holds_its_inputs_and_outputs),
    CASE(a_copy_of_a_reduction_of_runs_holds_the_runs_too),
    CASE(a_copy_of_conversions_moves_both_ends_of_each_run),
    CASE(a_copy_of_a_product_moves_its_terms_and_what_follows),
    CASE(a_copy_of_grouped_products_moves_what_each_points_to),
    CASE(a_copy_of_adamw_knows_the_memory_of_the_host),
    CASE(products_read_their_factors_once),
    CASE(a_norm_reads_the_residual_and_writes_the_sum),
    CASE(attention_multiplies_what_the_window_shows),
    CASE(attention_multiplies_a_part_of_the_keys),
    CASE(an_optimizer_reads_and_writes_its_state),
    CASE(a_table_of_gradients_is_set_to_0_unless_they_are_added),
    CASE(reductions_and_runs_count_their_elements),
};

TEST_MAIN(cases)
