/* `tessera ckpt verify`: reads checkpoints and checks every byte. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/tools/list.h"
#include "cli/cli.h"

typedef struct verification {
    tess_mem *mem;
    cli_progress progress;
    int n_bad;
    const char *newest; /* NULL: verify all */
} verification;

static void report_progress(void *self, uint64_t done, uint64_t all)
{
    cli_progress_report(&((verification *)self)->progress, done, all);
}

static void report_bad(void *self, const char *message)
{
    ((verification *)self)->n_bad++;
    cli_status_clear();
    printf("BAD %s\n", message);
}

/* Prints what was checked, because not every format has checksums. */
static void print_good(const tess_catalog *c, double took_s)
{
    uint64_t bytes = 0;
    int n_summed = 0;
    char text[32], rate[32];
    for (int i = 0; i < c->n_pieces; i++) {
        bytes += c->pieces[i].stored;
        n_summed += tess_catalog_is_summed(c, i);
    }
    cli_status_clear();
    printf("ok  %s: %d tensors, %d pieces, %s in %.2f s (%s/s)%s%s\n", c->path, c->n_tensors, c->n_pieces,
           tess_format_bytes((double)bytes, text, sizeof(text)), took_s,
           tess_format_bytes((double)bytes / (took_s > 1e-6 ? took_s : 1e-6), rate, sizeof(rate)),
           c->part ? "; one host's part" : "",
           n_summed == c->n_pieces ? ""
           : n_summed > 0          ? "; not all pieces have a checksum"
                                   : "; the format has no checksums: read, and complete");
}

/* A missing file is damage when the checkpoint itself exists. */
static bool is_damage(tess_status status, const char *path)
{
    bool there = tess_os_is_dir(path) || tess_os_is_file(path);
    return status == TESS_E_FORMAT || status == TESS_E_IO || (status == TESS_E_NOT_FOUND && there);
}

/* Counts and prints damage; returns other failures. */
static tess_status verify_one(verification *v, const char *path)
{
    tess_catalog *catalog;
    const tess_catalog_visitor visitor = {.self = v, .progress = report_progress, .bad = report_bad};
    double begin_s = tess_os_now_s();
    v->progress = (cli_progress){.doing = "verify"};
    tess_status status = tess_catalog_open(v->mem, path, &catalog);
    if (is_damage(status, path)) {
        report_bad(v, tess_error_message());
        return TESS_OK;
    }
    TESS_TRY(status);
    int before = v->n_bad;
    status = tess_catalog_verify(catalog, &visitor);
    if (status == TESS_OK)
        print_good(catalog, tess_os_now_s() - begin_s);
    tess_catalog_destroy(&catalog);
    return v->n_bad > before ? TESS_OK : status;
}

/* A checkpoint of unknown format cannot be opened; the list already says why. */
static tess_status verify_item(verification *v, const tess_ckpt_list *list, const tess_ckpt_item *item)
{
    char path[4096];
    if (item->state == TESS_CKPT_DAMAGED && item->format[0] == '\0') {
        report_bad(v, item->problem);
        return TESS_OK;
    }
    TESS_TRY(tess_ckpt_item_path(list, item, path, sizeof(path)));
    return verify_one(v, path);
}

static tess_status verify_items(verification *v, const tess_ckpt_list *list)
{
    for (int i = 0; i < list->n; i++) {
        const tess_ckpt_item *item = &list->items[i];
        if (item->state == TESS_CKPT_INCOMPLETE)
            printf("--  %s/%s: %s\n", list->folder, item->name, item->problem);
        else if (item->state == TESS_CKPT_UNKNOWN)
            printf("--  %s\n", item->problem);
        else
            TESS_TRY(verify_item(v, list, item));
    }
    return TESS_OK;
}

/* Verifies the newest checkpoint that was ever complete, even if it is damaged now. */
static tess_status verify_newest(verification *v, const tess_ckpt_list *list)
{
    for (int i = list->n - 1; i >= 0; i--)
        if (list->items[i].state != TESS_CKPT_INCOMPLETE)
            return verify_item(v, list, &list->items[i]);
    return TESS_FAIL(TESS_E_NOT_FOUND, "%s: no checkpoint there was finished", list->folder);
}

/* Verifies a folder of checkpoints, or a single checkpoint. */
static tess_status verify_path(verification *v, const char *path)
{
    TESS_AUTO(tess_ckpt_list_free) tess_ckpt_list list = {0};
    if (!tess_os_is_dir(path) || tess_ckpt_list_read(v->mem, path, &list) != TESS_OK)
        return verify_one(v, path);
    bool one = list.n == 1 && strcmp(list.items[0].name, ".") == 0;
    return one                 ? verify_item(v, &list, &list.items[0])
           : v->newest != NULL ? verify_newest(v, &list)
                               : verify_items(v, &list);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    verification v = {.mem = mem};
    const cli_flag flags[] = {{"--newest", NULL, "only the newest checkpoint of a folder", .text = &v.newest}};
    int n = cli_parse(argc, argv, &cli_ckpt_verify, flags, 1);
    if (n == 0)
        return cli_misuse(&cli_ckpt_verify, "which checkpoint?");
    tess_status status = TESS_OK;
    for (int i = 1; i <= n && status == TESS_OK; i++)
        status = verify_path(&v, argv[i]);
    return status == TESS_OK && v.n_bad > 0 ? TESS_EXIT_FAILED : cli_end(status);
}

const cli_command cli_ckpt_verify = {
    "ckpt verify",
    "PATH ... [--newest]",
    "read checkpoints and check every byte: checksums, sizes, completeness\n\n"
    "Verifies all checkpoints of a folder. Names damage by file, offset, tensor and the rank that wrote it.",
    .exit_codes = "0 all is well; 1 something is damaged or missing; 2 bad input",
    .examples = "tessera ckpt verify out/kjv/checkpoint\n"
                "tessera ckpt verify out/kjv/checkpoint --newest\n"
                "tessera ckpt verify model.safetensors",
    .run = run};
