/* Finds how much a model must recompute in backward to fit into a memory budget. */
#include "base/text/text.h"
#include "nn/executor_impl.h"

static size_t bytes_with(const tess_model *model, size_t others, tess_executor_options options, int n)
{
    options.recompute = n > 0 ? TESS_RECOMPUTE_SELECTIVE : TESS_RECOMPUTE_NONE;
    options.recompute_choices = n;
    return others + tess_executor_bytes(model, &options);
}

/* A binary search works because more choices never take more memory: if one layer drops a group, the shared memory
 * for it is at most as large as what the layer frees. */
tess_status tess_executor_fit(const tess_model *model, size_t budget, size_t others, tess_executor_options *options)
{
    const tess_executor counted = {.model = model, .options = *options};
    int below = -1, enough = tess_executor_count_choices(&counted);
    size_t least = bytes_with(model, others, *options, enough);
    char has[32], needs[32];
    TESS_CHECK(least <= budget, TESS_E_INVALID,
               "%s for activations, but with all that may be computed again they take %s (%zu bytes)",
               tess_format_bytes((double)budget, has, sizeof(has)),
               tess_format_bytes((double)least, needs, sizeof(needs)), least);
    while (enough - below > 1) {
        int middle = below + (enough - below) / 2;
        *(bytes_with(model, others, *options, middle) <= budget ? &enough : &below) = middle;
    }
    options->recompute = enough > 0 ? TESS_RECOMPUTE_SELECTIVE : TESS_RECOMPUTE_NONE;
    options->recompute_choices = enough;
    return TESS_OK;
}
