#include "nn/model_config.h"

#include <math.h>
#include <stdio.h>

#include "nn/models/family.h"

const char *tess_family_name(tess_family family)
{
    const tess_family_row *row = tess_family_find(family);
    return row != NULL ? row->model_type : "unknown";
}

static const int64_t max_positions = 1 << 27, max_outputs = 4096;

/* Accepts ids beyond the vocabulary: real files name special tokens that were never added (such as a padding token).
 * Such an id never occurs in a batch. */
static tess_status check_token(const char *what, const char *key, int64_t id)
{
    TESS_CHECK(id >= -1 && id <= INT32_MAX, TESS_E_INVALID, "%s: %s is %lld; it must be a token, or null for none",
               what, key, (long long)id);
    return TESS_OK;
}

static tess_status check_sum_leaves(int64_t n, const char *key)
{
    TESS_CHECK(n >= 1 && n <= TESS_MAX_SUM_LEAVES && (n & (n - 1)) == 0, TESS_E_INVALID,
               "%s: a sum of %lld leaves; it must be a power of two, from 1 (none) to %d", key, (long long)n,
               TESS_MAX_SUM_LEAVES);
    return TESS_OK;
}

tess_status tess_model_config_check(const tess_model_config *c, const char *what)
{
    TESS_CHECK(tess_family_find(c->family) != NULL, TESS_E_INVALID, "%s: no model family has number %d", what,
               (int)c->family);
    TESS_TRY(tess_family_check_bounds(c, what));
    TESS_CHECK(c->n_outputs >= 0 && c->n_outputs <= max_outputs, TESS_E_INVALID,
               "%s: num_labels is %lld; it must be in [1, %lld]", what, (long long)c->n_outputs,
               (long long)max_outputs);
    TESS_CHECK(c->n_outputs == 0 || !c->tied, TESS_E_INVALID,
               "%s: tie_word_embeddings is true, but a head of %lld outputs is not the embedding", what,
               (long long)c->n_outputs);
    TESS_CHECK(c->n_outputs <= 1 || !c->value_head, TESS_E_INVALID,
               "%s: a value head has one output, and this one has %lld", what, (long long)c->n_outputs);
    TESS_CHECK(c->n_heads % c->n_kv_heads == 0, TESS_E_INVALID,
               "%s: num_attention_heads %lld is not a multiple of num_key_value_heads %lld", what,
               (long long)c->n_heads, (long long)c->n_kv_heads);
    const int64_t rotary = tess_model_config_rotary(c);
    if (tess_family_find(c->family)->shape->positions == NULL)
        TESS_CHECK(rotary > 0 && rotary % 2 == 0 && rotary <= c->head_size, TESS_E_INVALID,
                   c->rope.partial > 0 ? "%s: partial_rotary_factor rotates %lld channels: rotary positions turn pairs"
                                       : "%s: head_dim %lld is odd: rotary positions turn pairs",
                   what, (long long)rotary);
    TESS_CHECK(c->rope.kind != TESS_ROPE_LONGROPE || c->rope.n_factors == rotary / 2, TESS_E_INVALID,
               "%s: longrope lists %d factors; %lld channels are rotated in pairs", what, c->rope.n_factors,
               (long long)rotary);
    TESS_CHECK(c->initializer_range >= 0 && c->initializer_range <= 10, TESS_E_INVALID,
               "%s: initializer_range is %g; it must be in [0, 10]", what, c->initializer_range);
    TESS_CHECK(c->n_eos >= 0 && c->n_eos <= 8, TESS_E_INVALID, "%s: %d end-of-sequence tokens; at most 8", what,
               c->n_eos);
    const tess_family_mixture *mixture = tess_family_find(c->family)->mixture;
    TESS_CHECK(
        mixture == NULL || (c->parts.experts.n >= 1 && c->parts.experts.top_k >= 1 && c->parts.experts.size >= 1),
        TESS_E_INVALID,
        "%s: a mixture of %lld experts, %lld for a token, with %lld channels each; there must be one at least", what,
        (long long)c->parts.experts.n, (long long)c->parts.experts.top_k, (long long)c->parts.experts.size);
    TESS_CHECK(mixture == NULL || mixture->shared_gate == NULL || c->parts.experts.shared > 0, TESS_E_INVALID,
               "%s: shared_expert_intermediate_size is null; it must be at least 1", what);
    TESS_CHECK(c->parts.experts.top_k <= c->parts.experts.n, TESS_E_INVALID,
               "%s: num_experts_per_tok is %lld; there are %lld experts to choose from", what,
               (long long)c->parts.experts.top_k, (long long)c->parts.experts.n);
    if (tess_family_find(c->family)->shape->latent != NULL) {
        const int64_t q = c->parts.latent.q, kv = c->parts.latent.kv, value = c->parts.latent.value;
        TESS_CHECK(kv > 0 && c->parts.latent.plain > 0 && rotary > 0 && value > 0, TESS_E_INVALID,
                   "%s: kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and v_head_dim must be at least 1", what);
        TESS_CHECK(kv <= c->hidden_size && q <= c->hidden_size, TESS_E_UNSUPPORTED,
                   "%s: q_lora_rank is %lld and kv_lora_rank %lld; supported: up to hidden_size, %lld", what,
                   (long long)q, (long long)kv, (long long)c->hidden_size);
        TESS_CHECK(value <= c->head_size, TESS_E_UNSUPPORTED,
                   "%s: v_head_dim is %lld; supported: up to qk_nope_head_dim + qk_rope_head_dim, %lld", what,
                   (long long)value, (long long)c->head_size);
        TESS_CHECK(c->n_kv_heads == c->n_heads, TESS_E_UNSUPPORTED,
                   "%s: num_key_value_heads is %lld; with latents it must be num_attention_heads, %lld", what,
                   (long long)c->n_kv_heads, (long long)c->n_heads);
    }
    const int64_t groups = c->parts.experts.groups, kept = c->parts.experts.kept;
    TESS_CHECK(kept == 0 || (kept <= groups && c->parts.experts.n % groups == 0 &&
                             kept * (c->parts.experts.n / groups) >= c->parts.experts.top_k),
               TESS_E_INVALID,
               "%s: %lld experts in %lld groups (n_group), of which topk_group %lld must have at least "
               "num_experts_per_tok %lld",
               what, (long long)c->parts.experts.n, (long long)groups, (long long)kept,
               (long long)c->parts.experts.top_k);
    TESS_TRY_CTX(check_sum_leaves(c->sum_leaves, "sum_leaves"), "%s", what);
    TESS_TRY(check_token(what, "bos_token_id", c->bos_token_id));
    TESS_TRY(check_token(what, "pad_token_id", c->pad_token_id));
    for (int i = 0; i < c->n_eos; i++)
        TESS_TRY(check_token(what, "eos_token_id", c->eos_token_id[i]));
    return TESS_OK;
}

int64_t tess_model_config_max_length(const tess_model_config *config)
{
    if (config->max_length > 0)
        return config->max_length;
    if (config->rope.kind == TESS_ROPE_DEFAULT || config->rope.kind == TESS_ROPE_DYNAMIC)
        return config->max_position;
    double stretched = ceil(config->rope.factor * (double)config->rope.original_max_position);
    if (stretched > (double)max_positions)
        stretched = (double)max_positions;
    return stretched > (double)config->max_position ? (int64_t)stretched : config->max_position;
}

const char *tess_model_config_longrope(const tess_model_config *config, char *text, size_t size)
{
    const long long limit = tess_model_config_max_length(config), original = config->rope.original_max_position;
    text[0] = '\0';
    if (config->rope.kind == TESS_ROPE_LONGROPE)
        snprintf(text, size,
                 "longrope: %s factors, for a position limit of %lld %s original_max_position_embeddings (%lld)",
                 limit > original ? "long" : "short", limit, limit > original ? "above" : "within", original);
    return text;
}

tess_status tess_model_config_set_max_length(tess_model_config *config, int64_t max_length, const char *key)
{
    if (max_length == 0)
        return TESS_OK;
    config->max_length = 0;
    int64_t most = config->rope.kind == TESS_ROPE_DYNAMIC ? max_positions : tess_model_config_max_length(config);
    TESS_CHECK(max_length >= 2 && max_length <= most, TESS_E_INVALID,
               "%s: %lld positions; this model takes 2 to %lld (max_position_embeddings and rope scaling)", key,
               (long long)max_length, (long long)most);
    config->max_length = max_length;
    return TESS_OK;
}

tess_status tess_model_config_set_sum_leaves(tess_model_config *config, int64_t sum_leaves, const char *key)
{
    TESS_TRY(check_sum_leaves(sum_leaves, key));
    config->sum_leaves = sum_leaves;
    return TESS_OK;
}
