#include "nn/layers/layers.h"

tess_status tess_embedding_forward(const tess_layer_call *c, void *h)
{
    const tess_block *p = c->block;
    int64_t C = c->config->hidden_size;
    TESS_TRY(c->kernels->embedding_forward(c->stream, c->w[p->table], p->positions >= 0 ? c->w[p->positions] : NULL,
                                           c->values.ids, c->values.pos, h, c->T, C, c->dtype));
    tess_layer_show(c, "output", h, C);
    return TESS_OK;
}

tess_status tess_embedding_backward(const tess_layer_call *c, const void *dh)
{
    const tess_block *p = c->block;
    const tess_model_config *m = c->config;
    bool tied = p->tied; /* then the head has written its part, and this is added */
    if (tess_wants(c, p->table))
        TESS_TRY(c->kernels->embedding_backward(c->stream, c->values.ids, dh, c->dw[p->table], m->vocab_size, c->T,
                                                m->hidden_size, tied, c->dtype));
    if (tess_wants(c, p->positions))
        TESS_TRY(c->kernels->embedding_backward(c->stream, c->values.pos, dh, c->dw[p->positions], m->max_position,
                                                c->T, m->hidden_size, false, c->dtype));
    return TESS_OK;
}
