/* `tessera ckpt inspect`: shows what a checkpoint of any format holds, without reading its tensors. */
#include <fnmatch.h>
#include <inttypes.h>
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

enum { MAX_NAME_WIDTH = 100 };

typedef struct inspect_options {
    const char *pattern, *json, *pieces, *meta;
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

/* ---- Text */
static void print_piece(const tess_catalog *c, const tess_catalog_tensor *t, const tess_catalog_piece *p)
{
    char box[300], writer[32] = "";
    if (p->rank >= 0)
        snprintf(writer, sizeof(writer), "  rank %d", p->rank);
    printf("    %s  %s: bytes [%" PRIu64 ", %" PRIu64 ")%s%s\n", tess_box_format(t->n_dims, &p->box, box, sizeof(box)),
           file_name(c, p->file), p->offset, p->offset + p->stored, writer,
           p->codec == TESS_CODEC_NONE   ? ""
           : p->codec == TESS_CODEC_ZSTD ? "  zstd"
                                         : "  deflate");
}

/* Returns the length of the longest name that is shown. */
static int name_width(const tess_catalog *c, const char *pattern)
{
    int width = (int)strlen("tensor");
    for (int i = 0; i < c->n_tensors; i++) {
        int n = (int)strlen(c->tensors[i].name);
        if (n > width && name_matches(c->tensors[i].name, pattern))
            width = n;
    }
    return width < MAX_NAME_WIDTH ? width : MAX_NAME_WIDTH;
}

static void print_tensor(const tess_catalog *c, const tess_catalog_tensor *t, int width, bool pieces)
{
    char dims[160], bytes[32], files[80] = "";
    if (t->n_pieces > 0) {
        int first = c->pieces[t->first_piece].file, last = c->pieces[t->first_piece + t->n_pieces - 1].file;
        snprintf(files, sizeof(files), "%.60s%s", file_name(c, first), first != last ? " .." : "");
    }
    printf("  %-*s %-5s %-16s %10s %4d  %s\n", width, t->name, t->dtype,
           tess_dims_format(t->n_dims, t->dim, dims, sizeof(dims)),
           tess_format_bytes((double)tess_catalog_tensor_bytes(t), bytes, sizeof(bytes)), t->n_pieces, files);
    for (int i = 0; i < t->n_pieces && pieces; i++)
        print_piece(c, t, &c->pieces[t->first_piece + i]);
}

/* Prints members as "  meta.seed  42", with the keys that `tessera ckpt edit` takes. Shortens long values. */
static void print_meta(const char *prefix, const json_t *object)
{
    enum { WIDTH = 80 };
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)object, key, value) {
        char name[512];
        snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key);
        if (json_is_object(value) && json_object_size(value) > 0) {
            print_meta(name, value);
            continue;
        }
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        bool fits = text == NULL || strlen(text) <= WIDTH;
        printf("  %-28s %.*s%s\n", name, WIDTH, text != NULL ? text : "", fits ? "" : " ...");
        free(text);
    }
}

static void print_totals(const tess_catalog *c, const totals *sum, const char *pattern)
{
    char a[32], b[32], n[32];
    printf("%d tensor%s%s%s%s, %s elements, %s in %d pieces", sum->n_tensors, sum->n_tensors == 1 ? "" : "s",
           pattern != NULL ? " like '" : "", pattern != NULL ? pattern : "", pattern != NULL ? "'" : "",
           tess_format_count((double)sum->elements, n, sizeof(n)), tess_format_bytes((double)sum->bytes, a, sizeof(a)),
           sum->n_pieces);
    if (sum->stored != sum->bytes)
        printf(" (%s stored)", tess_format_bytes((double)sum->stored, b, sizeof(b)));
    printf("; %d file%s in all\n", c->n_files, c->n_files == 1 ? "" : "s");
}

static void print(const tess_catalog *c, const inspect_options *o, int *n_found)
{
    totals sum = {0};
    int64_t step = tess_export_find_step(c);
    printf("%s: %s", c->path, c->format);
    if (step >= 0)
        printf(", step %" PRId64, step);
    putchar('\n');
    if (o->pattern == NULL)
        print_meta("", c->meta);
    *n_found = c->n_tensors;
    if (o->meta != NULL)
        return;
    int width = name_width(c, o->pattern);
    printf("  %-*s %-5s %-16s %10s %4s  %s\n", width, "tensor", "dtype", "shape", "bytes", "pcs", "file");
    for (int i = 0; i < c->n_tensors; i++) {
        if (!name_matches(c->tensors[i].name, o->pattern))
            continue;
        print_tensor(c, &c->tensors[i], width, o->pieces != NULL);
        add_tensor(c, &c->tensors[i], &sum);
    }
    print_totals(c, &sum, o->pattern);
    *n_found = sum.n_tensors;
}

/* ---- JSON */
static json_t *describe_piece(const tess_catalog *c, const tess_catalog_tensor *t, const tess_catalog_piece *p)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:i, s:o, s:o}", "file", tess_json_text(file_name(c, p->file)), "offset",
                     (json_int_t)p->offset, "stored", (json_int_t)p->stored, "bytes", (json_int_t)p->bytes, "rank",
                     p->rank, "begin", tess_dims_to_json(t->n_dims, p->box.begin), "size",
                     tess_dims_to_json(t->n_dims, p->box.size));
}

static json_t *describe_tensor(const tess_catalog *c, const tess_catalog_tensor *t, bool pieces)
{
    json_t *object = json_pack("{s:o, s:s, s:o, s:I, s:i}", "name", tess_json_text(t->name), "dtype", t->dtype, "shape",
                               tess_dims_to_json(t->n_dims, t->dim), "bytes", (json_int_t)tess_catalog_tensor_bytes(t),
                               "n_pieces", t->n_pieces);
    if (!pieces)
        return object;
    json_t *list = json_array();
    for (int i = 0; i < t->n_pieces; i++)
        json_array_append_new(list, describe_piece(c, t, &c->pieces[t->first_piece + i]));
    json_object_set_new(object, "pieces", list);
    return object;
}

static tess_status print_json(const tess_catalog *c, const inspect_options *o, int *n_found)
{
    totals sum = {0};
    json_t *tensors = json_array(), *files = json_array();
    for (int i = 0; i < c->n_files; i++)
        json_array_append_new(files, tess_json_text(c->files[i].path));
    for (int i = 0; i < c->n_tensors; i++) {
        if (!name_matches(c->tensors[i].name, o->pattern))
            continue;
        json_array_append_new(tensors, describe_tensor(c, &c->tensors[i], o->pieces != NULL));
        add_tensor(c, &c->tensors[i], &sum);
    }
    *n_found = sum.n_tensors;
    return tess_json_put(json_pack("{s:i, s:o, s:s, s:I, s:O, s:i, s:I, s:I, s:i, s:o, s:o}", "version", 1, "path",
                                   tess_json_text(c->path), "format", c->format, "step",
                                   (json_int_t)tess_export_find_step(c), "meta", c->meta, "n_tensors", sum.n_tensors,
                                   "n_elements", (json_int_t)sum.elements, "bytes", (json_int_t)sum.bytes, "n_pieces",
                                   sum.n_pieces, "files", files, "tensors", tensors),
                         JSON_INDENT(1), stdout);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    inspect_options o = {0};
    const cli_flag flags[] = {
        {"--pieces", NULL, "also the pieces of each tensor: file, bytes, the rank that wrote it", .text = &o.pieces},
        {"--meta", NULL, "the metadata alone", .text = &o.meta},
        {"--json", NULL, "print a JSON object (\"version\": 1)", .text = &o.json},
    };
    int n = cli_parse(argc, argv, &cli_ckpt_inspect, flags, 3);
    if (n < 1 || n > 2)
        return cli_misuse(&cli_ckpt_inspect, "%s", n == 0 ? "which checkpoint?" : "one checkpoint, one pattern");
    tess_catalog *catalog = NULL;
    int n_found = 0;
    o.pattern = n == 2 ? argv[2] : NULL;
    tess_status status = tess_catalog_open(mem, argv[1], &catalog);
    if (status == TESS_OK && o.json != NULL)
        status = print_json(catalog, &o, &n_found);
    else if (status == TESS_OK)
        print(catalog, &o, &n_found);
    tess_catalog_destroy(&catalog);
    if (status != TESS_OK)
        return cli_end(status);
    return n_found > 0 || o.pattern == NULL ? TESS_EXIT_OK : TESS_EXIT_FAILED;
}

const cli_command cli_ckpt_inspect = {
    "ckpt inspect", "PATH [PATTERN] [--pieces] [--meta] [--json]",
    "show what a checkpoint holds: metadata, tensors, pieces, files; tensors are not read\n\n"
    "PATH: a Tessera checkpoint (or a folder of them: the newest), a safetensors file, a model folder, a PyTorch DCP "
    "or\n"
    "Megatron folder, a torch.save file, a DeepSpeed folder. PATTERN: a part of a tensor's name, or one with * ? [;\n"
    "exit code 1 when no name is like it.\n",
    .run = run};
