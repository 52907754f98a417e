/* Starting jobs and ending them. */
#ifndef TESS_TESTS_DRILLS_SPAWN_H
#define TESS_TESTS_DRILLS_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct drill_child {
    pid_t launcher; /* leads a process group that its ranks are in */
    int output;     /* its standard error */
} drill_child;

/* Runs words[0], a whole path, in `folder`. `fault` is put into the environment, NULL: nothing is. */
bool drill_spawn(const char *folder, const char *fault, char *const *words, drill_child *child);
/* `tessera run` on this program with two words; traces go to FOLDER/trace. */
bool drill_spawn_ranks(const char *tessera, int world, const char *folder, const char *fault, const char *mode,
                       const char *argument, drill_child *child);
/* Kills what is left of it. Returns its wait status. */
int drill_reap(drill_child *child);

#endif
