/* A load generator for message servers on this machine.
 *
 *     load [OPTION=VALUE]... ROLE:FORMAT:PORT:COUNT[:CLASSES]...
 *
 * ROLE is who these clients are: pub, sub, stalled (subscribes, then reads no more), req and prov (requesters and those who
 * reply), idle, churn (registers a service and unregisters it, again and again). CLASSES is what a subscriber wants, as bits
 * in hexadecimal; publications belong to each of `classes` classes in turn.
 *
 * Everybody connects; then probes are published until everybody got one from everybody; then publications are
 * measured, and at last what is in flight is waited for. The result is one JSON object on standard output. With idle
 * clients "ready" is written to it instead, and the end of standard input is waited for.
 *
 * The exit status is 0 however much was lost: that is for the reader to judge. It is 1 if a server refuses, ends a
 * connection that is not stalled, or is not ready in time.
 */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_SERVERS 8
#define CONNECTING 32u /* at a time: fewer than any server's backlog holds */
#define PROBE_EVERY 50000000u
#define EXPIRE_EVERY 10000000u
#define LATE_DUPLICATES 50000000u

struct options {
    double seconds, warmup, rate, give_up, patience;
    unsigned window;
    int servers[MAX_SERVERS];
    unsigned server_count;
};

struct plan plan = {.classes = 1, .payload = 16, .metadata_min = 100, .metadata_max = 100, .ids = true};

static const struct format *FORMATS[] = {&OBJECTS, &OBJECTS_SERVICE, &BUSINESS, &SPP, &INBUS, &INBUS_2, &MQTT, &MQTT_CONFIRMED, &NATS, &REDIS};
static const char *ROLE_NAMES[ROLES] = {"pub", "sub", "stalled", "req", "prov", "idle", "churn"};

static struct options options = {.seconds = 2, .warmup = 0.3, .give_up = 2, .patience = 60, .window = 1000};
static struct client *clients;
static size_t client_count, role_counts[ROLES];

static void read_range(const char *value, size_t *least, size_t *most) {
    if (sscanf(value, "%zu:%zu", least, most) != 2)
        die("%s is no range such as 100:2048", value);
}

static bool is(const char *argument, size_t len, const char *name) {
    return strlen(name) == len && !memcmp(argument, name, len);
}

static void read_option(const char *argument) {
    size_t len = strcspn(argument, "=");
    const char *value = argument + len + 1;
    if (is(argument, len, "seconds"))
        options.seconds = atof(value);
    else if (is(argument, len, "warmup"))
        options.warmup = atof(value);
    else if (is(argument, len, "rate"))
        options.rate = atof(value);
    else if (is(argument, len, "give-up"))
        options.give_up = atof(value);
    else if (is(argument, len, "patience"))
        options.patience = atof(value);
    else if (is(argument, len, "window"))
        options.window = (unsigned)atoi(value);
    else if (is(argument, len, "classes"))
        plan.classes = (unsigned)atoi(value);
    else if (is(argument, len, "payload"))
        plan.payload = (size_t)atol(value);
    else if (is(argument, len, "metadata"))
        read_range(value, &plan.metadata_min, &plan.metadata_max);
    else if (is(argument, len, "extra"))
        read_range(value, &plan.extra_min, &plan.extra_max);
    else if (is(argument, len, "ids"))
        plan.ids = atoi(value) != 0;
    else if (is(argument, len, "pid") && options.server_count < MAX_SERVERS)
        options.servers[options.server_count++] = atoi(value);
    else
        die("unknown option %s", argument);
}

static enum role read_role(const char *name) {
    for (int role = 0; role < ROLES; role++)
        if (!strcmp(name, ROLE_NAMES[role]))
            return (enum role)role;
    die("unknown role %s", name);
}

static const struct format *read_format(const char *name) {
    for (size_t index = 0; index < sizeof FORMATS / sizeof *FORMATS; index++)
        if (!strcmp(name, FORMATS[index]->name))
            return FORMATS[index];
    die("unknown format %s", name);
}

static void read_party(const char *argument) {
    char role[16], format[32];
    unsigned port, count;
    unsigned long long interest = ~0ULL;
    if (sscanf(argument, "%15[a-z]:%31[a-z0-9-]:%u:%u:%llx", role, format, &port, &count, &interest) < 4)
        die("%s is no ROLE:FORMAT:PORT:COUNT[:CLASSES]", argument);
    struct client *more = allocate(client_count + count, sizeof *more);
    if (client_count)
        memcpy(more, clients, client_count * sizeof *more);
    free(clients);
    clients = more;
    for (unsigned index = 0; index < count; index++) {
        struct client *client = &clients[client_count++];
        client->role = read_role(role);
        client->format = read_format(format);
        client->port = port;
        client->interest = interest;
        client->number = (unsigned)role_counts[client->role]++;
    }
}

static void read_command_line(int count, char **arguments) {
    for (int index = 1; index < count; index++)
        if (strchr(arguments[index], '='))
            read_option(arguments[index]);
        else
            read_party(arguments[index]);
    if (!client_count || !options.window || plan.payload < MIN_PAYLOAD || plan.payload + plan.extra_max > 49152 ||
        !plan.classes || plan.classes > MAX_CLASSES || options.seconds <= 0)
        die("see main.c for what to say");
    if (!plan.ids && role_counts[REQUESTER])
        die("requests need ids: leave out ids=0");
}

static void raise_limit(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < client_count + 16)
        die("%zu connections are more than the %llu files allowed", client_count, (unsigned long long)limit.rlim_cur);
}

/* Seconds of CPU that a server used, of all its threads. /proc/PID/stat says it in steps of 10 ms only. */
static double server_cpu(int server) {
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(server, &clock) || clock_gettime(clock, &used))
        die("process %d is gone", server);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static double own_cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* One turn of the loop, and probes when they are due. :returns: whether everybody is ready */
static bool prepare_turn(void) {
    static uint64_t probed_at;
    bool reached = false;
    loop_run_once(10);
    if (now_ns() - probed_at > PROBE_EVERY) {
        reached = traffic_probe();
        probed_at = now_ns();
    }
    return reached && !loop_unconfirmed();
}

static void make_ready(void) {
    uint64_t deadline = now_ns() + (uint64_t)(options.patience * 1e9);
    for (size_t index = 0; index < client_count; index++) {
        loop_add(&clients[index], clients[index].port);
        while (loop_unconfirmed() >= CONNECTING && now_ns() < deadline)
            prepare_turn();
    }
    while (!prepare_turn())
        if (now_ns() > deadline)
            die("not ready in time: %u clients are not confirmed", loop_unconfirmed());
    for (size_t index = 0; index < client_count; index++)
        if (clients[index].role == STALLED)
            loop_stall(&clients[index]);
}

static void run_until(uint64_t end, bool publishing) {
    static uint64_t expired_at;
    for (uint64_t now; (now = now_ns()) < end && (publishing || totals.in_flight);) {
        if (publishing)
            traffic_publish(now);
        if (now - expired_at > EXPIRE_EVERY) {
            traffic_expire(now_ns());
            expired_at = now;
        }
        loop_run_once(10);
    }
}

static void start_churning(void) {
    for (size_t index = 0; index < client_count; index++)
        if (clients[index].role == CHURNER) {
            clients[index].asked_at = now_ns();
            clients[index].format->churn(&clients[index]);
            loop_send(&clients[index]);
        }
}

struct mark {
    double own, servers[MAX_SERVERS];
    uint64_t time, deliveries, publications;
};

static struct mark mark(void) {
    struct mark made = {.own = own_cpu(), .deliveries = totals.deliveries, .publications = totals.publications};
    for (unsigned index = 0; index < options.server_count; index++)
        made.servers[index] = server_cpu(options.servers[index]);
    made.time = now_ns();
    return made;
}

static void print_result(const struct mark *from, const struct mark *to, double ready) {
    double seconds = (double)(to->time - from->time) / 1e9, servers = 0, busiest = 0;
    for (unsigned index = 0; index < options.server_count; index++) {
        double used = to->servers[index] - from->servers[index];
        servers += used;
        busiest = used > busiest ? used : busiest;
    }
    printf("{\"seconds\": %.6f, \"deliveries\": %llu, \"publications\": %llu, \"own_cpu\": %.6f, \"server_cpu\": %.6f"
           ", \"busiest_cpu\": %.6f",
           seconds, (unsigned long long)(to->deliveries - from->deliveries),
           (unsigned long long)(to->publications - from->publications), to->own - from->own, servers, busiest);
    printf(", \"latencies\": %llu, \"p50\": %.9f, \"p99\": %.9f, \"max\": %.9f", (unsigned long long)histogram_count(),
           (double)histogram_percentile(0.5) / 1e9, (double)histogram_percentile(0.99) / 1e9,
           (double)histogram_max() / 1e9);
    printf(", \"all_deliveries\": %llu, \"all_publications\": %llu, \"lost\": %llu, \"duplicates\": %llu"
           ", \"disordered\": %llu, \"stray\": %llu, \"corrupt\": %llu, \"abandoned\": %llu, \"other\": %llu",
           (unsigned long long)totals.deliveries, (unsigned long long)totals.publications,
           (unsigned long long)traffic_lost(), (unsigned long long)totals.duplicates,
           (unsigned long long)totals.disordered, (unsigned long long)totals.stray, (unsigned long long)totals.corrupt,
           (unsigned long long)totals.abandoned, (unsigned long long)totals.other);
    printf(", \"ready\": %.3f, \"ended\": %u", ready, loop_ended);
    if (loop_ended)
        printf(", \"ended_after\": %.3f", ((double)loop_ended_at - (double)from->time) / 1e9);
    puts("}");
}

static void measure(double ready) {
    uint64_t start = now_ns();
    start_churning();
    run_until(start + (uint64_t)(options.warmup * 1e9), true);
    struct mark from = mark();
    measuring = true;
    run_until(from.time + (uint64_t)(options.seconds * 1e9), true);
    measuring = false;
    struct mark to = mark();
    run_until(now_ns() + (uint64_t)((options.give_up + 1) * 1e9), false);
    for (uint64_t end = now_ns() + LATE_DUPLICATES; now_ns() < end;)
        loop_run_once(10);
    for (size_t index = 0; index < client_count; index++)
        if (clients[index].format->leave)
            clients[index].format->leave(&clients[index]);
    print_result(&from, &to, ready);
}

int main(int count, char **arguments) {
    read_command_line(count, arguments);
    raise_limit();
    traffic_start(clients, client_count, options.window, options.rate, options.give_up);
    uint64_t start = now_ns();
    make_ready();
    double ready = (double)(now_ns() - start) / 1e9;
    if (!role_counts[IDLE]) {
        measure(ready);
        return 0;
    }
    printf("ready %.6f\n", ready);
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    return 0;
}
