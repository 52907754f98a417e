/* `tessera doctor preflight`: checks machines, ranks and the configuration before a job. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "cli/cli.h"
#include "job/environment.h"
#include "control/checklist/checklist.h"
#include "control/supervise/preflight.h"

typedef struct screen {
    tess_mem *mem;
    const char *json;      /* NULL: not given; "": write to standard output */
    const char *checklist; /* NULL: not given */
    const tess_preflight *preflight;
    double begin_s;
} screen;

static int list_checks(void)
{
    for (int group = 0; group < TESS_PROBE_GROUPS; group++) {
        tess_probe_check check;
        printf("%s\n", tess_probe_group_name((tess_probe_group)group));
        for (int i = 0; tess_probe_check_at((tess_probe_group)group, i, &check); i++)
            printf("  %-16s %s (%s)\n", check.name, check.looks_at, check.threshold);
    }
    return TESS_EXIT_OK;
}

/* Writes a JSON report to the file, or to standard output. */
static tess_status write_json(const screen *s, const tess_probe_report *report)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = s->mem};
    TESS_TRY(tess_probe_print(report, 0, &text));
    if (s->json[0] == '\0')
        return cli_print_text(TESS_OK, &text);
    FILE *file = fopen(s->json, "we");
    if (file == NULL)
        return tess_os_error("create", s->json);
    bool written = fwrite(text.data, 1, text.size, file) == text.size;
    return fclose(file) == 0 && written ? TESS_OK : tess_os_error("write", s->json);
}

/* Prints the checklist in place of the report. */
static int show_checklist(const screen *s, const tess_probe_report *report, int columns)
{
    tess_checklist_item items[TESS_CHECKLIST_ITEMS];
    tess_buffer text = {.mem = s->mem};
    const tess_preflight_config *config = &s->preflight->config;
    tess_checklist_fill(config->loaded == TESS_OK && config->path != NULL ? &config->config : NULL, report, items);
    cli_status_clear();
    tess_status status = cli_print_text(tess_checklist_print(items, s->json != NULL ? 0 : columns, &text), &text);
    if (status != TESS_OK)
        return cli_end(status);
    return tess_checklist_failed(items) > 0 ? TESS_PREFLIGHT_NOT_READY : TESS_EXIT_OK;
}

static int show(void *self, const tess_probe_report *report)
{
    struct winsize window;
    const screen *s = self;
    bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col >= 60;
    if (s->checklist != NULL)
        return show_checklist(s, report, terminal ? window.ws_col : 120);
    tess_probe_report shown = *report;
    shown.seconds = tess_os_now_s() - s->begin_s;
    cli_status_clear();
    tess_buffer text = {.mem = s->mem};
    tess_status status = TESS_OK;
    if (s->json == NULL || s->json[0] != '\0')
        status = cli_print_text(tess_probe_print(&shown, terminal ? window.ws_col : 120, &text), &text);
    if (status == TESS_OK && s->json != NULL)
        status = write_json(s, &shown);
    if (status != TESS_OK)
        return cli_end(status);
    return tess_probe_count(&shown, TESS_PROBE_FAIL) > 0 ? TESS_PREFLIGHT_NOT_READY : TESS_EXIT_OK;
}

static void show_doing(int n_ranks)
{
    if (n_ranks == 0)
        cli_status_line("preflight: this machine (2 s)");
    else
        cli_status_line("preflight: %d ranks (3 s)", n_ranks);
}

static int run(tess_mem *mem, int argc, char **argv)
{
    screen s = {.mem = mem};
    tess_preflight p = {.doing = show_doing, .show = show, .self = &s};
    s.preflight = &p;
    tess_ranks ranks = {0};
    tess_own_command command;
    const char *n_ranks = NULL, *list = NULL;
    tess_status status = tess_own_command_of(argc + 1, argv - 1, &command); /* cli_parse reorders argv */
    const cli_flag flags[] = {
        {"-n", "RANKS", "processes on this machine that work together (1)", .text = &n_ranks},
        {"--only", "NAME,...", "these checks alone", .text = &p.only},
        {"--tcp", "HOST:PORT,...", "ports that must answer from here", .text = &p.plan.tcp},
        {"--checklist", NULL, "a verdict on each of 23 items, also of a run that has begun", .text = &s.checklist},
        {"--list", NULL, "name all checks, what they look at and their thresholds", .text = &list},
        {"--json", "[=FILE]", "the report as JSON to FILE, else to standard output", .text = &s.json}};
    int n = cli_parse(argc, argv, &cli_doctor_preflight, flags, 6);
    if (list != NULL)
        return list_checks();
    const char *tmp = tess_variable_value(TESS_VAR_TMPDIR);
    s.begin_s = tess_os_now_s();
    p.plan.only = p.only;
    p.plan.tmp_folder = tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp";
    p.config.overrides = argv + 1;
    p.config.n_overrides = n;
    p.config.path = tess_config_take_path(&p.config.overrides, &p.config.n_overrides);
    if (status == TESS_OK)
        status = tess_preflight_check_names(p.only);
    if (status == TESS_OK && !tess_launch_is_rank())
        status = cli_count_ranks(n_ranks, &ranks);
    return status == TESS_OK ? tess_preflight_run(&p, &ranks, &command) : tess_exit_fail_once(status);
}

const cli_command cli_doctor_preflight = {
    "doctor preflight",
    "[-n RANKS] [CONFIG.yaml] [section.key=value ...] [OPTIONS]",
    "check machines, ranks and configuration before a job\n\n"
    "Takes a few seconds. As ranks of mpirun, srun, torchrun or `tessera launch` it looks at every host of the job.",
    .exit_codes = "0 ready, perhaps with warnings; 2 bad input; 4 a check has failed",
    .examples = "tessera doctor preflight\n"
                "tessera doctor preflight -n 4 run.yaml\n"
                "tessera doctor preflight --checklist",
    .run = run};
