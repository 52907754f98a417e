/* Any bytes as alerts.jsonl: clean text of a job's health, or none. */
#include <stdlib.h>
#include <string.h>

#include "doctor/top/top_facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[64];
    for (int pid = 0; pid < 3; pid++) {
        tess_top_health_of((const char *)data, size, pid, text, sizeof(text));
        for (const char *at = text; *at != '\0'; at++)
            if ((unsigned char)*at < ' ')
                abort();
    }
    return 0;
}
