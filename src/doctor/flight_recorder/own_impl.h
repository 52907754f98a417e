/* What c10d's schema has no place for, under the key "tessera" of a dump and of each of its entries: other readers pass
 * over it, ours gets back what the history had. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_OWN_IMPL_H
#define TESS_DOCTOR_FLIGHT_RECORDER_OWN_IMPL_H

#include "doctor/flight_recorder/rank_impl.h"

#define FR_OWN_KEY "tessera"

/* NULL: no memory. */
json_t *fr_own_record_json(const tess_record *record, int64_t clock_offset_ns);
json_t *fr_own_rank_json(const tess_history *history, int rank);

/* Puts what the entry or the dump says of its own over what was read from the rest. Without the key nothing happens.
 * TESS_E_FORMAT says what is wrong. */
tess_status fr_own_read_record(dump_value entry, tess_record *record);
tess_status fr_own_read_rank(tess_mem *mem, dump *dump, fr_rank *rank);

/* The rest of a rank of the history; takes the spans. */
void fr_own_fill(tess_rank_history *to, fr_rank *from);

#endif
