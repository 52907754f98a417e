/* What the names of a source mean, and the same names in other sets. */
#include <stdio.h>
#include <string.h>

#include "ckpt/formats/export_impl.h"

static const char *const suffixes[] = {".exp_avg", ".exp_avg_sq", ".step"};
/* Prefixes of the optimizer's names; longer ones first. */
static const char *const optimizers[] = {"optimizer.state.", "optimizer.", "optim.state.", "optim."};
/* Prefixes of other state, if the model's names have no prefix. */
static const char *const others[] = {"lr_scheduler.", "train_state.", "dataloader.", "rng",
                                     "scheduler.",    "scaler.",      "extra_state."};

enum {
    NAME_SIZE = 4096,
    N_SUFFIXES = sizeof(suffixes) / sizeof(suffixes[0]),
    N_OPTIMIZERS = sizeof(optimizers) / sizeof(optimizers[0]),
    N_OTHERS = sizeof(others) / sizeof(others[0])
};

static bool starts_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* `rest`: the name without its prefix, "<parameter>.exp_avg". The state of a numbered parameter belongs to none. */
static export_name read_moment(const char *rest)
{
    export_name found = {.kind = EXPORT_OTHER};
    size_t n = strlen(rest);
    for (size_t i = 0; i < N_SUFFIXES; i++) {
        size_t m = strlen(suffixes[i]);
        if (n > m && strcmp(rest + n - m, suffixes[i]) == 0)
            found = (export_name){strcmp(suffixes[i], ".step") == 0 ? EXPORT_STEP : EXPORT_MOMENT, rest, n - m,
                                  suffixes[i]};
    }
    if (found.n == strspn(rest, "0123456789"))
        found.kind = EXPORT_OTHER;
    return found;
}

export_name export_read_name(const char *name, const char *model_prefix)
{
    for (size_t i = 0; i < N_OPTIMIZERS; i++)
        if (starts_with(name, optimizers[i]))
            return read_moment(name + strlen(optimizers[i]));
    for (size_t i = 0; i < N_OTHERS && model_prefix[0] == '\0'; i++)
        if (starts_with(name, others[i]))
            return (export_name){.kind = EXPORT_OTHER};
    if (!starts_with(name, model_prefix))
        return (export_name){.kind = EXPORT_OTHER};
    const char *bare = name + strlen(model_prefix);
    return (export_name){.kind = EXPORT_MODEL, .name = bare, .n = strlen(bare)};
}

bool export_write_name(const export_name *name, const char *whole, tess_names names, char *text, size_t size)
{
    static const char *const model[] = {
        [TESS_NAMES_TESSERA] = "model.", [TESS_NAMES_TORCHTITAN] = "", [TESS_NAMES_BARE] = ""};
    static const char *const moment[] = {
        [TESS_NAMES_TESSERA] = "optimizer.", [TESS_NAMES_TORCHTITAN] = "optimizer.state."};
    int n;
    if (names == TESS_NAMES_TESSERA && starts_with(whole, "train_state."))
        return false; /* it is in meta there */
    if (names == TESS_NAMES_SAME || (name->kind == EXPORT_OTHER && names != TESS_NAMES_BARE))
        n = snprintf(text, size, "%s", whole);
    else if (name->kind == EXPORT_MODEL)
        n = snprintf(text, size, "%s%.*s", model[names], (int)name->n, name->name);
    else if (names == TESS_NAMES_BARE || (name->kind == EXPORT_STEP && names == TESS_NAMES_TESSERA))
        return false;
    else
        n = snprintf(text, size, "%s%.*s%s", moment[names], (int)name->n, name->name, name->suffix);
    return n < (int)size;
}

/* Whether there is "model.X" beside "optimizer.X.exp_avg": a file into which a Tessera checkpoint was merged. */
static bool has_tessera_names(const tess_catalog *catalog)
{
    char model[NAME_SIZE];
    for (int i = 0; i < catalog->n_tensors; i++) {
        const char *name = catalog->tensors[i].name;
        export_name read = export_read_name(name, "");
        if (read.kind != EXPORT_MOMENT || !starts_with(name, "optimizer."))
            continue;
        snprintf(model, sizeof(model), "model.%.*s", (int)read.n, read.name);
        return tess_catalog_find(catalog, model) != NULL;
    }
    return false;
}

const char *export_model_prefix(const tess_catalog *catalog)
{
    const char *prefix = json_string_value(json_object_get(catalog->meta, "model_prefix"));
    if (prefix != NULL && prefix[0] != '\0')
        return prefix;
    return strcmp(catalog->format, "tessera") == 0 || has_tessera_names(catalog) ? "model." : "";
}
