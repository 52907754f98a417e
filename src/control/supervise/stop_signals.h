/* Handles signals that ask a job to stop while no launcher runs that handles them: before its ranks start, and
 * between two lives. */
#ifndef TESS_CONTROL_SUPERVISE_STOP_SIGNALS_H
#define TESS_CONTROL_SUPERVISE_STOP_SIGNALS_H

/* Prevents SIGINT, SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP from ending this process. Programs that it starts get the
 * default handling. A SIGHUP that is ignored (nohup) stays ignored. */
void tess_stop_signals_hear(void);
/* Sets the handler of one signal. A SIGHUP that is ignored (nohup) stays ignored. */
void tess_stop_signal_handle(int number, void (*handler)(int));
/* Sleeps until a signal is pending, which may have come earlier. Returns its number; 0: none came in time. */
int tess_stop_signals_pause(double seconds);
/* Raises the signal that came earlier, if any. The launcher, which has these signals blocked, then receives it. */
void tess_stop_signals_pass_on(void);

#endif
