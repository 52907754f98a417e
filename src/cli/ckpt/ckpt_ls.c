/* `tessera ckpt ls`: lists the checkpoints of a folder. */
#include <stdio.h>

#include "base/os/machine.h"
#include "base/text/json.h"
#include "ckpt/tools/list.h"
#include "cli/cli.h"

/* Formats an age: "42 s", "3 min", "5 h", "12 d". */
static const char *format_age(double seconds, char *text, size_t size)
{
    static const struct {
        double s;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;
    while (i < 3 && seconds < 2 * units[i].s)
        i++;
    snprintf(text, size, "%.0f %s", seconds > 0 ? seconds / units[i].s : 0, units[i].name);
    return text;
}

static const tess_form_part form[] = {
    {.text = "      step  state             size      age  format       name\n"},
    {.list = "checkpoints",
     .text = "{step:10}  {state:-10}  {bytes:10B}  {age:7}  [{format:-11}|-          ]  {name}[{newest:!}  <- newest]\n"
             "[            {problem}\n]"},
    {.text = "{n} checkpoint{n:s}, {bytes:B}\n"},
    {NULL, NULL}};

/* now_s: the time, if people want to know ages. Programs compute them; 0 for them. */
static json_t *describe(const tess_ckpt_item *item, double now_s)
{
    char age[32];
    format_age(now_s - item->changed_s, age, sizeof(age));
    return json_pack("{s:o, s:o*, s:s, s:s, s:I, s:f, s:b, s:o*, s:s*}", "name", tess_json_text(item->name), "step",
                     item->step >= 0 ? json_integer((json_int_t)item->step) : NULL, "state",
                     tess_ckpt_state_text(item->state), "format", item->format, "bytes", (json_int_t)item->bytes,
                     "changed", item->changed_s, "newest", item->newest, "problem",
                     item->problem[0] != '\0' ? tess_json_text(item->problem) : NULL, "age", now_s > 0 ? age : NULL);
}

static json_t *describe_list(const tess_ckpt_list *list, bool for_people)
{
    uint64_t bytes = 0;
    json_t *items = json_array();
    const double now_s = for_people ? 1e-9 * (double)tess_os_wall_ns() : 0;
    for (int i = 0; i < list->n; i++) {
        json_array_append_new(items, describe(&list->items[i], now_s));
        bytes += list->items[i].bytes;
    }
    json_t *report =
        json_pack("{s:i, s:o, s:o}", "version", 1, "folder", tess_json_text(list->folder), "checkpoints", items);
    if (for_people) /* programs add up the sizes themselves */
        json_object_update_new(report, json_pack("{s:i, s:I}", "n", list->n, "bytes", (json_int_t)bytes));
    return report;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    tess_form_style style = TESS_FORM_TEXT;
    const cli_flag flags[] = {CLI_STYLES(&style)};
    int n = cli_parse(argc, argv, &cli_ckpt_ls, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 1)
        return cli_misuse(&cli_ckpt_ls, "%s", n == 0 ? "which folder or file?" : "one at a time");
    tess_ckpt_list list;
    tess_status status = tess_ckpt_list_read(mem, argv[1], &list);
    if (status != TESS_OK)
        return cli_end(status);
    status = cli_report(mem, describe_list(&list, style == TESS_FORM_TEXT), form, style, JSON_INDENT(1));
    tess_ckpt_list_free(&list);
    return cli_end(status);
}

const cli_command cli_ckpt_ls = {
    "ckpt ls", "DIR|FILE [--json | --html | --prometheus]",
    "list the checkpoints of a folder, or describe a file that is one: step, state, size, age\n\n"
    "Valid: complete, every file there with its size, every tensor covered; `tessera ckpt verify` checks checksums.\n"
    "Incomplete: the save did not finish. Damaged: it was complete once; the line below says what is wrong.\n",
    .examples = "tessera ckpt ls out/kjv/checkpoint\n"
                "tessera ckpt ls model.safetensors\n"
                "tessera ckpt ls out/kjv/checkpoint --json",
    .run = run};
