/* Predicts the memory of ranks that only draw samples. */
#include "base/core/round_up.h"
#include "infer/generate.h"
#include "infer/kv_pages.h"
#include "plan/memory_need.h"

/* Copies of the weights: the one in use, and the next one that is being received */
enum { COPIES = 2, ALIGNMENT = 64 };

static double copy_bytes(const tess_model *model, tess_dtype dtype)
{
    size_t bytes = 0;
    for (int i = 0; i < tess_model_n_params(model); i++) {
        size_t n = (size_t)tess_shape_count(&tess_model_param(model, i)->shape) * tess_dtype_size(dtype);
        bytes += tess_round_up(n, ALIGNMENT);
    }
    return (double)bytes;
}

/* Bytes of two rows of logits for each sequence. A sampler's work space has the same size. */
static double logits_bytes(const tess_model_config *model, int64_t n)
{
    return 2.0 * (double)n * (double)model->vocab_size * sizeof(float);
}

void tess_memory_of_drawing(const tess_model *model, const tess_config *c, tess_memory_of_rank *rank)
{
    const tess_model_config *sizes = tess_model_get_config(model);
    const int64_t samples = c->rollout.prompts * c->rollout.n;
    const int64_t n = samples < c->rollout.max_sequences ? samples : c->rollout.max_sequences;
    const tess_executor_options pass = {.dtype = tess_precision_dtype(c->training.mixed_precision_param),
                                        .max_tokens = c->rollout.pass_tokens > n ? c->rollout.pass_tokens : n,
                                        .max_position = c->training.seq_len};
    double cache =
        (double)(tess_kv_pages_of(c->training.seq_len) + 1) * (double)n * (double)tess_kv_page_bytes(sizes, pass.dtype);
    if (c->rollout.cache_bytes > 0 && (double)c->rollout.cache_bytes < cache)
        cache = (double)c->rollout.cache_bytes;
    *rank = (tess_memory_of_rank){
        .pool = {[TESS_POOL_PARAMS] = COPIES * copy_bytes(model, pass.dtype),
                 [TESS_POOL_ACTIVATIONS] = (double)tess_executor_bytes(model, &pass) + logits_bytes(sizes, n),
                 [TESS_POOL_KV_CACHE] = cache},
        .stages = "draws"};
}
