/* What the parts of the load generator share. main.c says what it is for.
 *
 * Every payload that is published says what it is, so that each delivery can be held against what was sent:
 *
 *   offset  size  field (little-endian)
 *   0       8     bits 0-46: sequence number of its publisher; bit 47: a probe; bits 48-63: number of the publisher
 *   8       8     when it was published, or was due, in nanoseconds of CLOCK_MONOTONIC
 *   16      ...   filler
 *   size-8  8     the first 8 bytes again, in payloads of 24 bytes and more
 */
#ifndef LOAD_H
#define LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIN_PAYLOAD 16
#define MAX_CLASSES 64
#define SEQUENCE_BITS 47
#define PROBE (1ULL << SEQUENCE_BITS)
#define SEQUENCE_MASK (PROBE - 1)
#define MAX_SHAPES 64
#define PROTOCOL_ERROR SIZE_MAX
#define SERVICE "bench"

/* ---- bytes.c: buffers that grow, and the end of the program */

struct bytes {
    uint8_t *data;
    size_t len, room;
};

void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void *allocate(size_t count, size_t size);
uint8_t *bytes_grow(struct bytes *bytes, size_t more); /* :returns: where the new bytes go */
void bytes_add(struct bytes *bytes, const void *data, size_t len);
void bytes_print(struct bytes *bytes, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t now_ns(void);

/* ---- histogram.c: latencies in nanoseconds, to 1.6 percent */

void histogram_add(uint64_t ns);
uint64_t histogram_count(void);
uint64_t histogram_percentile(double share);
uint64_t histogram_max(void);

/* ---- tally.c: what one receiver got of one publisher */

enum verdict { FRESH, LATE, DUPLICATE };

struct tally {
    uint64_t next; /* above the highest that came */
    uint64_t received;
    uint64_t *seen; /* a ring of bits, of what lies at most `tally_span` below `next` */
    bool probed;
};

void tally_set_span(uint64_t publications); /* a power of 2, at least 64 */
struct tally *tally_new(size_t count);
enum verdict tally_take(struct tally *tally, uint64_t sequence);

/* ---- json.c: just enough to read what servers say */

struct span {
    const char *at;
    size_t len;
};

bool json_member(const char *json, size_t len, const char *key, struct span *value);
bool json_is(struct span value, const char *text);
struct span json_first(struct span array);
size_t base64_encode(const uint8_t *from, size_t len, char *to);
size_t base64_decode(const char *from, size_t len, uint8_t *to);

/* ---- templates.c: publications of all sizes and content types, made beforehand */

struct template {
    struct bytes head; /* what stands before the payload */
    size_t id_at;      /* where in it 24 hexadecimal digits go that nothing else has; 0: nowhere */
    size_t payload;    /* bytes */
    const char *tail;
};

struct plan {
    unsigned classes;
    size_t payload;
    size_t metadata_min, metadata_max; /* bytes of an object's metadata */
    size_t extra_min, extra_max;       /* bytes that are added to the payload */
    bool ids;                          /* whether objects have an `id`; otherwise they are shorter by that */
};

struct publication {
    uint64_t word; /* the first 8 bytes */
    uint64_t time;
    unsigned shape; /* of which template */
};

unsigned template_count(const struct plan *plan);
size_t template_metadata(const struct plan *plan, unsigned shape);
size_t template_payload(const struct plan *plan, unsigned shape);
const char *template_type(const struct plan *plan, unsigned shape, char *room);
size_t metadata_write(struct bytes *out, const char *begin, const char *type, size_t payload, size_t size);
void template_apply(struct bytes *out, const struct template *template, const struct publication *publication,
                    const char *id, bool base64);

/* ---- clients */

enum role { PUBLISHER, SUBSCRIBER, STALLED, REQUESTER, PROVIDER, IDLE, CHURNER, ROLES };

struct client;

/* A wire format, as clients speak it. */
struct format {
    const char *name;
    bool datagrams;
    bool base64; /* payloads are text */
    bool service; /* what is published is that of a service */
    void (*open)(struct client *client);
    void (*leave)(struct client *client); /* NULL: the end of its connection says it */
    /* :returns: how many bytes were taken; the rest is given again with more behind it */
    size_t (*parse)(struct client *client, const uint8_t *data, size_t len);
    void (*shape)(const struct client *client, unsigned shape, struct template *template);
    void (*reply)(struct client *provider, struct span id, struct span to, const uint8_t *payload, size_t len);
    void (*churn)(struct client *client);
};

struct client {
    const struct format *format;
    enum role role;
    int fd;
    unsigned port;
    unsigned number; /* among those of its role */
    uint64_t interest; /* a bit for each class */
    struct bytes out, rest;
    size_t sent;      /* of `out` */
    unsigned awaited; /* answers until it is ready */
    bool confirmed, stalled, ended, waits_for_room, dirty;
    struct tally *tallies; /* one for each publisher */
    struct template *templates;
    uint64_t changes, asked_at; /* of a churner */
};

extern const struct format OBJECTS, OBJECTS_SERVICE, BUSINESS, SPP, INBUS, INBUS_2, MQTT, MQTT_CONFIRMED, NATS, REDIS;
extern struct plan plan;

/* ---- loop.c: connections */

void loop_add(struct client *client, unsigned port);
void loop_send(struct client *client); /* at the end of this turn, what is in `out` */
void loop_confirm(struct client *client);
void loop_run_once(int timeout_ms);
void loop_timer(uint64_t due_ns);      /* wake up then */
void loop_stall(struct client *client); /* read no more of it */
unsigned loop_unconfirmed(void);
extern uint64_t loop_read_at; /* when what is parsed now was read, in nanoseconds */
extern unsigned loop_ended;   /* how many that are stalled the server has ended */
extern uint64_t loop_ended_at;

/* ---- traffic.c: what is published, and what comes of it */

struct totals {
    uint64_t publications, deliveries, duplicates, disordered, stray, corrupt, other, abandoned, in_flight;
};

extern struct totals totals;
extern bool measuring;

void traffic_start(struct client *clients, size_t count, unsigned window, double rate, double give_up);
bool traffic_probe(void); /* :returns: whether everybody was reached by everybody */
void traffic_publish(uint64_t now); /* what is due */
void traffic_expire(uint64_t now);
uint64_t traffic_lost(void);
void traffic_take(struct client *client, const uint8_t *payload, size_t len);
void traffic_request(struct client *provider, struct span id, struct span to, const uint8_t *payload, size_t len);
void traffic_changed(struct client *client); /* a churner was answered */

#endif
