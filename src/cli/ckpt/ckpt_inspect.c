/* `tessera ckpt inspect`: shows what a checkpoint of any format holds, without reading its tensors. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/objects.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/formats/export_catalog.h"
#include "ckpt/store/dims.h"
#include "cli/cli.h"

typedef struct inspect_options {
    const char *pattern, *pieces, *meta;
    tess_form_style style;
} inspect_options;

typedef struct totals {
    int n_tensors, n_pieces;
    uint64_t bytes, stored;
    int64_t elements;
} totals;

static void add_tensor(const tess_catalog *c, const tess_catalog_tensor *t, totals *sum)
{
    tess_box whole = tess_catalog_whole(t);
    sum->n_tensors++;
    sum->n_pieces += t->n_pieces;
    sum->bytes += tess_catalog_tensor_bytes(t);
    sum->elements += tess_box_count(t->n_dims, &whole);
    for (int i = 0; i < t->n_pieces; i++)
        sum->stored += c->pieces[t->first_piece + i].stored;
}

static const char *file_name(const tess_catalog *c, int file)
{
    return tess_object_file_name(c->files[file].path);
}

/* Whether a tensor's name matches. `pattern` is a part of the name, or a glob if it contains one of "*?["; NULL: all
 * names match. */
static bool name_matches(const char *name, const char *pattern)
{
    if (pattern == NULL)
        return true;
    return strpbrk(pattern, "*?[") != NULL ? fnmatch(pattern, name, 0) == 0 : strstr(name, pattern) != NULL;
}

static const tess_form_part form[] = {
    {.text =
         "{path}: {format}[{has_step:!}, step {step}]\n{*members}  {name:-28} {value:.80}[{is_long:!} ...]\n{/}"
         "[{lists:!}  tensor\t dtype shape           \t      bytes  pcs  file\n"
         "{*tensors}  {name}\t {dtype:-5} {[}{*shape:, }{}{/}{]}\t {bytes:10B} {n_pieces:4}  {where}\n"
         "{*pieces}    {box}  {file}: bytes {[}{offset}, {end}){writer}{codec}\n{/}{/}"
         "{n_tensors} tensor{n_tensors:s}[ like '{pattern}'], {n_elements:c} elements, {bytes:B} in {n_pieces} pieces"
         "[ ({stored:B} stored)]; {n_files} file{n_files:s} in all\n]"},
    {NULL, NULL}};

static const char *const codecs[] = {[TESS_CODEC_NONE] = "",
                                     [TESS_CODEC_ZSTD] = "  zstd",
                                     [TESS_CODEC_DEFLATE] = "  deflate",
                                     [TESS_CODEC_MXFP4] = "  mxfp4"};

/* Describes a piece; `for_people` also as text. */
static json_t *describe_piece(const tess_catalog *c, const tess_catalog_tensor *t, const tess_catalog_piece *p,
                              bool for_people)
{
    char box[300], writer[32] = "";
    json_t *object = json_pack(
        "{s:o, s:I, s:I, s:I, s:i, s:o, s:o}", "file", tess_json_text(file_name(c, p->file)), "offset",
        (json_int_t)p->offset, "stored", (json_int_t)p->stored, "bytes", (json_int_t)p->bytes, "rank", p->rank, "begin",
        tess_dims_to_json(t->n_dims, p->box.begin), "size", tess_dims_to_json(t->n_dims, p->box.size));
    if (!for_people)
        return object;
    if (p->rank >= 0)
        snprintf(writer, sizeof(writer), "  rank %d", p->rank);
    json_object_update_new(
        object, json_pack("{s:s, s:I, s:s, s:s}", "box", tess_box_format(t->n_dims, &p->box, box, sizeof(box)), "end",
                          (json_int_t)(p->offset + p->stored), "writer", writer, "codec", codecs[p->codec]));
    return object;
}

static json_t *describe_tensor(const tess_catalog *c, const tess_catalog_tensor *t, bool pieces, bool for_people)
{
    json_t *list = json_array();
    json_t *object = json_pack("{s:o, s:s, s:o, s:I, s:i}", "name", tess_json_text(t->name), "dtype", t->dtype, "shape",
                               tess_dims_to_json(t->n_dims, t->dim), "bytes", (json_int_t)tess_catalog_tensor_bytes(t),
                               "n_pieces", t->n_pieces);
    for (int i = 0; i < t->n_pieces && pieces; i++)
        json_array_append_new(list, describe_piece(c, t, &c->pieces[t->first_piece + i], for_people));
    if (pieces)
        json_object_set(object, "pieces", list);
    json_decref(list);
    if (for_people && t->n_pieces > 0) {
        int first = c->pieces[t->first_piece].file, last = c->pieces[t->first_piece + t->n_pieces - 1].file;
        json_object_set_new(object, "where", json_sprintf("%.60s%s", file_name(c, first), first != last ? " .." : ""));
    }
    return object;
}

/* Lists members as "meta.seed" and "42", with the keys that `tessera ckpt edit` takes. */
static void list_members(const char *prefix, const json_t *object, json_t *list)
{
    enum { WIDTH = 80 };
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value) {
        char name[512];
        snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key);
        if (json_is_object(value) && json_object_size(value) > 0) {
            list_members(name, value, list);
            continue;
        }
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "name", name, "value", text != NULL ? text : "",
                                              "is_long", text != NULL && strlen(text) > WIDTH));
        free(text);
    }
}

static void add_members(const tess_catalog *c, const inspect_options *o, const totals *sum, json_t *report)
{
    json_t *members = json_array();
    if (o->pattern == NULL)
        list_members("", c->meta, members);
    json_object_update_new(report,
                           json_pack("{s:b, s:o, s:b, s:i, s:s?, s:I}", "has_step", tess_export_find_step(c) >= 0,
                                     "members", members, "lists", o->meta == NULL, "n_files", c->n_files, "pattern",
                                     o->pattern, "stored", (json_int_t)(sum->stored != sum->bytes ? sum->stored : 0)));
}

/* Describes the checkpoint. *n_found: the number of tensors whose names match. */
static json_t *describe(const tess_catalog *c, const inspect_options *o, int *n_found)
{
    const bool for_people = o->style == TESS_FORM_TEXT;
    totals sum = {0};
    json_t *tensors = json_array(), *files = json_array();
    for (int i = 0; i < c->n_files; i++)
        json_array_append_new(files, tess_json_text(c->files[i].path));
    for (int i = 0; i < c->n_tensors; i++) {
        if (!name_matches(c->tensors[i].name, o->pattern))
            continue;
        json_array_append_new(tensors, describe_tensor(c, &c->tensors[i], o->pieces != NULL, for_people));
        add_tensor(c, &c->tensors[i], &sum);
    }
    *n_found = sum.n_tensors;
    json_t *report =
        json_pack("{s:i, s:o, s:s, s:I, s:O, s:i, s:I, s:I, s:i, s:o, s:o}", "version", 1, "path",
                  tess_json_text(c->path), "format", c->format, "step", (json_int_t)tess_export_find_step(c), "meta",
                  c->meta, "n_tensors", sum.n_tensors, "n_elements", (json_int_t)sum.elements, "bytes",
                  (json_int_t)sum.bytes, "n_pieces", sum.n_pieces, "files", files, "tensors", tensors);
    if (for_people)
        add_members(c, o, &sum, report);
    return report;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    inspect_options o = {0};
    const cli_flag flags[] = {
        {"--pieces", NULL, "also the pieces of each tensor: file, bytes, the rank that wrote it", .text = &o.pieces},
        {"--meta", NULL, "the metadata alone", .text = &o.meta},
        CLI_STYLES(&o.style),
    };
    int n = cli_parse(argc, argv, &cli_ckpt_inspect, flags, sizeof(flags) / sizeof(flags[0]));
    if (n < 1 || n > 2)
        return cli_misuse(&cli_ckpt_inspect, "%s", n == 0 ? "which checkpoint?" : "one checkpoint, one pattern");
    tess_catalog *catalog = NULL;
    int n_found = 0;
    o.pattern = n == 2 ? argv[2] : NULL;
    tess_status status = tess_catalog_open(mem, argv[1], &catalog);
    if (status == TESS_OK)
        status = cli_report(mem, describe(catalog, &o, &n_found), form, o.style, JSON_INDENT(1));
    tess_catalog_destroy(&catalog);
    if (status != TESS_OK)
        return cli_end(status);
    return n_found > 0 || o.pattern == NULL ? TESS_EXIT_OK : TESS_EXIT_FAILED;
}

const cli_command cli_ckpt_inspect = {
    "ckpt inspect", "PATH [PATTERN] [--pieces] [--meta] [--json | --html | --prometheus]",
    "show what a checkpoint holds: metadata, tensors, pieces, files; tensors are not read\n\n"
    "PATH: a Tessera checkpoint (or a folder of them: the newest), a safetensors file, a model folder, a PyTorch DCP "
    "or\n"
    "Megatron folder, a torch.save file, a DeepSpeed folder. PATTERN: a part of a tensor's name, or one with * ? [;\n"
    "exit code 1 when no name is like it.\n",
    .examples = "tessera ckpt inspect out/kjv/checkpoint\n"
                "tessera ckpt inspect model.safetensors 'layers.0.*'\n"
                "tessera ckpt inspect out/kjv/checkpoint --meta",
    .run = run};
