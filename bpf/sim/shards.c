// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs a link of several shards (core/shard.h) in simulated time: a copy of shard.c for each,
 * on a CPU of its own. A CPU does one thing after the other, each takes it a time that is
 * drawn, and so the steps of the shards interleave. Timers fire late by a time that is
 * drawn. The device behind takes every packet at once.
 *
 * It is called with the path of the library that shard.c was made into, and reads commands
 * from standard input, one a line. Those that configure are sim.c's, and each shard has
 * them. Source ID is flow ID / 4096 of class ID % 4096; it sends to one shard at a time:
 *   shards N                     how many there are; before all others
 *   seed N                       of all that is drawn
 *   queue ID Q                   the source sends to shard Q from now on
 *   hop ID NS                    and after each NS to another one, which is drawn
 *   greedy ID LEN WINDOW DELAY   keeps WINDOW packets on their way
 *   cbr ID LEN INTERVAL          one packet every INTERVAL ns
 *   off ID                       no more
 *   tardy NS                     timers fire up to so much late
 *   stall Q NS                   the CPU of shard Q does nothing for so long
 *   trace ON                     a line for each packet that leaves: left ID AT LENGTH BORN
 *   run NS
 * It answers `run` as sim.c does, where `timers` counts those of all shards, and before that
 *   divisions N alone N
 * (how often the link was divided, and whether one shard has it alone in the end).
 *
 * Not played: two CPUs in the midst of their steps (an enqueue, a dequeue and a division are
 * one step each), the order in which CPUs see each other's writes, what a line of cache costs.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shards.h"

enum { OFF, GREEDY, CBR };
enum { ARRIVES, FIRES, RUNS, HOPS, WAKES };

#define IDS 4096 /* of classes in a source's number */
#define SOURCES (IDS * 64)
#define MOST 64 /* shards */
#define STEP_NS 100 /* what a CPU does takes so long, or up to three times that */

struct source {
	int kind;
	__u32 len, queue;
	__u64 gap, hop;
	__u64 epoch; /* arrivals planned before the last change are void */
	__u64 sent, dropped, longest;
};

struct event {
	__u64 at, order, epoch;
	__u32 id; /* of a source, or a shard */
	int what;
};

struct cpu {
	struct sim_calls *shard;
	__u64 free_at; /* when it can do the next thing */
	__u64 armed; /* its timer, as it was seen last */
	bool runs; /* packets are taken out of its qdisc */
	bool wakes; /* it will do what it was busy for */
	struct event *later; /* that */
	size_t first, last, room;
};

static struct source sources[SOURCES];
static __u32 source_end; /* none at or above this one was ever used */
static struct cpu cpus[MOST];
static __u32 count; /* shards */
static struct event *heap;
static size_t events, room;
static __u64 now = 1000000000ULL, order, random_state = 88172645463325252ULL;
static __u64 total_sent, fired, tardy;
static bool trace;

/* A number below n (Marsaglia's xorshift). */
static __u64 draw(__u64 n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return n ? random_state % n : 0;
}

static bool earlier(struct event *a, struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void plan(__u64 at, __u32 id, int what)
{
	size_t i = events++;
	struct event e = {at, order++, what == ARRIVES || what == HOPS ? sources[id].epoch : 0, id,
			  what};

	if (events > room) {
		room = room ? 2 * room : 1024;
		heap = realloc(heap, room * sizeof(*heap));
	}
	while (i && earlier(&e, &heap[(i - 1) / 2])) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = e;
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

/* A shard has done something: its CPU is busy, and its timer may be armed. */
static void step(__u32 q)
{
	struct cpu *cpu = &cpus[q];
	__u64 at = *cpu->shard->watchdog;

	cpu->free_at = now + STEP_NS + draw(2 * STEP_NS);
	if (at && at != cpu->armed)
		plan((at > now ? at : now) + draw(tardy), q, FIRES);
	cpu->armed = at;
}

static void run_queue(__u32 q)
{
	if (cpus[q].runs)
		return;
	cpus[q].runs = true;
	plan(cpus[q].free_at > now ? cpus[q].free_at : now, q, RUNS);
}

static void lost(__u32 id)
{
	sources[id].dropped++;
	if (sources[id].kind == GREEDY) /* try again later, like a retransmission */
		plan(now + sources[id].gap + 1000000, id, ARRIVES);
}

static void arrive(__u32 q, __u32 id)
{
	struct source *s = &sources[id];

	cpus[q].shard->enqueue(now, id, id % IDS, s->len, id * 0x9e3779b1U);
	if (s->kind == CBR)
		plan(now + s->gap, id, ARRIVES);
	step(q);
	run_queue(q);
}

/* One packet leaves shard q, if one may. */
static void leave(__u32 q)
{
	struct sim_left left;
	struct source *s;

	cpus[q].runs = false;
	if (cpus[q].shard->dequeue(now, &left)) {
		s = &sources[left.source];
		s->sent += left.len;
		total_sent += left.len;
		if (now - left.born > s->longest)
			s->longest = now - left.born;
		if (trace)
			printf("left %u %llu %u %llu\n", left.source, now, left.len, left.born);
		if (s->kind == GREEDY)
			plan(now + s->gap, left.source, ARRIVES);
		step(q);
		run_queue(q);
		return;
	}
	step(q);
}

static void report(void)
{
	struct sim_calls *any = cpus[0].shard;

	printf("divisions %llu alone %llu\n", any->divisions(), any->alone());
	for (__u32 i = 0; i < source_end; i++) {
		struct source *s = &sources[i];

		if (s->kind != OFF || s->sent || s->dropped)
			printf("class %u sent %llu dropped %llu waiting 0 longest %llu marked 0\n",
			       i, s->sent, s->dropped, s->longest);
		s->sent = s->dropped = s->longest = 0;
	}
	printf("total sent %llu timers %llu most_ahead 0\n", total_sent, fired);
	fflush(stdout);
	total_sent = fired = 0;
}

/* What a CPU does at once. */
static void work(__u32 q, struct event e)
{
	__u64 *watchdog = cpus[q].shard->watchdog;

	if (e.what == ARRIVES) {
		if (e.epoch == sources[e.id].epoch)
			arrive(q, e.id);
	} else if (e.what == RUNS) {
		leave(q);
	} else if (*watchdog && *watchdog <= now) {
		*watchdog = cpus[q].armed = 0;
		fired++;
		run_queue(q);
	}
}

static void put_off(struct cpu *cpu, struct event e)
{
	if (cpu->last == cpu->room) {
		memmove(cpu->later, cpu->later + cpu->first,
			(cpu->last - cpu->first) * sizeof(*cpu->later));
		cpu->last -= cpu->first;
		cpu->first = 0;
		if (2 * cpu->last >= cpu->room) {
			cpu->room = 2 * cpu->room + 1024;
			cpu->later = realloc(cpu->later, cpu->room * sizeof(*cpu->later));
		}
	}
	cpu->later[cpu->last++] = e;
}

static void wake_later(__u32 q)
{
	if (!cpus[q].wakes)
		plan(cpus[q].free_at, q, WAKES);
	cpus[q].wakes = true;
}

static void handle(struct event e)
{
	struct source *s = &sources[e.id];
	__u32 q = e.what == ARRIVES ? s->queue : e.id;
	struct cpu *cpu = &cpus[q];

	if (e.what == HOPS) {
		if (e.epoch != s->epoch)
			return;
		s->queue = draw(count);
		plan(now + s->hop, e.id, HOPS);
		return;
	}
	if (e.what == WAKES)
		cpu->wakes = false;
	else
		put_off(cpu, e);
	if (cpu->free_at <= now && cpu->first < cpu->last)
		work(q, cpu->later[cpu->first++]);
	if (cpu->first < cpu->last)
		wake_later(q);
}

static void run(__u64 ns)
{
	__u64 end = now + ns;

	while (events && heap[0].at < end) {
		struct event e = next_event();

		now = e.at;
		handle(e);
	}
	now = end;
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
	for (__u32 i = 0; i < window; i++)
		plan(now + draw(gap + 1), id, ARRIVES);
	if (s->hop)
		plan(now + draw(s->hop), id, HOPS);
}

/* A copy of the library at `path`: loaded from a file of its own, it has its own variables. */
static struct sim_calls *load(const char *path)
{
	char copy[64];
	struct stat info;
	struct sim_calls *calls;
	void *library;
	int from = open(path, O_RDONLY), to = memfd_create("shard", 0);

	if (from < 0 || to < 0 || fstat(from, &info) ||
	    sendfile(to, from, NULL, info.st_size) != info.st_size) {
		perror(path);
		exit(2);
	}
	close(from);
	snprintf(copy, sizeof(copy), "/proc/self/fd/%d", to);
	library = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
	calls = library ? dlsym(library, "sim_calls") : NULL;
	if (!calls) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	return calls;
}

static void start(const char *path, __u32 n)
{
	void *common = NULL;

	count = n;
	for (__u32 q = 0; q < n; q++) {
		cpus[q].shard = load(path);
		if (!common)
			common = calloc(1, cpus[q].shard->common);
		cpus[q].shard->start(n, q, common, lost);
	}
}

static int arguments(const char *word)
{
	int n = cpus[0].shard ? cpus[0].shard->arguments(word) : 0;

	return n			 ? n
	       : !strcmp(word, "greedy") ? 4
	       : !strcmp(word, "cbr")	 ? 3
	       : !strcmp(word, "queue")	 ? 2
	       : !strcmp(word, "hop")	 ? 2
	       : !strcmp(word, "stall")	 ? 2
					 : 1;
}

int main(int argc, char **argv)
{
	char word[32];
	unsigned long long a[49];

	while (scanf("%31s", word) == 1) {
		int n = arguments(word);

		for (int i = 0; i < n; i++)
			if (scanf("%lld", (long long *)&a[i]) != 1)
				return 2;
		if (!strcmp(word, "shards")) {
			start(argv[1], a[0]);
		} else if (cpus[0].shard->arguments(word)) {
			for (__u32 q = 0; q < count; q++)
				cpus[q].shard->command(word, a);
		} else if (!strcmp(word, "seed")) {
			random_state ^= a[0] * 0x9e3779b97f4a7c15ULL;
		} else if (!strcmp(word, "queue")) {
			sources[a[0]].queue = a[1];
		} else if (!strcmp(word, "hop")) {
			sources[a[0]].hop = a[1];
		} else if (!strcmp(word, "greedy")) {
			restart(a[0], GREEDY, a[1], a[3], a[2]);
		} else if (!strcmp(word, "cbr")) {
			restart(a[0], CBR, a[1], a[2], 1);
		} else if (!strcmp(word, "off")) {
			restart(a[0], OFF, sources[a[0]].len, 0, 0);
		} else if (!strcmp(word, "tardy")) {
			tardy = a[0];
		} else if (!strcmp(word, "stall")) {
			cpus[a[0]].free_at = now + a[1];
		} else if (!strcmp(word, "trace")) {
			trace = a[0];
		} else if (!strcmp(word, "run")) {
			run(a[0]);
		} else {
			fprintf(stderr, "unknown command %s\n", word);
			return 2;
		}
	}
	return 0;
}
