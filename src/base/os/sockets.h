/* TCP connections, and messages of fixed size between a process and its child. All descriptors are closed on exec. */
#ifndef TESS_BASE_OS_SOCKETS_H
#define TESS_BASE_OS_SOCKETS_H

#include "tessera/memory.h"

enum { OS_ADDRESS_BYTES = 48 };

/* Lists the numeric addresses ("10.9.0.2", "fd00::2") of the interfaces that are up, IPv4 first. Leaves out IPv6
 * addresses that are not valid on other hosts. `names`: prefixes of interface names ("eth,ib"); NULL: all but loopback.
 * TESS_E_NOT_FOUND: no address. */
tess_status tess_os_addresses(const char *names, char (*addresses)[OS_ADDRESS_BYTES], int most, int *n);

/* Whether `name`, a host name or a numeric address, belongs to this machine. May ask a name server. */
bool tess_os_is_own_name(const char *name);

/* Finds the numeric addresses of a host name, or of a numeric address. May ask a name server. TESS_E_NOT_FOUND: the
 * name is not known. */
tess_status tess_os_resolve(const char *name, char (*addresses)[OS_ADDRESS_BYTES], int most, int *n);

/* Listens on a port in first .. last (0, 0: any free port) of `address` (NULL: all addresses). TESS_E_IO: all ports are
 * taken. */
tess_status tess_os_listen(const char *address, int first, int last, int *fd, uint16_t *port);
/* Accepts one connection; -1: none is waiting. */
int tess_os_accept(int listen_fd);
/* Starts to connect. The descriptor becomes writable when the result is known. -1: failed at once (errno). */
int tess_os_connect(const char *address, uint16_t port);
/* Returns the result of tess_os_connect: 0, or an errno. */
int tess_os_connected(int fd);
/* Writes the numeric address of the other end; "?" if it is not known. */
void tess_os_peer_address(int fd, char address[OS_ADDRESS_BYTES]);
/* Return the number of bytes sent or received without waiting; 0: none now; -1: the connection is closed or broken. */
ptrdiff_t tess_os_send(int fd, const void *data, size_t size);
ptrdiff_t tess_os_receive(int fd, void *data, size_t size);
/* Closes the sending direction. What was sent still arrives. */
void tess_os_end_sending(int fd);

/* Makes a pair of connected sockets for whole messages, which may carry a descriptor. */
tess_status tess_os_pair(int fds[2]);
bool tess_os_is_socket(int fd);
/* Sends one message. `passed`: a descriptor to duplicate into the receiver; -1: none. TESS_E_IO: the other end is
 * closed. */
tess_status tess_os_send_message(int fd, const void *data, size_t size, int passed);
/* Receives exactly `size` bytes within timeout_s. *passed is the received descriptor, or -1. TESS_E_TIMEOUT: no message
 * came. TESS_E_IO: the other end is closed, or sent a message of another size. */
tess_status tess_os_receive_message(int fd, void *data, size_t size, double timeout_s, int *passed);

#endif
