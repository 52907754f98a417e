/* Teams over several hosts, as the rest of comm sees them; hosts_impl.h tells how they work. */
#ifndef TESS_COMM_HOSTS_HOSTS_H
#define TESS_COMM_HOSTS_HOSTS_H

#include "comm/comm_impl.h"

/* ---- hosts_team.c
 * -------------------------------------------------------------------------------------------------------------- */
/* Bytes of a host's shared part for a team, beside its control area, when `n_local` members are on that host. */
uint64_t tess_hosts_bytes(int n_local);
/* Sets team->hosts. Collective over the team. `shared` is the host's shared part, in zeroed memory. */
tess_status tess_hosts_attach(tess_team *team, uint8_t *shared);
void tess_hosts_detach(tess_team *team);
/* The table by which operations go from the next one on: set alike, between the same operations, on all ranks. Takes
 * `tuning` over (NULL: none); returns the one that was in use, which is the caller's from then on. */
struct tess_tuning *tess_hosts_set_tuning(tess_runtime *runtime, struct tess_tuning *tuning);
/* The team is broken: messages under way are cancelled, as their buffers go back to their owners. */
void tess_hosts_give_up(tess_team *team);

/* ---- hosts_posts.c
 * -------------------------------------------------------------------------------------------------------------- */
/* Sends this rank's post and what lies beside it to the other hosts. */
tess_status tess_hosts_post(tess_work *work, const tess_post *post, size_t bytes_beside);
/* Puts posts that have come into place, of all operations in flight. */
tess_status tess_hosts_receive_posts(tess_team *team);
/* Whose fault it is that the post of `rank` is not here: its own, or that of the rank of this host that should have put
 * it into place, when the board says that it was made. */
int tess_hosts_late(const tess_work *work, int rank);
/* Arrives in the slot of the operation `sequence` on behalf of `rank`, whose post is in place (shm_exchange.c). */
void tess_exchange_arrive_for(tess_team *team, uint64_t sequence, int rank);

/* ---- rounds.c
 * ------------------------------------------------------------------------------------------------------------- */
/* All have posted: begins to move the data. */
tess_status tess_hosts_begin(tess_work *work);
/* Goes on without waiting. True: over, or failed (work->status). */
bool tess_hosts_advance(tess_work *work);
/* Team ranks that it waits for. */
int tess_hosts_missing(const tess_work *work, int *ranks);

/* ---- hosts_message.c
 * ----------------------------------------------------------------------------------------------------------- */
/* As tess_message_advance, for a peer on another host. */
bool tess_hosts_message_advance(tess_work *work);
/* Cancels what is left of one, when its team is broken. */
void tess_hosts_message_free(tess_work *work);

/* ---- hosts_join.c
 * -------------------------------------------------------------------------------------------------------------- */
/* Makes this process a rank of the job that MPI started: fills in rank, world and job. Collective over all processes.
 */
struct tess_environment;
tess_status tess_hosts_join(tess_runtime *runtime, const struct tess_environment *environment,
                            const tess_runtime_options *options);
/* The same for the processes that torchrun started, which are to be on one host. */
tess_status tess_hosts_meet(tess_runtime *runtime, const struct tess_environment *environment);
/* Waits until all ranks have left, as MPI_Finalize would; when one is lost MPI is given up. */
void tess_hosts_leave(tess_runtime *runtime);

#endif
