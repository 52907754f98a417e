/* The head: final logits, their loss and its gradient, a chunk of rows at a time.
 *
 * Ranks that share the head each have some columns of its table (V, C). Logits are sums over the columns. So once
 * per micro-batch each rank gathers the whole rows of its share of V. For every chunk it then receives the whole
 * logits of some rows, and computes their loss. The gradients of the logits are gathered on every rank: each
 * computes its own columns of dy and dW from them, without any sum over an index that is cut.
 *
 * Ranks exchange the rows of a chunk in pieces. A device's chunks may be gigabytes, and the memory for exchanges need
 * not be.
 *
 * Each of t ranks receives per micro-batch (t - 1) / t of: V C / t elements (the weight), T V / t floats (logits;
 * twice for a loss of whole micro-batches), T V elements (their gradients) and T C elements (dy, if it is wanted). */
#include <string.h>

#include "device/device.h"
#include "nn/layers/model_ends.h"
#include "nn/layers/layers.h"

int64_t tess_head_chunk(int64_t vocab_size, size_t logit_bytes)
{
    const size_t row_bytes = (size_t)tess_head_row(vocab_size) * sizeof(float);
    int64_t rows = vocab_size <= 16384 ? 1024 : vocab_size <= 65536 ? 512 : 256;
    while (logit_bytes / row_bytes / 2 >= (size_t)rows)
        rows *= 2;
    return rows;
}

int64_t tess_head_row(int64_t vocab_size)
{
    return (vocab_size + 31) / 32 * 32;
}

static const tess_linear *head_of(const tess_layer_call *c)
{
    const tess_head_params *p = c->own;
    return &p->head;
}

/* The call, restricted to one chunk of rows of one leaf from `begin` on. */
static tess_layer_call chunk_of(const tess_layer_call *c, int64_t begin)
{
    tess_layer_call part = *c;
    const int64_t chunk = tess_head_chunk(head_of(c)->n_out, c->logit_bytes), tokens = c->T / c->n_leaves;
    const int64_t left = tokens > 0 ? tokens - begin % tokens : 0;
    part.T = left < chunk ? left : chunk;
    part.n_leaves = 1;
    part.states_leaf = false; /* a chunk may be less than a leaf */
    return part;
}

/* The call for the rows of a chunk from `at` on that ranks exchange at the same time. One rank takes the whole chunk.
 */
static tess_layer_call piece_of(const tess_layer_call *part, int64_t at)
{
    tess_layer_call piece = *part;
    const tess_linear *head = head_of(part);
    const int64_t most = tess_is_split(part, head->in) ? tess_head_chunk(head->n_out, 0) : part->T;
    piece.T = part->T - at < most ? part->T - at : most;
    return piece;
}

/* How ranks cut the rows of a piece: each computes the loss of its own rows. */
static tess_cut rows_of(const tess_layer_call *part)
{
    return (tess_cut){part->T, tess_is_split(part, head_of(part)->in) ? 1 : 0};
}

/* The loss kernel's arguments for this rank's rows of a piece, which begins at row `begin` of the micro-batch and has
 * its logits at `logits`. Adds the number of this rank's first row in the piece to *begin. */
static tess_cross_entropy own_rows(const tess_layer_call *piece, const float *logits, int64_t *begin,
                                   float inv_temperature, float *logprob)
{
    const tess_head_params *p = piece->own;
    int64_t V = p->head.n_out, first, n;
    tess_own_range(piece, rows_of(piece), &first, &n);
    *begin += first;
    return (tess_cross_entropy){.n = n,
                                .V = V,
                                .logits = logits + first * tess_head_row(V),
                                .ld = tess_head_row(V),
                                .targets = piece->inputs[TESS_INPUT_TARGETS] + *begin,
                                .inv_temperature = inv_temperature,
                                .factor = p->factor,
                                .soft_cap = p->soft_cap,
                                .logprob = logprob + *begin,
                                .dtype = piece->dtype};
}

/* Gathers the rows of a piece on every rank. Each rank's own rows are already in place. */
static tess_status gather_rows(const tess_layer_call *part, void *rows, int64_t width, int64_t ld, size_t element)
{
    int64_t first, n;
    tess_cut columns = {width, 0};
    if (rows == NULL || rows_of(part).unit == 0)
        return TESS_OK;
    tess_own_range(part, rows_of(part), &first, &n);
    return tess_meet(part, "rows", element,
                     (tess_matrix_box){rows_of(part), columns, (char *)rows + (size_t)(first * ld) * element, ld},
                     (tess_matrix_box){{part->T, 0}, columns, rows, ld});
}

/* Gathers the whole rows of this rank's share of the vocabulary. One call serves all logits of a micro-batch. */
static tess_status gather_weight(const tess_layer_call *c, const tess_head_tensors *work)
{
    const tess_linear *head = head_of(c);
    if (!tess_is_split(c, head->in))
        return TESS_OK;
    return tess_meet(c, "head", tess_dtype_size(c->dtype),
                     (tess_matrix_box){head->out, head->in, c->w[head->weight], head->ld},
                     (tess_matrix_box){{head->n_out, 1}, {head->in.size, 0}, work->own_weight, head->in.size});
}

/* y (T, C) -> logits (T, V), rows `ld` elements apart. Each rank receives all rows, or its own rows of each piece. */
static tess_status project(const tess_layer_call *c, const tess_head_tensors *work, const void *y, bool all_rows,
                           float *logits, int64_t ld)
{
    tess_linear head = *head_of(c);
    if (!tess_is_split(c, head.in)) {
        head.out_stride = ld;
        return tess_linear_own_forward(c, &head, y, logits, TESS_F32);
    }
    tess_cut vocabulary = {head.n_out, 1};
    int64_t begin, n, C = head.in.size;
    tess_linear own = {.weight = 0, .bias = -1, .n_in = C, .ld = C};
    tess_own_range(c, vocabulary, &begin, &own.n_out);
    const void *weight = work->own_weight;
    tess_layer_call call = *c;
    call.w = &weight;
    TESS_TRY(tess_linear_own_forward(&call, &own, y, work->own_logits, TESS_F32));
    int64_t at = 0;
    do { /* once even without tokens, because other ranks may have some */
        const tess_layer_call piece = piece_of(c, at);
        const tess_cut rows = {piece.T, all_rows ? 0 : 1};
        tess_own_range(c, rows, &begin, &n);
        TESS_TRY(tess_meet(c, "logits", sizeof(float),
                           (tess_matrix_box){{piece.T, 0}, vocabulary, work->own_logits + at * own.n_out, own.n_out},
                           (tess_matrix_box){rows, {vocabulary.size, 0}, logits + (at + begin) * ld, ld}));
        at += piece.T;
    } while (at < c->T);
    return TESS_OK;
}

/* Applies the factor and the soft cap, as the loss does to its rows. */
static tess_status show_logits(const tess_layer_call *c, float *logits)
{
    const tess_head_params *p = c->own;
    if (p->factor == 0 && p->soft_cap == 0)
        return TESS_OK;
    return c->kernels->scale(c->stream, &(tess_scale_args){.x = logits,
                                                           .factor = p->factor != 0 ? p->factor : 1,
                                                           .soft_cap = p->soft_cap,
                                                           .y = logits,
                                                           .n = c->T * p->head.n_out,
                                                           .dtype = TESS_F32});
}

tess_status tess_head_logits(const tess_layer_call *c, const tess_head_tensors *work, const void *y, float *logits)
{
    const tess_linear *head = head_of(c);
    if (!tess_is_split(c, head->in)) {
        TESS_TRY(tess_linear_own_forward(c, head, y, logits, TESS_F32));
        return show_logits(c, logits);
    }
    TESS_TRY(gather_weight(c, work));
    for (int64_t begin = 0; begin < c->T;) {
        tess_layer_call part = chunk_of(c, begin);
        TESS_TRY(project(&part, work, tess_at(c, y, begin * head->in.size), true, logits + begin * head->n_out,
                         head->n_out));
        begin += part.T;
    }
    return show_logits(c, logits);
}

/* Computes log-probabilities and entropies (NULL: not wanted) of a chunk from its logits. */
static tess_status score_rows(const tess_layer_call *part, const tess_head_tensors *work, int64_t begin,
                              float inv_temperature, float *logprob, float *entropy)
{
    const int64_t row = tess_head_row(head_of(part)->n_out);
    int64_t at = 0;
    do {
        const tess_layer_call piece = piece_of(part, at);
        int64_t own = begin + at;
        tess_cross_entropy rows = own_rows(&piece, work->logits + at * row, &own, inv_temperature, logprob);
        rows.entropy = entropy != NULL ? entropy + own : NULL;
        TESS_TRY(part->kernels->cross_entropy(part->stream, &rows));
        TESS_TRY(gather_rows(&piece, logprob + begin + at, 1, 1, sizeof(float)));
        TESS_TRY(gather_rows(&piece, entropy != NULL ? entropy + begin + at : NULL, 1, 1, sizeof(float)));
        at += piece.T;
    } while (at < part->T);
    return TESS_OK;
}

/* Computes log-probabilities and entropies of a micro-batch. The weight must have been gathered. */
static tess_status score(const tess_layer_call *c, const tess_head_tensors *work, const void *y, float inv_temperature,
                         float *logprob, float *entropy)
{
    const tess_linear *head = head_of(c);
    for (int64_t begin = 0; begin < c->T;) {
        tess_layer_call part = chunk_of(c, begin);
        TESS_TRY(project(&part, work, tess_at(c, y, begin * head->in.size), false, work->logits,
                         tess_head_row(head->n_out)));
        TESS_TRY(score_rows(&part, work, begin, inv_temperature, logprob, entropy));
        begin += part.T;
    }
    return TESS_OK;
}

tess_status tess_head_forward(const tess_layer_call *c, const tess_head_tensors *work, const void *y,
                              float inv_temperature, float *logprob, float *entropy)
{
    TESS_TRY(gather_weight(c, work));
    return score(c, work, y, inv_temperature, logprob, entropy);
}

/* Calls the loss for n rows from `begin` on, with logprob (T) and work->entropy. Writes its derivatives to
 * work->dlogprob and work->dentropy. */
static tess_status grade(const tess_layer_call *c, const tess_token_loss *loss, const tess_head_tensors *work,
                         int64_t begin, int64_t n, const float *logprob)
{
    size_t bytes = (size_t)n * sizeof(float);
    float *shown[2] = {c->graded, c->graded + n}, *said[2] = {c->graded + 2 * n, c->graded + 3 * n};
    if (n == 0)
        return TESS_OK;
    TESS_TRY(tess_fetch(c->stream, shown[0], logprob + begin, bytes));
    TESS_TRY(tess_fetch(c->stream, shown[1], work->entropy + begin, bytes));
    memset(said[0], 0, 2 * bytes);
    TESS_TRY_CTX(loss->grade(loss->self, begin, n, shown[0], shown[1], said[0], said[1]),
                 "token loss: rows %lld to %lld", (long long)begin, (long long)(begin + n - 1));
    TESS_TRY(tess_upload(c->stream, work->dlogprob + begin, said[0], bytes));
    return tess_upload(c->stream, work->dentropy + begin, said[1], bytes);
}

/* Overwrites a chunk's logits with their gradient. A loss that grades chunk by chunk is called here, with logprob
 * and entropy. */
static tess_status train_rows(const tess_layer_call *part, const tess_token_loss *loss, const tess_head_tensors *work,
                              int64_t begin, int64_t ldd, float *logprob)
{
    const float inv_temperature = loss != NULL ? loss->inv_temperature : 1;
    const int64_t V = head_of(part)->n_out, row = tess_head_row(V);
    if (loss != NULL && !loss->whole) {
        TESS_TRY(score_rows(part, work, begin, inv_temperature, logprob, work->entropy));
        TESS_TRY(grade(part, loss, work, begin, part->T, logprob));
    }
    int64_t at = 0;
    do {
        const tess_layer_call piece = piece_of(part, at);
        float *logits = work->logits + at * row;
        int64_t own = begin + at;
        tess_cross_entropy rows = own_rows(&piece, logits, &own, inv_temperature, logprob);
        rows.dlogprob = loss != NULL ? work->dlogprob + own : NULL;
        rows.dentropy = loss != NULL ? work->dentropy + own : NULL;
        rows.dlogits = tess_at(part, logits, (own - begin - at) * ldd);
        rows.ldd = ldd;
        TESS_TRY(part->kernels->cross_entropy(part->stream, &rows));
        if (loss == NULL)
            TESS_TRY(gather_rows(&piece, logprob + begin + at, 1, 1, sizeof(float)));
        TESS_TRY(gather_rows(&piece, logits, V, ldd, tess_dtype_size(part->dtype)));
        at += piece.T;
    } while (at < part->T);
    return TESS_OK;
}

/* Computes the weight's gradient (NULL: not wanted) from a chunk's y and dlogits, then overwrites y with dy, if
 * wanted. */
static tess_status backward_rows(const tess_layer_call *part, const tess_linear *head, const void *dlogits, void *y,
                                 float *dweight, bool accumulate, bool want_dy)
{
    bool split = tess_is_split(part, head->in);
    void *own = split ? part->split.slice : y;
    tess_layer_call of_leaf = *part;
    tess_linear map = *head;
    of_leaf.dw = &dweight;
    map.weight = 0;
    map.bias = -1; /* maps to logits have none */
    if (split)
        TESS_TRY(tess_split_own(part, head->in, y, own));
    TESS_TRY(tess_linear_own_backward_params(&of_leaf, &map, own, dlogits, accumulate));
    if (!want_dy)
        return TESS_OK;
    TESS_TRY(tess_linear_own_backward_input(part, head, dlogits, own));
    return split ? tess_split_gather(part, head->in, tess_dtype_size(part->dtype), own, y, head->in.size) : TESS_OK;
}

/* Trains the rows of a leaf, and writes its part of the weight's gradient to dweight. */
static tess_status train_leaf(const tess_layer_call *c, const tess_token_loss *loss, const tess_head_tensors *work,
                              const tess_linear *head, int leaf, void *y, float *dweight, bool want_dy, float *logprob)
{
    const int64_t tokens = c->T / c->n_leaves, first = leaf * tokens, row = tess_head_row(head->n_out);
    int64_t begin = first;
    do { /* once even without tokens: the gradient buffer must be written */
        tess_layer_call part = chunk_of(c, begin);
        void *rows = tess_at(c, y, begin * head->in.size);
        TESS_TRY(project(&part, work, rows, false, work->logits, row));
        TESS_TRY(train_rows(&part, loss, work, begin, head->out_stride, logprob));
        TESS_TRY(backward_rows(&part, head, work->logits, rows, dweight, begin > first, want_dy));
        begin += part.T;
    } while (begin < first + tokens);
    return TESS_OK;
}

tess_status tess_head_train(const tess_layer_call *c, const tess_token_loss *loss, const tess_head_tensors *work,
                            void *y, bool want_dy, float *logprob)
{
    tess_linear head = *head_of(c);
    const tess_leaf_sum dweight = {c->dw[head.weight], c->leaf_room, c->leaf_tables, head.n_out * head.n_in};
    int64_t row = tess_head_row(head.n_out);
    head.out_stride =
        row * (int64_t)(sizeof(float) / tess_dtype_size(c->dtype)); /* stride of dlogits, which overwrite the logits */
    TESS_TRY(gather_weight(c, work));
    if (loss != NULL && loss->whole) {
        TESS_TRY(score(c, work, y, loss->inv_temperature, logprob, work->entropy));
        TESS_TRY(grade(c, loss, work, 0, c->T, logprob));
    }
    for (int leaf = 0; leaf < c->n_leaves; leaf++) {
        TESS_TRY(train_leaf(c, loss, work, &head, leaf, y, tess_leaf_begin(c, &dweight, leaf), want_dy, logprob));
        TESS_TRY(tess_leaf_end(c, &dweight, leaf));
    }
    return TESS_OK;
}
