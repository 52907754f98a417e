#include "supervise/stop_signals.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};
enum { N_SIGNALS = sizeof(signals) / sizeof(signals[0]) };

static volatile sig_atomic_t came; /* 0: none */

static void on_signal(int number)
{
    came = number;
}

/* An ignored SIGHUP (nohup) stays ignored. */
static void set_all(void (*handler)(int))
{
    for (int i = 0; i < N_SIGNALS; i++)
        if (signal(signals[i], handler) == SIG_IGN && signals[i] == SIGHUP)
            signal(SIGHUP, SIG_IGN);
}

void tess_stop_signals_hear(void)
{
    set_all(on_signal);
}

void tess_stop_signals_forget(void)
{
    set_all(SIG_DFL);
}

int tess_stop_signals_pause(double seconds)
{
    time_t whole_s = (time_t)seconds;
    struct timespec left = {.tv_sec = whole_s, .tv_nsec = (long)((seconds - (double)whole_s) * 1e9)};
    sigset_t heard, before;
    sigemptyset(&heard);
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction action;
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&heard, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &heard, &before);
    if (came == 0) {
        int number = sigtimedwait(&heard, NULL, &left);
        came = number > 0 ? number : 0;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return came;
}

void tess_stop_signals_pass_on(void)
{
    int number = came;
    came = 0;
    if (number != 0)
        raise(number);
}
