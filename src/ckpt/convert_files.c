/* What stands beside the weights: the configuration, the tokenizer, texts. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "ckpt/convert_impl.h"

enum { PATH_SIZE = 4096, MAX_DEPTH = 64 };

static const size_t config_limit = 64 << 20;

void tess_convert_report(const tess_convert_options *options, const char *format, ...)
{
    char line[2048];
    va_list args;
    if (options->report == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    options->report(options->context, line);
}

/* ---- config.json ---- */
/* "dtype" (transformers 5) and "torch_dtype" (4), here and in the sub-configurations of composite models. */
static int set_dtype(json_t *config, const char *name, int depth)
{
    const char *key;
    json_t *value;
    void *next;
    int n_set = 0;
    json_object_foreach_safe(config, next, key, value)
    {
        if (json_is_object(value) && depth < 4)
            n_set += set_dtype(value, name, depth + 1);
        if (json_is_string(value) && (strcmp(key, "dtype") == 0 || strcmp(key, "torch_dtype") == 0)) {
            json_string_set(value, name);
            n_set++;
        }
    }
    return n_set;
}

static tess_status emit(tess_buffer *out, const json_t *value, int depth);

static tess_status emit_key(tess_buffer *out, const char *key, int depth)
{
    json_t *text = json_string(key);
    TESS_TRY(tess_buffer_printf(out, "\n%*s", 2 * depth, ""));
    tess_status status = emit(out, text, depth);
    json_decref(text);
    return status == TESS_OK ? tess_buffer_printf(out, ": ") : status;
}

static tess_status emit_members(tess_buffer *out, const json_t *value, int depth)
{
    bool object = json_is_object(value);
    size_t n = object ? json_object_size(value) : json_array_size(value), i = 0;
    const char *key;
    json_t *member;
    TESS_CHECK(depth < MAX_DEPTH, TESS_E_UNSUPPORTED, "config.json is nested deeper than %d", MAX_DEPTH);
    TESS_TRY(tess_buffer_printf(out, object ? "{" : "["));
    if (object) {
        json_object_foreach ((json_t *)value, key, member) {
            TESS_TRY(emit_key(out, key, depth + 1));
            TESS_TRY(emit(out, member, depth + 1));
            TESS_TRY(tess_buffer_printf(out, "%s", ++i < n ? "," : ""));
        }
    } else {
        json_array_foreach (value, i, member) {
            TESS_TRY(tess_buffer_printf(out, "\n%*s", 2 * depth + 2, ""));
            TESS_TRY(emit(out, member, depth + 1));
            TESS_TRY(tess_buffer_printf(out, "%s", i + 1 < n ? "," : ""));
        }
    }
    if (n > 0)
        TESS_TRY(tess_buffer_printf(out, "\n%*s", 2 * depth, ""));
    return tess_buffer_printf(out, object ? "}" : "]");
}

/* As Python's json.dumps(indent=2): above all, numbers keep their shortest text (1e-06 stays that), which jansson's own
 * writer does not give. */
static tess_status emit(tess_buffer *out, const json_t *value, int depth)
{
    char text[64];
    if (json_is_object(value) || json_is_array(value))
        return emit_members(out, value, depth);
    if (json_is_real(value)) {
        tess_format_double(json_real_value(value), text, sizeof(text));
        return tess_buffer_printf(out, "%s%s", text, strpbrk(text, ".en") == NULL ? ".0" : "");
    }
    char *dumped = json_dumps(value, JSON_ENCODE_ANY);
    TESS_CHECK(dumped != NULL, TESS_E_NOMEM, "config.json");
    tess_status status = tess_buffer_printf(out, "%s", dumped);
    free(dumped);
    return status;
}

static tess_status write_config(tess_mem *mem, const char *from, const char *to, tess_dtype dtype)
{
    json_t *config;
    tess_buffer text = {.mem = mem};
    tess_status status = TESS_OK;
    TESS_TRY(tess_json_load(from, config_limit, &config));
    if (!json_is_object(config))
        status = TESS_FAIL(TESS_E_FORMAT, "%s: not an object", from);
    else if (set_dtype(config, tess_dtype_name(dtype), 0) == 0)
        json_object_set_new(config, "torch_dtype", json_string(tess_dtype_name(dtype)));
    if (status == TESS_OK)
        status = emit(&text, config, 0);
    if (status == TESS_OK)
        status = tess_buffer_printf(&text, "\n");
    if (status == TESS_OK)
        status = tess_os_write_atomic(to, text.data, text.size);
    tess_buffer_free(&text);
    json_decref(config);
    return status;
}

/* ---- The rest ---- */
typedef enum companion { COPY, SILENT, LEFT_OUT } companion;

static companion judge(const char *name)
{
    static const char *const suffixes[] = {".json", ".txt", ".model", ".jinja", ".md", ".tiktoken", ".py"};
    static const char *const papers[] = {"LICENSE", "LICENCE", "NOTICE", "README", "USE_POLICY"};
    if (name[0] == '.' || strcmp(name, "config.json") == 0 || tess_text_ends_with(name, ".safetensors") ||
        tess_text_ends_with(name, ".safetensors.index.json"))
        return SILENT; /* written by us, or nobody's business */
    if (tess_text_ends_with(name, ".index.json"))
        return LEFT_OUT;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (tess_text_ends_with(name, suffixes[i]))
            return COPY;
    for (size_t i = 0; i < sizeof(papers) / sizeof(papers[0]); i++)
        if (strncmp(name, papers[i], strlen(papers[i])) == 0)
            return COPY;
    return LEFT_OUT;
}

typedef struct copying {
    const char *in, *out;
    const tess_convert_options *options;
} copying;

static tess_status visit(void *context, const char *name)
{
    copying *c = context;
    char from[PATH_SIZE], to[PATH_SIZE];
    companion what = judge(name);
    TESS_TRY(tess_os_join(from, sizeof(from), c->in, name));
    TESS_TRY(tess_os_join(to, sizeof(to), c->out, name));
    if (what == SILENT)
        return TESS_OK;
    if (what == COPY && tess_os_is_file(from))
        return tess_os_copy(from, to);
    tess_convert_report(c->options, "%s is left out: neither safetensors nor a file that a model needs", from);
    return TESS_OK;
}

tess_status tess_convert_companions(tess_mem *mem, const char *in, const char *out, const tess_convert_options *options)
{
    char from[PATH_SIZE], to[PATH_SIZE];
    copying c = {.in = in, .out = out, .options = options};
    TESS_TRY(tess_os_list(in, visit, &c));
    TESS_TRY(tess_os_join(from, sizeof(from), in, "config.json"));
    TESS_TRY(tess_os_join(to, sizeof(to), out, "config.json"));
    if (!tess_os_is_file(from)) {
        tess_convert_report(options, "%s is missing: the new folder has none either", from);
        return TESS_OK;
    }
    return options->dtype == NULL ? tess_os_copy(from, to) : write_config(mem, from, to, *options->dtype);
}
