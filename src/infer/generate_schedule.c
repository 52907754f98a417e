/* Decides which texts run, and on which pages. Texts are ordered by age: an older text may take the pages of a
 * younger one, which is read again when there is room. So the oldest text always advances. The order affects only
 * time, never bits. */
#include <string.h>

#include "infer/generate_impl.h"

/* ---- The order ---- */
static void append(tess_generator *g, text *t)
{
    g->running[g->n_running++] = t;
}

static void withdraw(tess_generator *g, const text *t)
{
    int64_t i = 0;
    while (i < g->n_running && g->running[i] != t)
        i++;
    if (i == g->n_running)
        return;
    g->n_running--;
    memmove(g->running + i, g->running + i + 1, (size_t)(g->n_running - i) * sizeof(*g->running));
}

static bool is_waiting(text *t)
{
    return t->of == NULL && tess_sequence_of(t)->waits_for != NULL;
}

/* ---- Shared prompts ---- */
static void forget(tess_generator *g, shared *p)
{
    tess_kv_pages_release(g->cache, &p->text.table);
    withdraw(g, &p->text);
    p->number = 0;
    p->ready = false;
    p->waiting = 0;
    p->text.row = -1;
}

void tess_generate_retire(tess_generator *g, shared *p)
{
    withdraw(g, &p->text);
    p->ready = true;
}

static shared *find_prompt(tess_generator *g, uint64_t number)
{
    for (int64_t i = 0; i < g->options.max_sequences; i++)
        if (g->prompts[i].number == number)
            return &g->prompts[i];
    return NULL;
}

/* The least recently used prompt for which no request waits; `frees`: only if some of its pages are not shared. */
static shared *idle_prompt(const tess_generator *g, bool frees)
{
    shared *found = NULL;
    for (int64_t i = 0; i < g->options.max_sequences; i++) {
        shared *p = &g->prompts[i];
        if (p->number == 0 || p->waiting > 0 || (frees && tess_kv_pages_own(g->cache, &p->text.table) == 0))
            continue;
        if (found == NULL || p->used < found->used)
            found = p;
    }
    return found;
}

/* Starts a shared prompt in a free entry, or replaces an idle one. There are as many entries as sequences, and this
 * sequence does not wait yet, so one entry is free or idle. */
static shared *begin_prompt(tess_generator *g, const tess_request *r)
{
    shared *p = find_prompt(g, 0);
    if (p == NULL) {
        p = idle_prompt(g, false);
        forget(g, p);
    }
    p->number = r->prefix;
    p->text.n = p->text.goal = r->n_prompt;
    memcpy(p->text.ids, r->ids, (size_t)r->n_prompt * sizeof(*r->ids));
    append(g, &p->text);
    return p;
}

static void wait_for(tess_generator *g, sequence *s, shared *p)
{
    s->waits_for = p;
    p->waiting++;
    p->used = g->n_asked;
}

static tess_status ask_for_prompt(tess_generator *g, sequence *s)
{
    const tess_request *r = &s->request;
    shared *p = find_prompt(g, r->prefix);
    if (p == NULL)
        p = begin_prompt(g, r);
    TESS_CHECK(p->text.n == r->n_prompt && memcmp(p->text.ids, r->ids, (size_t)r->n_prompt * sizeof(*r->ids)) == 0,
               TESS_E_INVALID,
               "request %llu: its prompt of %lld tokens is not that of the other requests with prefix %llu",
               (unsigned long long)r->id, (long long)r->n_prompt, (unsigned long long)r->prefix);
    wait_for(g, s, p);
    return TESS_OK;
}

/* ---- Texts that were kept ---- */
static bool may_keep(const tess_request *r)
{
    return r->keep && r->prefix == 0 && !r->want_prompt_logprobs;
}

/* The number of tokens at the start of a request that a place has kept. At least one token must be computed, to draw
 * from. */
static int64_t in_common(const sequence *s, const tess_request *r)
{
    int64_t n = 0, most = s->text.table.length < r->n - 1 ? s->text.table.length : r->n - 1;
    while (n < most && s->text.ids[n] == r->ids[n])
        n++;
    return n;
}

/* Finds the free place that has kept the longest beginning of the request, or else one that has kept nothing. There
 * must be a free place. */
static sequence *find_place(const tess_generator *g, const tess_request *r)
{
    sequence *found = NULL;
    int64_t most = 0;
    bool reuses = may_keep(r) && r->max_new_tokens > 0;
    for (sequence *s = g->sequences; s < g->sequences + g->options.max_sequences; s++) {
        int64_t n = s->live ? 0 : reuses ? in_common(s, r) : 0;
        bool emptier = found != NULL && n == most && s->text.table.n_pages < found->text.table.n_pages;
        if (s->live || (found != NULL && n <= most && !emptier))
            continue;
        found = s;
        most = n;
    }
    return found;
}

/* Frees the pages of one kept text. Returns false if there is none. */
static bool forget_kept(tess_generator *g)
{
    for (sequence *s = g->sequences; s < g->sequences + g->options.max_sequences; s++)
        if (!s->live && s->text.table.n_pages > 0) {
            tess_kv_pages_release(g->cache, &s->text.table);
            return true;
        }
    return false;
}

/* ---- Adding and removing requests ---- */
tess_status tess_generate_check(const tess_generator *g, const tess_request *r)
{
    TESS_CHECK(r->n_prompt >= 1 && r->n_prompt <= r->n && r->n <= g->options.max_length, TESS_E_INVALID,
               "request %llu: a text of %lld tokens, a prompt of %lld; 1 to %lld are possible",
               (unsigned long long)r->id, (long long)r->n, (long long)r->n_prompt, (long long)g->options.max_length);
    TESS_CHECK(r->max_new_tokens >= 0 && r->budget >= 0 && (r->max_new_tokens == 0 || r->n < g->options.max_length),
               TESS_E_INVALID, "request %llu: %lld new tokens, a budget of %lld, behind %lld tokens of %lld",
               (unsigned long long)r->id, (long long)r->max_new_tokens, (long long)r->budget, (long long)r->n,
               (long long)g->options.max_length);
    TESS_CHECK(!r->want_prompt_logprobs || g->options.stages.forward == NULL, TESS_E_UNSUPPORTED,
               "request %llu: log-probabilities of its prompt are on the last rank of a pipeline only",
               (unsigned long long)r->id);
    return TESS_OK;
}

tess_status tess_generate_admit(tess_generator *g, const tess_request *r)
{
    sequence *s = find_place(g, r);
    int64_t kept = may_keep(r) && r->max_new_tokens > 0 ? in_common(s, r) : 0;
    tess_kv_pages_truncate(g->cache, &s->text.table, kept);
    g->stats.shared += kept;
    g->n_asked++;
    s->request = *r;
    s->n_new = 0;
    s->reported = 1; /* the first token has no log-probability */
    s->waits_for = NULL;
    s->draws = false;
    s->text.n = r->n;
    s->text.goal = r->max_new_tokens > 0 ? r->n : r->n - 1;
    memcpy(s->text.ids, r->ids, (size_t)r->n * sizeof(*r->ids));
    if (r->prefix != 0 && r->max_new_tokens > 0 && !r->want_prompt_logprobs)
        TESS_TRY(ask_for_prompt(g, s));
    s->live = true;
    g->n_live++;
    append(g, &s->text);
    return TESS_OK;
}

void tess_generate_remove(tess_generator *g, sequence *s)
{
    if (!may_keep(&s->request))
        tess_kv_pages_release(g->cache, &s->text.table);
    withdraw(g, &s->text);
    s->live = false;
    g->n_live--;
}

void tess_generate_clear(tess_generator *g, bool all)
{
    for (int64_t i = 0; i < g->options.max_sequences; i++) {
        if (g->sequences[i].live)
            tess_generate_remove(g, &g->sequences[i]);
        if (g->prompts[i].number != 0)
            forget(g, &g->prompts[i]);
    }
    while (all && forget_kept(g))
        continue;
}

void tess_generate_join(tess_generator *g)
{
    for (int64_t i = 0; i < g->n_running; i++) {
        sequence *s = tess_sequence_of(g->running[i]);
        if (!is_waiting(&s->text) || !s->waits_for->ready)
            continue;
        shared *p = s->waits_for;
        tess_kv_pages_fork(g->cache, &p->text.table, p->text.n, &s->text.table);
        g->stats.shared += p->text.n;
        s->draws = s->text.n == p->text.n;
        p->waiting--;
        if (!s->draws)
            s->waits_for = NULL; /* if it draws, the pass still needs the prompt, for its logits */
    }
}

/* ---- Pages ---- */
/* Frees the text's pages. If it shares a prompt that still exists, or is being read, it waits for that prompt. */
static void drop(tess_generator *g, text *t)
{
    tess_kv_pages_release(g->cache, &t->table);
    t->take = 0;
    g->stats.preemptions++;
    if (t->of != NULL)
        return;
    sequence *s = tess_sequence_of(t);
    bool shares = s->request.prefix != 0 && !s->request.want_prompt_logprobs;
    shared *p = shares ? find_prompt(g, s->request.prefix) : NULL;
    if (p != NULL)
        wait_for(g, s, p);
}

/* The youngest text after number `age` that has pages; `own`: pages that it does not share. */
static text *youngest_victim(const tess_generator *g, int64_t age, bool own)
{
    for (int64_t i = g->n_running - 1; i > age; i--) {
        text *t = g->running[i];
        if (own ? tess_kv_pages_own(g->cache, &t->table) > 0 : t->table.n_pages > 0)
            return t;
    }
    return NULL;
}

/* Frees some pages for text number `age`. Returns false if nothing may be freed. Tries first the prompts and texts
 * whose pages are not all shared, since only they free pages at once. */
static bool make_room(tess_generator *g, int64_t age)
{
    if (forget_kept(g))
        return true;
    for (int frees = 1; frees >= 0; frees--) {
        shared *p = idle_prompt(g, frees);
        if (p != NULL) { /* the prompt is ready, so it is not in `running` */
            forget(g, p);
            return true;
        }
        text *t = youngest_victim(g, age, frees);
        if (t != NULL) {
            drop(g, t);
            return true;
        }
    }
    return false;
}

/* Lets text number `age` compute n tokens in this pass, if it can have pages for them. */
static tess_status take(tess_generator *g, int64_t age, int64_t n, int64_t *left)
{
    text *t = g->running[age];
    bool enough;
    do
        TESS_TRY(tess_kv_pages_reserve(g->cache, &t->table, t->table.length + n, &enough));
    while (!enough && make_room(g, age));
    if (enough) {
        t->take = n;
        *left -= n;
    }
    return TESS_OK;
}

/* Whether to start a text. It is not worth starting if the running texts would soon need its pages. */
static bool may_begin(const tess_generator *g, const text *t)
{
    int64_t holders = 0;
    for (int64_t i = 0; i < g->n_running; i++)
        holders += g->running[i]->table.n_pages > 0;
    if (t->table.n_pages > 0 || holders == 0) /* the text has already started, or no other has */
        return true;
    int64_t idle = 0;
    for (int64_t i = 0; i < g->options.max_sequences; i++)
        if (g->prompts[i].number != 0 && g->prompts[i].waiting == 0)
            idle += tess_kv_pages_own(g->cache, &g->prompts[i].text.table);
    for (int64_t i = 0; i < g->options.max_sequences; i++)
        if (!g->sequences[i].live)
            idle += g->sequences[i].text.table.n_pages;
    return tess_kv_pages_free(g->cache) + idle >= tess_kv_pages_of(t->n) + holders;
}

/* Whether a pass of this text alone is worth the exchange between the ranks that read texts together. They have each as
 * many tokens; the last token is left to a pass that all of them compute, because each draws from it. */
enum { LEAST_SHARED = 16 };
static int64_t shared_tokens(const tess_generator *g, text *t)
{
    const int64_t n_ranks = g->options.readers.degree, most = g->options.pass_tokens,
                  left = t->goal - t->table.length - 1;
    const int64_t n = (left < most ? left : most) / (n_ranks > 0 ? n_ranks : 1);
    const bool scores = t->of == NULL && tess_sequence_of(t)->request.want_prompt_logprobs;
    return n_ranks > 1 && n >= LEAST_SHARED && !scores && !is_waiting(t) ? n * n_ranks : 0;
}

/* Plans a pass that the readers of texts share, if there is one. */
static tess_status plan_shared(tess_generator *g, int64_t *n_tokens)
{
    int64_t left = g->options.pass_tokens;
    bool held_back = false; /* true: an older text has not started, so no younger one may start before it */
    *n_tokens = 0;
    for (int64_t i = 0; i < g->n_running && *n_tokens == 0; i++) {
        text *t = g->running[i];
        const int64_t n = shared_tokens(g, t);
        const bool begins = t->table.n_pages == 0 && !is_waiting(t) && t->goal > 0;
        if (n > 0 && !(begins && (held_back || !may_begin(g, t)))) {
            TESS_TRY(take(g, i, n, &left));
            *n_tokens = t->take;
        }
        held_back |= begins;
    }
    g->shares_pass = *n_tokens > 0;
    return TESS_OK;
}

tess_status tess_generate_plan(tess_generator *g, int64_t *n_tokens)
{
    int64_t left = g->options.pass_tokens;
    bool held_back = false; /* true: an older text waits for room, so no younger one may start before it */
    for (int64_t i = 0; i < g->n_running; i++)
        g->running[i]->take = 0;
    TESS_TRY(plan_shared(g, n_tokens));
    if (*n_tokens > 0)
        return TESS_OK;
    for (int pieces = 0; pieces < 2; pieces++) /* first texts that grow by one token, then pieces of texts to be read */
        for (int64_t i = 0; i < g->n_running && left > 0; i++) {
            text *t = g->running[i];
            int64_t n = t->goal - t->table.length;
            bool grows = n == 1 && t->table.length > 0;
            if (is_waiting(t) || n == 0 || grows == (pieces == 1))
                continue;
            held_back |= !may_begin(g, t);
            if (t->table.n_pages == 0 && held_back)
                continue;
            TESS_TRY(take(g, i, n < left ? n : left, &left));
        }
    *n_tokens = 0;
    for (int64_t i = 0; i < g->n_running; i++)
        *n_tokens += g->running[i]->take;
    return TESS_OK;
}
