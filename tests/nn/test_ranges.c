/* Training in pieces: ranges of blocks on slots, in any order that a schedule may take, and backward in two parts give
 * the bits of tess_executor_train. */
#include "base/mem/disk.h"
#include "fixture.h"

enum { N_SLOTS = 4, MAX_RANGES = 4, MAX_T = FIXTURE_TOKENS };

/* Four micro-batches of a fixture: all of it, its first sequence, its last, and none. */
typedef struct micro {
    int32_t cu_seqlens[2];
    tess_batch batch;
} micro;

static void make_micros(const fixture *f, micro micros[N_SLOTS])
{
    for (int i = 0; i < N_SLOTS; i++) {
        int64_t seq = i == 1 ? 0 : f->batch.n_seqs - 1;
        int32_t begin = i == 3 ? 0 : f->cu_seqlens[seq], end = i == 3 ? 0 : f->cu_seqlens[seq + 1];
        micros[i].batch = f->batch;
        if (i == 0)
            continue;
        micros[i].cu_seqlens[1] = end - begin;
        micros[i].batch = (tess_batch){.n_tokens = end - begin,
                                       .n_seqs = i == 3 ? 0 : 1,
                                       .ids = f->ids + begin,
                                       .pos = f->pos + begin,
                                       .targets = f->targets + begin,
                                       .cu_seqlens = micros[i].cu_seqlens};
    }
}

/* The results of plain training for each of them. */
typedef struct expected {
    float logprob[N_SLOTS][MAX_T];
    float **dw[N_SLOTS];
} expected;

static size_t count_of(const rig *r, int param)
{
    return (size_t)tess_shape_count(&tess_model_param(r->model, param)->shape);
}

static void expect_open(expected *e, rig *r, const tess_executor_options *options, const micro *micros)
{
    tess_executor *executor = rig_executor(r, *options);
    for (int i = 0; i < N_SLOTS; i++) {
        EXPECT_OK(tess_executor_train(executor, &micros[i].batch, NULL, e->logprob[i]));
        e->dw[i] = test_alloc((size_t)r->n_params * sizeof(float *));
        for (int p = 0; p < r->n_params; p++) {
            size_t bytes = count_of(r, p) * sizeof(float);
            e->dw[i][p] = test_alloc(bytes);
            memcpy(e->dw[i][p], r->dw[p], bytes);
            memset(r->dw[p], tess_model_param(r->model, (int)p)->frozen ? 0 : 0xff, bytes);
        }
    }
    tess_executor_destroy(&executor);
}

static void expect_close_all(expected *e, const rig *r)
{
    for (int i = 0; i < N_SLOTS; i++) {
        for (int p = 0; p < r->n_params; p++)
            test_free(e->dw[i][p]);
        test_free(e->dw[i]);
    }
}

/* A schedule under way. */
typedef struct run {
    rig *r;
    tess_executor *executor;
    const micro *micros;
    const expected *expected;
    tess_executor_options options;
    int n_ranges, bounds[MAX_RANGES + 1];
    void *h[N_SLOTS][MAX_RANGES], *dh[N_SLOTS][MAX_RANGES]; /* input of range k, and its gradient */
    float logprob[N_SLOTS][MAX_T];
} run;

static tess_range range_of(const run *x, int slot, int k)
{
    return (tess_range){slot, x->bounds[k], x->bounds[k + 1], &x->micros[slot].batch};
}

static void poison(const run *x, void *stream)
{
    memset(stream, 0xff, (size_t)(MAX_T * x->r->config.hidden_size) * tess_dtype_size(x->r->dtype));
}

/* The input of range k: for odd slots the executor's own place, otherwise a buffer that is the caller's again. */
static void *stream_of(const run *x, int slot, int k)
{
    return slot % 2 == 1 ? tess_executor_input(x->executor, slot, x->bounds[k]) : x->h[slot][k];
}

static void forward(run *x, int slot, int k)
{
    tess_range range = range_of(x, slot, k);
    EXPECT_OK(tess_executor_forward(x->executor, &range, k > 0 ? stream_of(x, slot, k) : NULL,
                                    k < x->n_ranges - 1 ? stream_of(x, slot, k + 1) : NULL));
    if (k > 0 && slot % 2 == 0)
        poison(x, x->h[slot][k]);
}

/* Units that frozen ones are below, from the range's last to its first, have their gradients now. */
static void compare(run *x, int slot, int k)
{
    for (int p = 0; p < x->r->n_params; p++) {
        int unit = tess_model_param(x->r->model, p)->unit;
        if (unit < x->bounds[k] || unit >= x->bounds[k + 1] || unit < x->options.first_trainable_unit)
            continue;
        test_expect_same(__FILE__, __LINE__, tess_model_param(x->r->model, p)->name, x->r->dw[p],
                         x->expected->dw[slot][p], count_of(x->r, p), sizeof(float));
        memset(x->r->dw[p], tess_model_param(x->r->model, (int)p)->frozen ? 0 : 0xff,
               count_of(x->r, p) * sizeof(float));
    }
}

static void backward(run *x, int slot, int k, tess_backward_part part)
{
    tess_range range = range_of(x, slot, k);
    bool weights = part == TESS_BACKWARD_WEIGHTS, last = k == x->n_ranges - 1;
    tess_backward b = {.part = part, .logprob = last ? x->logprob[slot] : NULL};
    if (range.end <= x->options.first_trainable_unit)
        return;
    b.dout = !last && !weights ? x->dh[slot][k + 1] : NULL;
    b.din = k > 0 && !weights && range.begin > x->options.first_trainable_unit ? x->dh[slot][k] : NULL;
    EXPECT_OK(tess_executor_backward(x->executor, &range, &b));
    if (last && !weights)
        EXPECT_SAME(x->logprob[slot], x->expected->logprob[slot], (size_t)range.batch->n_tokens);
    if (part == TESS_BACKWARD_INPUT)
        return;
    compare(x, slot, k);
    if (!last) /* the gradient is the caller's until then */
        poison(x, x->dh[slot][k + 1]);
}

/* Every micro-batch is under way at once. With tied weights the table's window is open from a slot's head to its
 * embedding, and no other head comes in between. */
static void all_slots(run *x)
{
    bool tied = x->r->config.tied;
    for (int k = 0; k < x->n_ranges; k++)
        for (int slot = 0; slot < N_SLOTS; slot++)
            forward(x, k % 2 == 0 ? slot : N_SLOTS - 1 - slot, k);
    for (int i = 0; i < N_SLOTS * x->n_ranges; i++) {
        int slot = tied ? i / x->n_ranges : (i * 3) % N_SLOTS,
            k = x->n_ranges - 1 - (tied ? i % x->n_ranges : i / N_SLOTS);
        backward(x, slot, k, TESS_BACKWARD_WHOLE);
        if (slot == 0 && k == 0) { /* a slot that is done takes another micro-batch while others are under way */
            for (int again = 0; again < x->n_ranges; again++)
                forward(x, slot, again);
        }
    }
}

/* Weight parts after the input parts of all slots, but of a tied embedding at once. The head has none, and stands for
 * its range in the input part. */
static void all_slots_split(run *x)
{
    bool tied = x->r->config.tied;
    for (int slot = 0; slot < N_SLOTS; slot++)
        for (int k = 0; k < x->n_ranges; k++)
            forward(x, slot, k);
    for (int slot = 0; slot < N_SLOTS; slot++) {
        for (int k = x->n_ranges - 1; k >= 0; k--)
            backward(x, slot, k, TESS_BACKWARD_INPUT);
        if (tied)
            backward(x, slot, 0, TESS_BACKWARD_WEIGHTS);
        compare(x, slot, x->n_ranges - 1);
    }
    for (int k = 0; k < x->n_ranges - 1; k++)
        for (int slot = N_SLOTS - 1; slot >= 0 && (k > 0 || !tied); slot--)
            backward(x, slot, k, TESS_BACKWARD_WEIGHTS);
}

/* cuts: bit u says that a range begins at unit u. */
static void run_schedule(rig *r, const expected *e, const micro *micros, tess_executor_options options, unsigned cuts)
{
    run x = {.r = r, .micros = micros, .expected = e, .options = options};
    int n_units = tess_model_n_units(r->model);
    size_t bytes = (size_t)(MAX_T * r->config.hidden_size) * tess_dtype_size(r->dtype);
    for (int unit = 1; unit < n_units; unit++)
        if ((cuts >> unit & 1) != 0 && x.n_ranges < MAX_RANGES - 1)
            x.bounds[++x.n_ranges] = unit;
    x.bounds[++x.n_ranges] = n_units;
    x.options.n_slots = N_SLOTS;
    x.executor = rig_executor(r, x.options);
    for (int slot = 0; slot < N_SLOTS; slot++)
        for (int k = 0; k < x.n_ranges; k++) {
            x.h[slot][k] = test_alloc(bytes);
            x.dh[slot][k] = test_alloc(bytes);
        }
    if (options.split_backward)
        all_slots_split(&x);
    else
        all_slots(&x);
    for (int slot = 0; slot < N_SLOTS; slot++)
        for (int k = 0; k < x.n_ranges; k++) {
            test_free(x.h[slot][k]);
            test_free(x.dh[slot][k]);
        }
    tess_executor_destroy(&x.executor);
}

/* Every fixture, dtype, recomputation and first trainable unit, at cuts that leave blocks alone and together. */
static void on_all(bool split)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        micro micros[N_SLOTS] = {0};
        fixture_open(&f, fixture_names[i]);
        make_micros(&f, micros);
        int n_units = (int)f.config.n_layers + 2;
        unsigned head = 1u << (n_units - 1), cuts[] = {0, 1u << 2, head, 1u << 1 | 1u << 2 | head};
        for (int way = 0; way < 2 * 4 * 3; way++) {
            if (!test_takes())
                continue;
            rig r;
            expected e;
            tess_executor_options options = {.max_tokens = MAX_T,
                                             .max_position = f.max_position,
                                             .train = true,
                                             .recompute = (tess_recompute)(way / 2 % 4),
                                             .recompute_every = 2,
                                             .recompute_groups = (unsigned)(1 + (i + way) % TESS_GROUP_ALL),
                                             .first_trainable_unit = way / 8};
            rig_open(&r, &f.config, way % 2 == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
            expect_open(&e, &r, &options, micros);
            options.split_backward = split;
            for (size_t c = split ? 2 : 0; c < sizeof(cuts) / sizeof(cuts[0]); c++)
                run_schedule(&r, &e, micros, options, cuts[c]);
            expect_close_all(&e, &r);
            rig_close(&r);
        }
        fixture_close(&f);
    }
}

/* ---- Activations on disk ---- */
static tess_mem_disk disk_open(void)
{
    tess_mem_disk d = {.pools = 1u << TESS_POOL_ACTIVATIONS};
    EXPECT_OK(tess_pager_create(test_mem(), 1, &d.pager));
    tess_disk *disk;
    EXPECT_OK(tess_disk_create(test_mem(), test_folder(), d.pager, &disk));
    tess_disk_attach(disk, &d);
    return d;
}

static void disk_close(tess_mem_disk *d)
{
    tess_mem_set_disk(test_mem(), NULL);
    tess_disk *disk = d->disk;
    tess_disk_destroy(&disk);
    tess_pager_destroy(&d->pager);
}

/* A window of three layers, of all slots. */
static void activations_on_disk_have_the_same_bits(void)
{
    static const char *const names[] = {"llama", "qwen3", "gpt2"};
    tess_mem_disk d = disk_open();
    tess_mem_set_disk(test_mem(), &d);
    for (int i = 0; i < 3 * 2; i++) {
        fixture f;
        micro micros[N_SLOTS] = {0};
        rig r;
        expected e;
        fixture_open(&f, names[i / 2]);
        make_micros(&f, micros);
        tess_executor_options options = {.max_tokens = MAX_T,
                                         .max_position = f.max_position,
                                         .train = true,
                                         .recompute_groups = TESS_GROUP_RESIDUAL | TESS_GROUP_ATTENTION_INPUTS,
                                         .first_trainable_unit = i % 2};
        rig_open(&r, &f.config, i % 2 == 0 ? TESS_F32 : TESS_BF16, NULL, 1);
        expect_open(&e, &r, &options, micros);
        options.on_disk = true;
        for (int way = 0; way < 6; way++) {
            static const tess_recompute recompute[] = {TESS_RECOMPUTE_NONE, TESS_RECOMPUTE_FULL,
                                                       TESS_RECOMPUTE_SELECTIVE};
            unsigned head = 1u << (f.config.n_layers + 1);
            options.recompute = recompute[(i + way) % 3];
            options.split_backward = way % 2 == 1;
            run_schedule(&r, &e, micros, options, way < 4 ? 1u << 1 | 1u << 2 | head : way % 2 == 1 ? head : 0);
        }
        expect_close_all(&e, &r);
        rig_close(&r);
        fixture_close(&f);
    }
    EXPECT(tess_pager_get_stats(d.pager).written_bytes > 0);
    disk_close(&d);
}

/* A layer that is kept whole moves once to disk and once back, but for the last, whose backward comes next. */
static void only_what_a_backward_reads_moves(void)
{
    fixture f;
    rig r;
    float logprob[MAX_T];
    tess_mem_disk d = disk_open();
    fixture_open(&f, "ministral");
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    tess_executor_options options = {
        .dtype = TESS_F32, .max_tokens = MAX_T, .max_position = f.max_position, .train = true};
    size_t in_memory = tess_executor_bytes(r.model, &options), resident, n_on_disk = (size_t)f.config.n_layers - 1;
    tess_executor *e = NULL;
    options.on_disk = true;
    size_t on_disk = tess_executor_disk_bytes(r.model, &options, &resident), each = on_disk / n_on_disk;
    EXPECT_FAILS(tess_executor_create(r.stream, r.model, &r.hooks, &options, &e), TESS_E_INVALID, "there is no disk");
    EXPECT(each * n_on_disk == on_disk && resident == (n_on_disk < 3 ? n_on_disk : 3) * each);
    size_t copies = (size_t)(2 * MAX_T * f.config.intermediate_size) * sizeof(float);
    size_t kept = in_memory + copies - tess_executor_bytes(r.model, &options);
    EXPECT(kept <= on_disk && on_disk < kept + (n_on_disk << 16));
    tess_mem_set_disk(test_mem(), &d);
    tess_pager_make_room(d.pager, resident, 0);
    e = rig_executor(&r, options);
    const tess_range all = {0, 0, (int)f.config.n_layers + 2, &f.batch};
    for (uint64_t n = 1; n <= 2; n++) {
        EXPECT_OK(tess_executor_forward(e, &all, NULL, NULL));
        tess_pager_drain(d.pager);
        EXPECT_INT(tess_pager_get_stats(d.pager).written_bytes, n * on_disk);
        EXPECT_OK(tess_executor_backward(e, &all, &(tess_backward){.logprob = logprob}));
        tess_pager_drain(d.pager);
        const tess_pager_stats stats = tess_pager_get_stats(d.pager);
        EXPECT_INT(stats.written_bytes, n * on_disk);
        EXPECT_INT(stats.read_bytes, n * on_disk);
        EXPECT_INT(stats.resident, 0);
        EXPECT(stats.peak <= resident);
        float evaluated[MAX_T]; /* no backward follows: nothing moves */
        EXPECT_OK(tess_executor_logprobs(e, &f.batch, 1, evaluated, NULL));
        tess_pager_drain(d.pager);
        EXPECT_SAME(evaluated, logprob, (size_t)f.batch.n_tokens);
        EXPECT_INT(tess_pager_get_stats(d.pager).written_bytes, n * on_disk);
        EXPECT_INT(tess_pager_get_stats(d.pager).read_bytes, n * on_disk);
    }
    tess_executor_sleep(e);
    EXPECT_INT(tess_mem_disk_bytes(test_mem(), TESS_POOL_ACTIVATIONS), 0);
    EXPECT_OK(tess_executor_wake(e));
    EXPECT_OK(tess_executor_train(e, &f.batch, NULL, logprob));
    tess_executor_destroy(&e);
    disk_close(&d);
    rig_close(&r);
    fixture_close(&f);
}

static void ranges_on_interleaved_slots_give_the_bits_of_plain_training(void)
{
    on_all(false);
}

static void backward_in_two_parts_gives_the_bits_of_plain_training(void)
{
    on_all(true);
}

/* By hand: what one more slot costs, in floats a token. */
static void a_slot_takes_what_its_blocks_save(void)
{
    fixture f;
    fixture_open(&f, "llama");
    rig r;
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    enum { C = 24, F = 40, H = 3, Q = 24, K = 8, L = 2 };
    const size_t head = C + 1, saved = C + 1 + 1 + Q + 2 * K + Q + H + 2 * F, kept = 3 * C + F + Q + 2 * K;
    const struct {
        tess_recompute recompute;
        bool split;
        size_t floats;
    } rows[] = {{TESS_RECOMPUTE_NONE, false, head + L * (C + saved)},
                {TESS_RECOMPUTE_FULL, false, head + L * C},
                {TESS_RECOMPUTE_EVERY_N, false, head + L * C + saved},
                {TESS_RECOMPUTE_NONE, true, head + L * (C + saved) + (1 + L) * C + L * kept},
                {TESS_RECOMPUTE_FULL, true, head + L * C + (1 + L) * C}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t bytes[4];
        for (int n = 0; n < 4; n++) {
            tess_executor_options options = {.max_tokens = MAX_T,
                                             .max_position = f.max_position,
                                             .train = true,
                                             .recompute = rows[i].recompute,
                                             .recompute_every = 2,
                                             .n_slots = n,
                                             .split_backward = rows[i].split};
            size_t before = tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes;
            tess_executor *executor = rig_executor(&r, options);
            bytes[n] = tess_mem_stats(test_mem(), TESS_POOL_ACTIVATIONS).bytes - before;
            EXPECT_INT(bytes[n], tess_executor_bytes(r.model, &options));
            tess_executor_destroy(&executor);
        }
        EXPECT_INT(bytes[0], bytes[1]); /* none said is one */
        for (int n = 2; n < 4; n++)
            EXPECT_INT(bytes[n] - bytes[n - 1], rows[i].floats * MAX_T * sizeof(float));
    }
    /* Slots of the embedding and a layer, whose gradient is read in the caller's memory. */
    const tess_slot_units units[] = {{0, 4}, {0, 2}};
    tess_executor_options options = {.max_tokens = MAX_T,
                                     .max_position = f.max_position,
                                     .train = true,
                                     .n_slots = 1,
                                     .slot_units = units,
                                     .split_backward = true};
    size_t one = tess_executor_bytes(r.model, &options);
    options.n_slots = 2;
    EXPECT_INT(tess_executor_bytes(r.model, &options) - one, (C + saved + C + kept) * MAX_T * sizeof(float));
    rig_close(&r);
    fixture_close(&f);
}

static void bad_ranges_are_refused(void)
{
    fixture f;
    fixture_open(&f, "llama3"); /* tied, 3 layers: units 0 to 4 */
    rig r;
    rig_open(&r, &f.config, TESS_F32, NULL, 1);
    tess_executor_options options = {
        .max_tokens = MAX_T, .max_position = f.max_position, .train = true, .n_slots = TESS_MAX_SLOTS + 1};
    tess_executor *e = NULL;
    options.dtype = TESS_F32;
    EXPECT_FAILS(tess_executor_create(r.stream, r.model, &r.hooks, &options, &e), TESS_E_INVALID, "4097 slots");
    options.n_slots = 2;
    e = rig_executor(&r, options);
    float h[MAX_T * 28] = {0}, logprob[MAX_T];
    const struct {
        tess_range range;
        const void *in;
        void *out;
        const char *needle;
    } forwards[] = {{{2, 0, 5, &f.batch}, NULL, NULL, "slot 2; the executor was made for 2"},
                    {{0, 3, 3, &f.batch}, h, h, "blocks 3 to 3; the model has 5"},
                    {{0, 0, 6, &f.batch}, NULL, NULL, "blocks 0 to 6"},
                    {{0, 0, 5, &f.batch}, h, NULL, "embedding: forward needs the stream that it reads"},
                    {{0, 1, 5, &f.batch}, NULL, NULL, "model.layers.0: forward needs the stream that it reads"},
                    {{0, 0, 2, &f.batch}, NULL, NULL, "model.layers.0: forward needs a place for the stream"},
                    {{0, 1, 5, &f.batch}, h, h, "the head leaves none"}};
    for (size_t i = 0; i < sizeof(forwards) / sizeof(forwards[0]); i++)
        EXPECT_FAILS(tess_executor_forward(e, &forwards[i].range, forwards[i].in, forwards[i].out), TESS_E_INVALID,
                     forwards[i].needle);
    const struct {
        tess_range range;
        tess_backward b;
        const char *needle;
    } backwards[] = {
        {{0, 0, 5, &f.batch}, {.logprob = logprob}, "embedding: backward on slot 0, but its forward has not run"},
        {{0, 0, 5, &f.batch}, {.part = TESS_BACKWARD_INPUT, .logprob = logprob}, "split_backward is false"},
        {{0, 0, 5, &f.batch}, {0}, "needs a place for the log-probabilities"},
        {{0, 0, 5, &f.batch}, {.dout = h, .logprob = logprob}, "head: backward needs the gradient"},
        {{0, 1, 3, &f.batch}, {.din = h}, "model.layers.1: backward needs the gradient"},
        {{0, 0, 3, &f.batch}, {.dout = h, .din = h}, "no gradient of its input comes from the embedding"}};
    for (size_t i = 0; i < sizeof(backwards) / sizeof(backwards[0]); i++)
        EXPECT_FAILS(tess_executor_backward(e, &backwards[i].range, &backwards[i].b), TESS_E_INVALID,
                     backwards[i].needle);

    /* A table that is open for one slot is not open for another, and closes with its slot. */
    tess_range whole[2] = {{0, 0, 5, &f.batch}, {1, 0, 5, &f.batch}}, upper = {0, 1, 5, &f.batch},
               lower = {1, 0, 1, &f.batch};
    EXPECT_OK(tess_executor_forward(e, &whole[0], NULL, NULL));
    EXPECT_OK(tess_executor_forward(e, &whole[1], NULL, NULL));
    EXPECT_FAILS(tess_executor_backward(e, &lower, &(tess_backward){.dout = h}), TESS_E_INVALID,
                 "embedding: backward: the head's backward on slot 1 has not run");
    EXPECT_OK(tess_executor_forward(e, &whole[1], NULL, NULL));
    EXPECT_OK(tess_executor_backward(e, &upper, &(tess_backward){.din = h, .logprob = logprob}));
    EXPECT_FAILS(tess_executor_backward(e, &whole[1], &(tess_backward){.logprob = logprob}), TESS_E_INVALID,
                 "head: slot 1: slot 0 has the tied embedding's gradient open");
    EXPECT_FAILS(tess_executor_backward(e, &upper, &(tess_backward){.logprob = logprob}), TESS_E_INVALID,
                 "model.layers.0: backward on slot 0, but its forward has not run");
    EXPECT_OK(tess_executor_train(e, &f.batch, NULL, logprob));
    EXPECT_FAILS(tess_executor_backward(e, &whole[0], &(tess_backward){.logprob = logprob}), TESS_E_INVALID,
                 "its forward has not run");
    tess_executor_destroy(&e);
    rig_close(&r);
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(ranges_on_interleaved_slots_give_the_bits_of_plain_training),
    CASE(backward_in_two_parts_gives_the_bits_of_plain_training),
    CASE(activations_on_disk_have_the_same_bits),
    CASE(only_what_a_backward_reads_moves),
    CASE(a_slot_takes_what_its_blocks_save),
    CASE(bad_ranges_are_refused),
};
TEST_MAIN(cases)
