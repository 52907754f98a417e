#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/catalog/catalog.h"
#include "ckpt/tools/list.h"
#include "cli/cli_ckpt.h"
#include "cli/cli_progress.h"

enum { DAMAGED = TESS_EXIT_FAILED };

typedef struct verification {
    tess_mem *mem;
    cli_progress progress;
    int n_bad;
    const char *newest; /* alone; NULL: all */
} verification;

static void report_progress(void *self, uint64_t done, uint64_t all)
{
    cli_progress_report(&((verification *)self)->progress, "verify", done, all);
}

static void report_bad(void *self, const char *message)
{
    ((verification *)self)->n_bad++;
    cli_status_clear();
    printf("BAD %s\n", message);
}

/* What there was to look at: not every format has checksums. */
static void print_good(const tess_catalog *c, double took_s)
{
    uint64_t bytes = 0;
    int n_summed = 0;
    char text[32], rate[32];
    for (int i = 0; i < c->n_pieces; i++) {
        bytes += c->pieces[i].stored;
        n_summed += c->pieces[i].sum_kind != TESS_SUM_KIND_NONE;
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

/* A file that is missing is damage where there is a checkpoint. */
static bool is_damage(tess_status status, const char *path)
{
    bool there = tess_os_is_dir(path) || tess_os_is_file(path);
    return status == TESS_E_FORMAT || status == TESS_E_IO || (status == TESS_E_NOT_FOUND && there);
}

/* Damage is counted and told, other failures are returned. */
static tess_status verify_one(verification *v, const char *path)
{
    tess_catalog *catalog;
    const tess_catalog_visitor visitor = {.self = v, .progress = report_progress, .bad = report_bad};
    double begin_s = tess_os_now_s();
    v->progress = (cli_progress){0};
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

/* Of one that cannot be opened there is no more to say than what the list has. */
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

/* Of those that were finished once, whatever has become of them. */
static tess_status verify_newest(verification *v, const tess_ckpt_list *list)
{
    for (int i = list->n - 1; i >= 0; i--)
        if (list->items[i].state != TESS_CKPT_INCOMPLETE)
            return verify_item(v, list, &list->items[i]);
    return TESS_FAIL(TESS_E_NOT_FOUND, "%s: no checkpoint there was finished", list->folder);
}

/* A folder of checkpoints, or one: which alone says what is wrong with it. */
static tess_status verify_path(verification *v, const char *path)
{
    tess_ckpt_list list;
    if (!tess_os_is_dir(path) || tess_ckpt_list_read(v->mem, path, &list) != TESS_OK)
        return verify_one(v, path);
    bool one = list.n == 1 && strcmp(list.items[0].name, ".") == 0;
    tess_status status = one                 ? verify_item(v, &list, &list.items[0])
                         : v->newest != NULL ? verify_newest(v, &list)
                                             : verify_items(v, &list);
    tess_ckpt_list_free(&list);
    return status;
}

static int run(int argc, char **argv)
{
    verification v = {.n_bad = 0};
    const cli_flag flags[] = {{"--newest", NULL, "of a folder of checkpoints the newest alone", &v.newest}};
    int n = cli_parse(argc, argv, &cli_ckpt_verify, flags, 1);
    if (n < 0)
        return n == -1 ? TESS_EXIT_OK : TESS_EXIT_BAD_INPUT;
    if (n == 0)
        return cli_misuse(&cli_ckpt_verify, "which checkpoint?");
    tess_status status = tess_mem_create(&v.mem);
    for (int i = 1; i <= n && status == TESS_OK; i++)
        status = verify_path(&v, argv[i]);
    tess_mem_destroy(&v.mem);
    if (status != TESS_OK)
        return cli_fail(status);
    return v.n_bad > 0 ? DAMAGED : TESS_EXIT_OK;
}

const cli_command cli_ckpt_verify = {
    "ckpt verify", "PATH ... [--newest]",
    "reads checkpoints and checks every byte: checksums, sizes, completeness\n\n"
    "Of a folder of checkpoints all are verified. What is damaged is named by file, offset, tensor and the rank that\n"
    "wrote it. Exit codes: 0 all is well; 1 something is damaged or missing; 2 bad input.\n",
    run};
