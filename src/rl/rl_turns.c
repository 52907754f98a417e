/* Samples of several turns: the environment's text between two turns becomes part of the sample, but not a target. */
#include <stdio.h>

#include "comm/agree.h"
#include "rl/rl_impl.h"
#include "tessera/comm.h"

/* The sample's texts: the whole response, and its newest turn. */
static tess_status decode(const rl *r, const rl_sample *s, int64_t first, tess_buffer *response, tess_buffer *answer)
{
    TESS_TRY(rl_text(r, s->ids + s->n_prompt, s->n - s->n_prompt, response));
    return rl_text(r, s->ids + first, s->n - first, answer);
}

/* Tokenizes only the observation; text that the model drew is never tokenized again. */
static tess_status append(rl *r, rl_sample *s, const tess_buffer *observation)
{
    TESS_AUTO(tess_ids_free) tess_ids ids = {.mem = r->mem};
    TESS_TRY(tess_encode_text(r->text.tokenizer, observation->data, observation->size, false, &ids));
    const int64_t room = r->config->training.seq_len - s->n;
    for (size_t i = 0; i < ids.size && (int64_t)i < room; i++)
        TESS_TRY(rl_sample_add(r->mem, s, ids.data[i], 0, RL_NOT_DRAWN));
    return TESS_OK;
}

/* Checks a number of failed turns, on this rank or on all. */
static bool are_too_many(const rl *r, int64_t failed)
{
    return (double)failed > r->config->reward.max_failures * (double)r->newest.turns.n_samples;
}

static tess_status fail_turns(const rl *r, int64_t failed)
{
    return TESS_FAIL(TESS_E_INVALID, "%lld turns failed, reward.max_failures allows %g of %lld samples; %s",
                     (long long)failed, r->config->reward.max_failures, (long long)r->newest.turns.n_samples,
                     r->newest.turns.newest);
}

tess_status rl_judge_turns(rl *r)
{
    const int64_t mine = r->newest.turns.failed;
    int64_t all = mine;
    if (r->environment == NULL)
        return TESS_OK;
    TESS_TRY(tess_all_reduce(r->team, &mine, &all, 1, TESS_I64, TESS_SUM, NULL));
    return tess_team_agree(r->team, mine > 0 && are_too_many(r, all) ? fail_turns(r, all) : TESS_OK);
}

/* A failed turn ends its sample. Too many failed turns end the run, or only the evaluation. */
static tess_status tolerate(rl *r, tess_status status)
{
    if (status != TESS_E_IO && status != TESS_E_TIMEOUT && status != TESS_E_FORMAT)
        return status;
    snprintf(r->newest.turns.newest, sizeof(r->newest.turns.newest), "%s", tess_error_message());
    if (are_too_many(r, ++r->newest.turns.failed))
        return fail_turns(r, r->newest.turns.failed);
    tess_trainer_warn(r->trainer, "a sample ends here: %s", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

/* Returns the team of the ranks that differ from this one only on an axis that divides the model, or NULL. */
static tess_team *team_of(const rl *r, int axis)
{
    if (axis == TESS_AXIS_CP) /* the mesh joins it with the shards */
        return r->engine->context_team;
    return tess_axis_kind_of(axis) == TESS_AXIS_OF_MODEL ? tess_mesh_team(r->engine->mesh, tess_axis_name(axis)) : NULL;
}

/* Gives the answer that the speaking rank has got to all ranks that draw the sample. If it has failed, so have all;
 * its message is that of the job, because its number is the lowest. */
static tess_status share(rl *r, tess_status status, tess_buffer *observation, bool *goes_on)
{
    int32_t words[] = {status, *goes_on};
    if (!rl_draws_together(r))
        return status;
    for (int axis = 0; axis < TESS_AXES; axis++)
        if (team_of(r, axis) != NULL)
            TESS_TRY(tess_broadcast(team_of(r, axis), words, 2, TESS_I32, 0, NULL));
    r->newest.turns.all_failed = words[0] != TESS_OK;
    TESS_CHECK(rl_speaks(r) || !r->newest.turns.all_failed, (tess_status)words[0],
               "a turn failed on the rank that speaks");
    TESS_TRY(status);
    *goes_on = words[1] != 0;
    for (int axis = 0; axis < TESS_AXES; axis++)
        TESS_TRY(rl_share_bytes(team_of(r, axis), observation));
    return TESS_OK;
}

tess_status rl_turn(rl *r, const tess_prompts *prompts, rl_sample *s, int64_t turn, int64_t first, bool *goes_on)
{
    TESS_AUTO(tess_buffer_free) tess_buffer response = {.mem = r->mem}, answer = response, observation = response;
    const tess_prompt_record *record = tess_prompts_at(prompts, s->record);
    tess_status status = decode(r, s, first, &response, &answer);
    const tess_turn said = {.id = (uint64_t)s->number,
                            .turn = turn,
                            .prompt = record->text,
                            .response = response.data,
                            .answer = answer.data,
                            .label = record->label != NULL ? record->label : "",
                            .metadata = record->metadata};
    if (status == TESS_OK && rl_speaks(r))
        status = tolerate(r, tess_rl_environment_answer(r->environment, &said, &observation, goes_on));
    status = share(r, status, &observation, goes_on);
    if (status == TESS_OK && *goes_on)
        status = append(r, s, &observation);
    return status;
}
