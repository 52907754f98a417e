#include "ckpt/tools/rewrite_impl.h"

void rewrite_say(rewriting *r, uint64_t bytes)
{
    r->done += bytes;
    if (r->options->progress != NULL)
        r->options->progress(r->options->self, "write", r->done, r->result->bytes);
}
