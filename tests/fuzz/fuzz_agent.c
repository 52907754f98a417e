/* Any bytes from another agent: frames that say the same when they are sent on, or an error. */
#include <stdlib.h>
#include <string.h>

#include "control/launch/agent/agent_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0, used = 1;
    while (used > 0) {
        static agent_frame frame;
        uint8_t again[FRAME_MOST_BYTES];
        if (agent_frame_decode(data + at, size - at, &frame, &used) != TESS_OK)
            return 0;
        if (used > 0 && (agent_frame_encode(&frame, again) != used || memcmp(again, data + at, used) != 0))
            abort();
        at += used;
    }
    return 0;
}
