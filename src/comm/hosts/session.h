/* This process's use of the wire. MPI belongs to the process, not to a runtime: it is opened once, stays open between
 * runtimes, and is finalized when the process exits, if all went well until then. */
#ifndef TESS_COMM_HOSTS_SESSION_H
#define TESS_COMM_HOSTS_SESSION_H

#include "comm/wire/wire.h"
#include "job/environment.h"

/* Opens the wire, or gives the one that is open. Collective over the processes that MPI started. */
tess_status tess_wire_open(const tess_environment *environment, const wire_process **process);
int tess_wire_most_tag(void);
bool tess_wire_is_mine(void); /* false: MPI does not let this thread call */
/* Marks the time between joining a job and leaving it in good order: a process that exits meanwhile waits for no rank.
 */
void tess_wire_in_job(bool in);
/* Stops using MPI after an error. MPI is not called again, so that no message in flight reaches memory that returns to
 * its owner. The exit waits for no rank. */
void tess_wire_give_up(void);

/* The functions of wire_table, with errors as status: TESS_E_INVALID from a thread that MPI does not let call,
 * TESS_E_IO for what MPI reports. Calls of several threads take turns. */
tess_status tess_wire_make_group(const int *ranks, int n, int tag, wire_group **group);
void tess_wire_free_group(wire_group **group);
tess_status tess_wire_send(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request);
tess_status tess_wire_recv(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request);
tess_status tess_wire_all_reduce(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                                 wire_request **request);
tess_status tess_wire_reduce_scatter(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                                     wire_request **request);
/* *done: the request is freed and nulled. Failures free it too. */
tess_status tess_wire_test(wire_request **request, bool *done);
/* Calls MPI, whose progress others may wait for. Does nothing in a thread that may not call MPI. */
void tess_wire_poll(void);
void tess_wire_cancel(wire_request **request);

/* Waits until all processes have given `bytes` bytes and all have them; TESS_E_TIMEOUT. */
tess_status tess_wire_gather(const void *mine, void *all, size_t bytes, double timeout_s);

#endif
