/* Where a rank's events go: a file of the trace folder, which outlives the job, or the job's memory. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/machine.h"
#include "base/os/objects.h"
#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "trace/trace_folder.h"

static void fill_owner(tess_trace_owner *owner)
{
    ssize_t n = readlink("/proc/self/exe", owner->program, sizeof(owner->program) - 1);
    owner->program[n > 0 ? n : 0] = '\0';
    if (gethostname(owner->host, sizeof(owner->host) - 1) != 0)
        owner->host[0] = '\0';
    owner->pid = (int32_t)getpid();
    owner->wall_ns = tess_os_wall_ns();
    owner->monotonic_ns = tess_os_now_ns();
}

void tess_recorder_begin(tess_runtime *rt)
{
    rt->ring = tess_job_ring(&rt->job, rt->rank);
    tess_os_populate(rt->ring, tess_trace_bytes(JOB_RING_EVENTS));
    fill_owner(&rt->ring->owner);
}

/* From the root on, under the name that messages call it by: a link is not followed. */
static const char *whole_path(const char *path, char *text, size_t size)
{
    char folder[PATH_MAX];
    bool is_whole = path[0] == '/' || getcwd(folder, sizeof(folder)) == NULL;
    return is_whole || tess_os_join(text, size, folder, path) != TESS_OK ? path : text;
}

/* In the ring in the job's memory, too: its header is what the launcher reads. */
void tess_recorder_add_object(tess_runtime *rt, const tess_object *object)
{
    char path[PATH_MAX];
    const char *whole = whole_path(object->path, path, sizeof(path));
    tess_runtime_lock(rt);
    tess_trace_objects_add(&tess_job_ring(&rt->job, rt->rank)->objects, object->id, whole);
    if (rt->ring_is_file)
        tess_trace_objects_add(&rt->ring->objects, object->id, whole);
    tess_runtime_unlock(rt);
}

void tess_recorder_end(tess_runtime *rt)
{
    if (rt->ring_is_file)
        tess_trace_close(&rt->ring);
}
