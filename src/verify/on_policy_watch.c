/* Watches a run: stores the hash of every row that a layer computes. It can also plant the fault of a test. */
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "verify/on_policy_impl.h"

/* The tensors of a unit's forward pass that a watch sees, in the order of execution. */
static const char *const shown[] = {"output", "attention output", "feed-forward output", "final norm"};
enum { N_SHOWN = sizeof(shown) / sizeof(shown[0]) };

/* Returns the index of a tensor in `shown`; -1: it does not belong to the forward pass, or has no rows of the
 * stream. */
static int shown_as(const char *what)
{
    for (int i = 0; i < N_SHOWN; i++)
        if (strcmp(what, shown[i]) == 0)
            return i;
    return -1;
}

/* ---- The planted fault ---- */
static const char *const engines[] = {"training", "evaluation", "generation"};

const char *tess_on_policy_engine_name(tess_on_policy_engine engine)
{
    return engines[engine];
}

tess_status tess_on_policy_fault_parse(const char *text, const tess_model *model, tess_on_policy_fault *fault)
{
    char engine[16] = "", what[32] = "";
    int unit = -1, n_units = tess_model_n_units(model), chosen = -1;
    int n = sscanf(text, "%15[^:]:%d:%31[^:]", engine, &unit, what);
    for (int i = 0; i < TESS_ENGINE_COUNT; i++)
        chosen = strcmp(engine, engines[i]) == 0 ? i : chosen;
    int kind = shown_as(what);
    bool embedding = unit == 0, head = unit == n_units - 1;
    bool fits = kind >= 0 && (embedding ? kind == 0 : head ? kind == 3 : kind == 1 || kind == 2);
    TESS_CHECK(
        n == 3 && chosen >= 0 && unit >= 0 && unit < n_units && fits, TESS_E_INVALID,
        "'%.60s' is no place for a fault: ENGINE:UNIT:TENSOR, with training, evaluation or generation; unit 0 and "
        "'output', 1 to %d and 'attention output' or 'feed-forward output', or %d and 'final norm'",
        text, n_units - 2, n_units - 1);
    *fault = (tess_on_policy_fault){.engine = (tess_on_policy_engine)chosen, .unit = unit};
    memcpy(fault->what, what, sizeof(what));
    return TESS_OK;
}

/* Changes one bit of a value in all rows but the first, so that the difference is some hundredth of the value. */
static void plant(void *data, tess_dtype dtype, int64_t n_rows, int64_t row)
{
    for (int64_t r = 1; r < n_rows; r++) {
        if (dtype == TESS_F32)
            ((uint32_t *)data)[r * row + row / 2] ^= 1u << 16;
        else
            ((uint16_t *)data)[r * row + row / 2] ^= 1u << 2;
    }
}

/* ---- The watch ---- */
static tess_status collect(on_policy_watch *w, uint32_t stage, const char *data, size_t bytes, int64_t first,
                           int64_t n_rows)
{
    size_t needed = w->n + (size_t)n_rows;
    if (needed > w->capacity) {
        size_t capacity = needed > 2 * w->capacity ? needed : 2 * w->capacity;
        TESS_TRY(
            tess_mem_grow(w->mem, TESS_POOL_MISC, capacity * sizeof(*w->rows), "hashes of rows", (void **)&w->rows));
        w->capacity = capacity;
    }
    for (int64_t r = 0; r < n_rows; r++)
        w->rows[w->n++] = (on_policy_row){.stage = stage,
                                          .row = (uint32_t)(first + r),
                                          .hash = tess_hash_bytes(data + (size_t)r * bytes, bytes, stage)};
    return TESS_OK;
}

static void see(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first, int64_t n_rows,
                int64_t row)
{
    on_policy_watch *w = self;
    int kind = shown_as(what);
    if (kind < 0)
        return;
    if (w->fault != NULL && w->fault->unit == unit && strcmp(w->fault->what, what) == 0)
        plant(data, dtype, n_rows, row);
    if (w->collects && w->status == TESS_OK)
        w->status =
            collect(w, (uint32_t)(unit * N_SHOWN + kind), data, (size_t)row * tess_dtype_size(dtype), first, n_rows);
}

tess_watch on_policy_watch_of(on_policy_watch *watch)
{
    return (tess_watch){watch, watch->fault != NULL || watch->collects ? see : NULL};
}

int on_policy_unit(uint32_t stage)
{
    return (int)(stage / N_SHOWN);
}

const char *on_policy_shown(uint32_t stage)
{
    return shown[stage % N_SHOWN];
}
