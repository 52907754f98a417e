/* A job that torchrun, or anything that sets its variables, started on one host: shared memory is all it takes. */
#include "comm/comm_impl.h"
#include "comm/hosts/hosts.h"
#include "job/environment.h"
#include "job/rendezvous.h"

tess_status tess_hosts_meet(tess_runtime *rt, const tess_environment *e)
{
    int fd = -1;
    TESS_CHECK(e->local_world == e->world, TESS_E_UNSUPPORTED,
               "%s, but %d ranks are on this host (LOCAL_WORLD_SIZE): between hosts Tessera speaks MPI; start it with "
               "`mpirun -np %d tessera ...`, srun or `tessera launch --hosts ...`",
               e->reported_by, e->local_world, e->world);
    if (e->local_rank == 0) {
        TESS_TRY(tess_job_create(e->world, &rt->job));
        tess_status status = tess_rendezvous_offer(e, rt->job.fd, rt->timeout_s);
        if (status != TESS_OK)
            tess_job_close(&rt->job, true);
        return status;
    }
    TESS_TRY(tess_rendezvous_take(e, rt->timeout_s, &fd));
    return tess_job_open(fd, e->world, &rt->job);
}
