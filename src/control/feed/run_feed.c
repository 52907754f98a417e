#include "control/feed/run_feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/feed/feed.h"
#include "control/feed/feed_command.h"
#include "control/helper.h"
#include "control/supervise/exit.h"

static const double look_s = 0.25;
static const double end_s = 5; /* seconds to end in, in addition to those of the program: it is killed after 2 */

tess_status tess_run_feed_check(const tess_config *config)
{
    if (config->metrics.command.n > 0)
        TESS_TRY_CTX(feed_command_find(config->metrics.command.item[0]), "metrics.command");
    return TESS_OK;
}

_Noreturn static void keep_feeding(const feed_options *options, const tess_helper *helper, const int *code)
{
    feed *f = NULL;
    bool ends = false;
    close_range(STDERR_FILENO + 1, ~0U, 0);
    if (feed_open(options, &f) != TESS_OK) {
        tess_report_line(options->reporter, "warning: metrics.command gets no lines: %s", tess_error_message());
        _exit(0);
    }
    while (!ends) {
        feed_look(f);
        feed_pause(f, look_s);
        tess_helper_wait(helper, 0, &ends);
    }
    feed_finish(f, *code);
    feed_close(&f);
    _exit(0);
}

static char *join(const tess_text_list *words)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; out != NULL && i < words->n; i++)
        fprintf(out, "%zu:%s", strlen(words->item[i]), words->item[i]);
    if (out != NULL)
        fclose(out);
    return text;
}

void tess_run_feed_start(const tess_config *config, const tess_reporter *reporter, tess_run_feed *feed)
{
    const tess_text_list *words = &config->metrics.command;
    char *argv[TESS_LIST_SIZE + 1] = {NULL};
    const feed_options options = {config->job.dump_folder, argv, config->metrics.command_wait_s, reporter};
    tess_helper helper;
    void *shared = NULL;
    *feed = (tess_run_feed){.wait_s = options.wait_s, .words = join(words)};
    if (words->n == 0)
        return;
    for (int i = 0; i < words->n; i++)
        argv[i] = words->item[i];
    feed_begin(config->job.dump_folder); /* here: ranks that start at once must not lose the header that they write */
    if (tess_os_share("the end of a job", sizeof(int), &shared) == TESS_OK) {
        feed->code = shared;
        *feed->code = TESS_EXIT_FAILED;
        feed->pid = tess_helper_fork("tessera-feed", &helper);
        if (feed->pid == 0)
            keep_feeding(&options, &helper, feed->code);
    }
    if (feed->pid <= 0)
        tess_report_line(
            reporter, "warning: metrics.command: no process can be started for it (%s): '%s' gets no lines of this run",
            strerror(errno), words->item[0]);
    feed->pid = feed->pid > 0 ? feed->pid : 0;
    tess_error_clear();
}

void tess_run_feed_stop(tess_run_feed *feed, int code)
{
    if (feed->code != NULL)
        *feed->code = code;
    tess_helpers_end(&feed->pid, 1, feed_wait(feed->wait_s, code) + end_s);
    if (feed->code != NULL)
        tess_os_unmap_shared(feed->code, sizeof(int));
    free(feed->words);
    *feed = (tess_run_feed){0};
}

void tess_run_feed_change(const tess_config *config, const tess_reporter *reporter, tess_run_feed *feed)
{
    char *words = join(&config->metrics.command);
    if (feed->words != NULL && words != NULL && strcmp(words, feed->words) != 0) {
        tess_run_feed_stop(feed, TESS_EXIT_INTERRUPTED);
        tess_run_feed_start(config, reporter, feed);
    }
    free(words);
}
