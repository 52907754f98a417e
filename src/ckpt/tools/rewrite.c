#include "ckpt/tools/rewrite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/tools/diff.h"
#include "ckpt/tools/rewrite_impl.h"

/* ---- Targets */
static const struct {
    const char *name;
    tess_names names;
    bool is_file;
    tess_status (*write)(rewriting *r); /* NULL: `write_foreign` writes it */
    tess_status (*write_foreign)(const tess_export *out, const char *path, const tess_write_options *options);
} targets[] = {
    [TESS_TO_HF] = {"hf", TESS_NAMES_BARE, false, rewrite_as_model_folder, NULL},
    [TESS_TO_SAFETENSORS] = {"safetensors", TESS_NAMES_SAME, true, rewrite_as_file, NULL},
    [TESS_TO_TORCH] = {"torch", TESS_NAMES_SAME, true, NULL, tess_torch_write},
    [TESS_TO_DCP] = {"dcp", TESS_NAMES_TORCHTITAN, false, NULL, tess_dcp_write},
    [TESS_TO_MEGATRON] = {"megatron", TESS_NAMES_TORCHTITAN, false, NULL, tess_megatron_write},
    [TESS_TO_TESSERA] = {"tessera", TESS_NAMES_TESSERA, false, rewrite_as_store, NULL},
};

const char *tess_target_name(tess_target target)
{
    return targets[target].name;
}

tess_status tess_target_parse(const char *text, tess_target *target)
{
    for (int i = 0; i < TESS_TARGETS; i++) {
        *target = (tess_target)i;
        if (strcmp(text, targets[i].name) == 0)
            return TESS_OK;
    }
    return TESS_FAIL(TESS_E_INVALID,
                     "'%.60s' is no format to write: choose hf, safetensors, torch, dcp, megatron or "
                     "tessera",
                     text);
}

/* ---- Formats of other programs */
static void report_writing(void *self, uint64_t done, uint64_t all)
{
    const rewriting *r = self;
    if (r->options->progress != NULL)
        r->options->progress(r->options->self, "write", done, all);
}

static tess_status write_foreign(rewriting *r)
{
    const tess_catalog_visitor visitor = {.self = r, .progress = report_writing};
    const tess_write_options options = {.n_files = r->options->n_files, .visitor = &visitor};
    char *path = r->result->path;
    int size = sizeof(r->result->path);
    TESS_TRY(targets[r->options->target].write_foreign(r->export, r->out, &options));
    int n = r->options->target == TESS_TO_MEGATRON
                ? snprintf(path, (size_t)size, "%s/iter_%07" PRId64, r->out, r->export->step)
                : snprintf(path, (size_t)size, "%s", r->out);
    TESS_CHECK(n > 0 && n < size, TESS_E_INVALID, "path too long: %.100s...", r->out);
    return TESS_OK;
}

/* ---- Writing */
static tess_status check_place(const rewriting *r)
{
    tess_target target = r->options->target;
    const char *out = r->out;
    bool file = targets[target].is_file;
    TESS_CHECK(out[0] != '\0', TESS_E_INVALID, "name what is to be written");
    TESS_CHECK(!tess_os_same_file(r->in, out), TESS_E_INVALID, "%s and %s are the same %s: write to another place",
               r->in, out, tess_os_is_dir(out) ? "folder" : "file");
    TESS_CHECK(!file || !tess_os_is_dir(out), TESS_E_INVALID, "%s is a folder: --to %s writes a file", out,
               targets[target].name);
    TESS_CHECK(!tess_os_is_file(out), TESS_E_INVALID, "%s is there already: name a %s that is new", out,
               file ? "file" : "folder");
    return TESS_OK;
}

typedef struct check {
    rewriting *r;
    char first[512]; /* name of the first tensor that differs */
} check;

static void look_at(void *self, const tess_diff_tensor *t)
{
    check *c = self;
    if (t->kind != TESS_DIFF_SAME && c->first[0] == '\0' && !rewrite_changes(c->r, t->name))
        snprintf(c->first, sizeof(c->first), "%s", t->name);
}

static void report_check(void *self, uint64_t done, uint64_t all)
{
    const tess_rewrite_options *o = ((check *)self)->r->options;
    if (o->progress != NULL)
        o->progress(o->self, "check", done, all);
}

/* Opens what was written and compares it with the export bit for bit. `as` gives the names in the written
 * checkpoint. */
static tess_status compare(rewriting *r, const tess_export_options *as)
{
    const tess_export_options names = {.names = as->names, .model_only = as->model_only};
    TESS_AUTO(tess_catalog_destroy) tess_catalog *catalog = NULL;
    TESS_AUTO(tess_export_destroy) tess_export *written = NULL;
    tess_diff_summary summary;
    check c = {.r = r};
    const tess_diff_options options = {.bits_only = true, .self = &c, .tensor = look_at, .progress = report_check};
    TESS_TRY(tess_catalog_open(r->mem, r->result->path, &catalog));
    TESS_TRY(tess_export_create(catalog, &names, &written));
    TESS_TRY(tess_export_diff(r->export, written, &options, &summary));
    if (c.first[0] != '\0')
        return TESS_FAIL(TESS_E_IO,
                         "%s: tensor '%s' does not read back as it was written: the disk or memory is at fault",
                         r->result->path, c.first);
    return TESS_OK;
}

static tess_status write_and_check(rewriting *r, tess_export *export, const tess_export_options *as)
{
    if (r->options->step >= 0)
        export->step = r->options->step;
    r->result->n_tensors = export->n_tensors;
    r->result->bytes = tess_export_bytes(export);
    r->result->step = export->step;
    TESS_CHECK(export->n_tensors > 0 || r->same_model, TESS_E_INVALID, "%s holds nothing to write%s", r->in,
               as->model_only || as->names == TESS_NAMES_BARE ? ": no tensor of a model" : "");
    tess_status (*write)(rewriting *) = targets[r->options->target].write;
    TESS_TRY(write != NULL ? write(r) : write_foreign(r));
    return r->options->unchecked ? TESS_OK : compare(r, as);
}

/* Checks that a checkpoint is complete. A host's part is accepted if it covers every tensor. */
static tess_status check_complete(const tess_catalog *catalog)
{
    TESS_TRY(tess_catalog_check(catalog));
    for (int i = 0; i < catalog->n_tensors && catalog->part; i++) {
        tess_box whole = tess_catalog_whole(&catalog->tensors[i]);
        TESS_TRY_CTX(tess_catalog_check_box(catalog, &catalog->tensors[i], &whole),
                     "this is one host's part of a checkpoint");
    }
    return TESS_OK;
}

static tess_status rewrite(rewriting *r, const tess_catalog *catalog)
{
    const tess_rewrite_options *o = r->options;
    r->same_model = o->target == TESS_TO_HF && !o->bare_names && o->assets == NULL && o->change.concerns == NULL &&
                    tess_os_is_dir(r->in) && strcmp(catalog->format, "safetensors") == 0;
    bool bare = !r->same_model && (o->bare_names || o->target == TESS_TO_HF);
    tess_export_options as = {.names = targets[o->target].names,
                              .weights_dtype = o->weights_dtype,
                              .model_only = bare || (o->model_only && !r->same_model)};
    if (r->same_model)
        as.names = TESS_NAMES_SAME;
    else if (bare && o->target != TESS_TO_TESSERA)
        as.names = TESS_NAMES_BARE;
    TESS_AUTO(tess_export_destroy) tess_export *export = NULL;
    snprintf(r->result->source, sizeof(r->result->source), "%s", catalog->format);
    TESS_TRY(check_complete(catalog));
    if (o->target == TESS_TO_HF)
        TESS_TRY(rewrite_find_assets(r));
    if (bare && r->assets[0] != '\0')
        TESS_TRY(rewrite_read_model(r));
    as.model = r->model != NULL && tess_model_get_config(r->model)->text_part ? NULL : r->model;
    TESS_TRY(tess_export_create(catalog, &as, &export));
    r->export = export;
    TESS_TRY(r->model != NULL ? rewrite_check_model(r) : TESS_OK);
    return write_and_check(r, export, &as);
}

tess_status tess_ckpt_rewrite(tess_mem *mem, const char *in, const char *out, const tess_rewrite_options *options,
                              tess_rewrite_result *result)
{
    tess_catalog *catalog;
    *result = (tess_rewrite_result){.step = -1};
    rewriting r = {.mem = mem, .options = options, .in = in, .out = out, .result = result};
    TESS_TRY(tess_catalog_open(mem, in, &catalog));
    tess_status status = check_place(&r);
    if (status == TESS_OK)
        status = rewrite(&r, catalog);
    tess_model_destroy(&r.model);
    tess_catalog_destroy(&catalog);
    return status;
}
