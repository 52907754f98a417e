/* Formats the result of a comparison for programs. Keys about a pipeline are present only if there is one. */
#include "base/text/json.h"
#include "verify/verify.h"

enum { JSON_VERSION = 1 };

static json_t *numbers(const double *values, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(array, tess_json_number(values[i]));
    return array;
}

/* Returns null if nothing differs, or if the values were not compared. */
static json_t *describe_delta(const tess_verify_tensor *t, const tess_verify_delta *d)
{
    if (d->n_different == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:i, s:o, s:o, s:I, s:o, s:o}", "n_different", (json_int_t)d->n_different, "row",
                     (json_int_t)(d->first / t->row), "column", (json_int_t)(d->first % t->row), "rank", d->rank,
                     "here", tess_json_number(d->here), "one_rank", tess_json_number(d->there), "ulp",
                     (json_int_t)d->ulp, "max_abs", tess_json_number(d->max_abs), "max_rel",
                     tess_json_number(d->max_rel));
}

static json_t *describe_tensor(const tess_verify_result *r, const tess_verify_tensor *t)
{
    json_t *stage = r->stages > 1 ? json_integer(t->stage) : NULL;
    return json_pack("{s:s, s:I, s:I, s:o*, s:I, s:I, s:o, s:o, s:s?}", "name", t->name, "rows", (json_int_t)t->rows,
                     "columns", (json_int_t)t->row, "stage", stage, "gradient_step", (json_int_t)t->grads_step,
                     "parameter_step", (json_int_t)t->weights_step, "gradient", describe_delta(t, &t->grads),
                     "parameter", describe_delta(t, &t->weights), "shards", t->shards[0] != '\0' ? t->shards : NULL);
}

static json_t *describe_memory(const tess_verify_result *r)
{
    json_t *object = json_object();
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        const tess_verify_memory *m = &r->memory[pool];
        json_t *planned = m->planned >= 0 ? json_integer(m->planned) : json_null();
        json_object_set_new(object, tess_pool_name((tess_pool)pool),
                            json_pack("{s:I, s:I, s:I, s:o}", "one_rank", (json_int_t)m->one, "largest",
                                      (json_int_t)m->largest, "all", (json_int_t)m->all, "planned", planned));
    }
    return object;
}

tess_status tess_verify_print_json(const tess_verify_result *r, tess_buffer *out)
{
    json_t *tensors = json_array();
    for (int i = 0; i < r->n_tensors; i++)
        json_array_append_new(tensors, describe_tensor(r, &r->tensors[i]));
    json_t *pipeline = r->stages > 1 ? json_pack("{s:i, s:s}", "stages", r->stages, "schedule", r->schedule) : NULL;
    json_t *report = json_pack(
        "{s:i, s:b, s:i, s:s, s:o*, s:s, s:s, s:I, s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "version", JSON_VERSION,
        "same", (int)tess_verify_same(r), "ranks", r->ranks, "strategy", r->strategy, "pipeline", pipeline, "kernels",
        r->kernels[0], "kernels_of_one", r->kernels[1], "steps", (json_int_t)r->steps, "first_step",
        (json_int_t)r->first_step, "reproducible", (int)(r->irreproducible == 0), "loss", numbers(r->loss[0], r->steps),
        "loss_of_one", numbers(r->loss[1], r->steps), "grad_norm", numbers(r->grad_norm[0], r->steps),
        "grad_norm_of_one", numbers(r->grad_norm[1], r->steps), "tensors", tensors, "memory", describe_memory(r));
    return tess_json_print(report, JSON_INDENT(1), out);
}
