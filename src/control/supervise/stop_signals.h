/* Signals that ask a job to stop while no launcher runs that handles them: before its ranks start, and between two
 * lives. */
#ifndef TESS_CONTROL_SUPERVISE_STOP_SIGNALS_H
#define TESS_CONTROL_SUPERVISE_STOP_SIGNALS_H

/* Keeps SIGINT, SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP from ending this process. Programs that it starts have the default
 * again. A SIGHUP that is ignored (nohup) stays ignored. */
void tess_stop_signals_hear(void);
/* Restores the defaults. */
void tess_stop_signals_forget(void);
/* Sets the handler of one signal. A SIGHUP that is ignored (nohup) stays ignored. */
void tess_stop_signal_handle(int number, void (*handler)(int));
/* Sleeps until a signal is pending, which may have come before; returns its number, 0: none came in time. */
int tess_stop_signals_pause(double seconds);
/* Raises the signal that came before, if any: for the launcher, which has them blocked. */
void tess_stop_signals_pass_on(void);

#endif
