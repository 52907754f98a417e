/* Attention on tensor cores through the device of NVIDIA GPUs (TESSERA_CUBLAS=own): on a GPU, or with the driver that
 * plays one. test_attention.c has more shapes for the same sources. */
#include "device/attention_naive.h"
#include "device/cuda_shim/cuda_shim_stream.h"
#include "device/device.h"

typedef struct run {
    tess_device *d;
    tess_stream *s;
    problem *p;
    tess_attention a; /* operands on the device */
    tess_attention_grad g;
    tess_attention_seq seqs[MAX_SEQS];
} run;

static void *put_on_device(run *r, const void *x, int64_t elements, size_t size)
{
    void *memory;
    EXPECT_OK(tess_device_alloc(r->d, TESS_POOL_ACTIVATIONS, (size_t)elements * size, "operand", &memory));
    EXPECT_OK(tess_stream_copy(r->s, memory, x, (size_t)elements * size));
    return memory;
}

static void run_create(run *r, const shape *s)
{
    EXPECT_OK(tess_device_open(test_mem(), "cuda", 0, &r->d));
    EXPECT_OK(tess_device_stream(r->d, 1, NULL, &r->s));
    EXPECT(strncmp(tess_stream_kernels(r->s)->name, "cuda-tc ", 8) == 0);
    const problem *p = r->p = problem_create(s, TESS_BF16);
    r->a = p->a;
    r->g = p->g;
    r->a.seqs = r->seqs;
    r->a.q = put_on_device(r, p->q, p->T * p->a.q_stride, p->size);
    r->a.out = put_on_device(r, p->out, p->T * p->a.out_stride, p->size);
    r->a.lse = put_on_device(r, p->lse, p->T * s->H, sizeof(float));
    r->g.dout = put_on_device(r, p->dout, p->T * p->g.dout_stride, p->size);
    r->g.dq = put_on_device(r, p->dq, p->T * p->g.dq_stride, p->size);
    r->g.dk = put_on_device(r, p->dk, p->T * p->g.dk_stride, p->size);
    r->g.dv = put_on_device(r, p->dv, p->T * p->g.dv_stride, p->size);
    char *k = put_on_device(r, p->k, p->K * p->a.k_stride, p->size),
         *v = put_on_device(r, p->v, p->K * p->a.v_stride, p->size);
    for (int i = 0; i < s->n_seqs; i++) {
        r->seqs[i] = p->seqs[i];
        r->seqs[i].k = k + ((const char *)p->seqs[i].k - p->k);
        r->seqs[i].v = v + ((const char *)p->seqs[i].v - p->v);
    }
    r->g.forward = r->a;
}

static void run_destroy(run *r)
{
    const void *const memory[] = {r->a.q,  r->a.out, r->a.lse,     r->g.dout,   r->g.dq,
                                  r->g.dk, r->g.dv,  r->seqs[0].k, r->seqs[0].v};
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        tess_device_free(r->d, (void *)memory[i]);
    problem_destroy(r->p);
    tess_stream_destroy(&r->s);
    EXPECT_INT(tess_device_close(&r->d), 0);
}

/* Results come back into the problem's own memory. */
static void compute(run *r, bool gradients)
{
    problem *p = r->p;
    const tess_kernels *k = tess_stream_kernels(r->s);
    EXPECT_OK(k->attention_forward(r->s, &r->a));
    EXPECT_OK(tess_fetch(r->s, p->out, r->a.out, (size_t)(p->T * p->a.out_stride) * p->size));
    EXPECT_OK(tess_fetch(r->s, p->lse, r->a.lse, (size_t)(p->T * p->s.H) * sizeof(float)));
    if (!gradients)
        return;
    EXPECT_OK(k->attention_backward(r->s, &r->g));
    EXPECT_OK(tess_fetch(r->s, p->dq, r->g.dq, (size_t)(p->T * p->g.dq_stride) * p->size));
    EXPECT_OK(tess_fetch(r->s, p->dk, r->g.dk, (size_t)(p->T * p->g.dk_stride) * p->size));
    EXPECT_OK(tess_fetch(r->s, p->dv, r->g.dv, (size_t)(p->T * p->g.dv_stride) * p->size));
}

/* |got - exact| / |exact| over all rows. */
static double distance(const problem *p, const char *x, int64_t stride, int64_t width, estimate want)
{
    double apart = 0, whole = 0;
    for (int64_t i = 0; i < p->T * width; i++) {
        apart += pow(get(p, x, i / width * stride + i % width) - want.value[i], 2);
        whole += want.value[i] * want.value[i];
    }
    return sqrt(apart / whole);
}

static const shape shapes[] = {{2, 1, 64, 0, 2, {17, 3}, {0}},
                               {4, 1, 128, 0, 3, {65, 1, 17}, {0}},
                               {3, 3, 64, 40, 2, {130, 7}, {0}},
                               {2, 1, 80, 0, 2, {33, 64}, {0}}};

/* Fibres take minutes for the others under clang's ASan. */
static int n_shapes(void)
{
    return cuda_shim_is_slow() ? 1 : (int)(sizeof(shapes) / sizeof(shapes[0]));
}

static void attention_is_within_5e_3_of_float64(void)
{
    for (int i = 0; i < n_shapes(); i++) {
        run r;
        run_create(&r, &shapes[i]);
        const problem *p = r.p;
        const int64_t wide = p->s.H * p->s.D, narrow = p->s.G * p->s.D;
        naive n = naive_run(p);
        compute(&r, true);
        EXPECT(distance(p, p->out, p->a.out_stride, wide, n.out) < 5e-3);
        EXPECT(distance(p, p->dq, p->g.dq_stride, wide, n.dq) < 5e-3);
        EXPECT(distance(p, p->dk, p->g.dk_stride, narrow, n.dk) < 5e-3);
        EXPECT(distance(p, p->dv, p->g.dv_stride, narrow, n.dv) < 5e-3);
        naive_free(&n);
        run_destroy(&r);
    }
}

/* A sequence's last rows, each alone after its keys as generation has it, in chunks of keys that are computed
 * separately.
 */
static void expect_bits_of_training(const shape *s)
{
    run r;
    run_create(&r, s);
    tess_attention a = r.a;
    tess_attention_seq seq = r.seqs[0];
    const problem *p = r.p;
    const size_t row_bytes = (size_t)(s->H * s->D) * p->size;
    compute(&r, false);
    for (int64_t i = 0; i < s->q_len[0]; i++) {
        a.seqs = &seq;
        a.q = (const char *)r.a.q + (size_t)(i * p->a.q_stride) * p->size;
        seq.q_len = 1;
        seq.k_len = s->extra[0] + i + 1;
        char out[4 * 64 * sizeof(uint16_t)];
        EXPECT_OK(tess_stream_kernels(r.s)->attention_forward(r.s, &a));
        EXPECT_OK(tess_fetch(r.s, out, r.a.out, row_bytes));
        EXPECT_SAME(out, p->out + (size_t)(i * p->a.out_stride) * p->size, row_bytes);
    }
    run_destroy(&r);
}

static void generation_has_the_bits_of_training(void)
{
    static const shape behind_a_window = {4, 2, 64, 40, 1, {3}, {1022}}, whole = {4, 2, 64, 0, 1, {3}, {1100}};
    expect_bits_of_training(&behind_a_window);
    if (!cuda_shim_is_slow())
        expect_bits_of_training(&whole);
}

/* Many blocks of threads in any order, again and again. */
static void equal_runs_give_equal_bits(void)
{
    run r;
    run_create(&r, &shapes[n_shapes() / 2]);
    problem *p = r.p;
    const size_t q_bytes = (size_t)(p->T * p->g.dq_stride) * p->size,
                 v_bytes = (size_t)(p->T * p->g.dv_stride) * p->size;
    char *dq = malloc(q_bytes), *dv = malloc(v_bytes);
    EXPECT(dq != NULL && dv != NULL);
    for (int i = 0; i < 3; i++) {
        compute(&r, true);
        if (i > 0) {
            EXPECT_SAME(p->dq, dq, q_bytes);
            EXPECT_SAME(p->dv, dv, v_bytes);
        }
        memcpy(dq, p->dq, q_bytes);
        memcpy(dv, p->dv, v_bytes);
    }
    free(dq);
    free(dv);
    run_destroy(&r);
}

static const test_case cases[] = {
    CASE(attention_is_within_5e_3_of_float64),
    CASE(generation_has_the_bits_of_training),
    CASE(equal_runs_give_equal_bits),
};

TEST_MAIN(cases)
