#include "control/supervise/end_page.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/helper.h"
#include "control/supervise/exit.h"
#include "page/run_page.h"

static const double patience_s = 10, patience_of_failure_s = 1;
static const double writing_s = 1; /* time for the rest of the page once the run's files have been read */

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

static double patience_of(int code)
{
    return code == TESS_EXIT_OK ? patience_s : patience_of_failure_s;
}

static tess_status write_page(const char *folder, const tess_task_kind *kind, int code)
{
    char path[2 * TESS_TEXT_SIZE];
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_AUTO(tess_run_page_close) tess_run_page *page = NULL;
    const tess_page_options options = {.samples = kind->page_samples != NULL ? samples_of : NULL,
                                       .self = (void *)(uintptr_t)kind,
                                       .patience_s = patience_of(code)};
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

static void warn(const tess_reporter *reporter, const char *folder, const char *why)
{
    tess_report_line(reporter, "warning: report.html is not written: %s; `tessera report %s -o report.html` writes it",
                     why, folder);
}

/* Waits until the process has ended. Returns false if it has not after this time; then it is killed. A process that is
 * blocked on a lost file system ends when the file system comes back, so nobody waits for that. */
static bool wait_for(pid_t pid, double seconds)
{
    const double until_s = tess_os_now_s() + seconds;
    for (;;) {
        const pid_t ended = waitpid(pid, NULL, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR))
            return true;
        if (tess_os_now_s() >= until_s)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    kill(pid, SIGKILL);
    return false;
}

/* Another process writes the page: reading a file of a lost file system may block forever, and then the run must still
 * end. */
void tess_end_page_write(const tess_config *config, const tess_task_kind *kind, double begun_s, int code,
                         const tess_reporter *reporter)
{
    const char *folder = config->job.dump_folder;
    tess_helper helper;
    if (!config->metrics.report)
        return;
    ignore_stops();
    const pid_t pid = tess_helper_fork("tessera-report", &helper);
    if (pid == 0) {
        if (has_written(folder, begun_s) && write_page(folder, kind, code) != TESS_OK)
            warn(reporter, folder, tess_error_message());
        _exit(0);
    }
    if (pid < 0)
        warn(reporter, folder, "no process can be started for it");
    else if (!wait_for(pid, patience_of(code) + writing_s))
        warn(reporter, folder, "the run's folder takes too long to be read or written");
}
