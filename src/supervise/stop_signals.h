/* Signals that ask a job to stop while no launcher is there to hear them: before its ranks start, and between two of
 * its lives. */
#ifndef TESS_SUPERVISE_STOP_SIGNALS_H
#define TESS_SUPERVISE_STOP_SIGNALS_H

/* From here on SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 do not end this process. Programs that it starts take them as ever.
 */
void tess_stop_signals_hear(void);
/* From here on they do again. */
void tess_stop_signals_forget(void);
/* Waits for so many seconds, or until the first signal, which may have come before; returns its number, 0: none came.
 */
int tess_stop_signals_pause(double seconds);
/* For the launcher, while it has them blocked: raises the one that came before that, if any. */
void tess_stop_signals_pass_on(void);

#endif
