#include "control/launch/launch_room.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os/machine.h"
#include "base/os/memory_group.h"
#include "base/text/text.h"

/* The least memory of a rank: its stack, its heap and its tables of pages. A rank that trains takes several times as
 * much, which the plan of memory counts (tessera info, the check before training). */
static const uint64_t least_bytes = 1 << 20;

static uint64_t read_number(const char *folder, const char *name)
{
    char path[TESS_GROUP_FOLDER_BYTES + 32], text[32], *end;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (tess_os_read_text(path, text, sizeof(text)) <= 0)
        return UINT64_MAX;
    uint64_t number = strtoull(text, &end, 10);
    return end != text && *end == '\0' ? number : UINT64_MAX; /* a group without a limit says "max" */
}

void tess_launch_room_look(tess_launch_room *room)
{
    bool by_group;
    tess_memory_group group;
    uint64_t ids = read_number("/proc/sys/kernel", "pid_max"), threads = read_number("/proc/sys/kernel", "threads-max");
    *room = (tess_launch_room){.memory = tess_memory_available(&by_group),
                               .user_processes = tess_os_is_root() ? UINT64_MAX : tess_os_limit_of(TESS_OS_PROCESSES),
                               .system_processes = ids < threads ? ids : threads,
                               .group_processes = UINT64_MAX};
    if (!tess_control_group_find("", 0, "pids", &group))
        return;
    uint64_t most = read_number(group.folder, "pids.max"), now = read_number(group.folder, "pids.current");
    if (most != UINT64_MAX && now != UINT64_MAX)
        room->group_processes = most > now ? most - now : 0;
}

static tess_status check_processes(uint64_t most, int n_ranks, const char *whose, const char *change)
{
    TESS_CHECK((uint64_t)n_ranks <= most, TESS_E_NOMEM,
               "%d ranks are as many processes, but %s %" PRIu64 " at most: %s, or start fewer ranks (-n)", n_ranks,
               whose, most, change);
    return TESS_OK;
}

tess_status tess_launch_room_check(const tess_launch_room *room, int n_ranks)
{
    char needed[32], available[32];
    TESS_TRY(check_processes(room->user_processes, n_ranks, "this user may have", "raise the limit (ulimit -u)"));
    TESS_TRY(check_processes(room->system_processes, n_ranks, "this system has",
                             "raise kernel.pid_max and kernel.threads-max (sysctl)"));
    TESS_TRY(check_processes(room->group_processes, n_ranks, "the control group may start",
                             "raise its pids.max (of a container: --pids-limit)"));
    const uint64_t bytes = (uint64_t)n_ranks * least_bytes;
    TESS_CHECK(bytes <= room->memory, TESS_E_NOMEM,
               "%d ranks take %s of memory at least, but %s are available on this host: start at most %" PRIu64
               " ranks (-n), or use more hosts",
               n_ranks, tess_format_bytes((double)bytes, needed, sizeof(needed)),
               tess_format_bytes((double)room->memory, available, sizeof(available)), room->memory / least_bytes);
    return TESS_OK;
}
