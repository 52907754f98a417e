/* Runs nvidia-smi, for a few seconds at most: if a GPU hangs, nvidia-smi may hang, too. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "base/os/program.h"
#include "doctor/probe/gpu_impl.h"
#include "doctor/probe/probe_impl.h"

enum { OUTPUT_BYTES = 32768 };
#define PATIENCE_S 4

static tess_status ask(char *const *argv, char *text)
{
    return tess_os_capture(argv, PATIENCE_S, text, OUTPUT_BYTES);
}

static tess_status ask_fields(char *text)
{
    char *const now[] = {"nvidia-smi", (char *)probe_gpu_fields, "--format=csv,noheader,nounits", NULL};
    char *const old[] = {"nvidia-smi", (char *)probe_gpu_old_fields, "--format=csv,noheader,nounits", NULL};
    tess_status status = ask(now, text);
    return status == TESS_E_IO ? ask(old, text) : status;
}

static void ask_matrix(const char *what, const char *which, char *text, probe_gpu_matrix *matrix)
{
    char *const argv[] = {"nvidia-smi", "topo", (char *)what, (char *)which, NULL};
    if (ask(argv, text) == TESS_OK)
        probe_gpu_parse_matrix(text, matrix);
    else
        tess_error_clear();
}

/* Calls the function `int f(int *version)` of a library and returns the version; 0: the library is not installed. */
static int version_of(const char *library, const char *function)
{
    int (*get)(int *version);
    int version = 0;
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    void *symbol = handle != NULL ? dlsym(handle, function) : NULL;
    if (symbol != NULL) {
        memcpy(&get, &symbol, sizeof(get));
        if (get(&version) != 0)
            version = 0;
    }
    return version; /* the library stays loaded, because CUDA's library does not unload cleanly */
}

void probe_gpu_summarize(const probe_gpu *gpus, int n, tess_probe_gpu_health *health)
{
    *health = (tess_probe_gpu_health){
        .hottest = -1, .worst = -1, .fullest = -1, .celsius = -1, .n_errors = -1, .percent = -1};
    for (int i = 0; i < n; i++) {
        if (gpus[i].temperature_c > health->celsius) {
            health->celsius = gpus[i].temperature_c;
            health->hottest = gpus[i].index;
        }
        double percent = gpus[i].total_mib > 0 ? 100 * (double)gpus[i].used_mib / (double)gpus[i].total_mib : -1;
        if (gpus[i].used_mib >= 0 && percent > health->percent) {
            health->percent = percent;
            health->fullest = gpus[i].index;
        }
        if (gpus[i].uncorrected > health->n_errors) {
            health->n_errors = gpus[i].uncorrected;
            health->worst = gpus[i].index;
        }
    }
}

bool tess_probe_gpu_look(tess_probe_gpu_health *health)
{
    char text[OUTPUT_BYTES];
    probe_gpu gpus[PROBE_GPUS] = {0};
    bool here = access("/dev/nvidiactl", F_OK) == 0 && ask_fields(text) == TESS_OK;
    int n = here ? probe_gpu_parse(text, gpus, PROBE_GPUS) : 0;
    probe_gpu_summarize(gpus, n, health);
    tess_error_clear();
    return n > 0;
}

void probe_gpu_look(const char *only, tess_probe_findings *findings)
{
    char text[OUTPUT_BYTES];
    probe_gpus gpus = {0};
    if (!tess_probe_wants_group(only, TESS_PROBE_GPU))
        return;
    tess_status status = ask_fields(text);
    gpus.n = status == TESS_OK ? probe_gpu_parse(text, gpus.gpu, PROBE_GPUS) : 0;
    if (gpus.n == 0) {
        bool none = status == TESS_E_NOT_FOUND || status == TESS_OK;
        tess_probe_add(findings, TESS_PROBE_GPU, "gpu", none ? TESS_PROBE_ABSENT : TESS_PROBE_WARN, "%s",
                       none ? "no NVIDIA GPU here" : tess_error_message());
        tess_error_clear();
        return;
    }
    if (gpus.n > 1) {
        ask_matrix("-m", NULL, text, &gpus.topology);
        ask_matrix("-p2p", "r", text, &gpus.peers);
    }
    gpus.cuda = version_of("libcuda.so.1", "cuDriverGetVersion");
    gpus.nccl = version_of("libnccl.so.2", "ncclGetVersion");
    tess_cuda_software(gpus.software);
    probe_gpu_judge(&gpus, only, findings);
}
