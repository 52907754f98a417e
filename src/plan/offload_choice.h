/* Should parameters, gradients and optimizer state leave the device for the host's memory? An estimate by a rule of
 * thumb, for those who ask before they have a run; `tessera info CONFIG` counts what a run of Tessera takes. */
#ifndef TESS_PLAN_OFFLOAD_CHOICE_H
#define TESS_PLAN_OFFLOAD_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tess_offload_decision { TESS_NO_OFFLOAD, TESS_OFFLOAD, TESS_OFFLOAD_IMPOSSIBLE } tess_offload_decision;

/* GB, all of them; model_gb: of the model's weights. */
typedef struct tess_offload_case {
    double model_gb, device_gb, host_gb; /* memory that is free */
    int64_t batch;                       /* sequences a step of a device */
    bool speed_is_critical;
} tess_offload_case;

enum { TESS_OFFLOAD_FACTORS = 3, TESS_OFFLOAD_ADVICE = 4 };

typedef struct tess_offload_factor {
    const char *code; /* "GPU_MEMORY_INSUFFICIENT" */
    char reason[96];
} tess_offload_factor;

typedef struct tess_offload_choice {
    tess_offload_decision decision;
    double needed_gb;                /* memory that the device needs without offload */
    double saved_gb, host_needed_gb; /* memory with offload; 0: no offload is needed */
    double least_slower_pct, most_slower_pct;
    tess_offload_factor factors[TESS_OFFLOAD_FACTORS];
    int n_factors;
    const char *advice[TESS_OFFLOAD_ADVICE];
    int n_advice;
} tess_offload_choice;

/* The device needs weights, as many bytes of gradients, twice as many of Adam's moments, and of activations half of the
 * weights a sequence: 4 M + M batch / 2. Where it has less, parameters and gradients leave it: 2 M are saved, and the
 * host holds 3 M. With less than that on the host it is impossible. That speed is critical is a warning, no vote. */
tess_offload_choice tess_offload_choose(const tess_offload_case *of);

const char *tess_offload_decision_name(tess_offload_decision decision); /* "NO_OFFLOAD", "OFFLOAD", "IMPOSSIBLE" */

#endif
