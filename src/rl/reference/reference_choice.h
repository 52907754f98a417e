/* Chooses a kind of reference model: weights that change places with the policy's, or an instance of its own. It is a
 * vote of at most four factors, to ask before buying memory. Tessera itself keeps one mapped or shared copy a host
 * (reference.h), which is neither. */
#ifndef TESS_RL_REFERENCE_CHOICE_H
#define TESS_RL_REFERENCE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tess_reference_kind { TESS_REFERENCE_SWAP, TESS_REFERENCE_INDEPENDENT } tess_reference_kind;

typedef struct tess_reference_case {
    double model_gb, available_gb; /* size of the model's weights; free memory */
    int64_t steps_per_rollout;
    bool kl_is_critical; /* the divergence must be precise */
    bool forbids_offload;
} tess_reference_case;

enum { TESS_REFERENCE_VOTES = 4 };

typedef struct tess_reference_vote {
    const char *factor; /* "MEMORY_TIGHT" */
    tess_reference_kind kind;
} tess_reference_vote;

typedef struct tess_reference_choice {
    tess_reference_kind kind;
    int n_swap, n_independent; /* votes */
    tess_reference_vote votes[TESS_REFERENCE_VOTES];
    int n_votes;
    double saved_gb; /* by swapping, if memory speaks for it; else 0 */
} tess_reference_choice;

/* Swapping takes 1.3 times the model, an independent instance 2 times: below 1.3 memory is critical, below 2.0 tight,
 * and both vote for swapping. A critical divergence, 10 steps or more a rollout, and weights that may not leave the
 * device vote for independence; the first two, where they are not so, for swapping. A tie is swapping. */
tess_reference_choice tess_reference_choose(const tess_reference_case *of);

const char *tess_reference_kind_name(tess_reference_kind kind); /* "weight_swapping", "independent_instances" */

#endif
