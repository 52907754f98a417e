/* tess_hosts_link FIFO NETNS...: a switch in user space with slow and lossy cables, for tools/hosts where the kernel
 * has no netem. It makes a TAP device eth0 in each of the network namespaces, prints "ready", and carries frames
 * between them until it is killed. Lines in the FIFO change a port (numbers from 1): "rate 2 1gbit", "delay 2 500us",
 * "loss 2 0.1%", "cut 2", "mend 2".
 *
 * A frame's way: it is read from its port only when the cable is free, at the port's rate (what is not read waits in
 * the sender's own queue, as with a network card, so senders are slowed and not robbed); it travels for the port's
 * delay; it waits in the buffer of the receiving port, which sends at its own rate and drops what does not fit. Frames
 * go to the port that the last byte of the address 02:00:00:00:00:NN names, broadcasts to all.
 *
 * Devices pass segments of up to 64 KiB with offloads on (IFF_VNET_HDR): a gigabit is 2,000 frames a second and a
 * seventh of a core. Loss is drawn per frame as it is here, as netem does above a card with segmentation offload: at
 * 0.1% one byte in a thousand is lost, but up to 45 packets in one go. Draws are a fixed sequence per port. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_PORTS = 8,
    HEADER_BYTES = 10, /* struct virtio_net_hdr */
    FRAME_BYTES = HEADER_BYTES + 14 + 65536,
    BUFFER_BYTES = 4 << 20, /* buffer of a receiving port: 32 ms at 1 Gbit/s */
    BATCH = 16              /* frames of one port before the others' turn */
};

typedef struct frame {
    struct frame *next;
    uint64_t due_ns; /* when it has travelled */
    int to;          /* port, -1: all others */
    size_t bytes;
    uint8_t data[]; /* virtio header, Ethernet frame */
} frame;

typedef struct queue {
    frame *first, **last;
    size_t bytes;
} queue;

typedef struct port {
    int fd;
    bool cut;
    uint64_t delay_ns;
    double ns_per_byte, loss;
    uint64_t sent_ns, received_ns; /* the cable is busy until then, in either direction */
    uint64_t draws;
    queue travelling, arriving;
} port;

static port ports[MOST_PORTS];
static int n_ports;

static _Noreturn void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("tess_hosts_link: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, ": %s\n", strerror(errno));
    va_end(args);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void push(queue *queue, frame *frame)
{
    frame->next = NULL;
    *queue->last = frame;
    queue->last = &frame->next;
    queue->bytes += frame->bytes;
}

static frame *pop(queue *queue)
{
    frame *frame = queue->first;
    queue->first = frame->next;
    if (queue->first == NULL)
        queue->last = &queue->first;
    queue->bytes -= frame->bytes;
    return frame;
}

/* True with probability `loss`: splitmix64 of a counter, so that a run can be repeated. */
static bool draw(port *port)
{
    uint64_t x = (port->draws++ + ((uint64_t)(port - ports) << 48)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (double)(x >> 11) * 0x1p-53 < port->loss;
}

static int open_namespace(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("%s", path);
    return fd;
}

/* Closes the namespace's file. */
static void enter(int namespace)
{
    if (setns(namespace, CLONE_NEWNET) != 0)
        die("entering a network namespace");
    close(namespace);
}

static void open_port(port *port, const char *namespace)
{
    enter(open_namespace(namespace));
    port->fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (port->fd < 0)
        die("/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, .ifr_name = "eth0"};
    if (ioctl(port->fd, TUNSETIFF, &request) != 0)
        die("%s: eth0", namespace);
    if (ioctl(port->fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0)
        die("%s: offloads", namespace);
    port->travelling.last = &port->travelling.first;
    port->arriving.last = &port->arriving.first;
}

/* Reads one frame and sends it on its way; false when there is none. */
static bool take(port *port, uint64_t now)
{
    static uint8_t data[FRAME_BYTES];
    ssize_t n = read(port->fd, data, sizeof(data));
    if (n <= HEADER_BYTES + 14)
        return false;
    if (port->sent_ns < now)
        port->sent_ns = now;
    port->sent_ns += (uint64_t)((double)n * port->ns_per_byte);
    if (port->cut || draw(port))
        return true;
    frame *frame = malloc(sizeof(*frame) + (size_t)n);
    if (frame == NULL)
        return true; /* lost, as in a switch without memory */
    memcpy(frame->data, data, (size_t)n);
    frame->bytes = (size_t)n;
    const uint8_t *address = data + HEADER_BYTES;
    frame->to = address[0] & 1 ? -1 : address[5] - 1;
    frame->due_ns = port->sent_ns + port->delay_ns;
    push(&port->travelling, frame);
    return true;
}

/* A frame reaches the buffer of a port; takes it over. */
static void arrive(port *port, frame *frame)
{
    if (port->cut || port->arriving.bytes + frame->bytes > BUFFER_BYTES)
        free(frame);
    else
        push(&port->arriving, frame);
}

static void arrive_everywhere(int from, const frame *original)
{
    for (int i = 0; i < n_ports; i++) {
        if (i == from)
            continue;
        frame *copy = malloc(sizeof(*copy) + original->bytes);
        if (copy == NULL)
            return;
        memcpy(copy, original, sizeof(*copy) + original->bytes);
        arrive(&ports[i], copy);
    }
}

static void move_on(int from, uint64_t now)
{
    queue *queue = &ports[from].travelling;
    while (queue->first != NULL && queue->first->due_ns <= now) {
        frame *frame = pop(queue);
        if (frame->to >= 0 && frame->to < n_ports) {
            arrive(&ports[frame->to], frame);
            continue;
        }
        if (frame->to == -1)
            arrive_everywhere(from, frame);
        free(frame);
    }
}

static void deliver(port *port, uint64_t now)
{
    while (port->arriving.first != NULL && port->received_ns <= now) {
        frame *frame = pop(&port->arriving);
        if (port->received_ns + 1000000 < now) /* late by less than a millisecond is made up for */
            port->received_ns = now;
        port->received_ns += (uint64_t)((double)frame->bytes * port->ns_per_byte);
        if (write(port->fd, frame->data, frame->bytes) < 0 && errno != EINVAL && errno != EIO && errno != EAGAIN)
            die("write to port %d", (int)(port - ports) + 1);
        free(frame);
    }
}

static void order(char *line)
{
    char what[16], value[32] = "";
    int number;
    if (sscanf(line, "%15s %d %31s", what, &number, value) < 2 || number < 1 || number > n_ports)
        return;
    port *port = &ports[number - 1];
    char *unit;
    double x = strtod(value, &unit);
    if (strcmp(what, "rate") == 0)
        port->ns_per_byte = x > 0 ? 8 / (x * (*unit == 'g' ? 1 : *unit == 'm' ? 1e-3 : 1e-6)) : 0;
    else if (strcmp(what, "delay") == 0)
        port->delay_ns = (uint64_t)(x * (*unit == 'm' ? 1e6 : 1e3));
    else if (strcmp(what, "loss") == 0)
        port->loss = x / 100;
    else if (strcmp(what, "cut") == 0 || strcmp(what, "mend") == 0)
        port->cut = what[0] == 'c';
}

/* Lines are short and written in one piece: none arrives in halves. */
static void read_orders(int fifo)
{
    char text[4096], *save = NULL;
    ssize_t n = read(fifo, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
        order(line);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Waits for a frame on a port whose cable is free, for an order, or until the next frame is due. */
static void wait_for_work(int fifo)
{
    struct pollfd polls[MOST_PORTS + 1] = {{.fd = fifo, .events = POLLIN}};
    uint64_t now = now_ns(), next = now + 1000000000;
    for (int i = 0; i < n_ports; i++) {
        const port *port = &ports[i];
        bool busy = port->sent_ns > now;
        polls[i + 1] = (struct pollfd){.fd = busy ? -1 : port->fd, .events = POLLIN};
        if (busy)
            next = earlier(next, port->sent_ns);
        if (port->travelling.first != NULL)
            next = earlier(next, port->travelling.first->due_ns);
        if (port->arriving.first != NULL)
            next = earlier(next, port->received_ns);
    }
    uint64_t ns = next > now ? next - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    if (ppoll(polls, (nfds_t)n_ports + 1, &timeout, NULL) > 0 && polls[0].revents != 0)
        read_orders(fifo);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 2 + MOST_PORTS) {
        fputs("usage: tess_hosts_link FIFO NETNS...\n", stderr);
        return 2;
    }
    int fifo = open(argv[1], O_RDWR | O_NONBLOCK | O_CLOEXEC); /* open for both directions, so that it never ends */
    if (fifo < 0)
        die("%s", argv[1]);
    n_ports = argc - 2;
    int home = open_namespace("/proc/self/ns/net");
    for (int i = 0; i < n_ports; i++)
        open_port(&ports[i], argv[i + 2]);
    enter(home); /* it belongs to no host: it must outlive each of them */
    prctl(PR_SET_TIMERSLACK, 1000);
    puts("ready");
    fflush(stdout);
    for (;;) {
        wait_for_work(fifo);
        uint64_t now = now_ns();
        for (int i = 0; i < n_ports; i++)
            for (int k = 0; k < BATCH && ports[i].sent_ns <= now && take(&ports[i], now); k++)
                ;
        for (int i = 0; i < n_ports; i++)
            move_on(i, now);
        for (int i = 0; i < n_ports; i++)
            deliver(&ports[i], now);
    }
}
