#include "control/supervise/stop_signals.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};
enum { N_SIGNALS = sizeof(signals) / sizeof(signals[0]) };

/* Number of the latest signal; 0: none. A handler gets no other argument than that number, so it stores it here. */
static volatile sig_atomic_t came;

static void on_signal(int number)
{
    came = number;
}

/* Whether SIGHUP is ignored (nohup). */
static bool is_ignored_hangup(int number)
{
    struct sigaction action;
    return number == SIGHUP && sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void tess_stop_signal_handle(int number, void (*handler)(int))
{
    if (!is_ignored_hangup(number))
        signal(number, handler);
}

void tess_stop_signals_hear(void)
{
    for (int i = 0; i < N_SIGNALS; i++)
        tess_stop_signal_handle(signals[i], on_signal);
}

int tess_stop_signals_pause(double seconds)
{
    time_t whole_s = (time_t)seconds;
    struct timespec left = {.tv_sec = whole_s, .tv_nsec = (long)((seconds - (double)whole_s) * 1e9)};
    sigset_t heard, before;
    sigemptyset(&heard);
    for (int i = 0; i < N_SIGNALS; i++)
        if (!is_ignored_hangup(signals[i]))
            sigaddset(&heard, signals[i]);
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
