#include "device/cuda/cuda_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/text/text.h"
#include "device/cuda/cublas_lt.h"
#include "device/cuda/cuda_find.h"
#include "device/cuda/cuda_load.h"

static void begin(tess_cuda_fact *f, const char *name)
{
    *f = (tess_cuda_fact){.missing = false};
    snprintf(f->name, sizeof(f->name), "%s", name);
}

/* Copies the message of the thread's newest error into the fact. */
static void report_failure(tess_cuda_fact *f)
{
    f->missing = true;
    snprintf(f->text, sizeof(f->text), "%s", tess_error_message());
    tess_error_clear();
}

/* ---- Software ---- */
#define WHERE "in LD_LIBRARY_PATH, CUDA_HOME, /usr/local/cuda, the system's folders and Python's nvidia/*/lib"

/* An optional library. */
typedef struct library_facts {
    const char *name, *pattern, *packages;
    tess_variable variable;
    const char *use;
    const char *off; /* text if the variable is "off" */
    const char *own; /* text if the variable is "own", or the library is not installed; NULL: same as `off` */
} library_facts;

/* The file's name contains the version. The library is not loaded, which would take longer than the rest of the report.
 * Whether the file that the variable names is valid is only found when the library is used. */
static void look_for_library(tess_cuda_fact *f, const library_facts *l)
{
    char path[PATH_MAX];
    const char *variable = tess_variable_name(l->variable), *wish = tess_variable_value(l->variable);
    begin(f, l->name);
    if (wish != NULL && strcmp(wish, "off") == 0)
        snprintf(f->text, sizeof(f->text), "%s is off: %s", variable, l->off);
    else if (wish != NULL && l->own != NULL && strcmp(wish, "own") == 0)
        snprintf(f->text, sizeof(f->text), "%s is own: %s", variable, l->own);
    else if (wish != NULL && wish[0] != '\0')
        snprintf(f->text, sizeof(f->text), "%s, as %s says", wish, variable);
    else if (tess_cuda_find_library(l->pattern, path))
        snprintf(f->text, sizeof(f->text), "%s: %s; %s=%s does without", path, l->use, variable,
                 l->own != NULL ? "own" : "off");
    else {
        f->missing = true;
        snprintf(f->text, sizeof(f->text), "not found " WHERE ": %s; install %s", l->own != NULL ? l->own : l->off,
                 l->packages);
    }
}

static void look_for_plugin(tess_cuda_fact *f)
{
    const cuda_plugin *plugin;
    const char *path;
    char version[16];
    begin(f, "plug-in");
    if (tess_cuda_load(&plugin, &path) != TESS_OK)
        report_failure(f);
    else
        snprintf(f->text, sizeof(f->text), "%s, CUDA %s, %s", path,
                 tess_cuda_version_text(plugin->cuda, version, sizeof(version)), plugin->architectures);
}

void tess_cuda_software(tess_cuda_fact facts[TESS_CUDA_SOFTWARE])
{
    look_for_plugin(&facts[0]);
    static const library_facts cublas = {.name = "cublas",
                                         .pattern = CUBLAS_LT_PATTERN,
                                         .variable = TESS_VAR_CUBLAS,
                                         .packages = CUBLAS_LT_PACKAGES,
                                         .use = "products in bfloat16",
                                         .off = "bfloat16 without tensor cores, with the bits of the CPU's table ref",
                                         .own = "products in bfloat16 by Tessera's own kernels"},
                               nccl = {.name = "nccl",
                                       .pattern = TESS_NCCL_PATTERN,
                                       .variable = TESS_VAR_NCCL,
                                       .packages = TESS_NCCL_PACKAGES,
                                       .use = "bytes between the GPUs of several hosts",
                                       .off = "bytes between hosts by way of their memory"};
    look_for_library(&facts[1], &cublas);
    look_for_library(&facts[2], &nccl);
}

/* ---- Hardware ---- */
static int attribute(const cuda_driver *cu, int which, int device)
{
    int value = 0;
    return cu->device_attribute(&value, which, device) == 0 ? value : 0;
}

static void describe(tess_cuda_fact *f, const cuda_driver *cu, int number)
{
    char where[16], name[64] = "", bus[32] = "", memory[32];
    size_t bytes = 0;
    int device = 0, error;
    snprintf(where, sizeof(where), "gpu %d", number);
    begin(f, where);
    if ((error = cu->device_get(&device, number)) == 0 && (error = cu->device_name(name, sizeof(name), device)) == 0 &&
        (error = cu->device_memory(&bytes, device)) == 0)
        error = cu->device_bus(bus, sizeof(bus), device);
    if (tess_cuda_check(cu, error, where, "describe the GPU") != TESS_OK) {
        report_failure(f);
        return;
    }
    snprintf(f->text, sizeof(f->text),
             "%s (%s), compute capability %d.%d, %s, ECC %s, %d processors at up to %d MHz, memory at %d MHz", name,
             bus, attribute(cu, CUDA_ATTRIBUTE_MAJOR, device), attribute(cu, CUDA_ATTRIBUTE_MINOR, device),
             tess_format_bytes((double)bytes, memory, sizeof(memory)),
             attribute(cu, CUDA_ATTRIBUTE_ECC, device) != 0 ? "on" : "off",
             attribute(cu, CUDA_ATTRIBUTE_PROCESSORS, device), attribute(cu, CUDA_ATTRIBUTE_CLOCK_KHZ, device) / 1000,
             attribute(cu, CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ, device) / 1000);
}

static void describe_peers(tess_cuda_fact *f, const cuda_driver *cu, int n)
{
    size_t at = 0;
    begin(f, "peers");
    for (int i = 0; i < n; i++) {
        for (int k = i + 1; k < n; k++) {
            int there = 0, back = 0;
            if (cu->device_reaches(&there, i, k) != 0 || cu->device_reaches(&back, k, i) != 0 || !there || !back)
                at = tess_text_add(f->text, sizeof(f->text), at, "%s%d and %d", at > 0 ? ", " : "", i, k);
        }
    }
    if (at > 0)
        tess_text_add(f->text, sizeof(f->text), at, " do not read each other's memory");
    else
        snprintf(f->text, sizeof(f->text), "all read each other's memory");
}

int tess_cuda_hardware(tess_cuda_fact facts[TESS_CUDA_GPUS + 2])
{
    const cuda_driver *cu;
    int version = 0, n = 0, n_facts = 1;
    char text[16];
    begin(&facts[0], "driver");
    if (tess_cuda_driver_open(&cu) != TESS_OK || tess_cuda_devices(cu, &n) != TESS_OK) {
        report_failure(&facts[0]);
        return n_facts;
    }
    cu->version(&version);
    snprintf(facts[0].text, sizeof(facts[0].text), "supports CUDA %s",
             tess_cuda_version_text(version, text, sizeof(text)));
    n = n < TESS_CUDA_GPUS ? n : TESS_CUDA_GPUS;
    for (int i = 0; i < n; i++)
        describe(&facts[n_facts++], cu, i);
    if (n > 1)
        describe_peers(&facts[n_facts++], cu, n);
    return n_facts;
}
