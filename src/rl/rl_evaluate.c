/* Held-out prompts: the policy answers each of them several times, and the answers are graded. The random draws are
 * the same in every evaluation, so that two evaluations differ only by the weights. */
#include <math.h>

#include "base/os/os.h"
#include "rl/algo/rl_passk.h"
#include "rl/rl_impl.h"
#include "tessera/comm.h"

static const uint64_t evaluation_numbers = (uint64_t)1 << 62; /* no sample of a rollout has such a number */

typedef struct rl_evaluation {
    tess_scope own;
    rl_sample *samples; /* (n) rewards of all ranks */
    rl_sample **listed; /* (n) */
    int32_t *owner;
    int64_t n;
    bool alone; /* rl_draw */
} rl_evaluation;

static tess_status begin(rl *r, rl_evaluation *e)
{
    const int64_t n = r->config->evaluation.n;
    const size_t count = (size_t)e->n;
    TESS_TRY(TESS_NEW_IN(&e->own, count, "evaluation", &e->samples));
    TESS_TRY(TESS_NEW_IN(&e->own, count, "evaluation", &e->listed));
    TESS_TRY(TESS_NEW_IN(&e->own, count, "evaluation", &e->owner));
    for (int64_t i = 0; i < e->n; i++) {
        const tess_prompt_record *prompt = tess_prompts_at(r->held_out, i / n);
        e->samples[i] = (rl_sample){.number = i, .record = i / n, .finish = RL_UNFINISHED};
        e->listed[i] = &e->samples[i];
        e->owner[i] = rl_speaker(r, i / n);
        TESS_TRY(rl_sample_begin(r->mem, &e->samples[i], prompt->ids, prompt->n));
    }
    return TESS_OK;
}

static tess_status answer(rl *r, rl_evaluation *e)
{
    const tess_config *c = r->config;
    const rl_draw_options options = {.temperature = c->evaluation.temperature,
                                     .max_new_tokens = c->rollout.max_new_tokens,
                                     .numbers = evaluation_numbers,
                                     .prompts = r->held_out,
                                     .prefix_n = c->evaluation.n};
    TESS_AUTO(tess_mem_drop) rl_sample **mine = NULL;
    int64_t n = 0;
    TESS_TRY(TESS_NEW(r->mem, e->n, "evaluation", &mine));
    for (int64_t i = 0; i < e->n; i++)
        if (e->owner[i] == rl_speaker(r, rl_place(r)))
            mine[n++] = e->listed[i];
    r->newest.turns = (rl_turn_failures){.n_samples = e->n};
    TESS_TRY(rl_draw(r, &options, mine, n, &e->alone));
    TESS_TRY(rl_judge_turns(r));
    TESS_TRY(rl_grade(r, r->held_out, mine, rl_speaks(r) ? n : 0));
    return rl_exchange(r, e->listed, e->owner, e->n);
}

typedef struct evaluation_result {
    double accuracy, reward, pass_at_n, length, truncated;
} evaluation_result;

static evaluation_result measure(const rl *r, const rl_evaluation *e)
{
    const int64_t n = r->config->evaluation.n, n_prompts = e->n / n;
    evaluation_result sum = {0};
    for (int64_t p = 0; p < n_prompts; p++) {
        int64_t right = 0;
        for (int64_t k = 0; k < n; k++) {
            const rl_sample *s = &e->samples[p * n + k];
            right += s->grade == RL_SCORED && s->reward >= r->config->evaluation.threshold;
            sum.reward += s->reward;
            sum.length += (double)(s->n - s->n_prompt);
            sum.truncated += s->finish == TESS_FINISH_LENGTH;
        }
        sum.accuracy += (double)right / (double)n;
        sum.pass_at_n += tess_pass_at_k(n, right, n < 8 ? n : 8);
    }
    return (evaluation_result){.accuracy = sum.accuracy / (double)n_prompts,
                               .reward = sum.reward / (double)e->n,
                               .pass_at_n = sum.pass_at_n / (double)n_prompts,
                               .length = sum.length / (double)e->n,
                               .truncated = sum.truncated / (double)e->n};
}

static void report(rl *r, const rl_evaluation *e, double seconds)
{
    static const char *const pass_names[] = {"eval/held_out-pass@1", "eval/held_out-pass@2", "eval/held_out-pass@3",
                                             "eval/held_out-pass@4", "eval/held_out-pass@5", "eval/held_out-pass@6",
                                             "eval/held_out-pass@7", "eval/held_out-pass@8"};
    const evaluation_result result = measure(r, e);
    const int64_t n = r->config->evaluation.n, k = n < 8 ? n : 8;
    const tess_metric metrics[] = {{"eval/held_out", result.accuracy},
                                   {"eval/held_out-reward", result.reward},
                                   {pass_names[k - 1], result.pass_at_n},
                                   {"eval/held_out-truncated_ratio", result.truncated},
                                   {"eval/held_out-response_len", result.length}};
    tess_trainer_note(
        r->trainer,
        "evaluation: step: %5lld  accuracy: %.4f  pass@%lld: %.4f  reward: %.4f  length: %.1f  (%lld prompts x %lld "
        "samples, %.1f s)",
        (long long)r->engine->step, result.accuracy, (long long)k, result.pass_at_n, result.reward, result.length,
        (long long)(e->n / n), (long long)n, seconds);
    tess_trainer_add_metrics(r->trainer, metrics, (int)(sizeof(metrics) / sizeof(metrics[0])));
}

/* An error of an outside program ends the evaluation, never the training. All ranks get the same status. */
static tess_status tolerate(const rl *r, tess_status status)
{
    if (status != TESS_E_IO && status != TESS_E_TIMEOUT && status != TESS_E_FORMAT && status != TESS_E_INVALID)
        return status == TESS_OK ? TESS_OK : tess_fail_context(status, "evaluation");
    tess_trainer_warn(r->trainer, "the evaluation of step %lld is missing: %s", (long long)r->engine->step,
                      tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

tess_status rl_evaluate(rl *r)
{
    rl_evaluation e = {.own = {.mem = r->mem}, .n = tess_prompts_count(r->held_out) * r->config->evaluation.n};
    const double begin_s = tess_os_now_s();
    tess_status status = begin(r, &e);
    if (status == TESS_OK)
        status = answer(r, &e);
    if (status == TESS_OK)
        report(r, &e, tess_os_now_s() - begin_s);
    for (int64_t i = 0; i < e.n && e.samples != NULL; i++)
        rl_sample_free(r->mem, &e.samples[i]);
    tess_scope_end(&e.own);
    return e.alone ? tess_fail_context(status, "evaluation") : tolerate(r, status);
}
