/* Attention of ranks that divide tokens takes no more work space for rows of several sequences than for full rows, and
 * leaves of inner sequences do not travel. One rank of two runs alone. Its exchanges bring nothing, because values do
 * not matter here. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "device/dry_device.h"
#include "device/stream.h"
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

enum { T = 4096, D = 64, MOST_SEQS = 256 };

/* The hops that a ring began. */
typedef struct seen_hops {
    int n, not_finite; /* not_finite: leaves of queries with a number that is NaN */
} seen_hops;

static tess_status bring_nothing(TESS_UNUSED void *self, TESS_UNUSED const tess_exchange *exchange)
{
    return TESS_OK;
}

static tess_status begin_hop(void *self, TESS_UNUSED int turn, bool sends, const tess_hop *hop)
{
    seen_hops *hops = self;
    const int64_t rows = T / 8;
    const float *numbers = (const float *)((const char *)hop->memory + hop->bytes) - 2 * rows;
    hops->n++;
    for (int64_t i = 0; sends && strcmp(hop->what, "queries") == 0 && i < 2 * rows; i++)
        if (isnan(numbers[i])) {
            hops->not_finite++;
            break;
        }
    return TESS_OK;
}

static tess_status end_hop(TESS_UNUSED void *self, TESS_UNUSED int turn, TESS_UNUSED bool sends)
{
    return TESS_OK;
}

/* The attention of a rank. Arrays have room for all tokens of all heads. */
typedef struct rig {
    tess_context context;
    tess_attention_params params;
    tess_batch batch;
    tess_layer_call call;
    tess_attention_grad g;
    int32_t bounds[MOST_SEQS + 1];
    tess_attention_seq seqs[2 * MOST_SEQS];
    seen_hops hops;
    char *arrays[8], *buffers[2], *work;
    size_t buffer_bytes, work_bytes;
} rig;

static char *zeros(size_t bytes)
{
    char *x = calloc(bytes + 64, 1);
    EXPECT(x != NULL);
    return x;
}

static rig *rig_create(tess_stream *stream, int n_leaves, int degree, bool rings, int64_t H, int64_t G)
{
    rig *r = (rig *)zeros(sizeof(*r));
    r->context = (tess_context){.points = {.degree = degree, .exchange = bring_nothing},
                                .n_leaves = n_leaves,
                                .folded = true,
                                .rings = rings,
                                .row_tokens = T};
    r->params = (tess_attention_params){.n_heads = H, .n_kv_heads = G, .head_size = D, .sinks = -1};
    r->batch = (tess_batch){.n_tokens = T, .cu_seqlens = r->bounds};
    r->work_bytes = tess_context_attention_bytes(&r->params, &r->context, T / degree, TESS_BF16);
    r->work = zeros(r->work_bytes);
    for (int i = 0; i < 8; i++)
        r->arrays[i] = zeros((size_t)(T * H * D) * 2);
    if (rings) {
        r->buffer_bytes = tess_ring_buffer_bytes(&r->params, &r->context, T / degree, TESS_BF16);
        for (int i = 0; i < 2; i++)
            r->context.ring.buffers[i] = r->buffers[i] = zeros(r->buffer_bytes);
        r->context.ring.self = &r->hops;
        r->context.ring.begin = begin_hop;
        r->context.ring.end = end_hop;
    }
    r->call = (tess_layer_call){.stream = stream,
                                .kernels = tess_stream_kernels(stream),
                                .dtype = TESS_BF16,
                                .T = T / degree,
                                .batch = &r->batch,
                                .seqs = r->seqs,
                                .own = &r->params,
                                .context = &r->context,
                                .context_work = r->work};
    r->g = (tess_attention_grad){.forward = {.n_heads = H,
                                             .n_kv_heads = G,
                                             .head_size = D,
                                             .scale = 0.125f,
                                             .q = r->arrays[0],
                                             .out = r->arrays[1],
                                             .q_stride = H * D,
                                             .k_stride = G * D,
                                             .v_stride = G * D,
                                             .out_stride = H * D,
                                             .lse = (float *)(void *)zeros((size_t)(T * H) * sizeof(float)),
                                             .seqs = r->seqs,
                                             .dtype = TESS_BF16},
                                 .dout = r->arrays[4],
                                 .dq = r->arrays[5],
                                 .dk = r->arrays[6],
                                 .dv = r->arrays[7],
                                 .dout_stride = H * D,
                                 .dq_stride = H * D,
                                 .dk_stride = G * D,
                                 .dv_stride = G * D};
    return r;
}

static void rig_destroy(rig *r)
{
    for (int i = 0; i < 8; i++)
        free(r->arrays[i]);
    free(r->g.forward.lse);
    free(r->buffers[0]);
    free(r->buffers[1]);
    free(r->work);
    free(r);
}

/* Documents of these lengths in turns, until the row is full. */
static void set_documents(rig *r, const int *lengths, int n_lengths)
{
    int n = 0;
    for (int at = 0; at < T; n++) {
        at += lengths[n % n_lengths];
        r->bounds[n + 1] = at < T ? at : T;
    }
    r->batch.n_seqs = n;
    r->g.forward.n_seqs = n;
}

/* Returns the work space of the kernels in a direction. */
static size_t bytes_of(const char *level, int n_threads, int n_leaves, int degree, const int *lengths, int n_lengths,
                       bool back)
{
    tess_stream *stream;
    EXPECT_OK(tess_stream_create(test_mem(), n_threads, level, &stream));
    rig *r = rig_create(stream, n_leaves, degree, false, 1 + (degree > 1), 1 + (degree > 1));
    set_documents(r, lengths, n_lengths);
    if (back)
        EXPECT_OK(tess_context_attention_backward(&r->call, &r->g, r->arrays[2], r->arrays[3]));
    else
        EXPECT_OK(tess_context_attention_forward(&r->call, &r->g.forward, r->arrays[2], r->arrays[3]));
    const size_t bytes = tess_stream_work_bytes(stream);
    rig_destroy(r);
    tess_stream_destroy(&stream);
    return bytes;
}

static const char *const tables[] = {"avx2", "avx512", "amx"};

static const int documents[][3] = {{T / 4, 3 * T / 4, T}, {T / 2, T / 2, T},        {2 * T / 5, 3 * T / 5, T},
                                   {700, 1900, 33},       {T / 64, T / 64, T / 64}, {T / 2 + 1, T / 2 - 1, T}};

static void expect_bytes_of_a_full_row(bool back, int n_threads, int n_leaves, int degree)
{
    static const int full[] = {T};
    const tess_kernels *kernels;
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        if (tess_kernels_select(tables[t], &kernels) != TESS_OK)
            continue;
        const size_t planned = bytes_of(tables[t], n_threads, n_leaves, degree, full, 1, back);
        for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
            const size_t used = bytes_of(tables[t], n_threads, n_leaves, degree, documents[i], 3, back);
            if (used > planned)
                test_fail(__FILE__, __LINE__,
                          "%s, %d threads, %d leaves, %d ranks, documents of %d and %d tokens: planned %zu, used %zu",
                          tables[t], n_threads, n_leaves, degree, documents[i][0], documents[i][1], planned, used);
        }
    }
}

static void gather_forward_takes_the_work_space_of_a_full_row(void)
{
    for (int n_leaves = 4; n_leaves <= 64; n_leaves *= 4)
        expect_bytes_of_a_full_row(false, 1, n_leaves, 2);
}

/* One rank, and two that take a key head each. */
static void backward_takes_the_work_space_of_a_full_row(void)
{
    for (int n_threads = 2; n_threads <= 4; n_threads += 2)
        for (int degree = 1; degree <= 2; degree++)
            expect_bytes_of_a_full_row(true, n_threads, 8, degree);
}

static void poison(rig *r)
{
    memset(r->work, 0xff, r->work_bytes);
    for (int i = 0; i < 2; i++)
        memset(r->buffers[i], 0xff, r->buffer_bytes);
}

static bool is_poisoned(const rig *r)
{
    for (int i = 0; i < 2; i++)
        for (size_t b = 0; b < r->buffer_bytes; b++)
            if ((unsigned char)r->buffers[i][b] != 0xff)
                return false;
    return true;
}

static void a_ring_does_not_move_leaves_of_inner_sequences(void)
{
    /* There are 8 leaves of 512 tokens. The queries of piece 6 travel: a sequence begins in piece 5. Others are inside
     * piece 6. */
    static const int inner[] = {T / 16}, mixed[] = {256, 256, 100, 300, 400};
    tess_stream *stream;
    EXPECT_OK(tess_stream_create(test_mem(), 1, NULL, &stream));
    rig *r = rig_create(stream, 8, 2, true, 1, 1);
    set_documents(r, inner, 1);
    poison(r);
    EXPECT_OK(tess_context_attention_backward(&r->call, &r->g, r->arrays[2], r->arrays[3]));
    EXPECT(r->hops.n == 0 && is_poisoned(r));
    set_documents(r, mixed, 5);
    poison(r);
    for (int i = 0; i < 2; i++) /* the rows that would arrive */
        memset(r->buffers[i], 0, r->buffer_bytes);
    EXPECT_OK(tess_context_attention_backward(&r->call, &r->g, r->arrays[2], r->arrays[3]));
    EXPECT(r->hops.n > 0 && r->hops.not_finite == 0);
    rig_destroy(r);
    tess_stream_destroy(&stream);
}

static const test_case cases[] = {
    CASE(gather_forward_takes_the_work_space_of_a_full_row),
    CASE(backward_takes_the_work_space_of_a_full_row),
    CASE(a_ring_does_not_move_leaves_of_inner_sequences),
};

TEST_MAIN(cases)
