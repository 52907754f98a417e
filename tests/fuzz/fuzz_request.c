/* Any bytes as a Host header, a path, and an address to listen on. A path that is accepted begins with the token. */
#include <stdlib.h>
#include <string.h>

#include "doctor/web/web_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char token[] = "0123456789abcdef";
    tess_web_address address;
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    const char *rest = tess_web_path_after(text, token);
    if (rest != NULL && (strncmp(text + 1, token, sizeof(token) - 1) != 0 || (*rest != '/' && *rest != '\0')))
        abort();
    if (tess_web_host_is_loopback(text, "127.0.0.1") && strpbrk(text, "/@ \t") != NULL)
        abort();
    if (tess_web_address_read(text, &address) && (address.port < 0 || address.port > 65535))
        abort();
    const int refused = tess_web_judge(text, text, "127.0.0.1", false);
    if (refused == 0)
        abort(); /* no method is a host */
    free(text);
    return 0;
}
