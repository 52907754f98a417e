/* The memory control group (cgroup v1 or v2) of a process: where it is, its limit, how often it had to kill. */
#ifndef TESS_BASE_OS_MEMORY_GROUP_H
#define TESS_BASE_OS_MEMORY_GROUP_H

#include "tessera/types.h"

enum { TESS_GROUP_FOLDER_BYTES = 512 };

typedef struct tess_memory_group {
    char folder[TESS_GROUP_FOLDER_BYTES];
    size_t mount_length; /* of the part of `folder` that is the mount point: groups above end there */
    bool version2;
} tess_memory_group;

/* False: there is none, or it cannot be seen from here. */
bool tess_memory_group_find(int pid, tess_memory_group *group);

/* The tightest limit of the group and those above it, and what the group that has it uses. False: there is no limit. */
bool tess_memory_group_limit(const tess_memory_group *group, uint64_t *limit, uint64_t *used);

/* The same, but without the copies of files that the system can drop at once: what would be left of them is what the
 * group cannot do without. */
bool tess_memory_group_need(const tess_memory_group *group, uint64_t *limit, uint64_t *needed);

/* Bytes that the group may take on top of what it needs; 0 once it needs more than its limit. False: there is none. */
bool tess_memory_group_room(const tess_memory_group *group, uint64_t *room);

/* How many of its processes the system has killed for want of memory, ever; 0 when it does not say. */
uint64_t tess_memory_group_kills(const tess_memory_group *group);

#endif
