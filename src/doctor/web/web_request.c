#include "doctor/web/web_request.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Reads "9464", of n bytes. Returns -1 if it is no port. */
static int read_port(const char *text, size_t n)
{
    int port = 0;
    if (n < 1 || n > 5)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        port = 10 * port + (text[i] - '0');
    }
    return port <= 65535 ? port : -1;
}

/* Splits "host:port". A host in brackets loses them. Returns the port; -1: there is none; -2: another form. */
static int split(const char *text, char *host, size_t size)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : text + strcspn(text, ":");
    const char *begin = text + (text[0] == '[');
    if (end == NULL || end == begin || (size_t)(end - begin) >= size)
        return -2;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    end += text[0] == '[';
    if (*end == '\0')
        return -1;
    const int port = *end == ':' ? read_port(end + 1, strlen(end + 1)) : -1;
    return port >= 0 ? port : -2;
}

bool tess_web_address_read(const char *text, tess_web_address *address)
{
    struct in_addr four;
    struct in6_addr six;
    *address = (tess_web_address){0};
    address->port = split(text, address->host, sizeof(address->host));
    if (address->port < 0)
        return false;
    if (strcmp(address->host, "localhost") == 0)
        snprintf(address->host, sizeof(address->host), "127.0.0.1");
    address->is_ipv6 = inet_pton(AF_INET6, address->host, &six) == 1;
    const bool is_ipv4 = inet_pton(AF_INET, address->host, &four) == 1;
    if (is_ipv4)
        address->is_loopback = ntohl(four.s_addr) >> 24 == 127;
    else if (address->is_ipv6)
        address->is_loopback = memcmp(&six, &in6addr_loopback, sizeof(six)) == 0;
    return is_ipv4 || address->is_ipv6;
}

bool tess_web_host_is_loopback(const char *host, const char *own)
{
    char name[64];
    if (host == NULL || split(host, name, sizeof(name)) == -2)
        return false;
    const bool is_ipv6 = host[0] == '[';
    if (strcmp(name, own) == 0)
        return is_ipv6 == (strchr(own, ':') != NULL);
    return is_ipv6 ? strcmp(name, "::1") == 0 : strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0;
}

const char *tess_web_path_after(const char *path, const char *token)
{
    const size_t n = strlen(token), length = strlen(path);
    unsigned differs = length < n + 1 || path[0] != '/';
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(i + 1 < length ? path[i + 1] : 0) ^ (unsigned char)token[i];
    if (differs != 0)
        return NULL;
    const char *rest = path + 1 + n;
    return *rest == '/' || *rest == '\0' ? rest : NULL;
}

int tess_web_judge(const char *method, const char *host, const char *own, bool has_body)
{
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return TESS_WEB_NO_METHOD;
    if (own != NULL && !tess_web_host_is_loopback(host, own))
        return TESS_WEB_FORBIDDEN;
    return has_body ? TESS_WEB_BAD_REQUEST : 0;
}
