/* Keeps copies of checkpoints in other places, and brings the newest good one of all places home.
 *
 * A place is a folder on another disk or host, or a program that stores folders elsewhere. Every copy is read back when
 * it is made and before it is used: its checksums are those of its save. An operation on a place that gives no sign of
 * progress for `wait_s` seconds fails with TESS_E_TIMEOUT, and the caller goes on. */
#ifndef TESS_CKPT_STORE_COPIES_H
#define TESS_CKPT_STORE_COPIES_H

#include "ckpt/store/io.h"
#include "ckpt/store/store_write.h"

enum { TESS_CKPT_PLACE_STEPS = 4096, TESS_CKPT_PLACE_WORDS = 32 };

/* clang-format off */
/* The program of a place gets one of these lists of words after its own. NAME is a name such as step-00000010. It
 * returns 0 on success. What it prints counts as progress.
 *     put FOLDER NAME    stores the files in FOLDER under NAME; replaces what is there
 *     get NAME FOLDER    writes the files of NAME into FOLDER, which exists
 *     list               prints the stored names, one a line
 *     move NAME NEW      renames NAME, because its steps will run again with another result
 *     remove NAME        removes NAME */
/* clang-format on */
typedef struct tess_ckpt_place {
    const char *folder;   /* NULL: `command` stores the copies */
    char *const *command; /* (n_words) words of a program */
    int n_words;          /* the number of words, TESS_CKPT_PLACE_WORDS or fewer */
    double wait_s;        /* seconds without progress after which an operation fails */
    bool trusts_command;  /* do not get a copy back from the program to compare its checksums */
    const tess_io *io;    /* hooks for looks at `folder` (tests); NULL: none */
} tess_ckpt_place;

/* The steps in a place, newest first; whether they are whole is not known. */
typedef struct tess_ckpt_place_steps {
    int n;
    int64_t step[TESS_CKPT_PLACE_STEPS];
} tess_ckpt_place_steps;

/* Returns the folder, or the first word of the command. */
const char *tess_ckpt_place_name(const tess_ckpt_place *place);

/* Lists a place. A folder that does not exist holds nothing. */
tess_status tess_ckpt_place_list(const tess_ckpt_place *place, tess_ckpt_place_steps *steps);

/* Stores a copy of the complete checkpoint of `step` in `dir`, and reads it back. Does nothing if the same checkpoint
 * is there and good. For a program it is, if it was the last that the program stored and is still listed: a file
 * `dir`/`scratch`.stored remembers that. `dir` may prune the checkpoint meanwhile: hard links in `dir`/`scratch` keep
 * its files. `scratch` is a name; the folder is removed at the end. */
tess_status tess_ckpt_place_put(const tess_ckpt_place *place, const char *dir, const char *scratch, int64_t step);

/* Brings the copy of `step` into `dir`, if every byte of it is good, and replaces a checkpoint of that step there.
 * TESS_E_FORMAT: the copy is damaged. `dir` has no other writer meanwhile. */
tess_status tess_ckpt_place_get(const tess_ckpt_place *place, const char *dir, int64_t step);

/* Renames copies to "step-00000600.aside": all above `step`, or those alone that are set aside in `home`, too
 * (`home` not NULL). *n: their number. */
tess_status tess_ckpt_place_set_aside(const tess_ckpt_place *place, const char *home, int64_t step, int *n);

/* Keeps the newest `keep` copies up to step `newest` (0: all), as tess_ckpt_prune does. */
tess_status tess_ckpt_place_prune(const tess_ckpt_place *place, int keep, int64_t newest);

/* ---- The start of a job ---- */
typedef struct tess_ckpt_bringer {
    const char *dir; /* the run's own folder of checkpoints; it is created if it is missing */
    const tess_ckpt_place *places;
    int n_places;
    double wait_s; /* seconds in which each place must answer once */
    void *self;
    void (*note)(void *self, const char *text); /* gets what was brought, and what was passed over and why */
} tess_ckpt_bringer;

/* Makes sure that `dir` holds the newest good checkpoint of all places: its own, if every byte of it is good, or a copy
 * that this call brings. `only`: brings that step if `dir` has no good one; -1: the newest. Steps that are set aside in
 * `dir` are not brought. A place that cannot be used is noted, and passed over. *brought: the step; -1: nothing was
 * brought. */
tess_status tess_ckpt_bring(const tess_ckpt_bringer *bringer, int64_t only, int64_t *brought);

#endif
