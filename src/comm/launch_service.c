/* Processes beside the ranks. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "comm/ending.h"
#include "comm/launch_impl.h"

enum { MOST_DEATHS = 3 }; /* of one: then it is left dead */

/* A ctrl-C is for the ranks: what they leave behind still has to be written. */
static _Noreturn void run_service(const launcher *l, int index, pid_t parent)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};
    tess_child_begin(&l->signals, parent);
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    const tess_launch_service *service = &l->options.services[index];
    exit(service->run(&l->services.place, service->context));
}

static tess_status start(launcher *l, int index)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_service(l, index, parent);
    TESS_CHECK(pid > 0, TESS_E_NOMEM, "start the %s: fork: %s", l->options.services[index].name, strerror(errno));
    l->services.pids[index] = pid;
    return TESS_OK;
}

tess_status launch_start_services(launcher *l)
{
    void *page;
    TESS_CHECK(l->options.n_services <= LAUNCH_SERVICES, TESS_E_INVALID, "%d services: at most %d",
               l->options.n_services, LAUNCH_SERVICES);
    if (l->options.n_services == 0)
        return TESS_OK;
    TESS_TRY(tess_os_share("tessera-services", sizeof(uint32_t), &page));
    l->services.finish = page;
    l->services.place =
        (tess_launch_service_place){.n_ranks = l->n_ranks, .keep = l->options.keep, .finish = l->services.finish};
    for (int i = 0; i < l->options.n_services; i++)
        TESS_TRY(start(l, i));
    return TESS_OK;
}

static void tell_death(const launcher *l, int index, int state, bool again)
{
    char line[256], how[64];
    if (WIFSIGNALED(state))
        snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(state));
    else
        snprintf(how, sizeof(how), "ended with code %d", WEXITSTATUS(state));
    snprintf(line, sizeof(line), "the %s %s%s", l->options.services[index].name, how,
             again ? " and was started again" : "; it is not started again");
    if (l->options.notice != NULL)
        l->options.notice(l->options.self, line);
}

void launch_look_at_services(launcher *l)
{
    int state;
    for (int i = 0; i < l->options.n_services; i++) {
        if (l->services.pids[i] == 0 || waitpid(l->services.pids[i], &state, WNOHANG) != l->services.pids[i])
            continue;
        l->services.pids[i] = 0;
        bool again = ++l->services.n_deaths[i] < MOST_DEATHS && start(l, i) == TESS_OK;
        tell_death(l, i, state, again);
    }
}

static bool all_have_ended(launcher *l)
{
    bool all = true;
    for (int i = 0; i < l->options.n_services; i++) {
        pid_t pid = l->services.pids[i];
        if (pid != 0 && waitpid(pid, NULL, WNOHANG) != 0)
            l->services.pids[i] = 0;
        all = all && l->services.pids[i] == 0;
    }
    return all;
}

static void kill_services(const launcher *l)
{
    for (int i = 0; i < l->options.n_services; i++)
        if (l->services.pids[i] != 0)
            kill(l->services.pids[i], SIGKILL);
}

void launch_end_services(launcher *l)
{
    if (l->services.finish == NULL)
        return;
    atomic_store(l->services.finish, 1);
    tess_os_futex_wake((const uint32_t *)(const void *)l->services.finish, INT32_MAX);
    while (!all_have_ended(l)) {
        struct timespec pause = {.tv_nsec = 20000000};
        int signal = sigtimedwait(&l->signals.watched, NULL, &pause);
        bool asks = signal == SIGINT || signal == SIGTERM;
        if (asks && l->stop_signal != 0)
            kill_services(l);
        else if (asks)
            l->stop_signal = signal;
    }
    tess_os_unmap_shared((void *)l->services.finish, sizeof(uint32_t));
    l->services.finish = NULL;
}
