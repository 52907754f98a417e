/* The embedding, forward and backward. Ranks that share the tables each have some columns. So the look-up and the
 * gradients of the tables need no communication; ranks only exchange rows of the stream. Each of t ranks receives T
 * C (t - 1) / t elements per micro-batch, in forward. */
#include "device/bf16.h"
#include "nn/layers/model_ends.h"
#include "nn/layers/layers.h"

/* The factor that transformers uses: it is a tensor of the compute dtype, except with float32. */
static float factor_of(const tess_layer_call *c)
{
    const tess_embedding_params *p = c->own;
    float rounded = p->factor;
    tess_put_float(&rounded, p->rounds ? c->dtype : TESS_F32, 0, p->factor);
    return tess_get_float(&rounded, p->rounds ? c->dtype : TESS_F32, 0);
}

static tess_status forward(const tess_layer_call *c, const tess_tensors *t, const void *before, unsigned groups)
{
    const tess_embedding_params *p = c->own;
    bool split = tess_is_split(c, p->channels);
    void *out = split ? c->split.slice : t->in;
    (void)before, (void)groups;
    TESS_TRY(c->kernels->embedding_forward(
        c->stream, &(tess_embedding_args){.table = c->w[c->block->table],
                                          .positions = p->positions >= 0 ? c->w[p->positions] : NULL,
                                          .ids = c->inputs[TESS_INPUT_IDS],
                                          .pos = c->inputs[TESS_INPUT_POSITIONS],
                                          .out = out,
                                          .T = c->T,
                                          .C = c->block->width,
                                          .factor = factor_of(c),
                                          .dtype = c->dtype}));
    if (split)
        TESS_TRY(tess_stream_from_columns(c, p->channels, out, t->in));
    tess_layer_show(c, "output", t->in, c->block->hidden_size);
    return TESS_OK;
}

static tess_status backward(const tess_layer_call *c, const tess_tensors *t, bool inputs, bool want_din)
{
    const tess_embedding_params *p = c->own;
    const tess_model_config *m = c->config;
    bool tied = p->tied; /* tied: the head has already written its part of the gradient, so this part is added */
    const void *dout = t->dout;
    (void)inputs, (void)want_din;
    if (tess_is_split(c, p->channels)) {
        TESS_TRY(tess_stream_to_columns(c, p->channels, t->dout, c->split.slice));
        dout = c->split.slice;
    }
    if (tess_wants(c, c->block->table))
        TESS_TRY(tess_embedding_sums(c,
                                     &(tess_embedding_grad_args){.ids = c->inputs[TESS_INPUT_IDS],
                                                                 .dout = dout,
                                                                 .dtable = c->dw[c->block->table],
                                                                 .rows = m->vocab_size,
                                                                 .T = c->T,
                                                                 .C = c->block->width,
                                                                 .accumulate = tied,
                                                                 .factor = factor_of(c),
                                                                 .dtype = c->dtype},
                                     tied ? c->leaf_tables : NULL));
    if (tess_wants(c, p->positions))
        TESS_TRY(tess_embedding_sums(c,
                                     &(tess_embedding_grad_args){.ids = c->inputs[TESS_INPUT_POSITIONS],
                                                                 .dout = dout,
                                                                 .dtable = c->dw[p->positions],
                                                                 .rows = m->max_position,
                                                                 .T = c->T,
                                                                 .C = c->block->width,
                                                                 .dtype = c->dtype},
                                     NULL));
    return TESS_OK;
}

const tess_part tess_embedding_part = {
    .name = "embedding",
    .source = true,
    .own_bytes = sizeof(tess_embedding_params),
    .forward = forward,
    .backward = backward,
};
