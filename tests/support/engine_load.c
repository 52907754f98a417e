/* Loads an engine's shared object, as an engine would load libtessera. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "base/os/objects.h"
#include "support/engine.h"
#include "support/test.h"

static void *load(void)
{
    void *object = dlopen(TESS_TEST_ENGINE, RTLD_NOW);
    if (object == NULL)
        test_fail(__FILE__, __LINE__, "%s", dlerror());
    return object;
}

static engine_call find(void *object, const char *name)
{
    void *found = dlsym(object, name);
    engine_call call;
    EXPECT(found != NULL);
    memcpy(&call, &found, sizeof(call));
    return call;
}

/* Finds where the object is loaded, and occupies that address. */
static void take_place(void)
{
    tess_object place, none;
    void *object = load(), *at = dlsym(object, "engine_sum_a");
    EXPECT(tess_object_find(at, &place));
    EXPECT(dlclose(object) == 0 && !tess_object_find(at, &none));
    void *begin = (void *)place.begin;
    int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    EXPECT(mmap(begin, place.end - place.begin, PROT_NONE, how, -1, 0) == begin);
}

engine engine_load(int shift)
{
    for (int i = 0; i < shift; i++)
        take_place();
    void *object = load();
    return (engine){find(object, "engine_sum_a"), find(object, "engine_sum_b")};
}
