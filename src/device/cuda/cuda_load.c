#include "device/cuda/cuda_load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/plugins.h"
#include "device/cuda/cuda_driver.h"

/* The path of the plug-in, which the process loads once. */
static char place[PATH_MAX];

static tess_status find(void)
{
    const char *wish = tess_variable_value(TESS_VAR_CUDA);
    if (wish != NULL && wish[0] != '\0') {
        TESS_CHECK(strchr(wish, '/') != NULL, TESS_E_INVALID,
                   "TESSERA_CUDA is '%s', expected the path of a plug-in (with a '/' in it)", wish);
        snprintf(place, sizeof(place), "%s", wish);
        TESS_CHECK(access(place, R_OK) == 0, TESS_E_NOT_FOUND, "TESSERA_CUDA is '%s': there is no such file", wish);
        return TESS_OK;
    }
    TESS_CHECK(tess_plugin_find(CUDA_PLUGIN_FILE, place), TESS_E_UNSUPPORTED,
               "this build has no plug-in for NVIDIA GPUs (" CUDA_PLUGIN_FILE
               "): install CUDA's nvcc (Debian: package nvidia-cuda-toolkit, or cuda-nvcc of NVIDIA's repository) and "
               "build Tessera again, or choose cpu");
    return TESS_OK;
}

static tess_status load(const cuda_plugin **plugin)
{
    TESS_TRY(find());
    void *library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    TESS_CHECK(library != NULL, TESS_E_UNSUPPORTED, "cannot load the plug-in for NVIDIA GPUs: %s", dlerror());
    const cuda_plugin *p = dlsym(library, CUDA_PLUGIN_SYMBOL);
    TESS_CHECK(p != NULL, TESS_E_UNSUPPORTED, "%s is no plug-in of Tessera: it has no " CUDA_PLUGIN_SYMBOL, place);
    TESS_CHECK(p->version == CUDA_PLUGIN_VERSION, TESS_E_UNSUPPORTED,
               "%s belongs to another version of Tessera (its table is version %u, ours %d): build and install both "
               "again",
               place, p->version, CUDA_PLUGIN_VERSION);
    TESS_CHECK(strcmp(p->build, TESS_CUDA_BUILD) == 0, TESS_E_UNSUPPORTED,
               "%s belongs to another build of Tessera (%s, ours is " TESS_CUDA_BUILD "): build and install both again",
               place, p->build);
    *plugin = p;
    return TESS_OK;
}

tess_status tess_cuda_load(const cuda_plugin **plugin, const char **path)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const cuda_plugin *loaded;
    pthread_mutex_lock(&lock);
    tess_status status = loaded != NULL ? TESS_OK : load(&loaded);
    *plugin = loaded;
    *path = place;
    pthread_mutex_unlock(&lock);
    return status;
}

/* CUDA guarantees that a driver runs programs that were built with the same major version of CUDA or an older one. */
tess_status tess_cuda_check_driver(const cuda_plugin *p, int version)
{
    static const struct {
        int major;
        const char *driver;
    } least[] = {{11, "450.80"}, {12, "525.60"}, {13, "580.65"}};
    if (version / 1000 >= p->cuda / 1000)
        return TESS_OK;
    const char *driver = "a newer version";
    for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++)
        if (least[i].major == p->cuda / 1000)
            driver = least[i].driver;
    char has[16], needs[16];
    return TESS_FAIL(TESS_E_UNSUPPORTED,
                     "NVIDIA's driver is too old: it supports CUDA %s, and the plug-in was built with CUDA %s: install "
                     "driver %s or newer, or build Tessera with CUDA %d",
                     tess_cuda_version_text(version, has, sizeof(has)),
                     tess_cuda_version_text(p->cuda, needs, sizeof(needs)), driver, version / 1000);
}

/* Machine code runs on GPUs of its own major version and of the same or a later minor version. With the suffix 'a' it
 * runs only on its exact version. */
tess_status tess_cuda_check_architecture(const cuda_plugin *p, int major, int minor)
{
    int number = 0, at = 0;
    for (const char *c = p->architectures; sscanf(c, " sm_%d%n", &number, &at) == 1; c += at) {
        bool own = c[at] == 'a';
        at += own;
        if (number / 10 == major && (own ? number % 10 == minor : number % 10 <= minor))
            return TESS_OK;
    }
    return TESS_FAIL(TESS_E_UNSUPPORTED,
                     "the plug-in has no kernels for this GPU (compute capability %d.%d; it has %s): %s", major, minor,
                     p->architectures,
                     major < 8 ? "Tessera needs an Ampere GPU (8.0) or a newer one"
                               : "build Tessera with a CUDA that knows it, or set -DTESS_CUDA_ARCHITECTURES");
}
