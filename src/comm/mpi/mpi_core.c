#include "comm/mpi/mpi_impl.h"

#include <hwloc.h>

static int first_core(hwloc_topology_t machine, hwloc_const_cpuset_t mine)
{
    hwloc_obj_t unit = hwloc_get_next_obj_covering_cpuset_by_type(machine, mine, HWLOC_OBJ_CORE, NULL);
    return unit != NULL ? (int)unit->logical_index : -1;
}

int mpi_first_core(void)
{
    hwloc_topology_t machine;
    if (hwloc_topology_init(&machine) != 0)
        return -1;
    int core = -1;
    hwloc_cpuset_t mine = hwloc_bitmap_alloc();
    if (hwloc_topology_load(machine) == 0 && hwloc_get_cpubind(machine, mine, HWLOC_CPUBIND_PROCESS) == 0)
        core = first_core(machine, mine);
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(machine);
    return core;
}
