/* A model of one's own in Tessera's training loop. A classifier with its own data, forward, backward and optimizer has
 * a loop of its own in plain C, and runs through Tessera's as callbacks. Both print the same losses, to the last bit.
 *
 *     ./embed_loop own                                            its own loop, on one process
 *     ./embed_loop own adamw                                      the same with AdamW of the library
 *     tessera run -n 4 -- ./embed_loop out                        Tessera's loop, with checkpoints in out/; any -n
 *     tessera run -n 4 -- ./embed_loop out training.steps=100     settings of `tessera info` */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera/loop.h>

enum { INPUTS = 23, HIDDEN = 37, CLASSES = 5, ROWS = 6, MICRO_BATCHES = 7, HELD_OUT = 3, STEPS = 40, INTERVAL = 15 };
enum { UP, UP_BIAS, DOWN, DOWN_BIAS, PARAMS };
static const int count[PARAMS] = {HIDDEN * INPUTS, HIDDEN, CLASSES *HIDDEN, CLASSES};
static const float rate = 0.2f;

/* ---- The model and its data, which know nothing of Tessera ---- */
typedef struct classifier {
    float x[ROWS * INPUTS], h[ROWS * HIDDEN], p[ROWS * CLASSES];
    int label[ROWS];
    int64_t n_updates; /* decides the momentum of the next update */
} classifier;

/* A number in [-1, 1) that depends on its arguments alone. */
static float noise(uint64_t stream, uint64_t index)
{
    uint64_t x = stream * 0x9e3779b97f4a7c15ull + index * 0xbf58476d1ce4e5b9ull + 1;
    for (int round = 0; round < 3; round++)
        x = (x ^ x >> 31) * 0x94d049bb133111ebull;
    return (float)(x >> 40) / 8388608.0f - 1;
}

/* Element `i` of a parameter at the start. */
static float first_value(int param, int64_t i)
{
    return param == UP ? noise(1, (uint64_t)i) * 0.3f : param == DOWN ? noise(2, (uint64_t)i) * 0.25f : 0;
}

/* Fills in micro-batch `index`; from 1 << 40 on they are held out. The label says which of a row's first numbers is
 * largest. */
static void make_batch(classifier *c, int64_t index)
{
    for (int r = 0; r < ROWS; r++) {
        int best = 0;
        for (int i = 0; i < INPUTS; i++)
            c->x[r * INPUTS + i] = noise(100 + (uint64_t)index, (uint64_t)(r * INPUTS + i));
        for (int i = 1; i < CLASSES; i++)
            best = c->x[r * INPUTS + i] > c->x[r * INPUTS + best] ? i : best;
        c->label[r] = best;
    }
}

/* y (ROWS, n_out) = x (ROWS, n_in) w^T + b */
static void linear(const float *x, const float *w, const float *b, int n_in, int n_out, float *y)
{
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < n_out; o++) {
            float sum = b[o];
            for (int i = 0; i < n_in; i++)
                sum += x[r * n_in + i] * w[o * n_in + i];
            y[r * n_out + o] = sum;
        }
}

/* dx may be NULL. */
static void linear_backward(const float *x, const float *w, const float *dy, int n_in, int n_out, float *dx, float *dw,
                            float *db)
{
    memset(dw, 0, sizeof(float) * (size_t)(n_in * n_out));
    memset(db, 0, sizeof(float) * (size_t)n_out);
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < n_out; o++) {
            db[o] += dy[r * n_out + o];
            for (int i = 0; i < n_in; i++)
                dw[o * n_in + i] += dy[r * n_out + o] * x[r * n_in + i];
        }
    for (int r = 0; r < ROWS && dx != NULL; r++)
        for (int i = 0; i < n_in; i++) {
            float sum = 0;
            for (int o = 0; o < n_out; o++)
                sum += dy[r * n_out + o] * w[o * n_in + i];
            dx[r * n_in + i] = sum;
        }
}

static void forward_up(classifier *c, const float *w, const float *b)
{
    linear(c->x, w, b, INPUTS, HIDDEN, c->h);
    for (int n = 0; n < ROWS * HIDDEN; n++)
        c->h[n] = c->h[n] > 0 ? c->h[n] : 0;
}

/* Returns the sum of the rows' cross-entropies, in float. */
static float forward_down(classifier *c, const float *w, const float *b)
{
    float loss = 0;
    linear(c->h, w, b, HIDDEN, CLASSES, c->p);
    for (int r = 0; r < ROWS; r++) {
        float *p = c->p + r * CLASSES, sum = 0;
        for (int k = 0; k < CLASSES; k++)
            sum += p[k] = expf(p[k]);
        for (int k = 0; k < CLASSES; k++)
            p[k] /= sum;
        loss -= logf(p[c->label[r]]);
    }
    return loss;
}

/* Leaves the gradient of h in dh. */
static void backward_down(classifier *c, const float *w, float *dw, float *db, float *dh)
{
    for (int r = 0; r < ROWS; r++)
        c->p[r * CLASSES + c->label[r]] -= 1;
    linear_backward(c->h, w, c->p, HIDDEN, CLASSES, dh, dw, db);
    for (int n = 0; n < ROWS * HIDDEN; n++)
        dh[n] = c->h[n] > 0 ? dh[n] : 0;
}

/* SGD whose momentum grows during the first updates. v: the optimizer's state. */
static void update_elements(const classifier *c, float *w, float *v, const float *g, int64_t n, float lr, float scale)
{
    const float momentum = c->n_updates < 20 ? (float)c->n_updates * 0.045f : 0.9f;
    for (int64_t i = 0; i < n; i++) {
        v[i] = momentum * v[i] + g[i] * scale;
        w[i] -= lr * v[i];
    }
}

static void print_step(int64_t step, double loss)
{
    printf("step %lld, loss %.17g\n", (long long)step, loss);
}

static void print_evaluation(int64_t step, double loss)
{
    printf("held out after step %lld: %.17g\n", (long long)step, loss);
}

/* ---- Its own loop ---- */
typedef float *model_arrays[PARAMS];

static void allocate(model_arrays m)
{
    for (int p = 0; p < PARAMS; p++)
        if ((m[p] = calloc((size_t)count[p], sizeof(float))) == NULL)
            abort();
}

/* The gradient of micro-batches first .. first + n - 1: a binary tree, which is Tessera's order of summation. */
static void sum_gradients(classifier *c, model_arrays w, int64_t first, int n, model_arrays sum, double *loss)
{
    static float dh[ROWS * HIDDEN];
    model_arrays right;
    int half = 1;
    if (n == 1) {
        make_batch(c, first);
        forward_up(c, w[UP], w[UP_BIAS]);
        *loss += (double)forward_down(c, w[DOWN], w[DOWN_BIAS]);
        backward_down(c, w[DOWN], sum[DOWN], sum[DOWN_BIAS], dh);
        linear_backward(c->x, w[UP], dh, INPUTS, HIDDEN, NULL, sum[UP], sum[UP_BIAS]);
        return;
    }
    while (2 * half < n)
        half *= 2;
    allocate(right);
    sum_gradients(c, w, first, half, sum, loss);
    sum_gradients(c, w, first + half, n - half, right, loss);
    for (int p = 0; p < PARAMS; p++) {
        for (int i = 0; i < count[p]; i++)
            sum[p][i] += right[p][i];
        free(right[p]);
    }
}

static const tess_optimizer_options adamw = {.beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};

/* with_adamw: updates with AdamW of the library, which takes memory of any program. */
static int own_loop(bool with_adamw)
{
    static classifier c;
    const float scale = (float)(1.0 / (MICRO_BATCHES * ROWS));
    model_arrays w, v, g;
    tess_span spans[PARAMS];
    tess_mem *mem = NULL;
    tess_optimizer *optimizer = NULL;
    allocate(w), allocate(v), allocate(g);
    for (int p = 0; p < PARAMS; p++)
        spans[p] = (tess_span){.name = "parameter", .n = count[p], .param = w[p], .grad = g[p]};
    if (with_adamw &&
        (tess_mem_create(&mem) != TESS_OK || tess_optimizer_create(mem, spans, PARAMS, &adamw, &optimizer) != TESS_OK))
        return fprintf(stderr, "embed_loop: %s\n", tess_error_message()), 1;
    for (int p = 0; p < PARAMS; p++)
        for (int i = 0; i < count[p]; i++)
            w[p][i] = first_value(p, i);
    for (int step = 1; step <= STEPS; step++) {
        double loss = 0, held_out = 0;
        sum_gradients(&c, w, (int64_t)(step - 1) * MICRO_BATCHES, MICRO_BATCHES, g, &loss);
        for (int p = 0; p < PARAMS && !with_adamw; p++)
            update_elements(&c, w[p], v[p], g[p], count[p], rate, scale);
        if (with_adamw && tess_optimizer_step(optimizer, spans, step, rate / 20, scale) != TESS_OK)
            return fprintf(stderr, "embed_loop: %s\n", tess_error_message()), 1;
        c.n_updates++;
        print_step(step, loss / (MICRO_BATCHES * ROWS));
        for (int i = 0; i < HELD_OUT && (step % INTERVAL == 0 || step == STEPS); i++) {
            make_batch(&c, ((int64_t)1 << 40) + i);
            forward_up(&c, w[UP], w[UP_BIAS]);
            held_out += (double)forward_down(&c, w[DOWN], w[DOWN_BIAS]);
        }
        if (step % INTERVAL == 0 || step == STEPS)
            print_evaluation(step, held_out / (HELD_OUT * ROWS));
    }
    tess_optimizer_destroy(&optimizer);
    if (mem != NULL)
        tess_mem_destroy(&mem);
    for (int p = 0; p < PARAMS; p++)
        free(w[p]), free(v[p]), free(g[p]);
    return 0;
}

/* ---- The same through Tessera's loop ---- */
typedef struct adapter {
    classifier c;
    tess_unit *up, *down;
    float *v[PARAMS]; /* the optimizer's state of this rank's rows */
    tess_checkpoint_tensor tensors[PARAMS];
} adapter;

/* Writes the rows that this rank owns: no rank ever holds the whole model. */
static tess_status fill(void *self, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    const int64_t columns = shape->n_dims == 2 ? shape->dim[1] : 1;
    const int param = strncmp(name, "up", 2) == 0 ? UP : DOWN;
    (void)self;
    for (int64_t i = 0; i < box->size[0] * columns; i++)
        dst[i] = first_value(shape->n_dims == 2 ? param : param + 1, box->begin[0] * columns + i);
    return TESS_OK;
}

static tess_status ready(void *self, tess_fsdp *fsdp, tess_unit *const *units)
{
    static const char *const names[PARAMS] = {"up.velocity", "up.bias_velocity", "down.velocity", "down.bias_velocity"};
    adapter *a = self;
    a->up = units[0];
    a->down = units[1];
    for (int p = 0; p < PARAMS; p++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(fsdp, p, &shard));
        a->v[p] = calloc((size_t)tess_shard_count(&shard) + 1, sizeof(float));
        TESS_CHECK(a->v[p] != NULL, TESS_E_NOMEM, "no memory for %s", names[p]);
        a->tensors[p] = (tess_checkpoint_tensor){names[p], TESS_F32, shard.shape, shard.box, a->v[p]};
    }
    return TESS_OK;
}

static tess_status batch(void *self, int64_t index)
{
    make_batch(&((adapter *)self)->c, index);
    return TESS_OK;
}

static tess_status forward(adapter *a, tess_program_loss *loss)
{
    TESS_TRY(tess_unit_pre_forward(a->up));
    forward_up(&a->c, tess_unit_param(a->up, 0), tess_unit_param(a->up, 1));
    TESS_TRY(tess_unit_post_forward(a->up));
    TESS_TRY(tess_unit_pre_forward(a->down));
    *loss = (tess_program_loss){forward_down(&a->c, tess_unit_param(a->down, 0), tess_unit_param(a->down, 1)), ROWS};
    return tess_unit_post_forward(a->down);
}

static tess_status forward_backward(void *self, tess_program_loss *loss)
{
    static float dh[ROWS * HIDDEN];
    adapter *a = self;
    TESS_TRY(forward(a, loss));
    TESS_TRY(tess_unit_pre_backward(a->down));
    backward_down(&a->c, tess_unit_param(a->down, 0), tess_unit_grad(a->down, 0), tess_unit_grad(a->down, 1), dh);
    TESS_TRY(tess_unit_post_backward(a->down));
    TESS_TRY(tess_unit_pre_backward(a->up));
    linear_backward(a->c.x, tess_unit_param(a->up, 0), dh, INPUTS, HIDDEN, NULL, tess_unit_grad(a->up, 0),
                    tess_unit_grad(a->up, 1));
    return tess_unit_post_backward(a->up);
}

static tess_status evaluate(void *self, int64_t index, tess_program_loss *loss)
{
    adapter *a = self;
    if (index >= 0)
        make_batch(&a->c, ((int64_t)1 << 40) + index);
    return forward(a, loss);
}

static tess_status update(void *self, tess_fsdp *fsdp, int64_t step, float lr, float scale)
{
    adapter *a = self;
    (void)step;
    for (int p = 0; p < PARAMS; p++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(fsdp, p, &shard));
        update_elements(&a->c, shard.master, a->v[p], shard.grad, tess_shard_count(&shard), lr, scale);
    }
    a->c.n_updates++;
    return TESS_OK;
}

static int tensors(void *self, const tess_checkpoint_tensor **list)
{
    *list = ((adapter *)self)->tensors;
    return PARAMS;
}

static tess_status save(void *self, char **json)
{
    *json = malloc(64);
    TESS_CHECK(*json != NULL, TESS_E_NOMEM, "no memory for the state of the program");
    snprintf(*json, 64, "{\"n_updates\":%lld}", (long long)((adapter *)self)->c.n_updates);
    return TESS_OK;
}

static tess_status load(void *self, const char *json)
{
    long long n;
    TESS_CHECK(sscanf(json, "{\"n_updates\":%lld}", &n) == 1, TESS_E_FORMAT, "no number of updates in %s", json);
    ((adapter *)self)->c.n_updates = n;
    return TESS_OK;
}

static void show_note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "%s\n", text);
}

static void show_step(void *self, const tess_loop_step *step)
{
    (void)self;
    print_step(step->step, step->loss);
    fflush(stdout);
}

static void show_evaluation(void *self, const tess_loop_evaluation *e)
{
    (void)self;
    print_evaluation(e->step, e->loss);
}

int main(int argc, char **argv)
{
    static adapter a;
    static const tess_param_desc up[] = {{.name = "up.weight", .shape = {2, {HIDDEN, INPUTS}}, .trainable = true},
                                         {.name = "up.bias", .shape = {1, {HIDDEN}}, .trainable = true}},
                                 down[] = {{.name = "down.weight", .shape = {2, {CLASSES, HIDDEN}}, .trainable = true},
                                           {.name = "down.bias", .shape = {1, {CLASSES}}, .trainable = true}};
    static const tess_program_unit units[] = {{"up", up, 2}, {"down", down, 2}};
    static const tess_loop_observer observer = {NULL, show_note, show_step, show_evaluation};
    tess_program program = {.self = &a,
                            .name = "classifier",
                            .units = units,
                            .n_units = 2,
                            .fill = fill,
                            .ready = ready,
                            .forward_backward = forward_backward,
                            .batch = batch,
                            .micro_batches = MICRO_BATCHES,
                            .evaluate = evaluate,
                            .n_evaluations = HELD_OUT,
                            .update = update,
                            .tensors = tensors,
                            .save = save,
                            .load = load};
    char folder[1024], steps[64], interval[64];
    const char *settings[64] = {folder,
                                steps,
                                interval,
                                "optimizer.lr=0.2",
                                "lr_scheduler.decay_type=constant",
                                "lr_scheduler.warmup_steps=0",
                                "training.max_norm=0"};
    int n = 7;
    if (argc < 2)
        return fprintf(stderr, "usage: embed_loop own | FOLDER [section.key=value ...]\n"), 2;
    if (strcmp(argv[1], "own") == 0)
        return own_loop(argc > 2);
    snprintf(folder, sizeof(folder), "job.dump_folder=%s", argv[1]);
    snprintf(steps, sizeof(steps), "training.steps=%d", STEPS);
    snprintf(interval, sizeof(interval), "validation.interval=%d", INTERVAL);
    if (argc > 2 && strcmp(argv[2], "adamw") == 0) {
        static const char *const of_adamw[] = {"optimizer.lr=0.01", "optimizer.beta1=0.9", "optimizer.beta2=0.999",
                                               "optimizer.eps=1e-8", "optimizer.weight_decay=0"};
        program.update = NULL;
        program.tensors = NULL;
        for (int i = 0; i < 5; i++)
            settings[n++] = of_adamw[i];
        argv++, argc--;
    }
    for (int i = 2; i < argc && n < 64; i++)
        settings[n++] = argv[i];
    if (tess_loop_run(&program, NULL, settings, n, &observer, NULL) == TESS_OK)
        return 0;
    return fprintf(stderr, "embed_loop: %s\n", tess_error_message()), 1;
}
