/* Counts the bytes that cross between the host and a GPU of the driver that plays one (device/cuda_fake/fake_driver.c).
 */
#ifndef TESS_TESTS_SUPPORT_CROSSED_H
#define TESS_TESTS_SUPPORT_CROSSED_H

#include <dlfcn.h>

#include "support/test.h"

/* Returns the bytes that copies of this process have moved in either direction. A GPU must be open. */
static inline size_t test_crossed(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    EXPECT(driver != NULL);
    void *symbol = dlsym(driver, "fake_driver_crossed");
    EXPECT(symbol != NULL);
    size_t (*crossed)(void);
    memcpy(&crossed, &symbol, sizeof(crossed));
    size_t bytes = crossed();
    dlclose(driver);
    return bytes;
}

#endif
