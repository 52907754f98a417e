/* Explains a fault in the far device's memory: which code accessed it, and which block it accessed. */
#include "device/far/far_impl.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* A handler of signals is the process's, and gets no argument of ours: it finds the devices here. */
static far_device *_Atomic devices;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;

static void explain(const far_device *d, const char *address, bool by_host)
{
    char text[320];
    const tess_device_block *b = tess_device_find(&d->base, address);
    const char *who = by_host ? "the host touched memory of device far; fetch the value with tess_fetch"
                              : "a kernel touched freed memory of device far; free it later";
    int n = b == NULL ? snprintf(text, sizeof(text), "tessera: %s: address %p, no allocation\n", who, (void *)address)
                      : snprintf(text, sizeof(text), "tessera: %s: byte %zu of '%s' (%zu bytes%s)\n", who,
                                 (size_t)(address - b->memory), b->what, b->bytes, b->freed ? ", freed" : "");
    ssize_t written = write(STDERR_FILENO, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
    (void)written;
}

static void on_fault(int signal, siginfo_t *info, TESS_UNUSED void *context)
{
    const char *address = info->si_addr;
    for (const far_device *d = atomic_load(&devices); d != NULL; d = d->next) {
        if (far_is_mine(d, address))
            explain(d, address, true);
        else if (far_is_mine(d, address - d->constant))
            explain(d, address - d->constant, false);
    }
    /* The instruction runs again, and faults with the handler that was there before */
    sigaction(signal, &before, NULL);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, &before);
}

void far_explain_faults(far_device *device)
{
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    device->next = devices;
    atomic_store(&devices, device);
    pthread_mutex_unlock(&lock);
}

void far_forget_faults(far_device *device)
{
    pthread_mutex_lock(&lock);
    far_device *d = devices;
    if (d == device) {
        atomic_store(&devices, device->next);
    } else {
        while (d->next != device)
            d = d->next;
        d->next = device->next;
    }
    pthread_mutex_unlock(&lock);
}
