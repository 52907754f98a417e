/* Reads and writes rope_theta, rope_scaling and rope_parameters of config.json. */
#include <math.h>
#include <string.h>

#include "base/text/json.h"
#include "nn/models/family.h"

static const struct {
    tess_rope_kind kind;
    const char *name;
} kinds[] = {{TESS_ROPE_DEFAULT, "default"}, {TESS_ROPE_LINEAR, "linear"}, {TESS_ROPE_DYNAMIC, "dynamic"},
             {TESS_ROPE_LLAMA3, "llama3"},   {TESS_ROPE_YARN, "yarn"},     {TESS_ROPE_LONGROPE, "longrope"},
             {TESS_ROPE_LONGROPE, "su"}};
static const char query_key[] = "llama_4_scaling_beta";
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* The kinds of a family with longrope: "yarn" is its older name. */
static bool is_phi3_kind(tess_rope_kind kind)
{
    return kind == TESS_ROPE_DEFAULT || kind == TESS_ROPE_YARN || kind == TESS_ROPE_LONGROPE;
}

static tess_status parse_kind(const json_t *scaling, const char *what, const char *where, const tess_family_row *row,
                              tess_rope_kind *kind)
{
    const char *name = "default";
    TESS_TRY(tess_json_get_string(scaling, "type", what, &name));
    TESS_TRY(tess_json_get_string(scaling, "rope_type", what, &name));
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0 &&
            (row->longrope ? is_phi3_kind(kinds[i].kind) : kinds[i].kind != TESS_ROPE_LONGROPE)) {
            *kind = row->longrope && kinds[i].kind == TESS_ROPE_YARN ? TESS_ROPE_LONGROPE : kinds[i].kind;
            return TESS_OK;
        }
    return TESS_FAIL(TESS_E_UNSUPPORTED, "%s: %s.rope_type is '%s'; supported: default, %s", what, where, name,
                     row->longrope ? "longrope" : "linear, dynamic, llama3, yarn");
}

/* Reads the part of a head that is rotated, at the top level or in the object of scaling. */
static tess_status parse_partial(const json_t *json, const char *what, const tess_family_row *row,
                                 tess_rope_config *rope)
{
    double part = rope->partial > 0 ? rope->partial : 1;
    TESS_TRY(tess_json_get_double(json, "partial_rotary_factor", what, &part));
    TESS_CHECK(part == 1 || row->partial > 0, TESS_E_UNSUPPORTED,
               "%s: partial_rotary_factor is %g; this family rotates whole heads (1)", what, part);
    TESS_CHECK(part > 0 && part <= 1, TESS_E_FORMAT, "%s: partial_rotary_factor is %g; it must be in (0, 1]", what,
               part);
    rope->partial = part < 1 ? part : 0;
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

static tess_status parse_factors(const json_t *scaling, const char *what, const char *where, const char *key, int *n,
                                 double factors[TESS_MAX_ROPE_FACTORS])
{
    const json_t *list = json_object_get(scaling, key);
    TESS_CHECK(json_is_array(list) && json_array_size(list) > 0 && json_array_size(list) <= TESS_MAX_ROPE_FACTORS,
               TESS_E_FORMAT, "%s: %s.%s must list 1 to %d numbers", what, where, key, TESS_MAX_ROPE_FACTORS);
    *n = (int)json_array_size(list);
    for (int i = 0; i < *n; i++) {
        const json_t *item = json_array_get(list, (size_t)i);
        factors[i] = json_number_value(item);
        TESS_CHECK(json_is_number(item) && factors[i] > 0 && factors[i] <= 1e9, TESS_E_FORMAT,
                   "%s: %s.%s[%d] must be a positive number", what, where, key, i);
    }
    return TESS_OK;
}

static tess_status parse_longrope(const json_t *scaling, const char *what, const char *where, tess_rope_config *rope)
{
    int n = 0;
    TESS_TRY(parse_factors(scaling, what, where, "short_factor", &n, rope->short_factor));
    TESS_TRY(parse_factors(scaling, what, where, "long_factor", &rope->n_factors, rope->long_factor));
    TESS_CHECK(n == rope->n_factors, TESS_E_FORMAT, "%s: %s.short_factor lists %d numbers, long_factor %d", what, where,
               n, rope->n_factors);
    TESS_TRY(tess_json_get_double(scaling, "attention_factor", what, &rope->attention_factor));
    TESS_CHECK(rope->attention_factor >= 0 && isfinite(rope->attention_factor), TESS_E_FORMAT,
               "%s: longrope's attention_factor must be finite and not negative", what);
    return TESS_OK;
}

/* Whether a kind of scaling states the positions before it. */
static bool states_original(tess_rope_kind kind)
{
    return kind == TESS_ROPE_LLAMA3 || kind == TESS_ROPE_YARN || kind == TESS_ROPE_LONGROPE;
}

/* Whether a kind of scaling may leave its factor to the ratio of positions. */
static bool has_ratio(tess_rope_kind kind)
{
    return kind == TESS_ROPE_YARN || kind == TESS_ROPE_LONGROPE;
}

static tess_status parse_scaling(const json_t *json, const json_t *scaling, const char *what, const char *where,
                                 const tess_family_row *row, int64_t max_position, tess_rope_config *rope)
{
    TESS_TRY(parse_kind(scaling, what, where, row, &rope->kind));
    TESS_TRY(parse_partial(scaling, what, row, rope));
    TESS_TRY(tess_json_get_double(scaling, "rope_theta", what, &rope->theta));
    if (rope->kind == TESS_ROPE_DEFAULT)
        return TESS_OK;

    /* These are the rules of transformers. Dynamic scaling starts from max_position_embeddings. For the other kinds
     * a value at the top level takes precedence. Phi-3's configuration has one even if config.json has none. */
    rope->original_max_position = max_position;
    if (states_original(rope->kind)) {
        const char *key = "original_max_position_embeddings";
        TESS_TRY(tess_json_get_int(scaling, key, what, &rope->original_max_position));
        if (rope->kind == TESS_ROPE_LONGROPE)
            rope->original_max_position = 4096;
        TESS_TRY(tess_json_get_int(json, key, what, &rope->original_max_position));
        TESS_CHECK(rope->original_max_position > 0 && rope->original_max_position <= max_position * 1024, TESS_E_FORMAT,
                   "%s: %s.%s is %lld; max_position_embeddings is %lld", what, where, key,
                   (long long)rope->original_max_position, (long long)max_position);
    }
    if (has_ratio(rope->kind) && !tess_json_has(scaling, "factor"))
        rope->factor = (double)max_position / (double)rope->original_max_position;
    else
        TESS_TRY(require(tess_json_has(scaling, "factor"), what, where, "factor"));
    TESS_TRY(tess_json_get_double(scaling, "factor", what, &rope->factor));
    TESS_CHECK(rope->factor >= 1 && rope->factor <= 1e6, TESS_E_FORMAT, "%s: %s.factor is %g; it must be in [1, 1e6]",
               what, where, rope->factor);
    if (rope->kind == TESS_ROPE_LONGROPE)
        return parse_longrope(scaling, what, where, rope);
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

/* Reads the object of one set of layers, or of all layers. */
static tess_status parse_set(const json_t *json, const json_t *set, const char *what, const char *where,
                             const tess_family_row *row, int64_t max_position, tess_rope_config *rope)
{
    if (set == NULL || json_is_null(set))
        return TESS_OK;
    TESS_CHECK(json_is_object(set), TESS_E_FORMAT, "%s: '%s' must be an object or null", what, where);
    return parse_scaling(json, set, what, where, row, max_position, rope);
}

static tess_status check_theta(const char *what, double theta)
{
    TESS_CHECK(theta > 1 && theta <= 1e15, TESS_E_FORMAT, "%s: rope_theta is %g; it must be in (1, 1e15]", what, theta);
    return TESS_OK;
}

/* Reads the sets of layers without and with a window. The second has the default kind. */
static tess_status parse_by_type(const json_t *json, const json_t *sets, const char *what, const tess_family_row *row,
                                 tess_model_config *config)
{
    tess_rope_config local = {.theta = config->local_theta};
    TESS_TRY(parse_set(json, json_object_get(sets, "full_attention"), what, "rope_parameters.full_attention", row,
                       config->max_position, &config->rope));
    TESS_TRY(parse_set(json, json_object_get(sets, "sliding_attention"), what, "rope_parameters.sliding_attention", row,
                       config->max_position, &local));
    TESS_CHECK(local.kind == TESS_ROPE_DEFAULT, TESS_E_UNSUPPORTED,
               "%s: rope_parameters.sliding_attention scales positions; supported: rope_type default", what);
    config->local_theta = local.theta;
    return TESS_OK;
}

tess_status tess_rope_parse(const json_t *json, const char *what, const tess_family_row *row, tess_model_config *config)
{
    tess_rope_config *rope = &config->rope;
    rope->kind = TESS_ROPE_DEFAULT;
    rope->theta = row->theta > 0 ? row->theta : 10000;
    rope->partial = row->partial;
    config->local_theta = row->local_theta;
    TESS_TRY(tess_json_get_double(json, "rope_theta", what, &rope->theta));
    if (row->local_theta > 0)
        TESS_TRY(tess_json_get_double(json, "rope_local_base_freq", what, &config->local_theta));
    if (row->old_rope) {
        TESS_TRY(tess_json_get_double(json, "rotary_emb_base", what, &rope->theta));
        TESS_TRY(tess_json_get_double(json, "rotary_pct", what, &rope->partial));
        TESS_CHECK(rope->partial > 0, TESS_E_FORMAT, "%s: rotary_pct is %g; it must be in (0, 1]", what, rope->partial);
    }
    TESS_TRY(parse_partial(json, what, row, rope));

    const char *where = "rope_scaling";
    const json_t *scaling = json_object_get(json, where);
    if (scaling == NULL || json_is_null(scaling) || (json_is_object(scaling) && json_object_size(scaling) == 0)) {
        where = "rope_parameters";
        scaling = json_object_get(json, where);
    }
    json_auto_t *assumed = NULL;
    if ((scaling == NULL || json_is_null(scaling)) && row->assumed_rope != NULL) {
        TESS_TRY(tess_json_parse(row->assumed_rope, strlen(row->assumed_rope), what, true, &assumed));
        scaling = assumed;
    }
    const bool by_type = tess_json_has(scaling, "full_attention") || tess_json_has(scaling, "sliding_attention");
    TESS_CHECK(!by_type || row->local_theta > 0, TESS_E_UNSUPPORTED,
               "%s: '%s' differs by layer type; this family has one set for all layers", what, where);
    TESS_TRY(by_type ? parse_by_type(json, scaling, what, row, config)
                     : parse_set(json, scaling, what, where, row, config->max_position, rope));
    if (row->scales_queries && json_is_object(scaling)) {
        TESS_TRY(tess_json_get_double(scaling, query_key, what, &rope->query_beta));
        TESS_CHECK(rope->query_beta >= 0 && rope->query_beta <= 100, TESS_E_FORMAT,
                   "%s: %s.%s is %g; it must be in [0, 100]", what, where, query_key, rope->query_beta);
        TESS_CHECK(rope->query_beta == 0 || rope->kind != TESS_ROPE_DEFAULT, TESS_E_UNSUPPORTED,
                   "%s: %s.%s needs a rope_type that scales positions, such as yarn", what, where, query_key);
    }
    if (row->local_theta > 0)
        TESS_TRY(check_theta(what, config->local_theta));
    return check_theta(what, rope->theta);
}

static json_t *list_factors(const double *factors, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        (void)json_array_append_new(list, json_real(factors[i]));
    return list;
}

/* Writes the object of scaling. */
static json_t *scaling_json(const tess_rope_config *rope, int64_t max_position)
{
    const char *name = NULL;
    int failed = 0;
    for (int i = 0; i < N_KINDS && name == NULL; i++)
        if (kinds[i].kind == rope->kind)
            name = kinds[i].name;
    json_t *scaling = json_pack("{s:s}", "rope_type", name);
    /* transformers v4 takes no factor for longrope */
    if (rope->kind != TESS_ROPE_LONGROPE || rope->factor != (double)max_position / (double)rope->original_max_position)
        failed |= json_object_set_new(scaling, "factor", json_real(rope->factor));
    if (states_original(rope->kind) && rope->kind != TESS_ROPE_LONGROPE)
        failed |=
            json_object_set_new(scaling, "original_max_position_embeddings", json_integer(rope->original_max_position));
    if (rope->kind == TESS_ROPE_LLAMA3)
        failed |= json_object_update_new(scaling, json_pack("{s:f, s:f}", "low_freq_factor", rope->low_freq_factor,
                                                            "high_freq_factor", rope->high_freq_factor));
    if (rope->kind == TESS_ROPE_YARN)
        failed |=
            json_object_update_new(scaling, json_pack("{s:f, s:f, s:b}", "beta_fast", rope->beta_fast, "beta_slow",
                                                      rope->beta_slow, "truncate", (int)rope->truncate));
    if (rope->kind == TESS_ROPE_LONGROPE)
        failed |= json_object_update_new(
            scaling, json_pack("{s:o, s:o}", "short_factor", list_factors(rope->short_factor, rope->n_factors),
                               "long_factor", list_factors(rope->long_factor, rope->n_factors)));
    if (rope->attention_factor != 0)
        failed |= json_object_set_new(scaling, "attention_factor", json_real(rope->attention_factor));
    if (rope->mscale != 0)
        failed |= json_object_set_new(scaling, "mscale", json_real(rope->mscale));
    if (rope->mscale_all_dim != 0)
        failed |= json_object_set_new(scaling, "mscale_all_dim", json_real(rope->mscale_all_dim));
    if (rope->query_beta != 0)
        failed |= json_object_set_new(scaling, query_key, json_real(rope->query_beta));
    if (failed == 0)
        return scaling;
    json_decref(scaling);
    return NULL;
}

/* Layers with positions of their own are known to transformers v5 only. */
static int write_by_type(const tess_model_config *config, json_t *json)
{
    const tess_rope_config *rope = &config->rope;
    json_t *full = rope->kind == TESS_ROPE_DEFAULT ? json_pack("{s:s}", "rope_type", "default")
                                                   : scaling_json(rope, config->max_position);
    int failed = json_object_set_new(full, "rope_theta", json_real(rope->theta));
    json_t *sets = json_pack("{s:o, s:{s:s, s:f}}", "full_attention", full, "sliding_attention", "rope_type", "default",
                             "rope_theta", config->local_theta);
    return failed | json_object_set_new(json, "rope_parameters", sets);
}

int tess_rope_write(const tess_family_row *row, const tess_model_config *config, json_t *json)
{
    const tess_rope_config *rope = &config->rope;
    int failed = 0;
    if (row->partial > 0)
        failed |= json_object_set_new(json, row->old_rope ? "rotary_pct" : "partial_rotary_factor",
                                      json_real(rope->partial > 0 ? rope->partial : 1));
    if (row->local_theta > 0)
        return failed | write_by_type(config, json);
    if (row->assumed_rope != NULL && rope->kind == TESS_ROPE_DEFAULT)
        return json_object_set_new(json, "rope_parameters",
                                   json_pack("{s:s, s:f}", "rope_type", "default", "rope_theta", rope->theta));
    failed |= json_object_set_new(json, row->old_rope ? "rotary_emb_base" : "rope_theta", json_real(rope->theta));
    if (rope->kind == TESS_ROPE_LONGROPE) /* Phi-3's place for it */
        failed |=
            json_object_set_new(json, "original_max_position_embeddings", json_integer(rope->original_max_position));
    return failed | json_object_set_new(json, "rope_scaling",
                                        rope->kind == TESS_ROPE_DEFAULT ? json_null()
                                                                        : scaling_json(rope, config->max_position));
}
