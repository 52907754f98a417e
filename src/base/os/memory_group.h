/* The control groups (cgroup v1 or v2) of a process: where they are, the limit on memory and how often the system had
 * to kill for it, the quota of cores. */
#ifndef TESS_BASE_OS_MEMORY_GROUP_H
#define TESS_BASE_OS_MEMORY_GROUP_H

#include "tessera/types.h"

enum { TESS_GROUP_FOLDER_BYTES = 512 };

typedef struct tess_memory_group {
    char folder[TESS_GROUP_FOLDER_BYTES];
    size_t mount_length; /* length of the part of `folder` that is the mount point: a walk upwards ends there */
    bool version2;
} tess_memory_group;

/* The group of a process (0: this one) that limits what `controller` does; files are looked up below `root` ("" or, in
 * tests, a folder). False: no such group, or it cannot be seen from here. */
bool tess_control_group_find(const char *root, int pid, const char *controller, tess_memory_group *group);
/* The cores that the tightest quota of this process's groups is worth. False: no quota. */
bool tess_control_group_cores(const char *root, double *cores);

/* The group that limits memory. */
bool tess_memory_group_find(int pid, tess_memory_group *group);

/* The tightest limit of the group and its ancestors, and the bytes used in the group that has it. False: no limit. */
bool tess_memory_group_limit(const tess_memory_group *group, uint64_t *limit, uint64_t *used);

/* The same, without the file copies that the system can drop at once; the group needs the rest. */
bool tess_memory_group_need(const tess_memory_group *group, uint64_t *limit, uint64_t *needed);

/* Bytes that the group may still take beyond its need; 0 once it needs more than its limit. False: no limit. */
bool tess_memory_group_room(const tess_memory_group *group, uint64_t *room);

/* Bytes that this process may still take: what the system can make available without swapping, or what its group leaves
 * if that is less; then *by_group. UINT64_MAX: not known. */
uint64_t tess_memory_available(bool *by_group);

/* How many of the group's processes the system ever killed because memory ran out; 0 when it does not say. */
uint64_t tess_memory_group_kills(const tess_memory_group *group);

#endif
