/* Connections to servers on this machine, and the loop that reads and writes them. */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define READ_SIZE (256u << 10)
#define EVENTS 1024
#define DATAGRAMS_A_TURN 64

uint64_t loop_read_at, loop_ended_at;
unsigned loop_ended;

static int poll_fd = -1, timer_fd = -1;
static unsigned unconfirmed;
static struct bytes input;
static struct client **dirty;
static size_t dirty_count, dirty_room;

static void watch(struct client *client, uint32_t events, int how) {
    struct epoll_event event = {.events = events, .data.ptr = client};
    if (epoll_ctl(poll_fd, how, client->fd, &event))
        die("epoll_ctl: %s", strerror(errno));
}

static void prepare(void) {
    if (poll_fd >= 0)
        return;
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (poll_fd < 0 || timer_fd < 0 || epoll_ctl(poll_fd, EPOLL_CTL_ADD, timer_fd, &event))
        die("epoll: %s", strerror(errno));
}

void loop_add(struct client *client, unsigned port) {
    prepare();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    client->fd = socket(AF_INET, (client->format->datagrams ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        die("socket: %s", strerror(errno));
    /* What comes to a socket that is not bound yet, a server's port unreachable for instance, is not for the client. */
    if (client->format->datagrams && bind(client->fd, (struct sockaddr *)&address, sizeof address))
        die("bind: %s", strerror(errno));
    address.sin_port = htons((uint16_t)port);
    if (connect(client->fd, (struct sockaddr *)&address, sizeof address))
        die("connect to port %u: %s", port, strerror(errno));
    int one = 1;
    if (!client->format->datagrams)
        setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(client->fd, F_SETFL, O_NONBLOCK);
    unconfirmed++;
    watch(client, EPOLLIN, EPOLL_CTL_ADD);
    client->format->open(client);
}

void loop_confirm(struct client *client) {
    if (client->confirmed)
        return;
    client->confirmed = true;
    unconfirmed--;
}

unsigned loop_unconfirmed(void) { return unconfirmed; }

void loop_stall(struct client *client) {
    client->stalled = true;
    watch(client, EPOLLRDHUP, EPOLL_CTL_MOD);
}

void loop_timer(uint64_t due_ns) {
    prepare();
    struct itimerspec when = {.it_value = {(time_t)(due_ns / 1000000000u), (long)(due_ns % 1000000000u)}};
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void end(struct client *client, const char *why) {
    if (!client->stalled)
        die("%s client %u was ended by the server: %s", client->format->name, client->number, why);
    client->ended = true;
    epoll_ctl(poll_fd, EPOLL_CTL_DEL, client->fd, NULL);
    close(client->fd);
    loop_ended++;
    loop_ended_at = now_ns();
}

static void write_some(struct client *client) {
    while (client->sent < client->out.len) {
        ssize_t count = send(client->fd, client->out.data + client->sent, client->out.len - client->sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            break;
        if (count < 0) {
            end(client, strerror(errno));
            return;
        }
        client->sent += (size_t)count;
    }
    bool waits = client->sent < client->out.len;
    if (waits != client->waits_for_room)
        watch(client, waits ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
    client->waits_for_room = waits;
    if (!waits)
        client->out.len = client->sent = 0;
}

static void send_datagram(struct client *client) {
    /* What the system does not take is as lost as any other datagram, and is counted as that. */
    (void)!send(client->fd, client->out.data, client->out.len, 0);
    client->out.len = 0;
}

void loop_send(struct client *client) {
    if (client->format->datagrams) {
        send_datagram(client);
        return;
    }
    if (client->dirty)
        return;
    client->dirty = true;
    if (dirty_count == dirty_room) {
        size_t room = dirty_room ? 2 * dirty_room : 256;
        struct client **more = allocate(room, sizeof *more);
        if (dirty_count)
            memcpy(more, dirty, dirty_count * sizeof *more);
        dirty = more;
        dirty_room = room;
    }
    dirty[dirty_count++] = client;
}

static void read_stream(struct client *client) {
    input.len = 0;
    bytes_add(&input, client->rest.data, client->rest.len);
    uint8_t *to = bytes_grow(&input, READ_SIZE);
    ssize_t count = recv(client->fd, to, READ_SIZE, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count <= 0) {
        end(client, count ? strerror(errno) : "end of stream");
        return;
    }
    loop_read_at = now_ns();
    size_t have = client->rest.len + (size_t)count;
    size_t taken = client->format->parse(client, input.data, have);
    if (taken == PROTOCOL_ERROR)
        die("the server does not speak %s: %.*s", client->format->name, (int)(have < 300 ? have : 300), input.data);
    client->rest.len = 0;
    bytes_add(&client->rest, input.data + taken, have - taken);
}

static void read_datagrams(struct client *client) {
    input.len = 0;
    uint8_t *to = bytes_grow(&input, READ_SIZE);
    for (int turn = 0; turn < DATAGRAMS_A_TURN; turn++) {
        ssize_t count = recv(client->fd, to, READ_SIZE, 0);
        if (count < 0)
            return;
        loop_read_at = now_ns();
        client->format->parse(client, to, (size_t)count);
    }
}

static void serve(struct client *client, uint32_t events) {
    if (!client) {
        uint64_t expirations;
        (void)!read(timer_fd, &expirations, sizeof expirations);
        return;
    }
    if (client->ended)
        return;
    if (client->stalled) {
        end(client, "stalled");
        return;
    }
    if (events & EPOLLOUT)
        write_some(client);
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        if (client->format->datagrams)
            read_datagrams(client);
        else
            read_stream(client);
    }
}

void loop_run_once(int timeout_ms) {
    struct epoll_event events[EVENTS];
    for (size_t index = 0; index < dirty_count; index++) {
        dirty[index]->dirty = false;
        write_some(dirty[index]);
    }
    dirty_count = 0;
    int count = epoll_wait(poll_fd, events, EVENTS, timeout_ms);
    if (count < 0 && errno != EINTR)
        die("epoll_wait: %s", strerror(errno));
    for (int index = 0; index < count; index++)
        serve(events[index].data.ptr, events[index].events);
}
