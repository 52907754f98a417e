/* Plans the ranks' standard output and standard error: files keep some streams, and the terminal shows some. The flags
 * and their syntax are torchrun's. Pure functions. */
#ifndef TESS_CONTROL_LAUNCH_OUTPUT_OUTPUT_PLAN_H
#define TESS_CONTROL_LAUNCH_OUTPUT_OUTPUT_PLAN_H

#include <stdbool.h>

#include "tessera/status.h"
#include "tessera/types.h"

/* A set of streams, with torchrun's numbers. */
enum { OUTPUT_NONE = 0, OUTPUT_OUT = 1, OUTPUT_ERR = 2, OUTPUT_ALL = 3 };

/* Lives of a job whose files stay: an older one is removed when a new one begins. */
enum { OUTPUT_ATTEMPTS = 8, OUTPUT_TEXT_BYTES = 512 };

typedef struct tess_output_plan {
    const char *folder;    /* parent of attempt_0/RANK/stdout.log; NULL or "": nothing is kept */
    const char *redirects; /* -r: streams that are kept and not shown: "3", or "0:1,1:3" by local rank; "": none */
    const char *tee;       /* -t: streams that are kept and shown; "": none */
    const char *filter;    /* local ranks whose streams are shown if they are kept: "0,3"; "": all */
    /* nobody asked for files: all ranks but the job's first are kept and shown, and the first keeps the terminal */
    bool is_default;
    int64_t max_bytes; /* size at which a file is rotated; 0: never */
    int n_kept;        /* number of rotated files of a stream that stay */
} tess_output_plan;

/* The streams of one rank that are kept, and those that are shown. */
typedef struct tess_output_choice {
    int kept;  /* set of streams that go to files */
    int shown; /* set of the kept streams that the terminal also shows; streams that are not kept go there directly */
} tess_output_choice;

/* Refuses texts that are not in torchrun's syntax. TESS_E_INVALID: the message names `-r`, `-t` or the filter. */
tess_status tess_output_plan_check(const tess_output_plan *plan);

/* Returns the choice for a rank. `local`: its number on its host; `rank`: its number in the job. The plan was
 * checked. */
tess_output_choice tess_output_choose(const tess_output_plan *plan, int local, int rank);

#endif
