/* Hooks of one's own on the units of fully sharded data parallel: prefetch, clipping unit by unit, freezing, and a
 * check of the order in which units come. Five layers y = tanh(x w^T) in four units: b and c share one.
 *
 *     tessera run -n 4 -- ./embed_hooks        prints the same losses for any -n, to the last bit
 *     ./embed_hooks overhead                   what a hook costs, in nanoseconds */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tessera/comm.h>
#include <tessera/fsdp.h>
#include <tessera/optim.h>

enum { WIDTH = 32, BATCH = 4, MICRO_BATCHES = 4, STEPS = 20, LAYERS = 5, UNITS = 4, FROZEN_STEPS = 10 };

#define TRY(call)                                                                 \
    do {                                                                          \
        if ((call) != TESS_OK)                                                    \
            return fprintf(stderr, "embed_hooks: %s\n", tess_error_message()), 1; \
    } while (0)

/* ---- The hooks ---- */
/* A user's state besides the model: the same hook serves all units. */
typedef struct user_hooks {
    tess_unit *units[UNITS]; /* units in forward order */
    int step;
    bool is_empty;   /* ranks share micro-batches unevenly, and nobody reads the gradients of this one */
    double clip;     /* the largest norm of a unit's gradient of one micro-batch */
    int n_clipped;   /* number of clipped gradients on this rank */
    char order[128]; /* calls of the newest micro-batch: a unit's first letter, then < > [ ] */
    size_t n_order;
} user_hooks;

static tess_status keep_order(user_hooks *user, const tess_unit *unit, tess_unit_moment moment)
{
    TESS_CHECK(user->n_order + 2 < sizeof(user->order), TESS_E_INVALID, "more calls than units have: %s", user->order);
    user->order[user->n_order++] = tess_unit_name(unit)[0];
    user->order[user->n_order++] = "<>[]"[moment];
    user->order[user->n_order] = '\0';
    return TESS_OK;
}

/* The unit behind this one may come while this one computes. */
static tess_status prefetch_next(const user_hooks *user, const tess_unit *unit)
{
    for (int i = 0; i + 1 < UNITS; i++)
        if (user->units[i] == unit)
            return tess_unit_prefetch(user->units[i + 1]);
    return TESS_OK;
}

/* The gradient of one micro-batch, which is a leaf of the step's sum: the same bits on any number of ranks. */
static void clip_unit(user_hooks *user, tess_unit *unit)
{
    double squares = 0;
    for (int p = 0; p < tess_unit_params(unit); p++) {
        const float *grad = tess_unit_grad(unit, p);
        for (int64_t i = 0; grad != NULL && i < tess_unit_count(unit, p); i++)
            squares += (double)grad[i] * (double)grad[i];
    }
    if (!(sqrt(squares) > user->clip))
        return;
    const float scale = (float)(user->clip / sqrt(squares));
    user->n_clipped++;
    for (int p = 0; p < tess_unit_params(unit); p++) {
        float *grad = tess_unit_grad(unit, p);
        for (int64_t i = 0; grad != NULL && i < tess_unit_count(unit, p); i++)
            grad[i] *= scale;
    }
}

/* Frozen for some steps, then not: with no gradient AdamW's moments stay 0, and so does the step that they make. (What
 * never trains has tess_param_desc.trainable false, and takes no memory for gradients.) */
static void freeze_unit(tess_unit *unit)
{
    for (int p = 0; p < tess_unit_params(unit); p++)
        if (tess_unit_grad(unit, p) != NULL)
            memset(tess_unit_grad(unit, p), 0, sizeof(float) * (size_t)tess_unit_count(unit, p));
}

static tess_status on_unit(void *context, tess_unit *unit, tess_unit_moment moment)
{
    user_hooks *user = context;
    if (moment == TESS_BEFORE_FORWARD)
        TESS_TRY(prefetch_next(user, unit));
    if (moment == TESS_AFTER_BACKWARD && user->step <= FROZEN_STEPS && unit == user->units[0])
        freeze_unit(unit);
    else if (moment == TESS_AFTER_BACKWARD && !user->is_empty)
        clip_unit(user, unit);
    return keep_order(user, unit, moment);
}

/* ---- The engine ---- */
/* A number in [-1, 1) that depends on its arguments alone. */
static float noise(unsigned long long stream, unsigned long long index)
{
    unsigned long long x = stream * 0x9e3779b97f4a7c15ull + index * 0xbf58476d1ce4e5b9ull + 1;
    for (int round = 0; round < 3; round++)
        x = (x ^ x >> 31) * 0x94d049bb133111ebull;
    return (float)(x >> 40) / 8388608.0f - 1;
}

static tess_status init_rows(void *context, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    (void)context;
    const int64_t columns = shape->dim[1];
    for (int64_t i = 0; i < box->size[0] * columns; i++)
        dst[i] = noise((unsigned char)name[0], (unsigned long long)(box->begin[0] * columns + i)) /
                 sqrtf((float)columns / 4.0f);
    return TESS_OK;
}

/* A layer's weight: the unit that has it, and where in that. */
typedef struct layer {
    tess_unit *unit;
    int param;
} layer;

static int forward_backward(const layer *layers, const float *x, const float *target, float *loss)
{
    static float a[LAYERS + 1][BATCH * WIDTH], da[BATCH * WIDTH], dx[BATCH * WIDTH];
    memcpy(a[0], x, sizeof(a[0]));
    for (int l = 0; l < LAYERS; l++) {
        TRY(tess_unit_pre_forward(layers[l].unit));
        const float *w = tess_unit_param(layers[l].unit, layers[l].param);
        for (int n = 0; n < BATCH * WIDTH; n++) {
            float sum = 0;
            for (int i = 0; i < WIDTH; i++)
                sum += a[l][n / WIDTH * WIDTH + i] * w[n % WIDTH * WIDTH + i];
            a[l + 1][n] = tanhf(sum);
        }
        TRY(tess_unit_post_forward(layers[l].unit));
    }
    *loss = 0;
    for (int n = 0; n < BATCH * WIDTH; n++) {
        da[n] = 2 * (a[LAYERS][n] - target[n]);
        *loss += (a[LAYERS][n] - target[n]) * (a[LAYERS][n] - target[n]);
    }
    for (int l = LAYERS - 1; l >= 0; l--) {
        TRY(tess_unit_pre_backward(layers[l].unit));
        const float *w = tess_unit_param(layers[l].unit, layers[l].param);
        float *dw = tess_unit_grad(layers[l].unit, layers[l].param);
        memset(dx, 0, sizeof(dx));
        for (int i = 0; i < WIDTH * WIDTH; i++)
            dw[i] = 0;
        for (int n = 0; n < BATCH * WIDTH; n++) {
            const float d = da[n] * (1 - a[l + 1][n] * a[l + 1][n]);
            for (int i = 0; i < WIDTH; i++) {
                dw[n % WIDTH * WIDTH + i] += d * a[l][n / WIDTH * WIDTH + i];
                dx[n / WIDTH * WIDTH + i] += d * w[n % WIDTH * WIDTH + i];
            }
        }
        memcpy(da, dx, sizeof(da));
        TRY(tess_unit_post_backward(layers[l].unit));
    }
    return 0;
}

/* Layers to units: b and c are of one kind. */
static int add_units(tess_fsdp *fsdp, tess_unit **units, layer *layers)
{
    static const char *const names[LAYERS] = {"a", "b", "c", "d", "e"};
    static const tess_unit_block blocks[LAYERS] = {
        {0, WIDTH * WIDTH}, {1, WIDTH * WIDTH}, {1, WIDTH * WIDTH}, {2, WIDTH * WIDTH}, {3, WIDTH * WIDTH}};
    int unit_of[LAYERS];
    const int n = tess_unit_policy_deal(&(tess_unit_policy){.min_blocks = 2}, blocks, LAYERS, unit_of);
    for (int u = 0, first = 0, end; u < n; u++, first = end) {
        tess_param_desc descs[LAYERS];
        for (end = first; end < LAYERS && unit_of[end] == u; end++)
            descs[end - first] = (tess_param_desc){.name = names[end], .shape = {2, {WIDTH, WIDTH}}, .trainable = true};
        TRY(tess_fsdp_add_unit(fsdp, names[first], descs, end - first, &units[u]));
        TRY(tess_unit_set_blocks(units[u], end - first));
        for (int l = first; l < end; l++)
            layers[l] = (layer){units[u], l - first};
    }
    return n == UNITS ? 0 : 1;
}

/* ---- The cost of a hook ---- */
static tess_status nothing(void *context, tess_unit *unit, tess_unit_moment moment)
{
    (void)context, (void)unit, (void)moment;
    return TESS_OK;
}

/* Seconds of a pre_forward and a post_forward of a unit that is there. */
static int time_hooks(tess_unit *unit, double *seconds)
{
    enum { TIMES = 2000000 };
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < TIMES; i++) {
        TRY(tess_unit_pre_forward(unit));
        TRY(tess_unit_post_forward(unit));
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    *seconds = ((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec)) / TIMES;
    return 0;
}

static int measure(tess_fsdp *fsdp, tess_unit *unit)
{
    double without, with;
    if (time_hooks(unit, &without) != 0)
        return 1;
    TRY(tess_fsdp_add_hook(fsdp, nothing, NULL));
    if (time_hooks(unit, &with) != 0)
        return 1;
    printf("a unit's two forward calls: %.1f ns; each of two empty hooks in them adds %.1f ns\n", 1e9 * without,
           1e9 * (with - without) / 2);
    return 0;
}

/* ---- Training ---- */
static int train(tess_runtime *runtime, tess_fsdp *fsdp, const layer *layers, user_hooks *user)
{
    static const char order[] = "a<a>b<b>b<b>d<d>e<e>e[e]d[d]b[b]a[a]";
    static float x[BATCH * WIDTH], target[BATCH * WIDTH], local[MICRO_BATCHES];
    const int rank = tess_runtime_rank(runtime), world = tess_runtime_world(runtime);
    int n_local;
    tess_optimizer *adamw;
    float *losses = malloc(sizeof(float) * (size_t)(MICRO_BATCHES + world));
    if (losses == NULL)
        return fprintf(stderr, "embed_hooks: no memory\n"), 1;
    TRY(tess_fsdp_optimizer_create(fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f},
                                   &adamw));
    for (user->step = 1; user->step <= STEPS; user->step++) {
        TRY(tess_fsdp_step_begin_shared(fsdp, MICRO_BATCHES, &n_local));
        for (int s = 0; s < n_local; s++) {
            user->is_empty = s * world + rank >= MICRO_BATCHES;
            for (int n = 0; n < BATCH * WIDTH; n++)
                x[n] = noise(1000 + (unsigned)(s * world + rank), (unsigned)n);
            for (int n = 0; n < BATCH * WIDTH; n++)
                target[n] = 0.5f * sinf(3 * x[n / WIDTH * WIDTH + (n * 7) % WIDTH]);
            TRY(tess_fsdp_micro_begin(fsdp, s));
            user->n_order = 0;
            if (forward_backward(layers, x, target, &local[s]) != 0)
                return 1;
            if (strcmp(user->order, order) != 0)
                return fprintf(stderr, "embed_hooks: units came as %s, not %s\n", user->order, order), 1;
        }
        TRY(tess_fsdp_step_end(fsdp));
        TRY(tess_fsdp_optimizer_step(fsdp, adamw, user->step, 3e-3f, 1.0f / (MICRO_BATCHES * BATCH * WIDTH)));
        TRY(tess_all_gather(tess_runtime_team(runtime), local, losses, (size_t)n_local, TESS_F32, NULL));
        float loss = 0;
        for (int i = 0; i < MICRO_BATCHES; i++)
            loss += losses[i % world * n_local + i / world];
        tess_shard first;
        TRY(tess_fsdp_shard(fsdp, 0, &first));
        if (rank == 0 && user->step % 5 == 0)
            printf("Step %d, Loss: %.9g, first weight: %.9g\n", user->step,
                   (double)loss / (MICRO_BATCHES * BATCH * WIDTH), (double)first.master[0]);
    }
    int64_t clipped = user->n_clipped;
    TRY(tess_all_reduce(tess_runtime_team(runtime), &clipped, &clipped, 1, TESS_I64, TESS_SUM, NULL));
    if (rank == 0)
        printf("clipped: %lld\n", (long long)clipped);
    free(losses);
    tess_optimizer_destroy(&adamw);
    return 0;
}

int main(int argc, char **argv)
{
    tess_runtime *runtime;
    tess_mesh *mesh;
    tess_fsdp *fsdp;
    layer layers[LAYERS];
    user_hooks user = {.clip = 20};
    TRY(tess_runtime_create(NULL, &runtime));
    TRY(tess_mesh_create(runtime, &(tess_axis){"dp_shard", -1}, 1, &mesh));
    TRY(tess_fsdp_create(mesh,
                         &(tess_fsdp_policy){.strategy = TESS_STRATEGY_FULL,
                                             .param_dtype = TESS_F32,
                                             .reduce_dtype = TESS_F32,
                                             .reshard_after_forward = 1,
                                             .prefetch = 0},
                         &fsdp));
    if (add_units(fsdp, user.units, layers) != 0)
        return 1;
    TRY(tess_fsdp_materialize(fsdp, init_rows, NULL));
    int code = 0;
    if (argc > 1 && strcmp(argv[1], "overhead") == 0) {
        code = measure(fsdp, user.units[0]);
    } else {
        TRY(tess_fsdp_add_hook(fsdp, on_unit, &user));
        code = train(runtime, fsdp, layers, &user);
    }
    tess_fsdp_destroy(&fsdp);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&runtime);
    return code;
}
