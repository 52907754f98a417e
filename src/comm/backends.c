/* Which backend a team gets: a new one is a line here. */
#include "comm/comm_impl.h"

const comm_backend *tess_backend_choose(int size, int n_local)
{
    if (size == 1)
        return &tess_backend_self;
    return n_local < size ? &tess_backend_mpi : &tess_backend_shm;
}
