/* `tessera plan launches`: the time of GPU work from a log of its launches. */
#include <stdio.h>

#include "base/mem/scoped.h"
#include "base/os/os.h"
#include "base/text/json.h"
#include "cli/plan/cli_plan.h"
#include "cli/plan/load_machine.h"
#include "plan/gpu/launch_log.h"

enum { MOST_LOG = 512 << 20, JSON_VERSION = 1 };

typedef struct launch_flags {
    const char *machine;
    int64_t tokens, top;
    tess_form_style style;
} launch_flags;

static json_t *kernel_json(const tess_launched_kernel *k, double all_s)
{
    json_t *json = json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:s}", "name", tess_json_text(k->name), "n", k->n, "ms",
                             k->seconds * 1e3, "share", all_s > 0 ? k->seconds / all_s : 0, "gb",
                             k->memory_bytes * 1e-9, "gflop", k->flops * 1e-9, "bound", tess_gpu_bound_name(k->bound));
    if (k->occupancy > 0)
        json_object_set_new(json, "occupancy", json_real(k->occupancy));
    return json;
}

static json_t *report_json(const tess_launch_totals *t, const tess_machine *m, const launch_flags *f)
{
    json_t *kernels = json_array();
    for (int i = 0; i < t->n_kernels && i < f->top; i++)
        json_array_append_new(kernels, kernel_json(&t->kernels[i], t->busy_s));
    json_t *json =
        json_pack("{s:i, s:s, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "version", JSON_VERSION, "type",
                  "tessera-launches", "machine", tess_json_text(m->machine.title), "launches", t->launches, "copies",
                  t->copies, "waits", t->waits, "gb", t->memory_bytes * 1e-9, "tflop", t->flops * 1e-12, "copied_mb",
                  t->copied_bytes * 1e-6, "busy_ms", t->busy_s * 1e3, "ms", t->time_s * 1e3, "kernels", kernels);
    if (f->tokens > 0)
        json_object_set_new(json, "tokens_per_s", json_real((double)f->tokens / t->time_s));
    return json;
}

static const tess_form_part form[] = {
    {.text = "\v     ms\v   share\v  launches\v      GB\v    GFLOP\v  occupancy\t  limited by   \t  kernel\n"},
    {.list = "kernels",
     .text = "\v{ms:.3f}\v  {share:.1%}\v  {n:.0f}\v  {gb:.3f}\v  {gflop:.1f}\v  [{occupancy:.0%}]\t  {bound}\t  "
             "{name}\n"},
    {.text =
         "\n{machine}: {ms:.2f} ms, of which the GPU works {busy_ms:.2f}[; {tokens_per_s:.0f} tokens a second]\n"
         "{launches:.0f} launches, {copies:.0f} copies of {copied_mb:.3f} MB from or to the host, {waits:.0f} waits "
         "of the host; {gb:.2f} GB of memory moved, {tflop:.3f} TFLOP on tensor cores\n"},
    {NULL, NULL}};

static tess_status show(tess_mem *mem, const char *path, const launch_flags *f)
{
    TESS_AUTO(tess_mem_drop) char *text = NULL;
    TESS_AUTO(tess_mem_drop) tess_launch_log *log = NULL;
    size_t size;
    tess_machine machine;
    TESS_TRY(tess_machine_load(mem, f->machine, &machine));
    TESS_TRY(tess_os_read(mem, path, MOST_LOG, &text, &size));
    TESS_TRY(TESS_NEW(mem, 1, "log of launches", &log));
    log->machine = &machine;
    log->what = path;
    TESS_TRY(tess_launch_log_read(log, text, size));
    return cli_report(mem, report_json(&log->totals, &machine, f), form, f->style, JSON_INDENT(2));
}

static int run(tess_mem *mem, int argc, char **argv)
{
    launch_flags f = {.machine = "h100-sxm", .top = 1 << 20};
    const cli_flag flags[] = {
        {"--machine", "NAME|FILE", "a machine of GPUs (h100-sxm)", .text = &f.machine},
        {"--tokens", "N", "tokens that the work is for", .integer = &f.tokens, .min = 1, .max = INT64_C(1) << 40},
        {"--top", "N", "kernels to show (all)", .integer = &f.top, .min = 1, .max = 1 << 20},
        CLI_STYLES(&f.style)};
    const int n = cli_parse(argc, argv, &cli_plan_launches, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 1)
        return cli_misuse(&cli_plan_launches, "name one log");
    return cli_end(show(mem, argv[1], &f));
}

const cli_command cli_plan_launches = {
    "plan launches", "LOG [--machine NAME] [--tokens N]",
    "compute the time of GPU work from a log of its launches\n"
    "The log has a line for each launch, with what it moves and computes (src/plan/gpu/launch_log.h). tools/gpu-step "
    "writes\n"
    "one of a training step, without a GPU.",
    .examples = "tessera plan launches out/gpu-step/micro.log --machine h200-sxm --tokens 16384", .run = run};
