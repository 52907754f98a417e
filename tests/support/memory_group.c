#include "support/memory_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"

/* Writes a file of a control group: it exists, and takes its text in one write. */
static bool write_text(const char *folder, const char *name, const char *text)
{
    char file[TESS_GROUP_FOLDER_BYTES + 64];
    snprintf(file, sizeof(file), "%s/%s", folder, name);
    int fd = open(file, O_WRONLY);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

bool test_memory_group_enter(uint64_t bytes, test_memory_group *group)
{
    char limit[32];
    if (!tess_memory_group_find((int)getpid(), &group->above))
        return false;
    snprintf(group->folder, sizeof(group->folder), "%s/tessera-test-%d", group->above.folder, (int)getpid());
    if (mkdir(group->folder, 0755) != 0)
        return false;
    snprintf(limit, sizeof(limit), "%llu", (unsigned long long)bytes);
    if (write_text(group->folder, group->above.version2 ? "memory.max" : "memory.limit_in_bytes", limit) &&
        write_text(group->folder, "cgroup.procs", "0"))
        return true;
    rmdir(group->folder);
    return false;
}

void test_memory_group_leave(const test_memory_group *group)
{
    EXPECT(write_text(group->above.folder, "cgroup.procs", "0"));
    EXPECT_INT(rmdir(group->folder), 0);
}
