// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs the qdisc's own source as an ordinary program, with a clock of its own:
 * the schedulers can be tested on any machine, thousands of links a minute,
 * without a kernel that has BPF qdiscs.
 *
 * What the kernel gives a BPF qdisc is played here in its place: maps are
 * arrays, bpf_loop is a loop, the watchdog is an entry in a calendar. As in the
 * kernel, an enqueue is followed by dequeues until one returns nothing, and so
 * is a watchdog. The device behind takes every packet at once.
 *
 * Traffic comes from sources; source ID is flow ID / 4096 of class ID % 4096, which
 * makes both its hash and its queue:
 *   greedy  keeps `window` packets on their way: each one that leaves is
 *           followed by a new one `delay` ns later, as an acknowledgement would
 *           cause it
 *   cbr     one packet every `interval` ns, whatever happens
 *   acks    the same of ACKs of one connection, each of which acknowledges more
 *   client  a greedy one with a window of 1, whose flow is a new one after every
 *           `packets` of them, as that of a connection for each request
 *   request as netperf's TCP_CRR: a flow of its own for each request, of six packets: one
 *           opens the connection; `delay` after it has left the second and third ask, and
 *           `delay` after those have left the answer is there, of which the last three and
 *           the next request's first tell
 *   tcp     keeps `window` packets on their way, of which it hears `delay` after they have left
 *           or were lost: slow start, one more each round trip, 0.7 times as many after a loss
 *           or, once in a round trip, a mark. SAYS: 0 = its packets cannot be marked, 1 = they
 *           can, 2 = they can and it ignores marks, 3 = as DCTCP (RFC 8257)
 *   packet  one packet, at a time; those of a source have one length
 *
 * It reads commands, one a line, from standard input, all of them numbers in the
 * kernel side's units (internal/host/dataplane/bpf/sim_test.go writes them):
 *   link LINK_COST BATCH QUANTUM BULK_BATCH BULK_QUANTUM SHARE_SHIFT TOTAL_CREDIT LIMIT_BYTES OVERHEAD LEAST CELLS FROM_IP FRAMED
 *   class ID SHARE_COST FLOOR_COST CEIL_COST WEIGHT MIN_CREDIT MAX_CREDIT LIMIT_BYTES LIMIT_PACKETS INTERVAL BURST
 *   group ID IS_GROUP PARENT
 *   queues ID DISCIPLINE QUEUES OTHER POLICE_COST POLICE_BURST TARGET INTERVAL CE_ABOVE ACK_FILTER (COST LIMIT PEERS INTERVAL RESERVE) x 8
 *   greedy ID LEN WINDOW DELAY
 *   cbr ID LEN INTERVAL
 *   acks ID INTERVAL
 *   client ID LEN DELAY PACKETS
 *   request ID DELAY
 *   tcp ID LEN DELAY SAYS
 *   packet ID LEN AT
 *   marks ON
 *   hosts N
 *   later ID NS
 *   tardy NS
 *   delays KEY
 *   waits ID
 *   charge PKT_LEN LEN GSO_SIZE GSO_SEGS TAGGED IP_AT HEADERS
 *   off ID
 *   trace ON
 *   run NS
 * and answers each `run` with a line per source that sent or sends
 *   class ID sent BYTES dropped PACKETS waiting PACKETS longest NS marked PACKETS
 * (the counts of this run; waiting = in the whole class; longest = longest time
 * that a packet waited; marked = left with CE; unless `marks` says 0 the program
 * that marks is before the qdisc) and
 *   total sent BYTES timers N most_ahead NS
 * (most_ahead = how far the sum ever ran ahead of a line of the link's rate). While
 * ON is not 0 there is a line for each packet that leaves, of which BORN is when it
 * came:
 *   left ID AT LENGTH BORN
 * and one for each request that has been answered, NS after its first packet came:
 *   answer ID NS
 * Packets of a source ask to leave `later` than they come. Timers fire `tardy` ns after their
 * time. `delays` prints what the kernel side has counted of a class, or of a queue with
 * WEIR_MAX_CLASSES added to its number, a line for each bin that is not empty:
 *   delay KEY BIN PACKETS
 * `waits` prints for how long packets of a class have waited, and what it sent meanwhile:
 *   waits ID NS BYTES
 * `charge` answers what a packet is charged that is made of so many bytes:
 *   charged BYTES
 * It exits with 1 if the counters of a class do not add up.
 *
 * Not played: instruction counts, several CPUs, real TCP. The lab does that. Nor
 * local sockets, for which TestPacketsOfSockets is.
 */
#include "host.h"

/* The loader's constant; a variable here. */
#define const
#define volatile
#include "../qdisc.bpf.c"
#undef const
#undef volatile

#include "maps.h"

static void *sim_shared(void *map, __u32 key)
{
	return NULL;
}

/* ---- the link, its traffic and its clock ---- */

enum { OFF, GREEDY, CBR, TCP, PACKET };
enum { NOT_ECT, ECT, ECT_DEAF, ECT_DCTCP };
enum { ARRIVES, ACKED, ACKED_CE, LOST };

struct source {
	int kind;
	__u32 len;
	__u64 gap; /* greedy: delay; cbr: interval */
	__u32 packets; /* of each of a client's flows; 0 = it is none */
	__u32 came; /* packets of a client, or ACKs, so far */
	bool asks; /* it is a request's */
	bool acks; /* its packets are the ACKs of one connection */
	__u64 later; /* ns after it has come that a packet asks to leave */
	int says; /* tcp: NOT_ECT and so on */
	double window, threshold,
		alpha; /* tcp: packets; slow start ends; dctcp: how many are marked */
	__u32 flying;
	__u64 round; /* tcp: no second reduction before this */
	__u32 round_acked, round_marked;
	__u64 asked; /* when the first packet of the present request came */
	__u64 epoch; /* arrivals planned before the last change are void */
	__u64 sent, dropped, longest, marked;
	__u64 last_sent, last_dropped;
};

struct event {
	__u64 at, order;
	__u32 id;
	int what; /* ARRIVES and so on */
	__u64 epoch;
};

#define SOURCES (WEIR_MAX_CLASSES * 256)

static struct source sources[SOURCES];
static __u32 source_end; /* none at or above this one was ever used */
static struct event *heap;
static size_t events, room;
static __u64 order;
static struct Qdisc sch;
static __u64 total_sent, ahead_of, most_ahead;
static bool trace, proxy = true;
static __u32 hosts = 1; /* flows of a host, which have one hash */

static bool earlier(struct event *a, struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void plan_what(__u64 at, __u32 id, int what)
{
	size_t i = events++;

	if (events > room) {
		room = room ? 2 * room : 1024;
		heap = realloc(heap, room * sizeof(*heap));
	}
	struct event e = {at, order++, id, what, sources[id].epoch};
	while (i && earlier(&e, &heap[(i - 1) / 2])) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = e;
}

static void plan(__u64 at, __u32 id)
{
	plan_what(at, id, ARRIVES);
}

static struct event next_event(void)
{
	struct event first = heap[0], e = heap[--events];
	size_t i = 0, c;

	while ((c = 2 * i + 1) < events) {
		if (c + 1 < events && earlier(&heap[c + 1], &heap[c]))
			c++;
		if (!earlier(&heap[c], &e))
			break;
		heap[i] = heap[c];
		i = c;
	}
	heap[i] = e;
	return first;
}

/* Bytes beyond what a line of the link's rate could have carried by now. */
static void line_carries(__u32 len)
{
	static __u64 busy_until;

	if (busy_until < now_ns)
		busy_until = now_ns;
	busy_until += span(len, link_now.link_cost);
	ahead_of = busy_until - now_ns;
	if (ahead_of > most_ahead)
		most_ahead = ahead_of;
}

static void sim_lost(struct sk_buff *skb)
{
	struct source *s = &sources[skb->source];

	if (s->kind == TCP) {
		s->dropped++;
		plan_what(now_ns + s->gap, skb->source, LOST);
	}
	free(skb);
}

static void drain(void)
{
	struct sk_buff *skb;

	while ((skb = weir_dequeue(&sch))) {
		__u32 id = skb->source;
		struct source *s = &sources[id];
		__u32 len = charged(skb);

		s->sent += len;
		total_sent += len;
		line_carries(len);
		if (now_ns - skb->born > s->longest)
			s->longest = now_ns - skb->born;
		if (trace)
			printf("left %u %llu %u %llu\n", id, now_ns, len, skb->born);
		s->marked += skb->ecn == 3;
		if (s->kind == TCP)
			plan_what(now_ns + s->gap, id, skb->ecn == 3 ? ACKED_CE : ACKED);
		if (s->kind == GREEDY && !(s->asks && skb->unheard))
			plan(now_ns + s->gap, id);
		free(skb);
	}
}

/* A hash of flow n as the kernel's: as if drawn by chance (MurmurHash3's last steps). */
static __u32 chance(__u32 n)
{
	n ^= n >> 16;
	n *= 0x85ebca6b;
	n ^= n >> 13;
	n *= 0xc2b2ae35;
	return n ^ n >> 16;
}

#define IPV4_TCP (ETHERNET_HEADER + 20) /* where TCP begins */
#define ACK_BYTES (IPV4_TCP + 32) /* of an ACK with time stamps */

/* A packet of source `id` becomes the n-th ACK of its connection. */
static void write_ack(struct sk_buff *skb, __u32 id, __u32 n)
{
	__u32 *words = (__u32 *)(skb->head + ETHERNET_HEADER);

	memset(skb->head, 0, ACK_BYTES);
	skb->protocol = bpf_htons(ETH_P_IP);
	skb->network_header = ETHERNET_HEADER;
	skb->tail = ACK_BYTES;
	words[0] = bpf_htonl(0x45000000 | (ACK_BYTES - ETHERNET_HEADER));
	words[2] = bpf_htonl(IPPROTO_TCP << 16);
	words[5] = bpf_htonl(id); /* ports */
	words[7] = bpf_htonl(n);
	words[8] = bpf_htonl(ACK_STAMPED << 16);
	words[10] = bpf_htonl(ACK_STAMP);
	words[11] = words[12] = bpf_htonl(n);
}

/* A packet of source `id`; nothing follows its leaving if it is `unheard`. */
static void arrive_one(__u32 id, bool unheard)
{
	struct source *s = &sources[id];
	struct sk_buff *skb = malloc(sizeof(*skb) + (s->acks ? ACK_BYTES : 0));
	struct bpf_sk_buff_ptr to_free;

	skb->unheard = unheard;
	skb->ecn = s->kind == TCP && s->says != NOT_ECT;
	skb->sk = NULL;
	skb->skb_iif = 2; /* as if from a container */
	skb->tc_index = 0;
	skb->tstamp = s->later ? now_ns + s->later : 0;
	skb->source = id;
	skb->hash = id / WEIR_MAX_CLASSES / hosts;
	if (s->packets)
		skb->hash += s->came++ / s->packets << 8;
	skb->hash = chance(skb->hash);
	skb->tc_index = weir_seal_of(id % WEIR_MAX_CLASSES |
				     (id / WEIR_MAX_CLASSES % WEIR_MAX_QUEUES) << WEIR_LANE_QUEUE);
	skb->pkt_len = skb->len = s->len;
	skb->info = (struct skb_shared_info){};
	skb->vlan_all = 0;
	skb->protocol = 0;
	skb->head = (unsigned char *)(skb + 1);
	skb->ip_at = ETHERNET_HEADER;
	skb->born = now_ns;
	if (s->acks)
		write_ack(skb, id, ++s->came);
	if (proxy)
		weir_mark_ce(skb);
	if (weir_enqueue(skb, &sch, &to_free) != NET_XMIT_SUCCESS && s->kind != TCP) {
		s->dropped++;
		if (s->kind == GREEDY && !unheard) /* try again later, like a retransmission */
			plan(now_ns + s->gap + 1000000, id);
	}
	if (s->kind == CBR)
		plan(now_ns + s->gap, id);
	drain();
}

/* The next packets of a request. */
static void ask(__u32 id)
{
	struct source *s = &sources[id];

	s->len = 66;
	if (s->came % s->packets == 1) {
		arrive_one(id, true);
		s->len = 266;
		arrive_one(id, false);
		return;
	}
	if (s->came) {
		if (trace)
			printf("answer %u %llu\n", id, now_ns - s->asked);
		for (int i = 0; i < 3; i++)
			arrive_one(id, true);
	}
	s->asked = now_ns;
	s->len = 74;
	arrive_one(id, false);
}

/* What becomes of a tcp's packet is known: its window changes, and more follow. */
static void heard(__u32 id, int what)
{
	struct source *s = &sources[id];

	s->flying--;
	s->round_acked++;
	s->round_marked += what == ACKED_CE;
	if (s->says == ECT_DCTCP && what != LOST) {
		if (now_ns >= s->round) {
			s->alpha += ((double)s->round_marked / s->round_acked - s->alpha) / 16;
			if (s->round_marked)
				s->threshold = s->window *= 1 - s->alpha / 2;
			s->round_acked = s->round_marked = 0;
			s->round = now_ns + s->gap;
		}
		s->window += what == ACKED_CE ? 0 : s->window < s->threshold ? 1 : 1 / s->window;
	} else if (what == LOST || (what == ACKED_CE && s->says == ECT)) {
		if (now_ns >= s->round) {
			s->threshold = s->window *= 0.7;
			s->round = now_ns + s->gap;
		}
	} else {
		s->window += s->window < s->threshold ? 1 : 1 / s->window;
	}
	if (s->window < 2)
		s->window = 2;
	while (s->flying + 1 <= s->window) {
		s->flying++;
		arrive_one(id, false);
	}
}

static void arrive(__u32 id)
{
	if (sources[id].asks)
		ask(id);
	else
		arrive_one(id, false);
}

/* Everything that came to class i was sent, dropped or waits. */
static void check(__u32 i)
{
	struct weir_class *c = &classes[i];
	__u64 drops = 0, sorted = 0, bytes = 0, in_turns = 0, hashed_packets = 0;

	for (int r = 0; r < WEIR_DROP_REASONS; r++)
		drops += c->drops[r];
	for (int q = 0; q < WEIR_MAX_QUEUES; q++) {
		struct weir_flow *f = &flows[i * WEIR_MAX_QUEUES + q];
		struct weir_queue_stats *n = &queue_stats[i * WEIR_MAX_QUEUES + q];
		__u64 lost = 0;

		for (int r = 0; r < WEIR_DROP_REASONS; r++)
			lost += n->drops[r];
		if (n->enqueued_packets !=
		    n->sent_packets + lost + f->qlen + sim_holds[i * WEIR_MAX_QUEUES + q].qlen) {
			fprintf(stderr, "class %u queue %d: counters do not add up\n", i, q);
			exit(1);
		}
		if (c->other_queue & WEIR_TURNS && turns_queue(c, i) == i * WEIR_MAX_QUEUES + q) {
			in_turns = f->qlen;
			continue; /* its packets are in hashed flows */
		}
		sorted += f->qlen;
		bytes += f->backlog;
	}
	for (int h = 0; h < WEIR_HASHED; h++) {
		__u16 at = hashed[i * WEIR_HASHED + h];

		if (at) {
			hashed_packets += stored(at - 1)->qlen;
			bytes += stored(at - 1)->backlog;
		}
	}
	if (c->other_queue & WEIR_TURNS && in_turns != hashed_packets) {
		fprintf(stderr,
			"class %u: the queue in which flows take turns counts %llu packets, they "
			"are %llu\n",
			i, in_turns, hashed_packets);
		exit(1);
	}
	sorted += hashed_packets;
	for (__u32 at = c->front.head, n = c->qlen - c->sorted; n && c->qlen > 1; n--) {
		bytes += packets[at - 1].len;
		at = packets[at - 1].next;
	}
	if (c->enqueued_packets != c->sent_packets + drops + c->qlen + c->held ||
	    c->sorted != sorted || (c->qlen != 1 && c->backlog != bytes)) {
		fprintf(stderr, "class %u: counters do not add up\n", i);
		exit(1);
	}
}

static void report(void)
{
	for (__u32 i = 0; i < WEIR_MAX_CLASSES; i++)
		if (classes[i].enqueued_packets)
			check(i);
	for (__u32 i = 0; i < source_end; i++) {
		struct source *s = &sources[i];

		if (s->kind != OFF || s->sent || s->dropped)
			printf("class %u sent %llu dropped %llu waiting %u longest %llu marked "
			       "%llu\n",
			       i, s->sent, s->dropped, classes[i % WEIR_MAX_CLASSES].qlen,
			       s->longest, s->marked);
		s->sent = s->dropped = s->longest = s->marked = 0;
	}
	printf("total sent %llu timers %llu most_ahead %llu\n", total_sent, timers, most_ahead);
	fflush(stdout);
	total_sent = timers = most_ahead = 0;
}

static void run(__u64 ns)
{
	__u64 end = now_ns + ns;

	for (;;) {
		__u64 at = end;
		bool timer = false;

		if (events && heap[0].at < at)
			at = heap[0].at;
		if (watchdog && watchdog < at) {
			at = watchdog;
			timer = true;
		}
		if (at >= end)
			break;
		if (at > now_ns)
			now_ns = at;
		if (timer) {
			watchdog = 0;
			drain();
			continue;
		}
		struct event e = next_event();
		if (e.epoch != sources[e.id].epoch)
			continue;
		if (e.what == ARRIVES)
			arrive(e.id);
		else
			heard(e.id, e.what);
	}
	now_ns = end;
	report();
}

static void restart(__u32 id, int kind, __u32 len, __u64 gap, __u32 window)
{
	struct source *s = &sources[id];

	if (id >= source_end)
		source_end = id + 1;
	s->epoch++;
	s->kind = kind;
	s->len = len;
	s->gap = gap;
	s->packets = 0;
	s->asks = s->acks = false;
	for (__u32 i = 0; i < window; i++)
		plan(now_ns + i, id);
}

int main(int argc, char **argv)
{
	char word[32];
	unsigned long long a[50];

#define ROW(number, name)                                                                          \
	if (argc > 1 && !strcmp(argv[1], #name))                                                   \
		scheduler = number;
	WEIR_SCHEDULERS(ROW)
#undef ROW
	weir_init(&sch, NULL, NULL);
	while (scanf("%31s", word) == 1) {
		int n = sim_arguments(word)	   ? sim_arguments(word)
			: !strcmp(word, "greedy")  ? 4
			: !strcmp(word, "cbr")	   ? 3
			: !strcmp(word, "acks")	   ? 2
			: !strcmp(word, "client")  ? 4
			: !strcmp(word, "request") ? 2
			: !strcmp(word, "packet")  ? 3
			: !strcmp(word, "later")   ? 2
			: !strcmp(word, "charge")  ? 7
			: !strcmp(word, "tcp")	   ? 4
						   : 1;

		for (int i = 0; i < n; i++)
			if (scanf("%lld", (long long *)&a[i]) != 1)
				return 2;
		if (sim_configure(word, a)) {
			continue;
		} else if (!strcmp(word, "charge")) {
			struct sk_buff skb = {.pkt_len = a[0],
					      .len = a[1],
					      .info = {a[2], a[3]},
					      .vlan_all = a[4],
					      .ip_at = a[5],
					      .headers = a[6]};

			take_changes();
			printf("charged %llu\n", (unsigned long long)charged(&skb));
		} else if (!strcmp(word, "greedy")) {
			restart(a[0], GREEDY, a[1], a[3], a[2]);
		} else if (!strcmp(word, "cbr")) {
			restart(a[0], CBR, a[1], a[2], 1);
		} else if (!strcmp(word, "acks")) {
			restart(a[0], CBR, ACK_BYTES, a[1], 1);
			sources[a[0]].acks = true;
		} else if (!strcmp(word, "client")) {
			restart(a[0], GREEDY, a[1], a[2], 1);
			sources[a[0]].packets = a[3];
		} else if (!strcmp(word, "request")) {
			restart(a[0], GREEDY, 74, a[1], 1);
			sources[a[0]].packets = 6;
			sources[a[0]].came = 0;
			sources[a[0]].asks = true;
		} else if (!strcmp(word, "tcp")) {
			struct source *s = &sources[a[0]];

			restart(a[0], TCP, a[1], a[2], 1);
			s->says = a[3];
			s->window = s->flying = 1;
			s->threshold = 1e9;
			s->alpha = 1;
			s->round = s->round_acked = s->round_marked = 0;
		} else if (!strcmp(word, "packet")) {
			if (sources[a[0]].kind != PACKET)
				restart(a[0], PACKET, a[1], 0, 0);
			plan(a[2], a[0]);
		} else if (!strcmp(word, "later")) {
			sources[a[0]].later = a[1];
		} else if (!strcmp(word, "tardy")) {
			tardy = a[0];
		} else if (!strcmp(word, "marks")) {
			proxy = a[0];
		} else if (!strcmp(word, "delays")) {
			for (int bin = 0; bin < WEIR_DELAY_BINS; bin++)
				if (sim_delays[a[0]].packets[bin])
					printf("delay %llu %d %u\n", a[0], bin,
					       sim_delays[a[0]].packets[bin]);
		} else if (!strcmp(word, "waits")) {
			struct weir_class *c = class_at(a[0]);
			__u64 ns = c->waited, bytes = c->waited_bytes;

			if (c->wait_since) {
				ns += now_ns - c->wait_since;
				bytes += c->sent_bytes - c->wait_from;
			}
			printf("waits %llu %llu %llu\n", a[0], ns, bytes);
		} else if (!strcmp(word, "hosts")) { /* so many flows have one hash */
			hosts = a[0];
		} else if (!strcmp(word, "off")) {
			restart(a[0], OFF, sources[a[0]].len, 0, 0);
		} else if (!strcmp(word, "trace")) {
			trace = a[0];
		} else if (!strcmp(word, "run")) {
			run(a[0]);
		} else {
			fprintf(stderr, "unknown command %s\n", word);
			return 2;
		}
	}
	weir_reset(&sch);
	weir_destroy(&sch);
	report();
	return 0;
}
