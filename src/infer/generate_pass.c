/* Runs the forward of one planned pass, and handles its results: log-probabilities of prompts, new tokens, ends of
 * texts. */
#include <math.h>
#include <string.h>

#include "device/device.h"
#include "infer/generate_impl.h"
#include "nn/bad_tensor.h"

/* ---- The forward ---- */
/* Fills in n of a text's rows, from its next token number `first` on. The targets of a prompt are its own next tokens.
 * Returns whether there are any. */
static bool fill_text(tess_generator *g, text *t, int64_t at, int64_t first, int64_t n)
{
    const sequence *s = t->of == NULL ? tess_sequence_of(t) : NULL;
    bool scores = s != NULL && s->request.want_prompt_logprobs, any = false;
    for (int64_t i = 0; i < n; i++) {
        int64_t position = t->table.length + first + i, next = position + 1;
        bool scored = scores && next < s->request.n && next >= s->reported;
        g->ids[at + i] = t->ids[position];
        g->pos[at + i] = (int32_t)position;
        g->targets[at + i] = scored ? t->ids[next] : -1;
        any |= scored;
    }
    return any;
}

/* Adds the row of the text's last known token to the rows that need logits, if this pass computes it. */
static void want_row(tess_generator *g, text *t, int64_t last, int64_t *n_rows)
{
    t->row = -1;
    if (t->table.length + t->take != t->n || t->take == 0)
        return;
    t->row = *n_rows;
    g->rows[(*n_rows)++] = (int32_t)last;
    if (t->of == NULL)
        tess_sequence_of(t)->draws = true;
}

/* Checks the logits of a pass. If they are broken, computes the pass again to name the first tensor that is. Ranks that
 * share the model, and devices apart, leave it to the sampler. */
static tess_status check_logits(tess_generator *g, const tess_range *all, const tess_head_task *task)
{
    const int64_t n = task->n_rows * tess_generate_vocab(g);
    int64_t at = -1;
    float value = 0;
    const tess_device *device = tess_stream_device(g->stream);
    if (n == 0 || g->options.points.degree > 1 || !tess_device_get_properties(device)->host_memory)
        return TESS_OK;
    TESS_TRY(tess_stream_kernels(g->stream)->find_not_finite(
        g->stream, &(tess_find_not_finite_args){.x = task->logits, .dtype = TESS_F32, .n = n, .first = &at}));
    if (at >= 0)
        value = task->logits[at];
    if (value == 0 || value == -INFINITY) /* the sampler judges these */
        return TESS_OK;
    tess_bad_tensor bad = {.model = g->model};
    const tess_watch watch = tess_bad_tensor_watch(&bad);
    tess_executor_set_watch(g->executor, &watch);
    tess_status status = tess_executor_score(g->executor, all, NULL, NULL, task);
    tess_executor_set_watch(g->executor, NULL);
    TESS_TRY(status);
    return TESS_FAIL(TESS_E_INVALID,
                     "the logit of token %lld is %g: %s%sthe model's weights are broken or too large: "
                     "use an earlier checkpoint",
                     (long long)(at % tess_generate_vocab(g)), isnan(value) ? NAN : (double)value, bad.text,
                     bad.text[0] != '\0' ? ": " : "");
}

static tess_status forward(tess_generator *g, const generate_run *run, int64_t n_tokens, int64_t *n_rows, bool *scores)
{
    tess_batch batch = {.ids = g->ids,
                        .pos = g->pos,
                        .targets = g->targets,
                        .cu_seqlens = g->cu_seqlens,
                        .cache = tess_kv_pages_cache(g->cache),
                        .pages = g->pages};
    const int64_t parts = g->shares_pass ? g->options.readers.degree : 1;
    int64_t at = 0;
    batch.is_shared = g->shares_pass;
    batch.n_tokens = n_tokens / parts;
    *n_rows = 0;
    *scores = false;
    for (int64_t i = 0; i < g->n_running; i++) {
        text *t = g->running[i];
        const int64_t own = t->take / parts; /* if the pass is shared, it has one text */
        t->row = -1;
        if (t->take == 0)
            continue;
        *scores |= fill_text(g, t, at, g->shares_pass ? g->options.readers.rank * own : 0, own);
        g->pages[batch.n_seqs] = t->table.pages;
        g->cu_seqlens[batch.n_seqs++] = (int32_t)at;
        bool grows = t->take == 1 && t->of == NULL && t->table.length >= tess_sequence_of(t)->request.n;
        g->stats.decoded += grows;
        g->stats.prefilled += grows ? 0 : t->take;
        at += own;
        want_row(g, t, at - 1, n_rows);
    }
    g->cu_seqlens[batch.n_seqs] = (int32_t)at;
    g->stats.passes++;
    const tess_head_task task = {.inv_temperature = tess_sampling_inv_temperature(run->sampling),
                                 .logprob = *scores ? g->logprobs : NULL,
                                 .rows = g->rows,
                                 .n_rows = *n_rows,
                                 .logits = g->logits};
    const tess_range all = {.end = tess_model_n_units(g->model), .batch = &batch};
    const tess_generator_stages *stages = &g->options.stages;
    if (stages->forward != NULL)
        return stages->forward(stages->self, g->executor, &batch, &task);
    TESS_TRY(tess_executor_score(g->executor, &all, NULL, NULL, &task));
    return check_logits(g, &all, &task);
}

/* ---- Reports ---- */
static tess_status report(const generate_run *run, sequence *s, int64_t position, float logprob, bool generated,
                          bool *stop)
{
    *stop = false;
    return run->source->token(run->source->self, &s->request, position, s->text.ids[position], logprob, generated,
                              stop);
}

static tess_status finish(tess_generator *g, const generate_run *run, sequence *s, tess_finish why)
{
    tess_generate_remove(g, s);
    return run->source->finished(run->source->self, &s->request, why);
}

/* Reports the log-probabilities of the prompt tokens that this pass has read. */
static tess_status report_prompts(tess_generator *g, const generate_run *run, int64_t n_tokens)
{
    const void *read;
    TESS_TRY(tess_view(g->stream, g->logprobs, (size_t)n_tokens * sizeof(float), g->room, &read));
    const float *logprobs = read;
    int64_t at = 0;
    for (int64_t i = 0; i < g->n_running; i++) {
        text *t = g->running[i];
        bool stop = false;
        for (int64_t k = 0; k < t->take; k++, at++)
            if (g->targets[at] >= 0 && !stop) {
                sequence *s = tess_sequence_of(t);
                TESS_TRY(report(run, s, s->reported, logprobs[at], false, &stop));
                s->reported++;
            }
        if (!stop)
            continue;
        TESS_TRY(finish(g, run, tess_sequence_of(t), TESS_FINISH_STOP));
        i--;
    }
    return TESS_OK;
}

/* ---- Draws ---- */
static tess_status copy_logits(tess_generator *g, float *to, const float *from)
{
    const int64_t bytes = tess_generate_vocab(g) * (int64_t)sizeof(float);
    return tess_stream_kernels(g->stream)->copy(g->stream, &(tess_copy_args){.to = to, .from = from, .bytes = bytes});
}

/* Advances all texts by the tokens of the pass. Copies the logits of prompts that are now ready. */
static tess_status move_on(tess_generator *g)
{
    for (int64_t i = 0; i < g->n_running; i++) {
        text *t = g->running[i];
        t->table.length += t->take;
        t->take = 0;
    }
    for (int64_t i = 0; i < g->options.max_sequences; i++) {
        shared *p = &g->prompts[i];
        if (p->ready)
            p->text.row = -1;
        if (p->text.row < 0)
            continue;
        TESS_TRY(copy_logits(g, p->logits, g->logits + p->text.row * tess_generate_vocab(g)));
        tess_generate_retire(g, p);
    }
    return TESS_OK;
}

/* Finds the logits of a sequence that starts at a shared prompt's end. The first such sequence reads them from the
 * pass, others get copies. */
static tess_status first_logits(tess_generator *g, sequence *s, int64_t *n_rows)
{
    shared *p = s->waits_for;
    s->waits_for = NULL;
    s->text.row = p->text.row >= 0 ? p->text.row : (*n_rows)++;
    if (p->text.row < 0)
        return copy_logits(g, g->logits + s->text.row * tess_generate_vocab(g), p->logits);
    p->text.row = -1;
    return TESS_OK;
}

/* Prepares the logits of all sequences that need a new token. Returns how many these are, and adds the rows. */
static tess_status prepare(tess_generator *g, int64_t *n_rows, int64_t *n_draws)
{
    *n_draws = 0;
    for (int64_t i = 0; i < g->n_running; i++) {
        sequence *s = tess_sequence_of(g->running[i]);
        if (g->running[i]->of != NULL || !s->draws)
            continue;
        if (s->waits_for != NULL)
            TESS_TRY(first_logits(g, s, n_rows));
        ++*n_draws;
    }
    return TESS_OK;
}

/* Draws the n new tokens. Computes their log-probabilities with the kernel that training uses. */
static tess_status draw(tess_generator *g, const generate_run *run, int64_t n_rows, int64_t n)
{
    const int64_t V = tess_generate_vocab(g);
    const void *read;
    TESS_TRY(tess_view(g->stream, g->logits, (size_t)(n_rows * V) * sizeof(float), g->room, &read));
    for (int64_t i = 0, k = 0; k < n; i++) {
        const text *t = g->running[i];
        const sequence *s = tess_sequence_of(g->running[i]);
        if (t->of == NULL && s->draws)
            g->draws[k++] = (tess_draw){.logits = (const float *)read + t->row * V,
                                        .text = t->ids,
                                        .n_text = t->n,
                                        .id = s->request.id,
                                        .position = (uint64_t)t->n};
    }
    TESS_TRY(tess_sampler_draw(g->sampler, run->sampling, g->draws, n));
    const float *logits = read;
    for (int64_t i = 0; i < n_rows; i++)
        g->picked[i] = -1;
    for (int64_t i = 0; i < n; i++)
        g->picked[(g->draws[i].logits - logits) / V] = g->draws[i].token;
    TESS_TRY(tess_upload(g->stream, g->drawn, g->picked, (size_t)n_rows * sizeof(int32_t)));
    tess_cross_entropy rows = {.n = n_rows,
                               .V = V,
                               .logits = g->logits,
                               .ld = V,
                               .targets = g->drawn,
                               .inv_temperature = tess_sampling_inv_temperature(run->sampling),
                               .logprob = g->logprobs};
    TESS_TRY(tess_stream_kernels(g->stream)->cross_entropy(g->stream, &rows));
    TESS_TRY(tess_view(g->stream, g->logprobs, (size_t)n_rows * sizeof(float), g->room, &read));
    for (int64_t i = 0; i < n; i++)
        g->news[i] = (new_token){g->draws[i].token, ((const float *)read)[(g->draws[i].logits - logits) / V]};
    return TESS_OK;
}

/* Appends a new token: reports it, and decides whether the sequence continues. */
static tess_status accept(tess_generator *g, const generate_run *run, sequence *s, const new_token *new)
{
    text *t = &s->text;
    bool stop, ends = false;
    s->draws = false;
    t->ids[t->n] = new->token;
    t->goal = ++t->n;
    s->n_new++;
    g->stats.drawn++;
    TESS_TRY(report(run, s, t->n - 1, new->logprob, true, &stop));
    for (int i = 0; i < run->n_end; i++)
        ends |= run->end_tokens[i] == new->token;
    if (ends || stop)
        return finish(g, run, s, ends ? TESS_FINISH_END : TESS_FINISH_STOP);
    if (s->n_new >= s->request.max_new_tokens || t->n >= g->options.max_length)
        return finish(g, run, s, TESS_FINISH_LENGTH);
    if (s->request.budget > 0 && s->n_new >= s->request.budget)
        return finish(g, run, s, TESS_FINISH_BUDGET);
    return TESS_OK;
}

static tess_status draw_and_accept(tess_generator *g, const generate_run *run, int64_t n_rows)
{
    const tess_generator_stages *stages = &g->options.stages;
    int64_t n;
    TESS_TRY(prepare(g, &n_rows, &n));
    if (n == 0)
        return TESS_OK;
    tess_status status = g->sampler != NULL ? draw(g, run, n_rows, n) : TESS_OK;
    if (stages->share != NULL)
        status = stages->share(stages->self, status, g->news, (size_t)n * sizeof(*g->news));
    TESS_TRY(status);
    for (int64_t i = 0, k = 0; k < n; i++) {
        text *t = g->running[i];
        if (t->of != NULL || !tess_sequence_of(t)->draws)
            continue;
        int64_t n_running = g->n_running;
        TESS_TRY(accept(g, run, tess_sequence_of(t), &g->news[k++]));
        i -= n_running - g->n_running; /* the sequence has been removed from the list */
    }
    return TESS_OK;
}

/* Finishes requests that wanted only the log-probabilities of their own ids. */
static tess_status finish_scored(tess_generator *g, const generate_run *run)
{
    for (int64_t i = 0; i < g->n_running; i++) {
        text *t = g->running[i];
        if (t->of != NULL || t->goal == t->n || t->table.length < t->goal)
            continue;
        TESS_TRY(finish(g, run, tess_sequence_of(t), TESS_FINISH_LENGTH));
        i--;
    }
    return TESS_OK;
}

tess_status tess_generate_pass(tess_generator *g, const generate_run *run, int64_t n_tokens)
{
    int64_t n_rows = 0;
    bool scores = false;
    if (n_tokens > 0)
        TESS_TRY(forward(g, run, n_tokens, &n_rows, &scores));
    if (scores)
        TESS_TRY(report_prompts(g, run, n_tokens));
    TESS_TRY(move_on(g));
    tess_generate_join(g);
    TESS_TRY(draw_and_accept(g, run, n_rows));
    return finish_scored(g, run);
}

/* ---- Rehearsals ---- */
/* Runs a pass of n_seqs texts that have `length` rows each, from position `first` on. */
static tess_status rehearse(tess_generator *g, int64_t n_seqs, int64_t length, int64_t first)
{
    for (int64_t i = 0; i < n_seqs * length; i++) {
        g->ids[i] = 0;
        g->pos[i] = (int32_t)(first + i % length);
        g->targets[i] = -1;
    }
    for (int64_t i = 0; i < n_seqs; i++) {
        g->pages[i] = g->sequences[0].text.table.pages;
        g->cu_seqlens[i + 1] = (int32_t)((i + 1) * length);
        g->rows[i] = g->cu_seqlens[i + 1] - 1;
    }
    g->cu_seqlens[0] = 0;
    const tess_batch batch = {.n_tokens = n_seqs * length,
                              .n_seqs = n_seqs,
                              .ids = g->ids,
                              .pos = g->pos,
                              .targets = g->targets,
                              .cu_seqlens = g->cu_seqlens,
                              .cache = tess_kv_pages_cache(g->cache),
                              .pages = g->pages};
    const tess_head_task task = {.inv_temperature = 1, .rows = g->rows, .n_rows = n_seqs, .logits = g->logits};
    const tess_range all = {.end = tess_model_n_units(g->model), .batch = &batch};
    const tess_generator_stages *stages = &g->options.stages;
    return stages->forward != NULL ? stages->forward(stages->self, g->executor, &batch, &task)
                                   : tess_executor_score(g->executor, &all, NULL, NULL, &task);
}

/* Kernels have other ways for few rows, up to a power of two. So passes of each power of two and of the most rows need
 * all that any pass needs: of prompts, which are read together, and of texts that grow by one token each. */
tess_status tess_generator_rehearse(tess_generator *g)
{
    const tess_generator_options *o = &g->options;
    const int64_t longest = o->max_length < o->pass_tokens ? o->max_length : o->pass_tokens;
    memset(g->sequences[0].text.table.pages, 0, (size_t)g->table_room * sizeof(int32_t));
    for (int64_t rows = 1, done = 0; done < o->pass_tokens; done = rows, rows *= 2) {
        rows = rows < o->pass_tokens ? rows : o->pass_tokens;
        const int64_t length = rows < longest ? rows : longest, most = rows / length;
        TESS_TRY(rehearse(g, most < o->max_sequences ? most : o->max_sequences, length, 0));
        if (rows <= o->max_sequences)
            TESS_TRY(rehearse(g, rows, 1, o->max_length - 1));
    }
    return rehearse(g, o->max_sequences, 1, o->max_length - 1);
}
