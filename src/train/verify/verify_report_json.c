/* What came of a comparison, for programs. */
#include "base/text/json.h"
#include "train/verify/verify.h"

enum { JSON_VERSION = 1 };

static json_t *numbers(const double *values, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(array, tess_json_number(values[i]));
    return array;
}

/* NULL when nothing differs, or nobody looked. */
static json_t *describe_delta(const tess_verify_tensor *t, const tess_verify_delta *d)
{
    if (d->n_different == 0)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "n_different", json_integer(d->n_different));
    json_object_set_new(object, "row", json_integer(d->first / t->row));
    json_object_set_new(object, "column", json_integer(d->first % t->row));
    json_object_set_new(object, "rank", json_integer(d->rank));
    json_object_set_new(object, "here", tess_json_number(d->here));
    json_object_set_new(object, "one_rank", tess_json_number(d->there));
    json_object_set_new(object, "ulp", json_integer(d->ulp));
    json_object_set_new(object, "max_abs", tess_json_number(d->max_abs));
    json_object_set_new(object, "max_rel", tess_json_number(d->max_rel));
    return object;
}

static json_t *describe_tensor(const tess_verify_tensor *t)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(t->name));
    json_object_set_new(object, "rows", json_integer(t->rows));
    json_object_set_new(object, "columns", json_integer(t->row));
    json_object_set_new(object, "gradient_step", json_integer(t->grads_step));
    json_object_set_new(object, "parameter_step", json_integer(t->weights_step));
    json_object_set_new(object, "gradient", describe_delta(t, &t->grads));
    json_object_set_new(object, "parameter", describe_delta(t, &t->weights));
    json_object_set_new(object, "shards", t->shards[0] != '\0' ? json_string(t->shards) : json_null());
    return object;
}

static json_t *describe_memory(const tess_verify_result *r)
{
    json_t *object = json_object();
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        const tess_verify_memory *m = &r->memory[pool];
        json_t *bytes = json_object();
        json_object_set_new(bytes, "one_rank", json_integer(m->one));
        json_object_set_new(bytes, "largest", json_integer(m->largest));
        json_object_set_new(bytes, "all", json_integer(m->all));
        json_object_set_new(bytes, "planned", m->planned >= 0 ? json_integer(m->planned) : json_null());
        json_object_set_new(object, tess_pool_name((tess_pool)pool), bytes);
    }
    return object;
}

static json_t *describe(const tess_verify_result *r)
{
    json_t *object = json_object(), *tensors = json_array();
    json_object_set_new(object, "version", json_integer(JSON_VERSION));
    json_object_set_new(object, "same", json_boolean(tess_verify_same(r)));
    json_object_set_new(object, "ranks", json_integer(r->ranks));
    json_object_set_new(object, "strategy", json_string(r->strategy));
    json_object_set_new(object, "kernels", json_string(r->kernels[0]));
    json_object_set_new(object, "kernels_of_one", json_string(r->kernels[1]));
    json_object_set_new(object, "steps", json_integer(r->steps));
    json_object_set_new(object, "first_step", json_integer(r->first_step));
    json_object_set_new(object, "reproducible", json_boolean(r->irreproducible == 0));
    json_object_set_new(object, "loss", numbers(r->loss[0], r->steps));
    json_object_set_new(object, "loss_of_one", numbers(r->loss[1], r->steps));
    json_object_set_new(object, "grad_norm", numbers(r->grad_norm[0], r->steps));
    json_object_set_new(object, "grad_norm_of_one", numbers(r->grad_norm[1], r->steps));
    for (int i = 0; i < r->n_tensors; i++)
        json_array_append_new(tensors, describe_tensor(&r->tensors[i]));
    json_object_set_new(object, "tensors", tensors);
    json_object_set_new(object, "memory", describe_memory(r));
    return object;
}

tess_status tess_verify_print_json(const tess_verify_result *r, tess_buffer *out)
{
    return tess_json_print(describe(r), JSON_INDENT(1), out);
}
