/* Grades samples. Each rank grades its own samples; failures are counted over all ranks. */
#include <string.h>

#include "base/os/os.h"
#include "comm/agree.h"
#include "rl/rl_impl.h"
#include "tessera/comm.h"

typedef struct grading {
    tess_scope own;
    tess_reward_item *items;
    tess_reward_result *results;
    size_t *text; /* (items + 1) offset of each answer's text, and the end of the last one */
    tess_buffer answers;
} grading;

static tess_status decode_answers(rl *r, grading *g, rl_sample *const *samples, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const rl_sample *s = samples[i];
        g->text[i] = g->answers.size;
        TESS_TRY(rl_text(r, s->ids + s->n_prompt, s->n - s->n_prompt, &g->answers));
        TESS_TRY(tess_buffer_append(&g->answers, "", 1)); /* ends a text */
    }
    g->text[n] = g->answers.size;
    return TESS_OK;
}

tess_reward_item rl_item_of(const tess_prompt_record *record)
{
    return (tess_reward_item){.prompt = record->text,
                              .prompt_size = record->size,
                              .response = "",
                              .label = record->label != NULL ? record->label : "",
                              .label_size = record->label_size,
                              .metadata = record->metadata};
}

static void fill_items(grading *g, const tess_prompts *prompts, rl_sample *const *samples, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        tess_reward_item *item = &g->items[i];
        *item = rl_item_of(tess_prompts_at(prompts, samples[i]->record));
        item->id = (uint64_t)samples[i]->number;
        item->response = g->answers.data + g->text[i];
        item->response_size = g->text[i + 1] - g->text[i] - 1;
        item->truncated = samples[i]->finish == TESS_FINISH_LENGTH;
        item->n_tokens = samples[i]->n - samples[i]->n_prompt;
    }
}

static void take_result(const tess_reward_result *result, rl_sample *s)
{
    s->grade = result->scored ? RL_SCORED : RL_NO_REWARD;
    s->reward = result->scored ? result->value : 0;
    s->n_parts = result->n_parts < RL_PARTS ? result->n_parts : RL_PARTS;
    for (int i = 0; i < s->n_parts; i++) {
        s->part[i] = (rl_reward_part){.value = result->part[i].value};
        strncpy(s->part[i].name, result->part[i].name, RL_PART_NAME - 1);
    }
}

static tess_status grade(rl *r, grading *g, const tess_prompts *prompts, rl_sample *const *samples, int64_t n,
                         int64_t n_all)
{
    const size_t count = (size_t)n;
    TESS_TRY(TESS_NEW_IN(&g->own, count, "grades", &g->items));
    TESS_TRY(TESS_NEW_IN(&g->own, count, "grades", &g->results));
    TESS_TRY(TESS_NEW_IN(&g->own, count + 1, "grades", &g->text));
    TESS_TRY(decode_answers(r, g, samples, n));
    fill_items(g, prompts, samples, n);
    TESS_TRY(tess_rewarder_score(r->rewarder, g->items, n, n_all, g->results));
    for (int64_t i = 0; i < n; i++)
        take_result(&g->results[i], samples[i]);
    return TESS_OK;
}

static tess_status grade_mine(rl *r, const tess_prompts *prompts, rl_sample *const *samples, int64_t n, int64_t n_all)
{
    grading g = {.own = {.mem = r->mem}, .answers = {.mem = r->mem}};
    double begin_s = tess_os_now_s();
    if (n == 0)
        return TESS_OK;
    tess_runtime_phase(tess_trainer_runtime(r->trainer), "reward", rl_step(r) + 1, r->newest.state.rollout);
    tess_status status = grade(r, &g, prompts, samples, n, n_all);
    tess_scope_end(&g.own);
    tess_buffer_free(&g.answers);
    r->newest.facts.grade_s += tess_os_now_s() - begin_s;
    return status;
}

/* ---- All ranks ---- */
enum { NEWEST_WORDS = sizeof(((tess_reward_failures *)NULL)->newest) / sizeof(int32_t) };

/* Warns with the newest failure of the first rank that has one. */
static tess_status tell_failures(rl *r, int64_t failed, int64_t n_all, bool is_mine, tess_reward_failures *mine)
{
    const int rank = tess_team_rank(r->team), world = tess_team_size(r->team);
    int64_t first = is_mine ? rank : world;
    TESS_TRY(tess_all_reduce(r->team, &first, &first, 1, TESS_I64, TESS_MIN, NULL));
    TESS_TRY(tess_broadcast(r->team, mine->newest, NEWEST_WORDS, TESS_I32, (int)first, NULL));
    if (rank == 0)
        tess_trainer_warn(r->trainer,
                          "%lld of %lld rewards failed and count as none (reward.max_failures=%g); rank %d: %s",
                          (long long)failed, (long long)n_all, r->config->reward.max_failures,
                          tess_team_global_rank(r->team, (int)first), mine->newest);
    return TESS_OK;
}

/* Checks the number of failures over all ranks, so that the result does not depend on the number of ranks. */
static tess_status judge(rl *r, int64_t failed, int64_t n_all)
{
    int64_t all = failed;
    tess_reward_failures mine;
    TESS_TRY(tess_all_reduce(r->team, &failed, &all, 1, TESS_I64, TESS_SUM, NULL));
    if (all == 0)
        return TESS_OK;
    TESS_TRY(tess_team_agree(r->team, failed > 0 ? tess_rewarder_judge(r->rewarder, all, n_all) : TESS_OK));
    tess_rewarder_failures(r->rewarder, &mine);
    return tell_failures(r, all, n_all, failed > 0, &mine);
}

static tess_status grade_all(rl *r, const tess_prompts *prompts, rl_sample *const *samples, int64_t n)
{
    int64_t n_all = n;
    tess_reward_failures before, after;
    tess_rewarder_failures(r->rewarder, &before);
    TESS_TRY(tess_all_reduce(r->team, &n, &n_all, 1, TESS_I64, TESS_SUM, NULL));
    TESS_TRY(tess_team_agree(r->team, grade_mine(r, prompts, samples, n, n_all)));
    tess_rewarder_failures(r->rewarder, &after);
    return judge(r, after.n_failed - before.n_failed, n_all);
}

tess_status rl_grade(rl *r, const tess_prompts *prompts, rl_sample *const *samples, int64_t n)
{
    tess_status status = grade_all(r, prompts, samples, n);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "reward");
}
