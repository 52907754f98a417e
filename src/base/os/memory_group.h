/* Finds the control groups (cgroup v1 or v2) of a process and reads them: the limit on memory, how often the system
 * killed a process because of it, and the quota of cores. */
#ifndef TESS_BASE_OS_MEMORY_GROUP_H
#define TESS_BASE_OS_MEMORY_GROUP_H

#include "tessera/types.h"

enum { TESS_GROUP_FOLDER_BYTES = 512 };

typedef struct tess_memory_group {
    char folder[TESS_GROUP_FOLDER_BYTES];
    size_t mount_length; /* length of the mount point, with which `folder` begins; a walk to parent groups ends there */
    bool version2;
} tess_memory_group;

/* Finds the group of a process (0: this one) for a controller. Files are looked up below `root` ("", or a folder in
 * tests). False: no such group, or it is not visible from here. */
bool tess_control_group_find(const char *root, int pid, const char *controller, tess_memory_group *group);
/* Returns the number of cores that the tightest quota of this process's groups allows. False: no quota. */
bool tess_control_group_cores(const char *root, double *cores);

/* Finds the group that limits the memory of a process (0: this one). */
bool tess_memory_group_find(int pid, tess_memory_group *group);

/* Returns the tightest limit of the group and its ancestors, and the bytes used in the group that has it. False: no
 * limit. */
bool tess_memory_group_limit(const tess_memory_group *group, uint64_t *limit, uint64_t *used);

/* Like tess_memory_group_limit, but *needed leaves out cached file pages that the system can drop at once. */
bool tess_memory_group_need(const tess_memory_group *group, uint64_t *limit, uint64_t *needed);

/* Returns the bytes that the group may still take beyond its need; 0 if it needs more than its limit. False: no
 * limit. */
bool tess_memory_group_room(const tess_memory_group *group, uint64_t *room);

/* Returns the bytes that this process may still take: what the system can provide without swapping, or the room in its
 * group if that is less. *by_group says whether the group decided. UINT64_MAX: not known. */
uint64_t tess_memory_available(bool *by_group);

/* Returns how many of the group's processes the system has killed because memory ran out; 0 if the system does not
 * say. */
uint64_t tess_memory_group_kills(const tess_memory_group *group);

#endif
