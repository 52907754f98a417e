#include "bench/plan/plan_matrix.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "bench/plan/measure_plan.h"
#include "bench/samples.h"
#include "plan/dry_rank.h"

const tess_form_part tess_matrix_form[] = {
    {.text = "{ranks} rank{ranks:s}, {rounds} round{rounds:s} of {steps} step{steps:s}; changes are those to row 1, by "
             "medians of rounds;\nprocessor: time of rank 0's first thread, for machines where other programs run\n\n"
             "      activations   change   planned     memory   step ms   change  processor   change"
             "[{planned_time:!}  planned]  exchanged\n"
             "{*rows}   {number:2}  [{refused:!}refused: {refused}|{activations:11B} {activations_change:8.1%}"
             "[{as_planned:!}   exactly|{activations_planned:10B}] {memory:10B} {step_ms:9.1f} {step_change:8.1%} "
             "{cpu_ms:10.1f} {cpu_change:8.1%}[{planned_change:!} {planned_change:8.1%}]  {exchanged:B}"
             "[{exchanged_off:!}, planned {exchanged_planned:B}]]\n{/}"
             "\n{*rows}  {number:2}  {settings}\n{/}"},
    {NULL, NULL}};

/* ---- Rows ---- */
__attribute__((format(printf, 2, 3))) static void add(tess_matrix_request *q, const char *format, ...)
{
    va_list args;
    if (q->n == TESS_MATRIX_ROWS)
        return;
    va_start(args, format);
    vsnprintf(q->rows[q->n++], TESS_MATRIX_TEXT, format, args);
    va_end(args);
}

void tess_matrix_add_recompute(tess_matrix_request *q, const char *folder)
{
    add(q, "activation_checkpoint.mode=none");
    add(q, "activation_checkpoint.mode=selective activation_checkpoint.recompute=attention_inputs,residual");
    add(q, "activation_checkpoint.mode=every_n activation_checkpoint.every_n=2");
    add(q, "activation_checkpoint.mode=full");
    if (folder == NULL)
        return;
    add(q, "activation_checkpoint.mode=none offload.folder=%s offload.activations=true", folder);
    add(q, "activation_checkpoint.mode=none offload.folder=%s offload.optimizer=true", folder);
    add(q,
        "activation_checkpoint.mode=none offload.folder=%s offload.params=true offload.grads=true "
        "offload.optimizer=true",
        folder);
    add(q,
        "activation_checkpoint.mode=full offload.folder=%s offload.params=true offload.grads=true "
        "offload.optimizer=true",
        folder);
}

void tess_matrix_add_context(tess_matrix_request *q)
{
    enum { MOST = 8 };
    int most = 1;
    while (2 * most <= MOST && q->plan.n_ranks % (2 * most) == 0)
        most *= 2;
    for (int degree = 1; degree <= most; degree *= 2)
        add(q,
            "parallelism.context_parallel_degree=%d training.context_leaves=%d "
            "parallelism.context_parallel_method=ring",
            degree, 2 * most);
}

/* ---- A row ---- */
typedef struct matrix_row {
    bool refused;
    tess_plan plan;
    tess_memory_of_rank rank0;
    double exchanged; /* planned bytes that all ranks receive from those that divide layers or tokens with them */
    tess_measured_step step; /* measured in the newest round */
    double step_s[TESS_MATRIX_ROUNDS], cpu_s[TESS_MATRIX_ROUNDS];
} matrix_row;

static tess_status configure(const tess_matrix_request *q, int row, tess_config *config)
{
    char words[TESS_MATRIX_TEXT], *save = NULL;
    TESS_TRY(tess_config_copy(q->plan.config, config));
    memcpy(words, q->rows[row], sizeof(words));
    for (char *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
        TESS_TRY_CTX(tess_config_override(config, word), "row %d", row + 1);
    return TESS_OK;
}

static tess_status plan_exchanges(const tess_memory_plan *plan, const tess_plan_request *q, double *bytes)
{
    tess_memory_plan moving = *plan;
    moving.moves = true;
    for (int rank = 0; rank < q->n_ranks; rank++) {
        tess_dry_report dry;
        TESS_TRY(tess_dry_rank(&moving, q->model, rank, &dry));
        *bytes += dry.counted_bytes;
    }
    return TESS_OK;
}

static tess_status plan_row(tess_planner *planner, const tess_matrix_request *q, int row, matrix_row *to)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_plan_request request = q->plan;
    TESS_TRY(configure(q, row, &config));
    const tess_status checked = tess_config_check_step(&config, request.n_ranks);
    to->refused = checked != TESS_OK;
    TESS_TRY(checked);
    const tess_memory_plan plan = tess_memory_plan_of(&config, request.n_ranks);
    request.config = &config;
    request.options.full_ranks = true;
    TESS_TRY(tess_plan_make(planner, &request, &to->plan));
    TESS_TRY(plan_exchanges(&plan, &request, &to->exchanged));
    return tess_memory_predict_rank(request.model, &plan, 0, &to->rank0);
}

static tess_status measure_row(const tess_matrix_request *q, int row, int round, matrix_row *to)
{
    TESS_AUTO(tess_config_free) tess_config config = {0};
    tess_plan_request request = q->plan;
    TESS_TRY(configure(q, row, &config));
    TESS_TRY(tess_config_check_step(&config, request.n_ranks));
    request.config = &config;
    TESS_TRY(tess_measure_step(&request, q->n_steps, &to->step));
    to->step_s[round] = to->step.step_s;
    to->cpu_s[round] = to->step.cpu_s;
    return TESS_OK;
}

/* ---- The report ---- */
static json_t *row_json(const tess_matrix_request *q, int i, const matrix_row *rows)
{
    const matrix_row *r = &rows[i], *first = &rows[0];
    const double activations = r->step.pool[TESS_POOL_ACTIVATIONS], planned = r->rank0.pool[TESS_POOL_ACTIVATIONS];
    double ratio[TESS_MATRIX_ROUNDS], cpu_ratio[TESS_MATRIX_ROUNDS], memory = 0;
    json_t *json = json_pack("{s:i, s:o}", "number", i + 1, "settings", tess_json_text(q->rows[i]));
    for (int pool = 0; pool < TESS_POOL_MISC; pool++)
        memory += r->step.pool[pool];
    for (int round = 0; round < q->n_rounds; round++) {
        ratio[round] = r->step_s[round] / first->step_s[round];
        cpu_ratio[round] = r->cpu_s[round] / first->cpu_s[round];
    }
    json_object_update_new(json,
                           json_pack("{s:f, s:f, s:f, s:b, s:f}", "activations", activations, "activations_change",
                                     activations / first->step.pool[TESS_POOL_ACTIVATIONS] - 1, "activations_planned",
                                     planned, "as_planned", activations == planned, "memory", memory));
    json_object_update_new(json, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "step_ms",
                                           1e3 * tess_bench_median(r->step_s, q->n_rounds), "step_change",
                                           tess_bench_median(ratio, q->n_rounds) - 1, "cpu_ms",
                                           1e3 * tess_bench_median(r->cpu_s, q->n_rounds), "cpu_change",
                                           tess_bench_median(cpu_ratio, q->n_rounds) - 1, "exchanged",
                                           r->step.exchanged_bytes, "exchanged_planned", r->exchanged, "exchanged_off",
                                           r->step.exchanged_bytes != r->exchanged));
    if (q->plan.machine->times != NULL)
        json_object_update_new(json, json_pack("{s:f, s:f}", "planned_ms", 1e3 * r->plan.time.step_s, "planned_change",
                                               r->plan.time.step_s / first->plan.time.step_s - 1));
    return json;
}

static tess_status measure(tess_planner *planner, const tess_matrix_request *q, matrix_row *rows, json_t *list)
{
    for (int i = 0; i < q->n; i++) {
        const tess_status status = plan_row(planner, q, i, &rows[i]);
        if (status != TESS_OK && (!rows[i].refused || i == 0))
            return status;
        if (status == TESS_OK)
            continue;
        json_array_append_new(list,
                              json_pack("{s:i, s:o, s:o}", "number", i + 1, "settings", tess_json_text(q->rows[i]),
                                        "refused", tess_json_text(tess_error_message())));
        tess_error_clear();
    }
    for (int round = 0; round < q->n_rounds; round++)
        for (int i = 0; i < q->n; i++) {
            if (rows[i].refused)
                continue;
            if (q->progress != NULL)
                q->progress(q->self, round, i);
            TESS_TRY(measure_row(q, i, round, &rows[i]));
        }
    for (int i = 0; i < q->n; i++)
        if (!rows[i].refused)
            json_array_insert_new(list, (size_t)i, row_json(q, i, rows));
    return TESS_OK;
}

tess_status tess_matrix_measure(tess_mem *mem, tess_planner *planner, const tess_matrix_request *q, json_t **out)
{
    TESS_AUTO(tess_mem_drop) matrix_row *rows = NULL;
    json_t *list = json_array();
    json_auto_t *report =
        json_pack("{s:i, s:i, s:i, s:i, s:b, s:o}", "version", 1, "ranks", q->plan.n_ranks, "rounds", q->n_rounds,
                  "steps", q->n_steps, "planned_time", q->plan.machine->times != NULL, "rows", list);
    TESS_TRY(TESS_NEW(mem, q->n, "rows of a matrix", &rows));
    TESS_TRY(measure(planner, q, rows, list));
    *out = json_incref(report);
    return TESS_OK;
}
