#include "ckpt/tools/rewrite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/tools/diff.h"
#include "ckpt/tools/rewrite_impl.h"

/* ---- Targets */
static tess_status rewrite_as_torch(rewriting *r);
static tess_status rewrite_as_dcp(rewriting *r);
static tess_status rewrite_as_megatron(rewriting *r);

static const struct {
    const char *name;
    tess_names names, bare; /* `bare`: when bare names are asked for */
    bool is_file;
    tess_status (*write)(rewriting *r);
} targets[] = {
    [TESS_TO_HF] = {"hf", TESS_NAMES_BARE, TESS_NAMES_BARE, false, rewrite_as_model_folder},
    [TESS_TO_SAFETENSORS] = {"safetensors", TESS_NAMES_SAME, TESS_NAMES_BARE, true, rewrite_as_file},
    [TESS_TO_TORCH] = {"torch", TESS_NAMES_SAME, TESS_NAMES_BARE, true, rewrite_as_torch},
    [TESS_TO_DCP] = {"dcp", TESS_NAMES_TORCHTITAN, TESS_NAMES_BARE, false, rewrite_as_dcp},
    [TESS_TO_MEGATRON] = {"megatron", TESS_NAMES_TORCHTITAN, TESS_NAMES_BARE, false, rewrite_as_megatron},
    [TESS_TO_TESSERA] = {"tessera", TESS_NAMES_TESSERA, TESS_NAMES_TESSERA, false, rewrite_as_store},
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

typedef tess_status write_fn(const tess_export *out, const char *path, const tess_write_options *options);

static tess_status write_foreign(rewriting *r, write_fn *write)
{
    const tess_catalog_visitor visitor = {.self = r, .progress = report_writing};
    const tess_write_options options = {.n_files = r->options->n_files, .visitor = &visitor};
    snprintf(r->result->path, sizeof(r->result->path), "%s", r->out);
    return write(r->export, r->out, &options);
}

static tess_status rewrite_as_torch(rewriting *r)
{
    return write_foreign(r, tess_torch_write);
}

static tess_status rewrite_as_dcp(rewriting *r)
{
    return write_foreign(r, tess_dcp_write);
}

static tess_status rewrite_as_megatron(rewriting *r)
{
    TESS_TRY(write_foreign(r, tess_megatron_write));
    int n = snprintf(r->result->path, sizeof(r->result->path), "%s/iter_%07" PRId64, r->out, r->export->step);
    TESS_CHECK(n > 0 && (size_t)n < sizeof(r->result->path), TESS_E_INVALID, "path too long: %.100s...", r->out);
    return TESS_OK;
}

/* ---- Writing */
static tess_status check_place(const rewriting *r)
{
    tess_target target = r->options->target;
    const char *out = r->out;
    bool file = targets[target].is_file;
    TESS_CHECK(out[0] != '\0', TESS_E_INVALID, "name what is to be written");
    TESS_CHECK(!tess_os_same_file(r->in, out), TESS_E_INVALID, "%s and %s are the same: write to another place", r->in,
               out);
    TESS_CHECK(!file || !tess_os_is_dir(out), TESS_E_INVALID, "%s is a folder: --to %s writes a file", out,
               targets[target].name);
    TESS_CHECK(!tess_os_is_file(out), TESS_E_INVALID, "%s is there already: name a %s that is new", out,
               file ? "file" : "folder");
    return TESS_OK;
}

static tess_names names_of(const tess_rewrite_options *o)
{
    return o->bare_names ? targets[o->target].bare : targets[o->target].names;
}

static tess_status fail_different(const rewriting *r, const char *name)
{
    return TESS_FAIL(TESS_E_IO, "%s: tensor '%s' does not read back as it was written: the disk or memory is at fault",
                     r->result->path, name);
}

typedef struct check {
    rewriting *r;
    char first[512]; /* tensor that differs */
} check;

static void look_at(void *self, const tess_diff_tensor *t)
{
    check *c = self;
    if (t->kind != TESS_DIFF_SAME && c->first[0] == '\0')
        snprintf(c->first, sizeof(c->first), "%s", t->name);
}

static void report_check(void *self, uint64_t done, uint64_t all)
{
    const tess_rewrite_options *o = ((check *)self)->r->options;
    if (o->progress != NULL)
        o->progress(o->self, "check", done, all);
}

/* What was written, opened anew and read with the names that it was written under. */
static tess_status compare(rewriting *r, const tess_export_options *as)
{
    const tess_export_options names = {.names = as->names, .model_only = as->model_only};
    tess_catalog *catalog;
    tess_export *written = NULL;
    tess_diff_summary summary;
    check c = {.r = r};
    const tess_diff_options options = {.bits_only = true, .self = &c, .tensor = look_at, .progress = report_check};
    TESS_TRY(tess_catalog_open(r->mem, r->result->path, &catalog));
    tess_status status = tess_export_create(catalog, &names, &written);
    if (status == TESS_OK)
        status = tess_export_diff(r->export, written, &options, &summary);
    if (status == TESS_OK && c.first[0] != '\0')
        status = fail_different(r, c.first);
    tess_export_destroy(&written);
    tess_catalog_destroy(&catalog);
    return status;
}

static tess_status write_and_check(rewriting *r, tess_export *export, const tess_export_options *as)
{
    if (r->options->step >= 0)
        export->step = r->options->step;
    r->export = export;
    r->result->n_tensors = export->n_tensors;
    r->result->bytes = tess_export_bytes(export);
    r->result->step = export->step;
    TESS_CHECK(export->n_tensors > 0, TESS_E_INVALID, "%s holds nothing to write%s", r->in,
               as->model_only || as->names == TESS_NAMES_BARE ? ": no tensor of a model" : "");
    TESS_TRY(targets[r->options->target].write(r));
    return r->options->unchecked ? TESS_OK : compare(r, as);
}

/* One host's part may hold everything, too. */
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
    const tess_export_options as = {
        .names = names_of(o), .weights_dtype = o->weights_dtype, .model_only = o->model_only || o->bare_names};
    tess_export *export;
    snprintf(r->result->source, sizeof(r->result->source), "%s", catalog->format);
    TESS_TRY(check_complete(catalog));
    TESS_TRY(tess_export_create(catalog, &as, &export));
    tess_status status = write_and_check(r, export, &as);
    tess_export_destroy(&export);
    return status;
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
    tess_catalog_destroy(&catalog);
    return status;
}
