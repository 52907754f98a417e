/* Counts what a rank's operations move and how long it waits in them, by the name of their team: for most teams, the
 * axis of the mesh. The counts are in the rank's row of the board. The rank writes them, and any process of the host
 * may read them meanwhile. */
#ifndef TESS_JOB_TRAFFIC_H
#define TESS_JOB_TRAFFIC_H

#include <stdatomic.h>
#include <stdint.h>

enum { JOB_TRAFFIC = 16, JOB_TRAFFIC_NAME = 32 };

/* The counts of the teams of one name. A row without a name is unused. */
typedef struct tess_traffic_row {
    _Atomic uint64_t name[JOB_TRAFFIC_NAME / 8]; /* written once, before the first count */
    _Atomic uint64_t n, bytes;                   /* completed operations, and bytes that came from other ranks */
    _Atomic uint64_t moving_ns; /* sum over operations: time from when all ranks had met until it was complete */
    _Atomic uint64_t waited_ns; /* time that threads of this rank slept in operations */
} tess_traffic_row;

/* A copy of a row at one moment. */
typedef struct tess_traffic {
    char name[JOB_TRAFFIC_NAME]; /* "": unused */
    uint64_t n, bytes, moving_ns, waited_ns;
} tess_traffic;

/* Returns the row for teams of this name, and takes an unused one if there is none yet. The last row also counts what
 * finds no room. Only one thread may call it. */
int tess_traffic_row_of(tess_traffic_row rows[JOB_TRAFFIC], const char *name);
void tess_traffic_moved(tess_traffic_row *row, uint64_t bytes, uint64_t moving_ns);
void tess_traffic_waited(tess_traffic_row *row, uint64_t waited_ns);
void tess_traffic_copy(const tess_traffic_row *row, tess_traffic *copy);

#endif
