/* This process's use of the wire: MPI, or links over TCP. It belongs to the process, not to a runtime. It is opened
 * once, stays open between runtimes, and is closed at process exit unless something failed before. */
#ifndef TESS_COMM_HOSTS_SESSION_H
#define TESS_COMM_HOSTS_SESSION_H

#include "comm/wire/wire.h"
#include "job/environment.h"

/* Opens the wire, or returns the one that is already open. Collective over the processes of the job. Lines about
 * missing processes go to the warden. */
tess_status tess_wire_open(const tess_environment *environment, int warden, double timeout_s, bool tls,
                           const wire_process **process);
/* Returns this process's numbers; NULL: the wire is not open. */
const wire_process *tess_wire_opened(void);
const char *tess_wire_name(void); /* "mpi" or "tcp"; the wire must be open */
int tess_wire_most_tag(void);
bool tess_wire_is_mine(void); /* returns false if MPI does not allow calls from this thread */
/* Marks the time between joining a job and leaving it in good order. A process that exits during this time does not
 * wait for other ranks. */
void tess_wire_in_job(bool in);
/* Stops using MPI after an error. MPI is not called again, so no message in flight can write to memory that is
 * returned to its owner. The exit then waits for no rank. */
void tess_wire_give_up(void);

/* The functions of wire_table with a status as result. TESS_E_INVALID: MPI does not allow calls from this thread.
 * TESS_E_IO: MPI reported an error. Calls of several threads are serialised. */
tess_status tess_wire_make_group(const int *ranks, int n, int tag, wire_group **group);
void tess_wire_free_group(wire_group **group);
tess_status tess_wire_send(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request);
tess_status tess_wire_recv(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request);
tess_status tess_wire_all_reduce(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                                 wire_request **request);
tess_status tess_wire_reduce_scatter(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                                     wire_request **request);
/* Tests a request. If *done, the request is freed and set to NULL. A failure also frees it. */
tess_status tess_wire_test(wire_request **request, bool *done);
/* Calls MPI so that it progresses, because other ranks may wait for that. Does nothing in a thread that may not call
 * MPI. */
void tess_wire_poll(void);
void tess_wire_cancel(wire_request **request);

/* Gathers `bytes` bytes of each process on all processes. Waits until all have them. Returns TESS_E_TIMEOUT
 * otherwise. */
tess_status tess_wire_gather(const void *mine, void *all, size_t bytes, double timeout_s);

#endif
