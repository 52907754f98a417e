/* Reads and writes rope_theta, rope_scaling and rope_parameters of config.json. */
#include <math.h>
#include <string.h>

#include "base/text/json.h"
#include "nn/models/family.h"

static const struct {
    tess_rope_kind kind;
    const char *name;
} kinds[] = {{TESS_ROPE_DEFAULT, "default"},
             {TESS_ROPE_LINEAR, "linear"},
             {TESS_ROPE_DYNAMIC, "dynamic"},
             {TESS_ROPE_LLAMA3, "llama3"},
             {TESS_ROPE_YARN, "yarn"}};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static tess_status parse_kind(const json_t *scaling, const char *what, const char *where, tess_rope_kind *kind)
{
    const char *name = "default";
    TESS_TRY(tess_json_get_string(scaling, "type", what, &name));
    TESS_TRY(tess_json_get_string(scaling, "rope_type", what, &name));
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *kind = kinds[i].kind;
            return TESS_OK;
        }
    return TESS_FAIL(TESS_E_UNSUPPORTED, "%s: %s.rope_type is '%s'; supported: default, linear, dynamic, llama3, yarn",
                     what, where, name);
}

static tess_status check_whole_head(const json_t *json, const char *what)
{
    double part = 1;
    TESS_TRY(tess_json_get_double(json, "partial_rotary_factor", what, &part));
    TESS_CHECK(part == 1, TESS_E_UNSUPPORTED, "%s: partial_rotary_factor is %g; these families rotate whole heads (1)",
               what, part);
    return TESS_OK;
}

static tess_status require(bool present, const char *what, const char *where, const char *key)
{
    TESS_CHECK(present, TESS_E_FORMAT, "%s: %s needs '%s' for its rope_type", what, where, key);
    return TESS_OK;
}

static tess_status parse_yarn(const json_t *scaling, const char *what, tess_rope_config *rope)
{
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->truncate = true;
    TESS_TRY(tess_json_get_double(scaling, "beta_fast", what, &rope->beta_fast));
    TESS_TRY(tess_json_get_double(scaling, "beta_slow", what, &rope->beta_slow));
    TESS_TRY(tess_json_get_double(scaling, "attention_factor", what, &rope->attention_factor));
    TESS_TRY(tess_json_get_double(scaling, "mscale", what, &rope->mscale));
    TESS_TRY(tess_json_get_double(scaling, "mscale_all_dim", what, &rope->mscale_all_dim));
    TESS_TRY(tess_json_get_bool(scaling, "truncate", what, &rope->truncate));
    TESS_CHECK(rope->beta_fast > 0 && rope->beta_slow > 0 && isfinite(rope->beta_fast) && isfinite(rope->beta_slow),
               TESS_E_FORMAT, "%s: yarn's beta_fast %g and beta_slow %g must be positive", what, rope->beta_fast,
               rope->beta_slow);
    TESS_CHECK(rope->attention_factor >= 0 && isfinite(rope->attention_factor) && isfinite(rope->mscale) &&
                   isfinite(rope->mscale_all_dim),
               TESS_E_FORMAT,
               "%s: yarn's attention_factor, mscale and mscale_all_dim must be finite, the first not negative", what);
    return TESS_OK;
}

static tess_status parse_scaling(const json_t *json, const json_t *scaling, const char *what, const char *where,
                                 int64_t max_position, tess_rope_config *rope)
{
    TESS_TRY(parse_kind(scaling, what, where, &rope->kind));
    TESS_TRY(check_whole_head(scaling, what));
    TESS_TRY(tess_json_get_double(scaling, "rope_theta", what, &rope->theta));
    if (rope->kind == TESS_ROPE_DEFAULT)
        return TESS_OK;

    /* These are the rules of transformers. Dynamic scaling starts from max_position_embeddings. For the other kinds
     * a value at the top level takes precedence. */
    rope->original_max_position = max_position;
    if (rope->kind == TESS_ROPE_LLAMA3 || rope->kind == TESS_ROPE_YARN) {
        const char *key = "original_max_position_embeddings";
        TESS_TRY(tess_json_get_int(scaling, key, what, &rope->original_max_position));
        TESS_TRY(tess_json_get_int(json, key, what, &rope->original_max_position));
        TESS_CHECK(rope->original_max_position > 0 && rope->original_max_position <= max_position * 1024, TESS_E_FORMAT,
                   "%s: %s.%s is %lld; max_position_embeddings is %lld", what, where, key,
                   (long long)rope->original_max_position, (long long)max_position);
    }
    if (rope->kind == TESS_ROPE_YARN && !tess_json_has(scaling, "factor"))
        rope->factor = (double)max_position / (double)rope->original_max_position;
    else
        TESS_TRY(require(tess_json_has(scaling, "factor"), what, where, "factor"));
    TESS_TRY(tess_json_get_double(scaling, "factor", what, &rope->factor));
    TESS_CHECK(rope->factor >= 1 && rope->factor <= 1e6, TESS_E_FORMAT, "%s: %s.factor is %g; it must be in [1, 1e6]",
               what, where, rope->factor);
    if (rope->kind == TESS_ROPE_YARN)
        return parse_yarn(scaling, what, rope);
    if (rope->kind != TESS_ROPE_LLAMA3)
        return TESS_OK;
    TESS_TRY(require(tess_json_has(scaling, "low_freq_factor"), what, where, "low_freq_factor"));
    TESS_TRY(require(tess_json_has(scaling, "high_freq_factor"), what, where, "high_freq_factor"));
    TESS_TRY(tess_json_get_double(scaling, "low_freq_factor", what, &rope->low_freq_factor));
    TESS_TRY(tess_json_get_double(scaling, "high_freq_factor", what, &rope->high_freq_factor));
    TESS_CHECK(rope->low_freq_factor > 0 && rope->high_freq_factor > rope->low_freq_factor &&
                   isfinite(rope->high_freq_factor),
               TESS_E_FORMAT, "%s: %s: low_freq_factor %g must be positive and below high_freq_factor %g", what, where,
               rope->low_freq_factor, rope->high_freq_factor);
    return TESS_OK;
}

tess_status tess_rope_parse(const json_t *json, const char *what, int64_t max_position, tess_rope_config *rope)
{
    rope->kind = TESS_ROPE_DEFAULT;
    rope->theta = 10000;
    TESS_TRY(tess_json_get_double(json, "rope_theta", what, &rope->theta));
    TESS_TRY(check_whole_head(json, what));

    const char *where = "rope_scaling";
    const json_t *scaling = json_object_get(json, where);
    if (scaling == NULL || json_is_null(scaling) || (json_is_object(scaling) && json_object_size(scaling) == 0)) {
        where = "rope_parameters";
        scaling = json_object_get(json, where);
    }
    if (scaling != NULL && !json_is_null(scaling)) {
        TESS_CHECK(json_is_object(scaling), TESS_E_FORMAT, "%s: '%s' must be an object or null", what, where);
        TESS_CHECK(!tess_json_has(scaling, "full_attention") && !tess_json_has(scaling, "sliding_attention"),
                   TESS_E_UNSUPPORTED, "%s: '%s' differs by layer type; one set for all layers is supported", what,
                   where);
        TESS_TRY(parse_scaling(json, scaling, what, where, max_position, rope));
    }
    TESS_CHECK(rope->theta > 1 && rope->theta <= 1e15, TESS_E_FORMAT, "%s: rope_theta is %g; it must be in (1, 1e15]",
               what, rope->theta);
    return TESS_OK;
}

int tess_rope_write(const tess_rope_config *rope, json_t *json)
{
    int failed = json_object_set_new(json, "rope_theta", json_real(rope->theta));
    if (rope->kind == TESS_ROPE_DEFAULT)
        return failed | json_object_set_new(json, "rope_scaling", json_null());

    const char *name = NULL;
    for (int i = 0; i < N_KINDS; i++)
        if (kinds[i].kind == rope->kind)
            name = kinds[i].name;
    json_t *scaling = json_pack("{s:s, s:f}", "rope_type", name, "factor", rope->factor);
    if (rope->kind == TESS_ROPE_LLAMA3 || rope->kind == TESS_ROPE_YARN)
        failed |=
            json_object_set_new(scaling, "original_max_position_embeddings", json_integer(rope->original_max_position));
    if (rope->kind == TESS_ROPE_LLAMA3)
        failed |= json_object_update_new(scaling, json_pack("{s:f, s:f}", "low_freq_factor", rope->low_freq_factor,
                                                            "high_freq_factor", rope->high_freq_factor));
    if (rope->kind == TESS_ROPE_YARN) {
        failed |=
            json_object_update_new(scaling, json_pack("{s:f, s:f, s:b}", "beta_fast", rope->beta_fast, "beta_slow",
                                                      rope->beta_slow, "truncate", (int)rope->truncate));
        if (rope->attention_factor != 0)
            failed |= json_object_set_new(scaling, "attention_factor", json_real(rope->attention_factor));
        if (rope->mscale != 0)
            failed |= json_object_set_new(scaling, "mscale", json_real(rope->mscale));
        if (rope->mscale_all_dim != 0)
            failed |= json_object_set_new(scaling, "mscale_all_dim", json_real(rope->mscale_all_dim));
    }
    return failed | json_object_set_new(json, "rope_scaling", scaling);
}
