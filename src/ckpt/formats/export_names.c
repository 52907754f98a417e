/* Interprets the names of a source, and translates them into other sets of names. The tables here list the ways in
 * which other programs wrap a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "ckpt/formats/export_impl.h"

/* Keys of dicts in which programs keep a model's state, or a dict that contains it. */
static const char *const model_keys[] = {"model", "model_state_dict", "state_dict", "module", "net", "network", "app"};
/* Words that wrappers of modules leave anywhere in names. */
static const char *const wrappers[] = {
    "_orig_mod.",                  /* torch.compile */
    "_fsdp_wrapped_module.",       /* FSDP */
    "_fpw_module.",                /* the first versions of FSDP, and FairScale's */
    "_checkpoint_wrapped_module.", /* activation checkpointing */
    "base_model.model.",           /* PEFT */
    "base_layer.",                 /* PEFT's adapted layers */
    "language_model."              /* the text model of a model of images and text; only in names of a known model */
};
/* The word of DDP and DataParallel. It is removed only at the beginning of a name, since a part of a model may also
 * have this name. */
static const char ddp[] = "module.";
/* Prefixes of the base model's names in Hugging Face's models with a head. */
static const char *const bases[] = {"model.", "transformer."};

static const char *const suffixes[] = {".exp_avg", ".exp_avg_sq", ".step"};
/* Last words of names that only optimizer state has. */
static const char *const states[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "step"};
/* Prefixes of the optimizer's names, longer ones first. */
static const char *const optimizers[] = {"optimizer.state.", "optimizer.", "optim.state.", "optim."};
/* Prefixes of other state. They apply if the model's names have no prefix. */
static const char *const others[] = {"lr_scheduler.", "train_state.", "dataloader.", "rng",
                                     "scheduler.",    "scaler.",      "extra_state."};
/* Last parts of the names of buffers that old files have and no model needs. */
static const char *const buffers[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};

enum { MAX_DICTS = 4, MAX_CANDIDATES = 8 };
#define N_OF(table) (sizeof(table) / sizeof((table)[0]))

static bool starts_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* Returns the length of the first of the texts with which `name` begins; 0: none. */
static size_t find_start(const char *name, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (starts_with(name, texts[i]))
            return strlen(texts[i]);
    return 0;
}

static bool is_state(const char *name)
{
    const char *dot = strrchr(name, '.'), *last = dot != NULL ? dot + 1 : name;
    for (size_t i = 0; i < N_OF(states); i++)
        if (strcmp(last, states[i]) == 0)
            return true;
    return false;
}

bool tess_export_is_no_weight(const char *name)
{
    for (size_t i = 0; i < N_OF(buffers); i++)
        if (tess_text_ends_with(name, buffers[i]))
            return true;
    return is_state(name);
}

/* ---- The place of the model ---- */
void export_find_dicts(void *self, bool (*enter)(void *self, int depth, const char *key), char *prefix, size_t size)
{
    size_t n = 0;
    prefix[0] = '\0';
    for (int depth = 0; depth < MAX_DICTS; depth++) {
        size_t key = 0;
        while (key < N_OF(model_keys) && !enter(self, depth, model_keys[key]))
            key++;
        if (key == N_OF(model_keys))
            return;
        n = tess_text_add(prefix, size, n, "%s.", model_keys[key]);
    }
}

/* Copies a name without the words of wrappers. */
static void unwrap(const char *name, const export_place *place, char text[EXPORT_NAME])
{
    const size_t n_wrappers = N_OF(wrappers) - (place->n_params == 0);
    size_t n = 0, word;
    while (*name != '\0' && n + 1 < EXPORT_NAME) {
        while ((n == 0 || text[n - 1] == '.') && (word = find_start(name, wrappers, n_wrappers)) > 0)
            name += word;
        text[n] = *name;
        name += text[n++] != '\0';
    }
    text[n] = '\0';
}

static const char *base_name(const char *name)
{
    return name + find_start(name, bases, N_OF(bases));
}

static int by_base_name(const void *a, const void *b)
{
    return strcmp(base_name((*(const tess_param *const *)a)->name), base_name((*(const tess_param *const *)b)->name));
}

static int compare_base_name(const void *name, const void *param)
{
    return strcmp(name, base_name((*(const tess_param *const *)param)->name));
}

/* Finds the parameter with that name, in the model or in the base model. NULL: none. */
static const tess_param *find_param(const export_place *place, const char *name)
{
    const tess_param **found = place->n_params == 0 ? NULL
                                                    : bsearch(base_name(name), place->params, (size_t)place->n_params,
                                                              sizeof(place->params[0]), compare_base_name);
    if (found == NULL || (strcmp(name, (*found)->name) != 0 && strcmp(name, base_name((*found)->name)) != 0))
        return NULL;
    return *found;
}

/* Counts the parameters that the source has under a prefix. */
static int count_params(const tess_catalog *catalog, const export_place *place, const char *prefix)
{
    char text[EXPORT_NAME];
    int n = 0;
    for (int i = 0; i < catalog->n_tensors; i++) {
        unwrap(catalog->tensors[i].name, place, text);
        n += starts_with(text, prefix) && find_param(place, text + strlen(prefix)) != NULL;
    }
    return n;
}

/* Returns the length of the prefix before `param`'s name at the end of a text; -1: the text does not end with that
 * name. */
static int before_param(const export_place *place, const char *text, const tess_param *param)
{
    for (const char *at = text; at != NULL; at = strchr(at, '.') != NULL ? strchr(at, '.') + 1 : NULL)
        if (find_param(place, at) == param)
            return (int)(at - text);
    return -1;
}

/* Finds the prefix under which most of the model's parameters are, in whatever dicts and wrappers. If several have
 * equally many, the place that the format states wins. */
static tess_status find_by_params(const tess_catalog *catalog, export_place *place)
{
    char text[EXPORT_NAME];
    int most = count_params(catalog, place, place->model), candidates = 0;
    if (most == place->n_params)
        return TESS_OK;
    for (int i = 0; i < catalog->n_tensors && candidates < MAX_CANDIDATES; i++) {
        unwrap(catalog->tensors[i].name, place, text);
        int before = before_param(place, text, place->params[0]);
        if (before < 0)
            continue;
        candidates++;
        text[before] = '\0';
        int n = count_params(catalog, place, text);
        TESS_CHECK(n < place->n_params || most < n || strcmp(text, place->model) == 0, TESS_E_INVALID,
                   "%s: both '%.200s' and '%.200s' hold the whole model: save the one that is meant by itself",
                   catalog->path, place->model, text);
        if (n > most)
            strcpy(place->model, text);
        most = n > most ? n : most;
    }
    return TESS_OK;
}

/* Whether the source has "model.X" in addition to "optimizer.X.exp_avg": a Tessera checkpoint was merged into such a
 * file. */
static bool has_tessera_names(const tess_catalog *catalog, const export_place *place)
{
    char model[EXPORT_NAME + 8];
    export_name read;
    for (int i = 0; i < catalog->n_tensors; i++) {
        const char *name = catalog->tensors[i].name;
        export_read_name(name, place, &read);
        if (read.kind != EXPORT_MOMENT || !starts_with(name, "optimizer."))
            continue;
        snprintf(model, sizeof(model), "model.%s", read.name);
        return tess_catalog_find(catalog, model) != NULL;
    }
    return false;
}

tess_status export_find_place(const tess_catalog *catalog, const tess_model *model, export_place *place)
{
    const char *stated = json_string_value(json_object_get(catalog->meta, "model_prefix"));
    *place = (export_place){.n_params = 0};
    snprintf(place->model, sizeof(place->model), "%s", stated != NULL ? stated : "");
    if (place->model[0] == '\0' && (strcmp(catalog->format, "tessera") == 0 || has_tessera_names(catalog, place)))
        strcpy(place->model, "model.");
    /* The optimizer's prefix is the model's without the last key. */
    snprintf(place->around, sizeof(place->around), "%s", place->model);
    size_t n = strlen(place->around);
    for (n -= n > 0; n > 0 && place->around[n - 1] != '.'; n--)
        continue;
    place->around[n] = '\0';
    if (model == NULL)
        return TESS_OK;
    int n_params = tess_model_n_params(model);
    TESS_TRY(TESS_NEW(catalog->mem, n_params, "names of parameters", &place->params));
    for (int i = 0; i < n_params; i++)
        place->params[i] = tess_model_param(model, i);
    place->n_params = n_params;
    qsort(place->params, (size_t)n_params, sizeof(place->params[0]), by_base_name);
    return find_by_params(catalog, place);
}

/* ---- One name ---- */
/* Reads the name of a moment. `rest` is the name without its prefix: "<parameter>.exp_avg". If the parameter is only a
 * number, the kind is EXPORT_OTHER. */
static void read_moment(const char *rest, export_name *read)
{
    size_t n = strlen(rest), parameter = 0;
    for (size_t i = 0; i < N_OF(suffixes); i++) {
        size_t m = strlen(suffixes[i]);
        if (n <= m || strcmp(rest + n - m, suffixes[i]) != 0)
            continue;
        read->kind = strcmp(suffixes[i], ".step") == 0 ? EXPORT_STEP : EXPORT_MOMENT;
        read->suffix = suffixes[i];
        parameter = n - m;
    }
    if (parameter == strspn(rest, "0123456789"))
        read->kind = EXPORT_OTHER;
    memmove(read->name, rest, parameter);
    read->name[parameter] = '\0';
}

void export_read_name(const char *name, const export_place *place, export_name *read)
{
    char text[EXPORT_NAME];
    *read = (export_name){.kind = EXPORT_OTHER};
    if (strlen(name) >= sizeof(text))
        return;
    unwrap(name, place, text);
    const char *rest = text + (starts_with(text, place->around) ? strlen(place->around) : 0);
    size_t optimizer = find_start(rest, optimizers, N_OF(optimizers));
    bool other = place->model[0] == '\0' && find_start(text, others, N_OF(others)) > 0;
    if (optimizer == 0 && (other || !starts_with(text, place->model) || is_state(text)))
        return;
    rest = optimizer > 0 ? rest + optimizer : text + strlen(place->model);
    while (starts_with(rest, ddp))
        rest += strlen(ddp);
    if (optimizer > 0) {
        read_moment(rest, read);
    } else {
        read->kind = EXPORT_MODEL;
        strcpy(read->name, rest);
    }
    const tess_param *param = find_param(place, read->name);
    if (param != NULL)
        strcpy(read->name, param->name);
}

bool export_write_name(const export_name *name, const char *whole, tess_names names, char *text, size_t size)
{
    static const char *const model[] = {
        [TESS_NAMES_TESSERA] = "model.", [TESS_NAMES_TORCHTITAN] = "", [TESS_NAMES_BARE] = ""};
    static const char *const moment[] = {
        [TESS_NAMES_TESSERA] = "optimizer.", [TESS_NAMES_TORCHTITAN] = "optimizer.state."};
    int n;
    if (names == TESS_NAMES_TESSERA && starts_with(whole, "train_state."))
        return false; /* Tessera stores these in meta */
    if (names == TESS_NAMES_SAME || (name->kind == EXPORT_OTHER && names != TESS_NAMES_BARE))
        n = snprintf(text, size, "%s", whole);
    else if (name->kind == EXPORT_MODEL)
        n = snprintf(text, size, "%s%s", model[names], name->name);
    else if (names == TESS_NAMES_BARE || (name->kind == EXPORT_STEP && names == TESS_NAMES_TESSERA))
        return false;
    else
        n = snprintf(text, size, "%s%s%s", moment[names], name->name, name->suffix);
    return n < (int)size;
}
