/* Classes of failures that end a job, and the action for each. Pure functions: the process that watches the ranks
 * provides the facts, and a table gives the class and the action. */
#ifndef TESS_JOB_FAILURE_H
#define TESS_JOB_FAILURE_H

#include "tessera/status.h"
#include "tessera/types.h"

enum { TESS_FAILURE_BYTES = 2048 };

/* The facts about a failure that are known outside of the ranks. */
typedef struct tess_failure {
    int rank;                      /* rank where it began; -1: not known */
    char host[64];                 /* host of that rank; "": the job has one host, or it is not known */
    int signal, exit_code;         /* how that rank's process ended; both 0: it did not end, or its host is gone */
    tess_status status;            /* error with which the rank gave up; TESS_OK: it reported none */
    bool asked;                    /* a signal to the job asked it to end */
    bool stopping;                 /* the job was asked to stop before it failed */
    bool oom_killed;               /* killed by the system because memory ran out */
    bool stuck;                    /* peers timed out waiting for it */
    bool host_lost;                /* its host cannot be reached */
    bool evaluating;               /* it evaluated held-out text after `step`, which training does not need */
    int64_t step;                  /* current step of the rank; -1: before the first step */
    int64_t steps_done;            /* steps that the job has completed */
    char text[TESS_FAILURE_BYTES]; /* the failure as a sentence: "rank 3 was killed by signal 9 (SIGKILL) in ..." */
} tess_failure;

typedef enum tess_action {
    TESS_ACTION_STOP,    /* no automatic action helps */
    TESS_ACTION_RESPAWN, /* replace the rank while the others keep their processes; if that is impossible: RESTART */
    TESS_ACTION_RESTART, /* restart all ranks from the newest valid state */
    TESS_ACTION_SHRINK   /* restart all ranks with settings that need less memory (ladder.h) */
} tess_action;

/* name, text, action, whether a second failure at the same step proves that it will always happen, and the advice to
 * people when no action is taken. */
#define TESS_FAILURE_LIST(X)                                                                                        \
    X(TESS_FAILURE_CRASH, "crash", TESS_ACTION_RESPAWN, true,                                                       \
      "it is a bug: `tessera trace` on job.dump_folder, or a debugger, shows where")                                \
    X(TESS_FAILURE_KILLED, "killed by a signal", TESS_ACTION_RESPAWN, false,                                        \
      "somebody or something on this machine kills ranks: look at its logs")                                        \
    X(TESS_FAILURE_OOM_KILLED, "killed for want of memory", TESS_ACTION_SHRINK, false,                              \
      "the job needs more memory, fewer ranks on this machine, or a smaller model")                                 \
    X(TESS_FAILURE_NO_MEMORY, "out of memory", TESS_ACTION_SHRINK, false,                                           \
      "the job needs more memory, fewer ranks on this machine, or a smaller model")                                 \
    X(TESS_FAILURE_LOST, "lost rank or host", TESS_ACTION_RESTART, false, "look at the host and the network")       \
    X(TESS_FAILURE_MISMATCH, "ranks disagree", TESS_ACTION_RESTART, true,                                           \
      "ranks do different things at this step: the message above says which")                                       \
    X(TESS_FAILURE_NUMBERS, "NaN or infinity", TESS_ACTION_RESTART, true,                                           \
      "it comes from the data or the settings: lower optimizer.lr, look at the data, or numbers.on_nonfinite=skip") \
    X(TESS_FAILURE_STUCK, "stuck", TESS_ACTION_RESTART, true, "the message above says where that rank is")          \
    X(TESS_FAILURE_DISK_FULL, "disk full", TESS_ACTION_STOP, true, "free space, then start again: nothing is lost") \
    X(TESS_FAILURE_IO, "input/output error", TESS_ACTION_RESTART, true, "look at the disk or file system")          \
    X(TESS_FAILURE_DEVICE, "GPU failed", TESS_ACTION_RESTART, false,                                                \
      "hide that GPU from the job (CUDA_VISIBLE_DEVICES), and have it looked at")                                   \
    X(TESS_FAILURE_PREEMPTED, "asked to stop", TESS_ACTION_STOP, true, "the same command goes on from there")       \
    X(TESS_FAILURE_REFUSED, "refused", TESS_ACTION_STOP, true, "mend what the message above names")                 \
    X(TESS_FAILURE_UNKNOWN, "failed", TESS_ACTION_RESTART, true, "the message above is all that is known")

typedef enum tess_failure_class {
#define X(name, text, action, repeats, advice) name,
    TESS_FAILURE_LIST(X)
#undef X
        TESS_FAILURE_CLASSES
} tess_failure_class;

tess_failure_class tess_failure_classify(const tess_failure *failure);

/* These return the columns of the table. */
const char *tess_failure_name(tess_failure_class class);
tess_action tess_failure_action(tess_failure_class class);
const char *tess_failure_advice(tess_failure_class class);
/* Whether a second failure of this class at the same step shows that it will always happen there: its cause is in
 * the program, the data or the settings, not in the environment. */
bool tess_failure_is_of_step(tess_failure_class class);

/* A failure as one line of text. The warden that diagnosed it, which may be on another host, sends it to the process
 * that restarts the job. */
enum { TESS_FAILURE_LINE_BYTES = 2560 /* short enough for an atomic write to a pipe */ };

/* Writes the line. It contains no newline, even if the failure's text does. Returns line. */
const char *tess_failure_line_write(const tess_failure *failure, char line[TESS_FAILURE_LINE_BYTES]);
/* Reads the line, and skips text in front of it. Returns false if `line` holds no such line; *failure is then
 * unchanged. */
bool tess_failure_line_read(const char *line, tess_failure *failure);

#endif
