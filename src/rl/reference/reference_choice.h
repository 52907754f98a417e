/* Recommends a kind of reference model: weights that are swapped with the policy's, or an independent instance. At
 * most four factors vote. It is meant for planning memory: Tessera itself does neither, but keeps one mapped or
 * shared copy per host (reference.h). */
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
    double saved_gb; /* bytes saved by swapping, if memory votes for it; otherwise 0 */
} tess_reference_choice;

/* Swapping takes 1.3 times the model's memory, an independent instance 2 times. Memory below 1.3 is critical, below
 * 2.0 tight; both vote for swapping. A critical divergence votes for independence, otherwise for swapping. So do 10
 * or more steps per rollout. Weights that may not leave the device vote for independence. A tie is swapping. */
tess_reference_choice tess_reference_choose(const tess_reference_case *of);

const char *tess_reference_kind_name(tess_reference_kind kind); /* "weight_swapping", "independent_instances" */

#endif
