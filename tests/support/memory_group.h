/* A small memory control group, for cases in which memory runs out. */
#ifndef TESS_TESTS_SUPPORT_MEMORY_GROUP_H
#define TESS_TESTS_SUPPORT_MEMORY_GROUP_H

#include "base/os/memory_group.h"

typedef struct test_memory_group {
    tess_memory_group above; /* the group that this process was in */
    char folder[TESS_GROUP_FOLDER_BYTES + 32];
} test_memory_group;

/* Moves this process and the children that it starts later into a new group with a limit of `bytes`. False: the machine
 * does not allow it, and nothing has changed. */
bool test_memory_group_enter(uint64_t bytes, test_memory_group *group);

/* Moves back and removes the group; its other processes must have ended. */
void test_memory_group_leave(const test_memory_group *group);

#endif
