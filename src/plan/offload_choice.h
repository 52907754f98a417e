/* Estimates by a rule of thumb whether parameters, gradients and optimizer state should move from the device to host
 * memory. It serves users who do not have a run yet; `tessera info CONFIG` counts the memory of a run of Tessera. */
#ifndef TESS_PLAN_OFFLOAD_CHOICE_H
#define TESS_PLAN_OFFLOAD_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tess_offload_decision { TESS_NO_OFFLOAD, TESS_OFFLOAD, TESS_OFFLOAD_IMPOSSIBLE } tess_offload_decision;

/* The facts of the case, in GB. model_gb: size of the model's weights. */
typedef struct tess_offload_case {
    double model_gb, device_gb, host_gb; /* free memory of device and host */
    int64_t batch;                       /* sequences per step of one device */
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

/* Decides whether to offload. The device needs the weights (M), gradients of the same size (M), Adam's moments of
 * twice the size (2 M), and for each sequence activations of half the size: 4 M + M batch / 2 together. If the
 * device has less, parameters and gradients move to the host: that saves 2 M on the device, and the host needs 3 M.
 * If the host has less, offloading is impossible. A critical speed only adds a warning. */
tess_offload_choice tess_offload_choose(const tess_offload_case *of);

const char *tess_offload_decision_name(tess_offload_decision decision); /* "NO_OFFLOAD", "OFFLOAD", "IMPOSSIBLE" */

#endif
