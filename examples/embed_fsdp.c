/* Fully sharded data parallel under layers of one's own: Linear - ReLU - Linear, trained with AdamW through the public
 * API only. The forward and backward loops below know nothing of ranks; Tessera gathers the weights that they read and
 * adds the gradients that they write.
 *
 *     tessera run -n 4 -- ./embed_fsdp        prints the same losses for any -n, to the last bit */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera/comm.h>
#include <tessera/fsdp.h>
#include <tessera/optim.h>

enum { WIDTH = 128, BATCH = 8, MICRO_BATCHES = 8, STEPS = 100 };

#define TRY(call)                                                                \
    do {                                                                         \
        if ((call) != TESS_OK)                                                   \
            return fprintf(stderr, "embed_fsdp: %s\n", tess_error_message()), 1; \
    } while (0)

/* A number in [-1, 1) that depends on its arguments alone. */
static float noise(unsigned long long stream, unsigned long long index)
{
    unsigned long long x = stream * 0x9e3779b97f4a7c15ull + index * 0xbf58476d1ce4e5b9ull + 1;
    for (int round = 0; round < 3; round++)
        x = (x ^ x >> 31) * 0x94d049bb133111ebull;
    return (float)(x >> 40) / 8388608.0f - 1;
}

/* Tessera asks for the rows that this rank owns: no rank ever holds the whole model. */
static tess_status init_rows(void *context, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    (void)context;
    const bool bias = shape->n_dims == 1;
    const int64_t columns = bias ? 1 : shape->dim[1];
    for (int64_t i = 0; i < box->size[0] * columns; i++)
        dst[i] = bias ? 0
                      : noise((unsigned char)name[0], (unsigned long long)(box->begin[0] * columns + i)) /
                            sqrtf((float)columns / 3.0f);
    return TESS_OK;
}

/* y = x w^T + b, and its gradients. */
static void linear(const float *x, const float *w, const float *b, float *y)
{
    for (int t = 0; t < BATCH; t++)
        for (int o = 0; o < WIDTH; o++) {
            float sum = b[o];
            for (int i = 0; i < WIDTH; i++)
                sum += x[t * WIDTH + i] * w[o * WIDTH + i];
            y[t * WIDTH + o] = sum;
        }
}

static void linear_backward(const float *x, const float *w, const float *dy, float *dx, float *dw, float *db)
{
    memset(dw, 0, sizeof(float) * WIDTH * WIDTH);
    memset(db, 0, sizeof(float) * WIDTH);
    memset(dx, 0, sizeof(float) * BATCH * WIDTH);
    for (int t = 0; t < BATCH; t++)
        for (int o = 0; o < WIDTH; o++) {
            float d = dy[t * WIDTH + o];
            db[o] += d;
            for (int i = 0; i < WIDTH; i++) {
                dw[o * WIDTH + i] += d * x[t * WIDTH + i];
                dx[t * WIDTH + i] += d * w[o * WIDTH + i];
            }
        }
}

/* One micro-batch: the hooks stand around the use of each unit. */
static int forward_backward(tess_unit *up, tess_unit *down, const float *x, const float *target, float *loss)
{
    static float h[BATCH * WIDTH], a[BATCH * WIDTH], y[BATCH * WIDTH], dy[BATCH * WIDTH], da[BATCH * WIDTH],
        dx[BATCH * WIDTH];
    TRY(tess_unit_pre_forward(up));
    linear(x, tess_unit_param(up, 0), tess_unit_param(up, 1), h);
    TRY(tess_unit_post_forward(up));
    for (int n = 0; n < BATCH * WIDTH; n++)
        a[n] = h[n] > 0 ? h[n] : 0;
    TRY(tess_unit_pre_forward(down));
    linear(a, tess_unit_param(down, 0), tess_unit_param(down, 1), y);
    TRY(tess_unit_post_forward(down));

    *loss = 0;
    for (int n = 0; n < BATCH * WIDTH; n++) {
        dy[n] = 2 * (y[n] - target[n]); /* gradient of the summed square error; the optimizer divides once */
        *loss += (y[n] - target[n]) * (y[n] - target[n]);
    }
    TRY(tess_unit_pre_backward(down));
    linear_backward(a, tess_unit_param(down, 0), dy, da, tess_unit_grad(down, 0), tess_unit_grad(down, 1));
    TRY(tess_unit_post_backward(down));
    for (int n = 0; n < BATCH * WIDTH; n++)
        da[n] = h[n] > 0 ? da[n] : 0;
    TRY(tess_unit_pre_backward(up));
    linear_backward(x, tess_unit_param(up, 0), da, dx, tess_unit_grad(up, 0), tess_unit_grad(up, 1));
    TRY(tess_unit_post_backward(up));
    return 0;
}

int main(void)
{
    static float x[BATCH * WIDTH], target[BATCH * WIDTH], local[MICRO_BATCHES];
    tess_runtime *runtime;
    tess_mesh *mesh;
    tess_fsdp *fsdp;
    tess_unit *up, *down;
    tess_optimizer *adamw;
    TRY(tess_runtime_create(NULL, &runtime));
    int rank = tess_runtime_rank(runtime), world = tess_runtime_world(runtime), n_local;
    float *losses = malloc(sizeof(float) * (size_t)(MICRO_BATCHES + world));
    if (losses == NULL)
        return fprintf(stderr, "embed_fsdp: no memory\n"), 1;
    TRY(tess_mesh_create(runtime, &(tess_axis){"dp_shard", -1}, 1, &mesh));
    const tess_fsdp_policy policy = {.strategy = TESS_STRATEGY_FULL, .reshard_after_forward = 1, .prefetch = 1};
    TRY(tess_fsdp_create(mesh, &policy, &fsdp));
    const tess_shape square = {2, {WIDTH, WIDTH}}, row = {1, {WIDTH}};
    const tess_param_desc layers[2][2] = {
        {{.name = "up.weight", .shape = square, .trainable = true, .decay = true, .hidden = true},
         {.name = "up.bias", .shape = row, .trainable = true}},
        {{.name = "dn.weight", .shape = square, .trainable = true, .decay = true, .hidden = true},
         {.name = "dn.bias", .shape = row, .trainable = true}}};
    TRY(tess_fsdp_add_unit(fsdp, "up", layers[0], 2, &up));
    TRY(tess_fsdp_add_unit(fsdp, "down", layers[1], 2, &down));
    TRY(tess_fsdp_materialize(fsdp, init_rows, NULL));
    TRY(tess_fsdp_optimizer_create(
        fsdp, &(tess_optimizer_options){.beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.01f}, &adamw));

    for (int step = 1; step <= STEPS; step++) {
        TRY(tess_fsdp_step_begin_shared(fsdp, MICRO_BATCHES, &n_local));
        for (int s = 0; s < n_local; s++) {
            /* Numbers from MICRO_BATCHES on belong to empty micro-batches, whose losses and gradients nobody reads. */
            int micro = s * world + rank;
            for (int n = 0; n < BATCH * WIDTH; n++)
                x[n] = noise(1000 + (unsigned)micro, (unsigned)n);
            for (int n = 0; n < BATCH * WIDTH; n++)
                target[n] = sinf(3 * x[n / WIDTH * WIDTH + (n * 7) % WIDTH]);
            TRY(tess_fsdp_micro_begin(fsdp, s));
            if (forward_backward(up, down, x, target, &local[s]) != 0)
                return 1;
        }
        TRY(tess_fsdp_step_end(fsdp));
        TRY(tess_fsdp_optimizer_step(fsdp, adamw, step, 1e-3f, 1.0f / (MICRO_BATCHES * BATCH * WIDTH)));
        TRY(tess_all_gather(tess_runtime_team(runtime), local, losses, (size_t)n_local, TESS_F32, NULL));
        float loss = 0;
        for (int i = 0; i < MICRO_BATCHES; i++) /* this order gives the same sum on any number of ranks */
            loss += losses[i % world * n_local + i / world];
        if (rank == 0 && step % 10 == 0)
            printf("Step %d, Loss: %.9g\n", step, (double)loss / (MICRO_BATCHES * BATCH * WIDTH));
    }
    free(losses);
    tess_optimizer_destroy(&adamw);
    tess_fsdp_destroy(&fsdp);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&runtime);
    return 0;
}
