/* What c10d's schema has no place for. It stands under the key "tessera" of a dump and of each entry. Other readers
 * skip it; ours restores the history from it. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_OWN_IMPL_H
#define TESS_DOCTOR_FLIGHT_RECORDER_OWN_IMPL_H

#include "doctor/flight_recorder/rank_impl.h"

#define FR_OWN_KEY "tessera"

/* NULL: no memory. */
json_t *fr_own_record_json(const tess_record *record, int64_t clock_offset_ns);
json_t *fr_own_rank_json(const tess_history *history, int rank);

/* Overwrites what was read from the rest of the entry or dump with what stands under the key. Does nothing without the
 * key. TESS_E_FORMAT says what is wrong. */
tess_status fr_own_read_record(dump_value entry, tess_record *record);
tess_status fr_own_read_rank(tess_mem *mem, dump *dump, fr_rank *rank);

/* Fills in the remaining fields of a rank's history; takes the spans. */
void fr_own_fill(tess_rank_history *to, fr_rank *from);

#endif
