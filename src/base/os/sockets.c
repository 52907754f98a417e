#include "base/os/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"

/* ---- Addresses ---- */
/* True when `name` begins with one of the comma-separated `names`. */
static bool is_named(const char *names, const char *name)
{
    while (*names != '\0') {
        size_t n = strcspn(names, ",");
        if (n > 0 && strncmp(names, name, n) == 0)
            return true;
        names += n;
        names += *names == ',';
    }
    return false;
}

static bool is_wanted(const struct ifaddrs *at, const char *names, int family)
{
    if (at->ifa_addr == NULL || at->ifa_addr->sa_family != family || (at->ifa_flags & IFF_UP) == 0)
        return false;
    const struct sockaddr_in6 *v6 = (const void *)at->ifa_addr;
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
        return false;
    return names != NULL ? is_named(names, at->ifa_name) : (at->ifa_flags & IFF_LOOPBACK) == 0;
}

tess_status tess_os_addresses(const char *names, char (*addresses)[OS_ADDRESS_BYTES], int most, int *n)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *all = NULL;
    *n = 0;
    if (getifaddrs(&all) != 0)
        return tess_os_error("look at", "the network interfaces");
    for (int f = 0; f < 2; f++)
        for (const struct ifaddrs *at = all; at != NULL && *n < most; at = at->ifa_next) {
            if (!is_wanted(at, names, families[f]))
                continue;
            const struct sockaddr_in *v4 = (const void *)at->ifa_addr;
            const struct sockaddr_in6 *v6 = (const void *)at->ifa_addr;
            const void *binary = families[f] == AF_INET ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr;
            if (inet_ntop(families[f], binary, addresses[*n], OS_ADDRESS_BYTES) != NULL)
                (*n)++;
        }
    freeifaddrs(all);
    if (*n > 0)
        return TESS_OK;
    if (names != NULL)
        return TESS_FAIL(TESS_E_NOT_FOUND, "no network interface that is up and has an address begins with '%s'",
                         names);
    return TESS_FAIL(TESS_E_NOT_FOUND, "no network interface but loopback is up and has an address");
}

/* Returns the size of the socket address; 0: `address` is not numeric. */
static socklen_t make_address(const char *address, int port, struct sockaddr_storage *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
        memcpy(out, &v4, sizeof(v4));
        return sizeof(v4);
    }
    if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1) {
        memcpy(out, &v6, sizeof(v6));
        return sizeof(v6);
    }
    return 0;
}

bool tess_os_is_own_name(const char *name)
{
    const struct addrinfo how = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    char own[256] = "";
    bool is_own = gethostname(own, sizeof(own) - 1) == 0 && strcmp(own, name) == 0;
    if (is_own || getaddrinfo(name, NULL, &how, &all) != 0)
        return is_own;
    for (const struct addrinfo *at = all; at != NULL && !is_own; at = at->ai_next) {
        int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        is_own = fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0; /* only our own address can be bound */
        tess_os_close(&fd);
    }
    freeaddrinfo(all);
    return is_own;
}

tess_status tess_os_resolve(const char *name, char (*addresses)[OS_ADDRESS_BYTES], int most, int *n)
{
    const struct addrinfo how = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    int reason = getaddrinfo(name, NULL, &how, &all);
    TESS_CHECK(reason == 0, TESS_E_NOT_FOUND, "host name '%s': %s", name, gai_strerror(reason));
    *n = 0;
    for (const struct addrinfo *at = all; at != NULL && *n < most; at = at->ai_next)
        *n += getnameinfo(at->ai_addr, at->ai_addrlen, addresses[*n], OS_ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST) == 0;
    freeaddrinfo(all);
    return TESS_OK;
}

/* ---- TCP ---- */
static int stream(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof(name);
    if (getsockname(fd, (struct sockaddr *)&name, &size) != 0)
        return 0;
    const struct sockaddr_in *v4 = (const void *)&name;
    const struct sockaddr_in6 *v6 = (const void *)&name;
    return ntohs(name.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
}

/* Listens on one port. -1: the port is not available, and errno says why. */
static int listen_on(const char *address, int port)
{
    struct sockaddr_storage name;
    socklen_t size = make_address(address, port, &name);
    if (size == 0) {
        errno = EINVAL;
        return -1;
    }
    int fd = stream(name.ss_family), off = 0, on = 1;
    if (fd < 0)
        return -1;
    if (name.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&name, size) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

tess_status tess_os_listen(const char *address, int first, int last, int *fd, uint16_t *port)
{
    *fd = -1;
    for (int at = first; at <= last && *fd < 0; at++) {
        *fd = listen_on(address != NULL ? address : "::", at);
        if (*fd < 0 && address == NULL && errno != EADDRINUSE) /* the system has no IPv6 */
            *fd = listen_on("0.0.0.0", at);
    }
    if (*fd < 0 && first != 0)
        return TESS_FAIL(TESS_E_IO, "listen on a TCP port of %d to %d: the last one: %s", first, last, strerror(errno));
    if (*fd < 0)
        return tess_os_error("listen on", address != NULL ? address : "a TCP port");
    *port = port_of(*fd);
    return TESS_OK;
}

int tess_os_accept(int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), on = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

int tess_os_connect(const char *address, uint16_t port)
{
    struct sockaddr_storage name;
    socklen_t size = make_address(address, port, &name);
    if (size == 0) {
        errno = EINVAL;
        return -1;
    }
    int fd = stream(name.ss_family);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&name, size) == 0 || errno == EINPROGRESS || errno == EINTR)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

int tess_os_connected(int fd)
{
    int reason = 0;
    socklen_t size = sizeof(reason);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &size) != 0)
        return errno;
    return reason;
}

void tess_os_peer_address(int fd, char address[OS_ADDRESS_BYTES])
{
    struct sockaddr_storage name;
    socklen_t size = sizeof(name);
    if (getpeername(fd, (struct sockaddr *)&name, &size) != 0 ||
        getnameinfo((struct sockaddr *)&name, size, address, OS_ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST) != 0)
        strcpy(address, "?");
}

/* Returns 0 if the call would have to wait, -1 for other errors. */
static ptrdiff_t not_now(void)
{
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

ptrdiff_t tess_os_send(int fd, const void *data, size_t size)
{
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    return n < 0 ? not_now() : n;
}

ptrdiff_t tess_os_receive(int fd, void *data, size_t size)
{
    ssize_t n = recv(fd, data, size, MSG_DONTWAIT);
    return n < 0 ? not_now() : n == 0 ? -1 : n;
}

void tess_os_end_sending(int fd)
{
    shutdown(fd, SHUT_WR);
}

/* ---- Messages between processes ---- */
tess_status tess_os_pair(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return tess_os_error("socketpair", "for a child");
    return TESS_OK;
}

bool tess_os_is_socket(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

tess_status tess_os_send_message(int fd, const void *data, size_t size, int passed)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &passed, sizeof(passed));
    }
    ssize_t n;
    do
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size ? TESS_OK : tess_os_error("send a message", "to another process");
}

static tess_status wait_for_message(int fd, double timeout_s)
{
    double until = tess_os_now_s() + timeout_s;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (;;) {
        double left_s = until - tess_os_now_s();
        int n = poll(&ready, 1, left_s > 0 ? (int)(left_s * 1e3) + 1 : 0);
        if (n > 0)
            return TESS_OK;
        if (n < 0 && errno != EINTR)
            return tess_os_error("wait for", "a message");
        if (n == 0 && left_s <= 0)
            return TESS_FAIL(TESS_E_TIMEOUT, "no message arrived within %.3g s", timeout_s);
    }
}

tess_status tess_os_receive_message(int fd, void *data, size_t size, double timeout_s, int *passed)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    *passed = -1;
    TESS_TRY(wait_for_message(fd, timeout_s));
    ssize_t n;
    do
        n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(passed, CMSG_DATA(head), sizeof(*passed));
    if (n == (ssize_t)size && (message.msg_flags & MSG_TRUNC) == 0)
        return TESS_OK;
    tess_os_close(passed);
    if (n < 0)
        return tess_os_error("receive", "a message");
    return TESS_FAIL(TESS_E_IO, n == 0 ? "the other end has closed" : "a message of the wrong size arrived");
}
