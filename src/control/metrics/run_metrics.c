#include "control/metrics/run_metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "ckpt/store/store.h"
#include "control/helper.h"
#include "doctor/prometheus/exporter.h"
#include "doctor/web/server.h"
#include "job/find.h"

static const double look_s = 1;     /* pause between looks at whether the job's memory is still its own */
static const double patience_s = 5; /* time that the process has to end */
static const double most_again_s =
    60; /* longest pause before another process is started. One that lasted longer is replaced at once */

/* The process that shows metrics. Its server has a thread of its own, so `lock` protects what follows it. */
typedef struct shower {
    const tess_config *config;
    tess_reporter reporter;
    char job[16]; /* process id for tess_live_find */
    tess_mem *mem;
    tess_web_server *server;
    bool is_behind; /* the newest write of the file failed */
    pthread_mutex_t lock;
    tess_exporter exporter;
    bool open;
    tess_live_job live;
    char checkpoints[2 * TESS_TEXT_SIZE]; /* folder of the checkpoints */
    struct timespec changed;              /* when that folder last changed, as of the newest look */
    int64_t checkpoint_step;
    double checkpoint_s;
} shower;

/* ---- The page ---- */
static bool has_running(const tess_live_job *live)
{
    for (int r = 0; r < live->world; r++)
        if (atomic_load(&live->job.rows[r].state) == JOB_RANK_JOINED && atomic_load(&live->job.rows[r].ended) == 0)
            return true;
    return false;
}

/* Closes the job's memory once no rank runs in it: ranks that are started again may get other memory. */
static void drop_job(shower *s)
{
    if (s->open && !has_running(&s->live)) {
        tess_live_close(&s->live);
        s->open = false;
    }
}

static void find_job(shower *s)
{
    int n = 0;
    drop_job(s);
    if (!s->open)
        s->open = tess_live_find(s->job, &s->live, 1, &n) == TESS_OK;
    tess_error_clear();
}

/* Finds the newest complete checkpoint, if the folder has changed. */
static void find_checkpoint(shower *s)
{
    struct stat folder, checkpoint;
    char path[2 * TESS_TEXT_SIZE + 32];
    int64_t step;
    if (stat(s->checkpoints, &folder) != 0 || memcmp(&folder.st_mtim, &s->changed, sizeof(s->changed)) == 0)
        return;
    s->changed = folder.st_mtim;
    if (tess_ckpt_latest(s->checkpoints, NULL, &step) == TESS_OK) {
        snprintf(path, sizeof(path), "%s/step-%08lld", s->checkpoints, (long long)step);
        if (stat(path, &checkpoint) == 0) {
            s->checkpoint_step = step;
            s->checkpoint_s = (double)checkpoint.st_mtim.tv_sec + (double)checkpoint.st_mtim.tv_nsec * 1e-9;
        }
    }
    tess_error_clear();
}

static tess_status put_page(shower *s, tess_buffer *out)
{
    pthread_mutex_lock(&s->lock);
    find_job(s);
    find_checkpoint(s);
    const tess_exporter_facts facts = {
        .folder = s->config->job.dump_folder,
        .stall_s = s->config->comm.soft_timeout_s,
        .checkpoint_step = s->checkpoint_step,
        .checkpoint_s = s->checkpoint_s,
        .interval_s = s->config->metrics.prometheus_file[0] != '\0' ? s->config->metrics.prometheus_interval_s : 0};
    tess_status status = tess_exporter_page(&s->exporter, s->open ? &s->live : NULL, &facts, out);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- The address ---- */
static tess_status answer(void *self, const char *path, tess_web_answer *page)
{
    if (strcmp(path, "/") == 0) {
        page->code = TESS_WEB_OK;
        return tess_buffer_printf(&page->body, "metrics for Prometheus: /metrics\n");
    }
    if (strcmp(path, "/metrics") != 0)
        return TESS_OK;
    page->code = TESS_WEB_OK;
    page->type = TESS_EXPOSITION_TYPE;
    return put_page(self, &page->body);
}

tess_status tess_run_metrics_check(const tess_config *config)
{
    const char *listen = config->metrics.prometheus_listen;
    tess_web_address address;
    if (listen[0] == '\0')
        return TESS_OK;
    TESS_CHECK(tess_web_address_read(listen, &address), TESS_E_INVALID,
               "metrics.prometheus_listen: '%s' is not a numeric address and a port, such as 127.0.0.1:9464", listen);
    TESS_CHECK(
        address.is_loopback || config->metrics.prometheus_public, TESS_E_INVALID,
        "metrics.prometheus_listen: other machines may reach %s, and everybody there could read the metrics: use "
        "127.0.0.1, or set metrics.prometheus_public=true if they may",
        listen);
    return TESS_OK;
}

static void listen_at(shower *s)
{
    const char *listen = s->config->metrics.prometheus_listen;
    tess_web_server_options options = {.answer = answer, .self = s};
    if (listen[0] == '\0' || !tess_web_address_read(listen, &options.address))
        return;
    options.any_host = !options.address.is_loopback;
    const tess_web_address *at = &options.address;
    if (tess_web_server_start(s->mem, &options, &s->server) == TESS_OK)
        tess_report_line(&s->reporter, "metrics: Prometheus finds them at http://%s%s%s:%d/metrics",
                         at->is_ipv6 ? "[" : "", at->host, at->is_ipv6 ? "]" : "", tess_web_server_port(s->server));
    else
        tess_report_line(&s->reporter,
                         "metrics.prometheus_listen=%s: %s: the run goes on without it; name another port, or port 0 "
                         "for any free one",
                         listen, tess_error_message());
    tess_error_clear();
}

/* ---- The file ---- */
static void write_file(shower *s)
{
    const char *path = s->config->metrics.prometheus_file;
    tess_buffer page = {.mem = s->mem};
    if (path[0] == '\0')
        return;
    tess_status status = put_page(s, &page);
    if (status == TESS_OK)
        status = tess_os_write_atomic(path, page.data, page.size);
    if (status != TESS_OK && !s->is_behind)
        tess_report_line(&s->reporter, "metrics.prometheus_file: %s: the run goes on, and the file is tried again",
                         tess_error_message());
    s->is_behind = status != TESS_OK;
    tess_error_clear();
    tess_buffer_free(&page);
}

/* ---- The process ---- */
static tess_status begin(shower *s)
{
    TESS_TRY(tess_mem_create(&s->mem));
    s->exporter.mem = s->mem;
    return tess_os_join(s->checkpoints, sizeof(s->checkpoints), s->config->job.dump_folder,
                        s->config->checkpoint.folder);
}

/* A SIGTERM of a scheduler is meant for the whole job, which may then save: the metrics stay until it has ended. */
_Noreturn static void show(const tess_run_metrics *metrics, const tess_helper *helper)
{
    shower s = {.config = metrics->config,
                .reporter = metrics->reporter,
                .checkpoint_step = -1,
                .exporter = {.is_later = metrics->n_started > 1},
                .lock = PTHREAD_MUTEX_INITIALIZER};
    bool ends = false;
    double due_s = 0;
    snprintf(s.job, sizeof(s.job), "%d", metrics->job);
    if (begin(&s) != TESS_OK) {
        tess_report_line(&s.reporter, "metrics: %s", tess_error_message());
        _exit(0);
    }
    listen_at(&s);
    while (!ends) {
        tess_helper_wait(helper, fmin(look_s, s.config->metrics.prometheus_interval_s), &ends);
        pthread_mutex_lock(&s.lock);
        drop_job(&s);
        pthread_mutex_unlock(&s.lock);
        if (tess_os_now_s() < due_s && !ends)
            continue;
        write_file(&s);
        due_s = tess_os_now_s() + s.config->metrics.prometheus_interval_s;
    }
    tess_web_server_stop(&s.server);
    _exit(0);
}

static void start(tess_run_metrics *m)
{
    tess_helper helper;
    m->n_started++;
    m->started_s = tess_os_now_s();
    pid_t pid = tess_helper_fork("tessera-metrics", &helper);
    if (pid == 0)
        show(m, &helper);
    if (pid < 0)
        tess_report_line(&m->reporter,
                         "metrics: no process can be started that shows them: Prometheus gets no metrics of this host");
    m->pid = pid > 0 ? pid : 0;
    m->due_s = INFINITY;
}

void tess_run_metrics_start(const tess_config *config, const tess_ranks *ranks, const tess_reporter *reporter,
                            tess_run_metrics *m)
{
    const bool is_asked = config->metrics.prometheus_listen[0] != '\0' || config->metrics.prometheus_file[0] != '\0';
    *m = (tess_run_metrics){.reporter = *reporter, .n_started = m->n_started};
    if (!is_asked || !tess_ranks_is_first_here(ranks))
        return;
    m->config = config;
    m->job = (int)getpid();
    start(m);
}

void tess_run_metrics_look(tess_run_metrics *m)
{
    const double now_s = tess_os_now_s();
    if (m->pid > 0 && waitpid(m->pid, NULL, WNOHANG) == m->pid) {
        char when[40] = "at once";
        if (now_s - m->started_s > most_again_s)
            m->again_s = 0;
        if (m->again_s > 0)
            snprintf(when, sizeof(when), "in %g s", m->again_s);
        tess_report_line(&m->reporter,
                         "metrics: the process that shows them (pid %d) has ended; another one takes its place %s",
                         m->pid, when);
        m->pid = 0;
        m->due_s = now_s + m->again_s;
        m->again_s = fmin(2 * m->again_s + 1, most_again_s);
    }
    if (m->config != NULL && now_s >= m->due_s)
        start(m);
}

void tess_run_metrics_stop(tess_run_metrics *m)
{
    m->config = NULL;
    tess_helpers_end(&m->pid, 1, patience_s);
    m->pid = 0;
}
