/* A matrix of settings: memory and time of a step with each, planned and measured on this machine. It shows what
 * recomputation and offload save and cost, or what it brings to divide the tokens of rows among ranks. */
#ifndef TESS_BENCH_PLAN_PLAN_MATRIX_H
#define TESS_BENCH_PLAN_PLAN_MATRIX_H

#include "base/report/form.h"
#include "plan/plan.h"

enum { TESS_MATRIX_ROWS = 24, TESS_MATRIX_TEXT = 512, TESS_MATRIX_ROUNDS = 32 };

typedef struct tess_matrix_request {
    /* its configuration has not passed tess_config_check_step: each row is checked by itself. The batch is set */
    tess_plan_request plan;
    char rows[TESS_MATRIX_ROWS][TESS_MATRIX_TEXT]; /* (n) settings, separated by spaces; the first is what others are
                                                      compared with */
    int n, n_steps, n_rounds;                      /* each round measures every row once */
    void (*progress)(void *self, int round, int row);
    void *self;
} tess_matrix_request;

/* Adds rows of recomputation, and with a folder (not NULL) of offload to it. */
void tess_matrix_add_recompute(tess_matrix_request *request, const char *folder);
/* Adds rows of 1, 2, 4 and 8 ranks that divide tokens, as far as the ranks suffice. */
void tess_matrix_add_context(tess_matrix_request *request);

/* Measures, and sets *report, a new reference. A row that is refused is shown with the reason.
 * TESS_E_INVALID: the first row is refused, or a setting is unknown */
tess_status tess_matrix_measure(tess_mem *mem, tess_planner *planner, const tess_matrix_request *request,
                                json_t **report);
extern const tess_form_part tess_matrix_form[];

#endif
