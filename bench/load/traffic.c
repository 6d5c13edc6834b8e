/* What is published, and what comes of it. A closed loop keeps a number of publications in flight: each is replaced when
 * everybody has it who is to have it. An open loop publishes when it is time to, whatever has come of the others. */
#include "load.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct slot {
    uint64_t sequence, sent_at;
    unsigned remaining; /* deliveries */
};

struct publisher {
    struct client *client;
    uint64_t next, oldest;
    struct slot *slots;
};

struct totals totals;
bool measuring;

static struct publisher *publishers;
static struct client *clients;
static size_t publisher_count, client_count;
static unsigned fanout[MAX_CLASSES], window, shapes, turn;
static size_t sizes[MAX_SHAPES];
static uint64_t slot_mask, interval, due, give_up;
static char run_id[17];

static bool publishes(enum role role) { return role == PUBLISHER || role == REQUESTER; }

static unsigned class_of(uint64_t sequence) { return plan.classes == 1 ? 0 : (unsigned)(sequence % plan.classes); }

static void share_tallies(void) {
    struct tally *providers = tally_new(publisher_count);
    for (size_t index = 0; index < client_count; index++) {
        struct client *client = &clients[index];
        if (client->role == PROVIDER)
            client->tallies = providers;
        else if (client->role == SUBSCRIBER || client->role == REQUESTER)
            client->tallies = tally_new(publisher_count);
        else
            continue;
        for (unsigned class = 0; client->role == SUBSCRIBER && class < plan.classes; class++)
            fanout[class] += client->interest >> class & 1;
    }
}

static struct template *make_templates(struct client *client) {
    struct template *made = allocate(shapes, sizeof *made);
    for (unsigned shape = 0; shape < shapes; shape++) {
        made[shape].payload = sizes[shape];
        client->format->shape(client, shape, &made[shape]);
    }
    return made;
}

void traffic_start(struct client *all, size_t count, unsigned in_flight, double rate, double seconds) {
    clients = all;
    client_count = count;
    window = in_flight;
    give_up = (uint64_t)(seconds * 1e9);
    interval = rate > 0 ? (uint64_t)(1e9 / rate) : 0;
    shapes = template_count(&plan);
    uint64_t span = 64;
    while (span < 4 * (uint64_t)window || (double)span < 2 * rate * seconds)
        span *= 2;
    tally_set_span(span);
    slot_mask = span - 1;
    sprintf(run_id, "%08x", (unsigned)(time(NULL) * 2654435761u ^ (unsigned)getpid()));
    for (unsigned shape = 0; shape < shapes; shape++)
        sizes[shape] = template_payload(&plan, shape);
    publishers = allocate(count, sizeof *publishers);
    for (size_t index = 0; index < count; index++)
        if (publishes(all[index].role)) {
            bool alike = publisher_count && all[index].role == PUBLISHER && publishers[0].client->role == PUBLISHER &&
                         publishers[0].client->format == all[index].format;
            all[index].number = (unsigned)publisher_count;
            all[index].templates = alike ? publishers[0].client->templates : make_templates(&all[index]);
            publishers[publisher_count].client = &all[index];
            publishers[publisher_count++].slots = allocate(span, sizeof(struct slot));
        }
    share_tallies();
}

static void send_out(struct client *client, uint64_t word, uint64_t time) {
    unsigned shape = (unsigned)((word & SEQUENCE_MASK) % shapes);
    struct publication publication = {word, time, shape};
    template_apply(&client->out, &client->templates[shape], &publication, run_id, client->format->base64);
    loop_send(client);
}

static bool reached(const struct client *client) {
    if (client->role == REQUESTER)
        return client->tallies[client->number].probed;
    for (size_t index = 0; client->role == SUBSCRIBER && index < publisher_count; index++)
        if (!client->tallies[index].probed)
            return false;
    return true;
}

bool traffic_probe(void) {
    static uint64_t round;
    bool everybody = true;
    for (size_t index = 0; index < client_count; index++) {
        struct client *client = &clients[index];
        if (client->fd && !reached(client)) {
            everybody = false;
            /* Nobody answers to that, and it may have been lost. */
            if (client->format->datagrams)
                client->format->open(client);
        }
    }
    for (size_t index = 0; !everybody && index < publisher_count; index++)
        for (unsigned class = 0; publishers[index].client->confirmed && class < plan.classes; class++)
            send_out(publishers[index].client, (uint64_t)index << 48 | PROBE | (round * shapes + class), now_ns());
    round++;
    return everybody;
}

static void publish(struct publisher *publisher, uint64_t time) {
    uint64_t sequence = publisher->next++;
    unsigned deliveries = publisher->client->role == REQUESTER ? 2 : fanout[class_of(sequence)];
    publisher->slots[sequence & slot_mask] = (struct slot){sequence, time, deliveries};
    totals.publications++;
    totals.in_flight += deliveries > 0;
    send_out(publisher->client, (uint64_t)(publisher - publishers) << 48 | sequence, time);
}

static struct publisher *next_publisher(void) {
    for (size_t tried = 0; tried < publisher_count; tried++) {
        struct publisher *publisher = &publishers[turn++ % publisher_count];
        while (publisher->oldest < publisher->next && !publisher->slots[publisher->oldest & slot_mask].remaining)
            publisher->oldest++;
        if (publisher->next - publisher->oldest <= slot_mask)
            return publisher;
    }
    return NULL;
}

void traffic_publish(uint64_t now) {
    struct publisher *publisher;
    if (!interval) {
        while (totals.in_flight < window && (publisher = next_publisher()))
            publish(publisher, now_ns());
        return;
    }
    if (!due)
        due = now + interval;
    for (; due <= now && (publisher = next_publisher()); due += interval)
        publish(publisher, due);
    loop_timer(due);
}

void traffic_expire(uint64_t now) {
    for (size_t index = 0; index < publisher_count; index++)
        for (struct publisher *each = &publishers[index]; each->oldest < each->next; each->oldest++) {
            struct slot *slot = &each->slots[each->oldest & slot_mask];
            if (slot->remaining && now - slot->sent_at < give_up)
                break;
            if (slot->remaining) {
                totals.abandoned++;
                totals.in_flight--;
                slot->remaining = 0;
            }
        }
}

static uint64_t wanted(const struct client *client, const struct publisher *publisher) {
    uint64_t count = 0;
    for (unsigned class = 0; class < plan.classes; class++)
        if (client->interest >> class & 1)
            count += (publisher->next + plan.classes - 1 - class) / plan.classes;
    return count;
}

uint64_t traffic_lost(void) {
    uint64_t lost = 0;
    const struct tally *counted = NULL;
    for (size_t index = 0; index < client_count; index++) {
        const struct client *client = &clients[index];
        if (!client->tallies || client->tallies == counted)
            continue;
        if (client->role == PROVIDER)
            counted = client->tallies;
        for (size_t each = 0; each < publisher_count; each++)
            if (client->role != REQUESTER || client->number == each)
                lost += wanted(client, &publishers[each]) - client->tallies[each].received;
    }
    return lost;
}

static void deliver(struct client *client, uint64_t word, uint64_t sent_at) {
    struct publisher *publisher = &publishers[word >> 48];
    enum verdict verdict = tally_take(&client->tallies[word >> 48], word & SEQUENCE_MASK);
    if (verdict == DUPLICATE) {
        totals.duplicates++;
        return;
    }
    /* Requests are spread over connections, so neither they nor the replies have an order. */
    totals.disordered += verdict == LATE && client->role == SUBSCRIBER;
    totals.deliveries++;
    if (measuring && client->role != PROVIDER)
        histogram_add(loop_read_at - sent_at);
    struct slot *slot = &publisher->slots[word & slot_mask];
    if (slot->sequence == (word & SEQUENCE_MASK) && slot->remaining && !--slot->remaining)
        totals.in_flight--;
}

void traffic_take(struct client *client, const uint8_t *payload, size_t len) {
    uint64_t word, sent_at, last;
    if (len < MIN_PAYLOAD || !client->tallies) {
        totals.other++;
        return;
    }
    memcpy(&word, payload, 8);
    memcpy(&sent_at, payload + 8, 8);
    memcpy(&last, payload + len - 8, 8);
    uint64_t sequence = word & SEQUENCE_MASK;
    if (word >> 48 >= publisher_count || len != sizes[sequence % shapes] || (len >= MIN_PAYLOAD + 8 && last != word))
        totals.corrupt++;
    else if (word & PROBE)
        client->tallies[word >> 48].probed = true;
    else if (sequence >= publishers[word >> 48].next)
        totals.corrupt++;
    else if (!(client->interest >> class_of(sequence) & 1) ||
             (client->role == REQUESTER && client->number != word >> 48))
        totals.stray++;
    else
        deliver(client, word, sent_at);
}

void traffic_request(struct client *provider, struct span id, struct span to, const uint8_t *payload, size_t len) {
    traffic_take(provider, payload, len);
    if (provider->role != PROVIDER)
        return;
    provider->format->reply(provider, id, to, payload, len);
    loop_send(provider);
}

void traffic_changed(struct client *client) {
    totals.deliveries++;
    if (measuring)
        histogram_add(loop_read_at - client->asked_at);
    client->changes++;
    client->asked_at = now_ns();
    client->format->churn(client);
    loop_send(client);
}
