#include "control/supervise/end_page.h"

#include <signal.h>
#include <stdio.h>

#include "base/os/os.h"
#include "control/supervise/exit.h"
#include "page/run_page.h"

static const double patience_s = 10, patience_of_failure_s = 1;

/* Whether the run has written its record or a step. A run that was refused has not, and then nothing is written. */
static bool has_written(const char *folder, double begun_s)
{
    static const char *const names[] = {"run.json", "metrics.jsonl"};
    char path[2 * TESS_TEXT_SIZE];
    for (int i = 0; i < 2; i++)
        if (tess_os_join(path, sizeof(path), folder, names[i]) == TESS_OK && tess_os_changed_s(path) >= begun_s)
            return true;
    tess_error_clear();
    return false;
}

static json_t *samples_of(void *self, tess_mem *mem, const char *folder)
{
    const tess_task_kind *kind = self;
    return kind->page_samples(NULL, mem, folder);
}

static tess_status write_page(const char *folder, const tess_task_kind *kind, int code)
{
    char path[2 * TESS_TEXT_SIZE];
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_AUTO(tess_run_page_close) tess_run_page *page = NULL;
    const tess_page_options options = {.samples = kind->page_samples != NULL ? samples_of : NULL,
                                       .self = (void *)(uintptr_t)kind,
                                       .patience_s = code == TESS_EXIT_OK ? patience_s : patience_of_failure_s};
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "report.html"));
    TESS_TRY(tess_mem_create(&mem));
    TESS_TRY(tess_run_page_open(mem, &folder, 1, &options, &page));
    return tess_run_page_write(page, path);
}

/* Ignores requests to stop: the run has ended, and its process is about to end. A closed terminal sends several SIGHUP,
 * and one of them would replace the exit code of the run. */
static void ignore_stops(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        signal(numbers[i], SIG_IGN);
}

void tess_end_page_write(const tess_config *config, const tess_task_kind *kind, double begun_s, int code,
                         const tess_reporter *reporter)
{
    const char *folder = config->job.dump_folder;
    if (!config->metrics.report || !has_written(folder, begun_s))
        return;
    ignore_stops();
    if (write_page(folder, kind, code) != TESS_OK)
        tess_report_line(reporter,
                         "warning: report.html is not written: %s; `tessera report %s -o report.html` writes it",
                         tess_error_message(), folder);
    tess_error_clear();
}
