#include "rl/reference/reference_choice.h"

static const double swap_size = 1.3, independent_size = 2.0; /* multiples of the model's size */
enum { OFTEN = 10 };                                         /* steps per rollout */

static void vote(tess_reference_choice *choice, const char *factor, tess_reference_kind kind)
{
    choice->votes[choice->n_votes++] = (tess_reference_vote){factor, kind};
    if (kind == TESS_REFERENCE_SWAP)
        choice->n_swap++;
    else
        choice->n_independent++;
}

static void vote_by_memory(tess_reference_choice *choice, const tess_reference_case *of)
{
    if (of->available_gb >= independent_size * of->model_gb) {
        vote(choice, "MEMORY_SUFFICIENT", TESS_REFERENCE_INDEPENDENT);
        return;
    }
    vote(choice, of->available_gb < swap_size * of->model_gb ? "MEMORY_CRITICAL" : "MEMORY_TIGHT", TESS_REFERENCE_SWAP);
    choice->saved_gb = (independent_size - swap_size) * of->model_gb;
}

tess_reference_choice tess_reference_choose(const tess_reference_case *of)
{
    tess_reference_choice choice = {0};
    vote_by_memory(&choice, of);
    if (of->kl_is_critical)
        vote(&choice, "PRECISION_CRITICAL", TESS_REFERENCE_INDEPENDENT);
    else
        vote(&choice, "PRECISION_OK", TESS_REFERENCE_SWAP);
    if (of->steps_per_rollout >= OFTEN)
        vote(&choice, "FREQUENT_SYNC", TESS_REFERENCE_INDEPENDENT);
    else
        vote(&choice, "RARE_SYNC", TESS_REFERENCE_SWAP);
    if (of->forbids_offload)
        vote(&choice, "NO_OFFLOAD", TESS_REFERENCE_INDEPENDENT);
    choice.kind = choice.n_independent > choice.n_swap ? TESS_REFERENCE_INDEPENDENT : TESS_REFERENCE_SWAP;
    return choice;
}

const char *tess_reference_kind_name(tess_reference_kind kind)
{
    return kind == TESS_REFERENCE_SWAP ? "weight_swapping" : "independent_instances";
}
