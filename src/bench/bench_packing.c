/* `tessera bench packing` measures steps on documents of unequal length, which are either padded to one row each, or
 * packed into rows. Padding is computed like text, so the time of a step depends on its number of rows. Both losses
 * must have the same bits, because no token sees another document. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/samples.h"
#include "bench/step/step_run.h"

/* The mean length of a document is the length of a row divided by this. */
static const int64_t parts[] = {2, 4};
enum { N_PARTS = 2 };

static tess_status make_plan(tess_mem *mem, const tess_bench_options *options, const step_shape *shape, step_plan *plan)
{
    tess_bench_options o = *options;
    snprintf(o.step.model, sizeof(o.step.model), "%s", options->packing.model);
    o.step.ranks = options->packing.ranks;
    o.step.batch = step_shape_rows(shape, options->packing.seq);
    o.step.micro = options->packing.micro;
    o.step.seq = options->packing.seq;
    o.step.steps = options->packing.steps;
    TESS_TRY(step_plan_make(mem, &o, plan));
    plan->shape = *shape;
    return TESS_OK;
}

static tess_status report(const step_plan *plan, const step_result *r, const step_result *padded, tess_bench_report *to)
{
    char name[96];
    const step_shape *shape = &plan->shape;
    double rows = (double)plan->config.training.global_batch_size,
           tokens = rows * (double)plan->config.training.seq_len;
    double median = tess_bench_median(r->step_s, plan->n_steps),
           other = tess_bench_median(padded->step_s, plan->n_steps);
    const double values[] = {median * 1e3,
                             rows,
                             100 * (1 - (double)r->n_tokens / tokens),
                             (double)shape->n * (double)plan->config.training.seq_len / tokens,
                             other / median,
                             (double)r->n_tokens / median,
                             r->first_loss};
    snprintf(name, sizeof(name), "%s, mean %lld", shape->packed ? "packed" : "padded", (long long)shape->mean);
    return tess_bench_report_row(to, name, values);
}

static tess_status check_options(const tess_bench_options *options)
{
    TESS_CHECK(options->packing.seq % 8 == 0 && options->packing.documents % 4 == 0, TESS_E_INVALID,
               "--seq and --documents: %lld and %lld; multiples of 8 and 4 are packed into full rows",
               (long long)options->packing.seq, (long long)options->packing.documents);
    return TESS_OK;
}

/* Measures one plan, and reports it together with that of padded documents, results[0]. */
static tess_status measure_shape(tess_mem *mem, const tess_bench_options *options, const step_shape *shape,
                                 step_result *results, tess_bench_report *to)
{
    TESS_AUTO(step_plan_free) step_plan plan = {0};
    step_result *result = &results[shape->packed];
    TESS_TRY(make_plan(mem, options, shape, &plan));
    TESS_TRY(step_measure(&plan, NULL, result, sizeof(*result)));
    TESS_CHECK(memcmp(&results[0].first_loss, &result->first_loss, sizeof(double)) == 0, TESS_E_INTERNAL,
               "packing changes the loss of documents of mean length %lld: %.17g, padded %.17g", (long long)shape->mean,
               result->first_loss, results[0].first_loss);
    return report(&plan, result, &results[0], to);
}

static tess_status run(tess_mem *mem, const tess_bench_options *options, tess_bench_report *to)
{
    step_result results[2] = {0};
    TESS_TRY(check_options(options));
    TESS_TRY(tess_bench_report_fact(to, "job", "%s, %lld ranks, %lld documents in rows of %lld tokens",
                                    options->packing.model, (long long)options->packing.ranks,
                                    (long long)options->packing.documents, (long long)options->packing.seq));
    TESS_TRY(tess_bench_report_table(to, "a step: medians; fewer tokens, and speed, beside padding",
                                     "<time[ms], rows, waste[%], fewer[x], speed[x], >targets[1/s], loss"));
    for (int i = 0; i < N_PARTS; i++)
        for (int packed = 0; packed < 2; packed++) {
            const step_shape shape = {options->packing.documents, options->packing.seq / parts[i], packed != 0};
            TESS_TRY(measure_shape(mem, options, &shape, results, to));
        }
    return TESS_OK;
}

const tess_bench tess_bench_packing = {"packing", "documents padded to a row each, and packed into rows", run, NULL};
