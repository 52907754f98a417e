/* Writes a history as a flame graph: where the ranks' time went, by rank, phase and operation.
 *
 * A stack is "all;rank 3;backward;all_gather layer 2". The time while an operation is in flight belongs to that
 * operation, or to the newest of several. The rest of a phase is "compute". Only the time that the rings still hold is
 * there. */
#ifndef TESS_DOCTOR_FLAME_FLAME_H
#define TESS_DOCTOR_FLAME_FLAME_H

#include "diagnosis/history.h"

/* Writes the file `path`: a picture if the name ends with ".svg", else folded stacks ("STACK MICROSECONDS" a line),
 * which other tools draw. An older file is replaced only once the new one is complete. TESS_E_NOT_FOUND: the history
 * has no phases. TESS_E_IO, TESS_E_NO_SPACE. */
tess_status tess_flame_write(const tess_history *history, const char *path);

#endif
