#include "device/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "device/cuda/cuda_library.h"

#define DRIVER_FILE "libcuda.so.1"

/* ---- Errors ---- */
typedef struct meaning {
    int error;
    tess_status status;
    bool enqueued; /* an earlier call in the queue caused the error, not the call that returns it */
    const char *advice;
} meaning;

#define LOOK "`nvidia-smi` and `dmesg | grep -i xid` say more"
#define FIND "CUDA_LAUNCH_BLOCKING=1 names the very kernel, compute-sanitizer the address; please report it"

static const meaning meanings[] = {
    {2, TESS_E_NOMEM, false,
     "close what else uses this GPU (nvidia-smi lists it), or use less: training.passes, a smaller "
     "training.local_batch_size, activation_checkpoint.mode=full"},
    {3, TESS_E_INTERNAL, false, "this process was forked after CUDA had started in its parent: start it anew"},
    {34, TESS_E_UNSUPPORTED, false,
     "the libcuda.so.1 that was found is the toolkit's stub: take lib64/stubs out of LD_LIBRARY_PATH"},
    {46, TESS_E_UNSUPPORTED, false,
     "another process has this GPU to itself: wait for it, choose another with CUDA_VISIBLE_DEVICES, or allow sharing "
     "(nvidia-smi -c DEFAULT)"},
    {101, TESS_E_INVALID, false, "`nvidia-smi -L` lists the GPUs that are there"},
    {200, TESS_E_UNSUPPORTED, false, "libtessera_cuda.so is damaged: build and install it again"},
    {209, TESS_E_UNSUPPORTED, false,
     "libtessera_cuda.so was built for other GPUs: build it with -DTESS_CUDA_ARCHITECTURES for this one"},
    {214, TESS_E_DEVICE, true,
     "an error of the GPU's memory that ECC could not correct: reset the GPU (nvidia-smi -r), have it exchanged when "
     "it returns"},
    {220, TESS_E_DEVICE, true, "an error of NVLink that could not be corrected: " LOOK},
    {226, TESS_E_DEVICE, true, "an error of the hardware that ended this process's work alone: " LOOK},
    {700, TESS_E_INTERNAL, true, "a kernel used an address that is not its: " FIND},
    {701, TESS_E_INTERNAL, false,
     "a kernel asks for more registers or shared memory than this GPU has: please report it"},
    {702, TESS_E_TIMEOUT, true, "a kernel ran longer than this GPU's display allows: use a GPU without a display"},
    {712, TESS_E_INTERNAL, false, "memory of the host was prepared for copies twice: please report it"},
    {714, TESS_E_INTERNAL, true, "a kernel's stack was overwritten, or the GPU's hardware is at fault: " FIND},
    {715, TESS_E_INTERNAL, true, "a kernel met an instruction that this GPU does not have: " FIND},
    {716, TESS_E_INTERNAL, true, "a kernel used an address that is not aligned: " FIND},
    {717, TESS_E_INTERNAL, true, "a kernel used an address of another kind of memory: " FIND},
    {718, TESS_E_INTERNAL, true, "a kernel lost its way: " FIND},
    {719, TESS_E_INTERNAL, true, "a kernel failed: " FIND},
    {802, TESS_E_UNSUPPORTED, false,
     "the driver is still starting; on hosts with NVSwitch start its service (nvidia-fabricmanager)"},
    {803, TESS_E_UNSUPPORTED, false,
     "libcuda.so.1 and the kernel's driver have different versions, as after an update: restart the host"},
    {804, TESS_E_UNSUPPORTED, false,
     "this GPU does not work with the compatibility package of CUDA: update the driver itself"},
    {999, TESS_E_DEVICE, true, "the GPU may have been lost: " LOOK},
};

static const meaning *meaning_of(int error)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (meanings[i].error == error)
            return &meanings[i];
    return NULL;
}

bool tess_cuda_is_of_queue(int error)
{
    const meaning *m = meaning_of(error);
    return m != NULL && m->enqueued;
}

tess_status tess_cuda_check(const cuda_driver *cu, int error, const char *where, const char *what)
{
    if (error == 0)
        return TESS_OK;
    const meaning *m = meaning_of(error);
    const char *name = NULL, *text = NULL;
    if (cu->error_name(error, &name) != 0 || name == NULL)
        name = "an error that the driver does not know";
    if (cu->error_text(error, &text) != 0 || text == NULL)
        text = "no description";
    return TESS_FAIL(m != NULL ? m->status : TESS_E_INTERNAL, "%s: %s: %s (%d, %s); %s", where, what, name, error, text,
                     m != NULL ? m->advice : LOOK);
}

const char *tess_cuda_version_text(int version, char *text, size_t size)
{
    snprintf(text, size, "%d.%d", version / 1000, version % 1000 / 10);
    return text;
}

/* ---- Opening ---- */
static const cuda_symbol symbols[] = {
#define X(name, symbol, parameters) {symbol, offsetof(cuda_driver, name)},
    CUDA_DRIVER_LIST(X)
#undef X
};

static tess_status open_driver(cuda_driver *cu)
{
    void *library = dlopen(DRIVER_FILE, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror();
        bool missing = strstr(why, "No such file") != NULL;
        return TESS_FAIL(missing ? TESS_E_NOT_FOUND : TESS_E_UNSUPPORTED,
                         "NVIDIA's driver is missing (%s): install it (Debian: packages nvidia-driver and libcuda1 of "
                         "non-free), or start the container with its GPUs (--gpus all)",
                         why);
    }
    const char *missing = tess_cuda_library_bind(library, symbols, sizeof(symbols) / sizeof(symbols[0]), cu);
    TESS_CHECK(missing == NULL, TESS_E_UNSUPPORTED,
               "NVIDIA's driver (" DRIVER_FILE ") is too old: it has no %s; install version 525 or newer", missing);
    return TESS_OK;
}

tess_status tess_cuda_driver_open(const cuda_driver **driver)
{
    /* The driver is the process's: it is loaded and initialised once. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static cuda_driver cu;
    static bool is_open;
    pthread_mutex_lock(&lock);
    tess_status status = is_open ? TESS_OK : open_driver(&cu);
    is_open = status == TESS_OK;
    pthread_mutex_unlock(&lock);
    *driver = &cu;
    return status;
}

/* ---- GPUs ---- */
static tess_status fail_without_gpus(void)
{
    const char *visible = tess_variable_value(TESS_VAR_CUDA_VISIBLE_DEVICES);
    TESS_CHECK(visible == NULL, TESS_E_INVALID,
               "CUDA_VISIBLE_DEVICES is '%s', with which this process sees no GPU: unset it, or set it to numbers that "
               "`nvidia-smi -L` lists, such as 0,1",
               visible);
    return TESS_FAIL(TESS_E_NOT_FOUND, "NVIDIA's driver finds no GPU: `nvidia-smi -L` lists those that are there; a "
                                       "container needs to be started with them (--gpus all)");
}

/* CUDA ignores the entries after the first wrong one, so a typing error would hide GPUs without a message. */
static tess_status check_visible(int n)
{
    const char *visible = tess_variable_value(TESS_VAR_CUDA_VISIBLE_DEVICES);
    int listed = visible != NULL && visible[0] != '\0';
    for (const char *c = visible; listed > 0 && *c != '\0'; c++)
        listed += *c == ',';
    TESS_CHECK(listed <= n, TESS_E_INVALID,
               "CUDA_VISIBLE_DEVICES is '%s', which lists %d GPUs, but only the first %d are there: `nvidia-smi -L` "
               "lists them all",
               visible, listed, n);
    return TESS_OK;
}

tess_status tess_cuda_devices(const cuda_driver *cu, int *n)
{
    *n = 0;
    int error = cu->init(0);
    if (error == 0)
        error = cu->device_count(n);
    if (error == CUDA_NO_DEVICE || (error == 0 && *n == 0))
        return fail_without_gpus();
    TESS_TRY(tess_cuda_check(cu, error, "cuda", "start NVIDIA's driver"));
    return check_visible(*n);
}
