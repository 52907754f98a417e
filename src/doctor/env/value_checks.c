/* Checks values that are small languages of their own: the settings of PyTorch's allocator, and the list of visible
 * GPUs. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/options.h"
#include "doctor/env/env_impl.h"
#include "doctor/env/env_values.h"
#include "doctor/table/clean.h"

enum { MOST_PART = 64 };

static tess_env_grade fail(tess_env_setting *setting, tess_env_grade grade, const char *what, const char *why)
{
    char clean[MOST_PART + 16];
    snprintf(setting->finding, sizeof(setting->finding), "'%s' %s",
             tess_clean(what, strlen(what), clean, sizeof(clean)), why);
    return grade;
}

/* Copies the part of a list that ends at a comma outside of brackets, without its blanks. Returns where the next part
 * begins; NULL: it was the last one. */
static const char *next_part(const char *text, char part[MOST_PART])
{
    size_t n = 0;
    int depth = 0;
    const char *at = text;
    for (; *at != '\0' && !(*at == ',' && depth == 0); at++) {
        depth += (*at == '[') - (*at == ']');
        if (*at != ' ' && n + 1 < MOST_PART)
            part[n++] = *at;
    }
    part[n] = '\0';
    return *at == ',' ? at + 1 : NULL;
}

/* ---- PyTorch's allocator: "max_split_size_mb:128,expandable_segments:True" ---- */
/* A setting of the allocator. `values` is a rule (env_values.h) that also fits the case of the letters; NULL: a form
 * that is not checked. */
typedef struct allocator_key {
    const char *name, *values, *means;
    bool is_native; /* cudaMallocAsync ignores it; the keys of pinned host memory work with any backend */
} allocator_key;

#define FLAG "one True|False", "must be True or False, written like this"
#define SIZE "int 1..", "must be a number of MiB"

static const allocator_key allocator_keys[] = {
    {"backend", "one native|cudaMallocAsync|hipMallocAsync", "must be native or cudaMallocAsync", false},
    {"max_split_size_mb", "int 21..", "must be more than 20 (MiB)", true},
    {"max_non_split_rounding_mb", "int 21..", "must be more than 20 (MiB)", true},
    {"garbage_collection_threshold", "number 0..1", "must be between 0 and 1", true},
    {"roundup_power2_divisions", NULL, "", true},
    {"expandable_segments", FLAG, true},
    {"release_lock_on_cudamalloc", FLAG, true},
    {"release_lock_on_hipmalloc", FLAG, true},
    {"pinned_use_cuda_host_register", FLAG, false},
    {"pinned_use_hip_host_register", FLAG, false},
    {"pinned_use_background_threads", FLAG, false},
    {"pinned_num_register_threads", "one 1|2|4|8|16|32|64|128", "must be a power of 2 up to 128", false},
    {"pinned_reserve_segment_size_mb", SIZE, false},
    {"pinned_max_cached_size_mb", SIZE, false},
    {"pinned_max_round_threshold_mb", SIZE, false},
    {"large_segment_size_mb", SIZE, true},
    {"per_process_memory_fraction", "number 0..1", "must be between 0 and 1", true},
    {"graph_capture_record_stream_reuse", FLAG, true},
};

enum { N_ALLOCATOR_KEYS = sizeof(allocator_keys) / sizeof(allocator_keys[0]) };

static const allocator_key *find_key(const char *name)
{
    for (int i = 0; i < N_ALLOCATOR_KEYS; i++)
        if (strcmp(allocator_keys[i].name, name) == 0)
            return &allocator_keys[i];
    return NULL;
}

static const char *nearest_key(const char *name)
{
    const char *names[N_ALLOCATOR_KEYS];
    for (int i = 0; i < N_ALLOCATOR_KEYS; i++)
        names[i] = allocator_keys[i].name;
    return tess_options_nearest(name, names, N_ALLOCATOR_KEYS);
}

/* Whether the value fits. PyTorch also tells upper from lower case. */
static bool is_value(const allocator_key *key, const char *value)
{
    if (key->values == NULL)
        return *value != '\0';
    bool is_word = strncmp(key->values, "one ", 4) == 0;
    return tess_env_accepts(key->values, value) && (!is_word || strstr(key->values, value) != NULL);
}

static tess_env_grade check_allocator(tess_env_setting *setting)
{
    char part[MOST_PART];
    bool is_async = false;
    const char *ignored = NULL;
    for (const char *at = setting->value; at != NULL && *at != '\0';) {
        at = next_part(at, part);
        char *colon = strchr(part, ':');
        if (colon == NULL)
            return fail(setting, TESS_ENV_WRONG, part, "lacks a value: the form is KEY:VALUE,KEY:VALUE");
        *colon = '\0';
        const allocator_key *key = find_key(part);
        const char *near = key == NULL ? nearest_key(part) : NULL;
        if (key == NULL) {
            char why[160];
            snprintf(why, sizeof(why), "is no key of the allocator, and PyTorch refuses it%s%s%s",
                     near != NULL ? ": did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
            return fail(setting, TESS_ENV_WRONG, part, why);
        }
        if (!is_value(key, colon + 1)) {
            char why[160];
            snprintf(why, sizeof(why), "is no value of %s: it %s", key->name, key->means);
            return fail(setting, TESS_ENV_WRONG, colon + 1, why);
        }
        is_async |= strcmp(key->name, "backend") == 0 && strstr(colon + 1, "MallocAsync") != NULL;
        ignored = key->is_native ? key->name : ignored;
    }
    if (is_async && ignored != NULL)
        return fail(setting, TESS_ENV_RISKY, ignored, "has no effect with backend:cudaMallocAsync");
    return TESS_ENV_FINE;
}

/* ---- Visible GPUs: "0,1", "GPU-5b1c...,GPU-77..." ---- */
/* The kind of an item of the list: all items must be of the kind of the first one. */
static char kind_of_item(const char *item)
{
    if (strncmp(item, "GPU-", 4) == 0 || strncmp(item, "MIG-", 4) == 0)
        return item[0];
    return isdigit((unsigned char)item[0]) ? '0' : '\0';
}

/* Whether both items name the same GPU: "0" and "00" do. */
static bool is_same_item(const char *a, const char *b)
{
    bool are_numbers = isdigit((unsigned char)a[0]) && isdigit((unsigned char)b[0]);
    return are_numbers ? strtol(a, NULL, 10) == strtol(b, NULL, 10) : strcmp(a, b) == 0;
}

/* Whether an item before `end` names the same GPU as `item`. */
static bool is_repeated(const char *list, const char *end, const char *item)
{
    char other[MOST_PART];
    for (const char *at = list; at != NULL && at < end;) {
        at = next_part(at, other);
        if (is_same_item(other, item))
            return true;
    }
    return false;
}

static tess_env_grade check_visible_gpus(tess_env_setting *setting)
{
    enum { MOST_ITEMS = 1024 }; /* no host has as many GPUs, and each item is compared with all before it */
    char item[MOST_PART];
    const char *list = setting->value, *at = list;
    char kind = '\0';
    for (int n = 0; at != NULL && n < MOST_ITEMS; n++) {
        const char *begin = at;
        at = next_part(at, item);
        kind = begin == list ? kind_of_item(item) : kind;
        if (kind_of_item(item) != kind || kind == '\0')
            return at == NULL && (begin == list || item[0] == '\0' || item[0] == '-')
                       ? TESS_ENV_FINE /* "", "-1" and "0,-1" end the list on purpose */
                       : fail(setting, TESS_ENV_RISKY, item,
                              "ends the list: CUDA does not see this item, nor those after it");
        if (is_repeated(list, begin, item))
            return fail(setting, TESS_ENV_WRONG, item, "is named twice: CUDA then sees no GPU at all");
    }
    return TESS_ENV_FINE;
}

tess_env_grade env_check_value(tess_env_setting *setting)
{
    static const struct {
        const char *name;
        tess_env_grade (*check)(tess_env_setting *setting);
    } checks[] = {{"PYTORCH_CUDA_ALLOC_CONF", check_allocator},
                  {"PYTORCH_ALLOC_CONF", check_allocator},
                  {"PYTORCH_HIP_ALLOC_CONF", check_allocator},
                  {"CUDA_VISIBLE_DEVICES", check_visible_gpus}};
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (strcmp(checks[i].name, setting->name) == 0)
            return checks[i].check(setting);
    return TESS_ENV_FINE;
}
