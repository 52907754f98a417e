/* Decides which samples a rollout has. The rollout is a function of its first state, the weights and the data.
 * Prompts are taken in order, a sample's random draws depend on its number, and prompts are kept or dropped in
 * order, not when they finish. So any number of ranks gets the same rollout, and a resumed run continues in the
 * middle.
 *
 * A round continues every prompt that is under way. Without a budget, it finishes all of them. With a budget, each
 * sample gets that many tokens a round, and unfinished prompts continue in the next rollout. Further rounds follow
 * until enough prompts have passed the filter. */
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"
#include "comm/agree.h"
#include "rl/algo/rl_advantage.h"
#include "rl/rl_impl.h"
#include "tessera/comm.h"

typedef struct rollout {
    rl *r;
    rl_origin origin;
    rl_journal *journal;
    bool may_draw;
    int64_t round;
    rl_sample **samples; /* (n) samples of the round */
    int32_t *owner;      /* (n) rank that has the sample, or speaks for those that draw it */
    int64_t n;
} rollout;

/* ---- Prompts ---- */
static int64_t record_of(const rl *r, int64_t ordinal)
{
    const int64_t n = tess_prompts_count(r->prompts), epoch = ordinal / n, i = ordinal % n;
    if (!r->config->data.shuffle)
        return i;
    return (int64_t)tess_rng_permute((uint64_t)r->config->debug.seed, TESS_RNG_SHUFFLE, (uint64_t)epoch, (uint64_t)n,
                                     (uint64_t)i);
}

static tess_status add_group(rl *r, rl_groups *groups, int64_t ordinal, rl_group **out)
{
    TESS_TRY(tess_mem_make_room(r->mem, TESS_POOL_MISC, groups->n, sizeof(rl_group), "prompts", &groups->room,
                                &groups->group));
    rl_group *g = &groups->group[groups->n];
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)r->config->rollout.n, sizeof(rl_sample), "samples",
                                  (void **)&g->samples));
    g->ordinal = ordinal;
    for (int64_t k = 0; k < r->config->rollout.n; k++)
        g->samples[k] = (rl_sample){.finish = RL_UNFINISHED};
    groups->n++;
    *out = g;
    return TESS_OK;
}

static tess_status begin_prompt(rl *r, int64_t ordinal)
{
    rl_group *g;
    const int64_t record = record_of(r, ordinal), n = r->config->rollout.n;
    const tess_prompt_record *prompt = tess_prompts_at(r->prompts, record);
    TESS_TRY(add_group(r, &r->newest.under_way, ordinal, &g));
    for (int64_t k = 0; k < n; k++) {
        g->samples[k].number = ordinal * n + k;
        g->samples[k].record = record;
        TESS_TRY(rl_sample_begin(r->mem, &g->samples[k], prompt->ids, prompt->n));
    }
    return TESS_OK;
}

static void free_group(tess_mem *mem, rl_group *g, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        rl_sample_free(mem, &g->samples[k]);
    tess_mem_drop(&g->samples);
}

void rl_groups_free(tess_mem *mem, rl_groups *groups, int64_t n)
{
    for (size_t i = 0; i < groups->n; i++)
        free_group(mem, &groups->group[i], n);
    tess_mem_free(mem, groups->group);
    *groups = (rl_groups){.n = 0};
}

tess_status rl_groups_write(const rl *r, const rl_groups *groups, tess_buffer *bytes)
{
    for (size_t g = 0; g < groups->n; g++)
        for (int64_t k = 0; k < r->config->rollout.n; k++)
            TESS_TRY(rl_sample_write(&groups->group[g].samples[k], bytes));
    return TESS_OK;
}

tess_status rl_groups_read(rl *r, const tess_buffer *bytes, size_t most, rl_groups *groups)
{
    const int64_t n = r->config->rollout.n;
    size_t at = 0, used;
    while (at < bytes->size && groups->n <= most) {
        rl_sample s = {.finish = RL_UNFINISHED};
        rl_group *g;
        TESS_TRY(rl_sample_read(r->mem, bytes->data + at, bytes->size - at, &s, &used));
        at += used;
        g = groups->n > 0 ? &groups->group[groups->n - 1] : NULL;
        if (g == NULL || g->ordinal != s.number / n)
            TESS_TRY(add_group(r, groups, s.number / n, &g));
        g->samples[s.number % n] = s;
    }
    return TESS_OK;
}

/* Adds prompts until enough are under way in this round. */
static tess_status fill_up(rl *r)
{
    const tess_config *c = r->config;
    int64_t wanted = c->rollout.prompts - (int64_t)r->newest.chosen.n;
    if (c->rollout.budget_tokens > 0)
        wanted = c->rollout.in_flight;
    while ((int64_t)r->newest.under_way.n < wanted)
        TESS_TRY(begin_prompt(r, r->newest.after.cursor++));
    return TESS_OK;
}

/* ---- Samples in the journal ---- */
static int by_ordinal(const void *key, const void *group)
{
    const int64_t a = *(const int64_t *)key, b = ((const rl_group *)group)->ordinal;
    return (a > b) - (a < b);
}

static rl_sample *find(const rl *r, int64_t number)
{
    const int64_t ordinal = number / r->config->rollout.n;
    const rl_group *g = r->newest.under_way.n == 0 ? NULL
                                                   : bsearch(&ordinal, r->newest.under_way.group, r->newest.under_way.n,
                                                             sizeof(rl_group), by_ordinal);
    return g != NULL ? &g->samples[number % r->config->rollout.n] : NULL;
}

/* Replaces a sample by its record, unless the sample has a grade and the record has none. That happens because the
 * file of the rank that graded a sample may be read before the file of the rank that drew it. owner: the sample's
 * owner in this round; -1: not known. */
static tess_status take_record(void *self, int64_t round, const void *bytes, size_t size)
{
    rollout *o = self;
    rl_sample known = {.finish = RL_UNFINISHED};
    size_t used;
    if (round != o->round)
        return TESS_OK;
    TESS_TRY(rl_sample_read(o->r->mem, bytes, size, &known, &used));
    rl_sample *sample = find(o->r, known.number);
    for (int64_t i = 0; i < o->n && sample != NULL; i++)
        if (o->samples[i] == sample && (sample->grade == RL_UNGRADED || known.grade != RL_UNGRADED)) {
            rl_sample_free(o->r->mem, sample);
            *sample = known;
            o->owner[i] = tess_team_rank(o->r->team);
            return TESS_OK;
        }
    rl_sample_free(o->r->mem, &known);
    return TESS_OK;
}

/* Sets owner[i] to the lowest rank that has read sample i, or to the rank that draws it. */
static tess_status share_out(rollout *o, int64_t *n_known)
{
    const int world = tess_team_size(o->r->team);
    for (int64_t i = 0; i < o->n; i++)
        o->owner[i] = world;
    tess_status status = rl_speaks(o->r)
                             ? rl_journal_read(o->r->folder, o->r->newest.after.rollout, &o->origin, take_record, o)
                             : TESS_OK;
    TESS_TRY(tess_team_agree(o->r->team, status));
    TESS_TRY(tess_all_reduce(o->r->team, o->owner, o->owner, (size_t)o->n, TESS_I32, TESS_MIN, NULL));
    *n_known = 0;
    for (int64_t i = 0; i < o->n; i++) {
        *n_known += o->owner[i] < world;
        TESS_CHECK(
            o->owner[i] < world || o->may_draw, TESS_E_NOT_FOUND,
            "sample %lld of rollout %lld is not in %s, and cannot be drawn again: the weights have changed since. "
            "Go on from an older checkpoint (checkpoint.load_step), or keep all journals (rl.keep_journals=0)",
            (long long)o->samples[i]->number, (long long)o->r->newest.after.rollout, o->r->folder);
        if (o->owner[i] == world) /* samples of one prompt stay together, so that they share its keys and values */
            o->owner[i] = rl_speaker(o->r, o->samples[i]->number / o->r->config->rollout.n);
        else
            o->owner[i] += world * 2; /* it is known, so no rank draws it */
    }
    return TESS_OK;
}

/* ---- A round ---- */
/* Grades this rank's samples of the round, and writes them to the journal. */
static tess_status grade(rollout *o)
{
    int64_t n = 0;
    TESS_AUTO(tess_mem_drop) rl_sample **mine = NULL;
    TESS_TRY(TESS_NEW(o->r->mem, o->n + 1, "samples", &mine));
    for (int64_t i = 0; i < o->n; i++)
        if (o->owner[i] == tess_team_rank(o->r->team) && o->samples[i]->finish != RL_UNFINISHED &&
            o->samples[i]->grade == RL_UNGRADED)
            mine[n++] = o->samples[i];
    tess_status status = rl_grade(o->r, o->r->prompts, mine, n);
    for (int64_t i = 0; i < n && status == TESS_OK; i++)
        status = rl_write_down(o->r, &o->journal, o->round, mine[i]);
    return tess_team_agree(o->r->team, status); /* a failed grader ends all ranks together */
}

static tess_status draw(rollout *o, int64_t n_known)
{
    const tess_config *c = o->r->config;
    const int world = tess_team_size(o->r->team), speaker = rl_speaker(o->r, rl_place(o->r));
    const rl_draw_options options = {.temperature = c->rollout.temperature,
                                     .max_new_tokens = c->rollout.max_new_tokens,
                                     .budget_tokens = c->rollout.budget_tokens,
                                     .prompts = o->r->prompts,
                                     .prefix_n = c->rollout.n,
                                     .journal = &o->journal,
                                     .round = o->round};
    TESS_AUTO(tess_mem_drop) rl_sample **mine = NULL;
    int64_t n = 0;
    bool alone;
    TESS_TRY(TESS_NEW(o->r->mem, o->n + 1, "samples", &mine));
    for (int64_t i = 0; i < o->n; i++) {
        if (o->owner[i] == speaker)
            mine[n++] = o->samples[i];
        if (o->owner[i] >= 2 * world)
            o->owner[i] -= 2 * world;
    }
    if (n_known < o->n)
        TESS_TRY(rl_draw(o->r, &options, mine, n, &alone));
    return rl_judge_turns(o->r);
}

static tess_status run_round(rollout *o)
{
    rl *r = o->r;
    int64_t n_known, n = r->config->rollout.n;
    TESS_TRY(fill_up(r));
    const size_t most = r->newest.under_way.n * (size_t)n;
    TESS_TRY(tess_mem_grow(r->mem, TESS_POOL_MISC, (most + 1) * sizeof(*o->samples), "round", (void **)&o->samples));
    TESS_TRY(tess_mem_grow(r->mem, TESS_POOL_MISC, (most + 1) * sizeof(*o->owner), "round", (void **)&o->owner));
    o->n = 0;
    for (size_t g = 0; g < r->newest.under_way.n; g++)
        for (int64_t k = 0; k < n; k++)
            if (r->newest.under_way.group[g].samples[k].finish == RL_UNFINISHED)
                o->samples[o->n++] = &r->newest.under_way.group[g].samples[k];
    TESS_TRY(share_out(o, &n_known));
    TESS_TRY(draw(o, n_known));
    TESS_TRY(grade(o));
    TESS_TRY(rl_exchange(r, o->samples, o->owner, o->n));
    r->newest.facts.known_samples += n_known;
    r->newest.facts.rounds = ++o->round;
    return TESS_OK;
}

/* ---- Choosing ---- */
static bool is_finished(const rl_group *g, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (g->samples[k].finish == RL_UNFINISHED)
            return false;
    return true;
}

/* Whether something can be learned from the prompt, because two of its rewards differ. */
static bool passes(rl *r, const rl_group *g)
{
    const int64_t n = r->config->rollout.n;
    bool right = false;
    if (!r->config->rl.filter || rl_rewards_differ(g->samples, n))
        return true;
    for (int64_t k = 0; k < n; k++)
        right |= g->samples[k].grade == RL_SCORED && g->samples[k].reward >= r->config->evaluation.threshold;
    r->newest.facts.dropped[right]++;
    return false;
}

/* Removes finished prompts in order, and adds them to the chosen ones until there are enough. */
static tess_status choose(rl *r)
{
    size_t left = 0;
    for (size_t i = 0; i < r->newest.under_way.n; i++) {
        rl_group g = r->newest.under_way.group[i];
        const bool enough = (int64_t)r->newest.chosen.n == r->config->rollout.prompts;
        if (enough || !is_finished(&g, r->config->rollout.n)) {
            r->newest.under_way.group[left++] = g;
            continue;
        }
        if (!passes(r, &g)) {
            free_group(r->mem, &g, r->config->rollout.n);
            continue;
        }
        TESS_TRY(tess_mem_make_room(r->mem, TESS_POOL_MISC, r->newest.chosen.n, sizeof(g), "prompts",
                                    &r->newest.chosen.room, &r->newest.chosen.group));
        r->newest.chosen.group[r->newest.chosen.n++] = g;
    }
    r->newest.under_way.n = left;
    return TESS_OK;
}

static tess_status run_rounds(rollout *o)
{
    const rl *r = o->r;
    while ((int64_t)r->newest.chosen.n < r->config->rollout.prompts) {
        TESS_CHECK(
            !r->config->rl.filter || o->round < r->config->rl.max_rounds, TESS_E_INVALID,
            "rl.filter: after %lld rounds only %zu of %lld prompts have samples whose rewards differ (%lld had none "
            "right, %lld all right): give prompts that are easier or harder, a larger rollout.n or "
            "rollout.temperature, or rl.filter=false",
            (long long)o->round, r->newest.chosen.n, (long long)r->config->rollout.prompts,
            (long long)r->newest.facts.dropped[0], (long long)r->newest.facts.dropped[1]);
        TESS_TRY(run_round(o));
        TESS_TRY(choose(o->r));
    }
    return TESS_OK;
}

/* ---- Prompts that are carried over ---- */
/* The prompts that are under way when a rollout ends are one record of its journal: the chain of the next rollout,
 * then the samples. */
typedef struct left_over {
    uint64_t chain;
    tess_buffer *samples;
} left_over;

static tess_status take_left(void *self, int64_t round, const void *bytes, size_t size)
{
    left_over *left = self;
    const size_t n = sizeof(left->chain);
    if (round != RL_ROUND_LEFT || size < n || memcmp(bytes, &left->chain, n) != 0)
        return TESS_OK;
    left->samples->size = 0;
    return tess_buffer_append(left->samples, (const char *)bytes + n, size - n);
}

static tess_status find_left(const rl *r, left_over *left)
{
    rl_origin before;
    bool found;
    TESS_TRY(rl_journal_newest(r->folder, r->newest.state.rollout - 1, &before, &found));
    if (!found || before.identity != r->identity)
        return TESS_OK;
    before.weights = 0;
    return rl_journal_read(r->folder, r->newest.state.rollout - 1, &before, take_left, left);
}

static tess_status read_carried(rl *r)
{
    TESS_AUTO(tess_buffer_free) tess_buffer samples = {.mem = r->mem};
    left_over left = {.chain = r->newest.state.chain, .samples = &samples};
    TESS_TRY(tess_team_agree(r->team, tess_team_rank(r->team) == 0 ? find_left(r, &left) : TESS_OK));
    TESS_TRY(rl_share_bytes(r->team, &samples));
    TESS_TRY(rl_groups_read(r, &samples, (size_t)r->newest.state.carried, &r->newest.under_way));
    TESS_CHECK((int64_t)r->newest.under_way.n == r->newest.state.carried, TESS_E_NOT_FOUND,
               "%s: rollout %lld began with %lld prompts under way, and %zu of them are in the journal of the one "
               "before: go on from an older checkpoint (checkpoint.load_step)",
               r->folder, (long long)r->newest.state.rollout, (long long)r->newest.state.carried,
               r->newest.under_way.n);
    return TESS_OK;
}

static tess_status begin_carried(rl *r)
{
    const bool restored = r->restored;
    r->restored = false;
    return restored && r->newest.state.carried > 0 ? read_carried(r) : TESS_OK;
}

static tess_status write_left(rollout *o)
{
    rl *r = o->r;
    TESS_AUTO(tess_buffer_free) tess_buffer bytes = {.mem = r->mem};
    if (r->newest.under_way.n == 0 || o->journal == NULL || tess_team_rank(r->team) != 0)
        return TESS_OK;
    tess_status status = tess_buffer_append(&bytes, &r->newest.after.chain, sizeof(r->newest.after.chain));
    if (status == TESS_OK)
        status = rl_groups_write(r, &r->newest.under_way, &bytes);
    if (status == TESS_OK)
        status = rl_journal_append_bytes(o->journal, RL_ROUND_LEFT, bytes.data, bytes.size);
    return rl_keep_or_warn(r, status, "a restart after this rollout will not be possible");
}

/* ---- The whole ---- */
static tess_status extend_chain(rl *r)
{
    TESS_AUTO(tess_buffer_free) tess_buffer bytes = {.mem = r->mem};
    for (size_t g = 0; g < r->newest.chosen.n; g++)
        for (int64_t k = 0; k < r->config->rollout.n; k++) {
            bytes.size = 0;
            TESS_TRY(rl_sample_write(&r->newest.chosen.group[g].samples[k], &bytes));
            r->newest.after.chain = rl_chain(r->newest.after.chain, bytes.data, bytes.size);
        }
    return TESS_OK;
}

/* If the journal cannot be opened, the run continues with a warning about the consequences. */
static tess_status open_journal(rollout *o)
{
    rl *r = o->r;
    if (!rl_speaks(r))
        return TESS_OK;
    tess_status status =
        rl_journal_open(r->mem, r->folder, r->newest.state.rollout, rl_place(r), &o->origin, &o->journal);
    return rl_keep_or_warn(r, status, "samples are not kept on disk");
}

static tess_status collect(rollout *o)
{
    rl *r = o->r;
    TESS_TRY(tess_team_agree(r->team, open_journal(o)));
    TESS_TRY(begin_carried(r));
    TESS_TRY(run_rounds(o));
    TESS_TRY(extend_chain(r));
    r->newest.after.carried = (int64_t)r->newest.under_way.n;
    r->newest.after.rollout++;
    TESS_TRY(tess_team_agree(r->team, write_left(o)));
    const int64_t older =
        r->newest.state.carried > 0; /* the previous rollout's journal has the prompts that this one began with */
    if (r->config->rl.keep_journals > 0 && tess_team_rank(r->team) == 0)
        TESS_TRY(rl_journal_prune(r->folder, r->newest.state.rollout - r->config->rl.keep_journals + 1 - older));
    return TESS_OK;
}

/* Samples depend on weights, kernels and numbers, so all of these are part of the digest. */
static tess_status identify_drawer(const rl *r, uint64_t *drawer)
{
    const char *kernels = tess_stream_kernels(rl_stream(r))->name;
    uint64_t weights = 0;
    if (r->copy != NULL)
        weights = rl_copy_digest(r);
    else
        TESS_TRY(tess_weights_digest(r->engine, &weights));
    *drawer = tess_hash_bytes(&weights, sizeof(weights),
                              tess_hash_text(kernels) + (uint64_t)r->config->training.mixed_precision_param);
    return TESS_OK;
}

tess_status rl_collect(rl *r, bool may_draw)
{
    rollout o = {.r = r, .may_draw = may_draw, .origin = {r->identity, r->newest.state.chain, 0}};
    if (may_draw)
        TESS_TRY(identify_drawer(r, &o.origin.weights));
    rl_groups_free(r->mem, &r->newest.chosen, r->config->rollout.n);
    r->newest.facts = (rl_rollout_facts){.rounds = 0};
    r->newest.turns = (rl_turn_failures){.n_samples = r->config->rollout.prompts * r->config->rollout.n};
    r->newest.after = r->newest.state;
    tess_status status = collect(&o);
    rl_journal_close(&o.journal);
    tess_mem_free(r->mem, o.samples);
    tess_mem_free(r->mem, o.owner);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "rollout %lld", (long long)r->newest.state.rollout);
}

/* ---- Pairs ---- */
static tess_status fill_side(rl *r, rl_sample *s, const tess_prompt_record *prompt, bool chosen)
{
    const int32_t *ids = chosen ? prompt->chosen : prompt->rejected;
    const int64_t n = chosen ? prompt->n_chosen : prompt->n_rejected;
    TESS_TRY(rl_sample_begin(r->mem, s, prompt->ids, prompt->n));
    for (int64_t i = 0; i < n; i++)
        TESS_TRY(rl_sample_add(r->mem, s, ids[i], 0, RL_NOT_DRAWN));
    s->finish = TESS_FINISH_END;
    s->grade = RL_SCORED;
    s->reward = chosen;
    return TESS_OK;
}

tess_status rl_collect_pairs(rl *r)
{
    rl_groups_free(r->mem, &r->newest.chosen, r->config->rollout.n);
    r->newest.facts = (rl_rollout_facts){.rounds = 0};
    r->newest.after = r->newest.state;
    while ((int64_t)r->newest.chosen.n < r->config->rollout.prompts) {
        rl_group *g;
        const int64_t ordinal = r->newest.after.cursor++, record = record_of(r, ordinal);
        TESS_TRY(add_group(r, &r->newest.chosen, ordinal, &g));
        for (int side = 0; side < 2; side++) {
            g->samples[side].number = 2 * ordinal + side;
            g->samples[side].record = record;
            TESS_TRY(fill_side(r, &g->samples[side], tess_prompts_at(r->prompts, record), side == 0));
        }
    }
    r->newest.after.rollout++;
    return TESS_OK;
}
