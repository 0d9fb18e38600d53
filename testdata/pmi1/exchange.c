/*
 * exchange [OTHERS]: what an MPI_Init asks of PMI, and how long it takes.
 *
 *	init, get_maxes, get_my_kvsname, put of a card of ~110 bytes
 *	barrier, get of every rank's card, or of so many others', barrier
 *
 * As libpmi does, a request is one write, and an answer one read as long as it comes
 * whole. Rank 0 prints one line for all ranks, which tell it by two more puts and
 * barriers when nothing is measured any more:
 *
 *	RANKS SPAN TOTAL GETS CPU PEAK
 *
 *	SPAN   ns from the first rank's entry into the first barrier to the last one's
 *	       release from the last barrier: has what is left of the start of the ranks in it
 *	TOTAL  ns from the last rank's entry into the first barrier to the same end
 *	GETS   ns from the first get to the end of the last one
 *	CPU    ns, of the processes that are the ranks' parents, between the barriers
 *	PEAK   KiB, of the largest resident set of any of them
 *
 * All ranks must be on one machine, or hosts that share its clock, as those of a field.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int fd, rank, size;
static char kvs[256];
static char answer[8192];
static size_t have, used; /* bytes in answer: read, and of the line before */

static void fail(const char *what)
{
	fprintf(stderr, "exchange: rank %d: %s\n", rank, what);
	exit(1);
}

static long long now(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t))
		fail("no clock");
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* The next line, without its end. */
static char *line(void)
{
	char *end;
	ssize_t n;

	memmove(answer, answer + used, have - used);
	have -= used;
	used = 0;
	while (!(end = memchr(answer, '\n', have))) {
		n = read(fd, answer + have, sizeof answer - have);
		if (n <= 0)
			fail("the connection ended");
		have += n;
	}
	*end = '\0';
	used = end + 1 - answer;
	return answer;
}

/* Ask says a line and returns the answer, which must begin as expected. */
static char *ask(const char *expected, const char *format, ...)
{
	char request[2048], *got;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(request, sizeof request, format, args);
	va_end(args);
	if (write(fd, request, n) != n)
		fail("cannot write");
	got = line();
	if (strncmp(got, expected, strlen(expected)))
		fail(got);
	return got;
}

/* What stands behind a key of an answer. */
static const char *value(const char *text, const char *key)
{
	const char *found = strstr(text, key);

	if (!found)
		fail(text);
	return found + strlen(key);
}

static void barrier(void) { ask("cmd=barrier_out", "cmd=barrier_in\n"); }

static void put(const char *key, const char *value)
{
	ask("cmd=put_result rc=0", "cmd=put kvsname=%s key=P%d-%s value=%s\n", kvs, rank, key, value);
}

static const char *get(int r, const char *key)
{
	return value(ask("cmd=get_result rc=0 ", "cmd=get kvsname=%s key=P%d-%s\n", kvs, r, key), " value=");
}

/* The card of a rank: addresses and ports of the length that UCX and libfabric have. */
static const char *card(int r)
{
	static char text[200];

	snprintf(text, sizeof text, "description#node%04d$port#%d$ifname#10.%d.%d.%d$address#"
		"0a%08xfe80000000000000%016x0002%04x$", r, 32768 + r, r >> 16, r >> 8 & 255, r & 255, r, r, r);
	return text;
}

/* The CPU time of our parent, if we are to tell of it: one rank of each node. */
static long long server(void)
{
	const char *local = getenv("MPI_LOCALRANKID");
	clockid_t clock;

	if (!local || strcmp(local, "0"))
		return 0;
	if (clock_getcpuclockid(getppid(), &clock))
		fail("no CPU clock of the parent");
	return now(clock);
}

static long peak(void)
{
	char name[64], text[256];
	long kib = 0;
	FILE *status;

	snprintf(name, sizeof name, "/proc/%d/status", (int)getppid());
	if (!(status = fopen(name, "r")))
		return 0;
	while (fgets(text, sizeof text, status))
		sscanf(text, "VmHWM: %ld", &kib);
	fclose(status);
	return kib;
}

/* What a rank tells rank 0. */
struct times { long long enter, first, last, leave, cpu; long peak; };

#define FORM "%lld,%lld,%lld,%lld,%lld,%ld"

static void report(void)
{
	struct times a = {0}, t;
	long long entered = 0;
	int r;

	for (r = 0; r < size; r++) {
		if (sscanf(get(r, "times"), FORM, &t.enter, &t.first, &t.last, &t.leave, &t.cpu, &t.peak) != 6)
			fail("no times");
		if (!r || t.enter < a.enter) a.enter = t.enter;
		if (t.enter > entered) entered = t.enter;
		if (!r || t.first < a.first) a.first = t.first;
		if (t.last > a.last) a.last = t.last;
		if (t.leave > a.leave) a.leave = t.leave;
		if (t.peak > a.peak) a.peak = t.peak;
		a.cpu += t.cpu;
	}
	printf("%d %lld %lld %lld %lld %ld\n", size, a.leave - a.enter, a.leave - entered, a.last - a.first, a.cpu, a.peak);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *env[3] = {getenv("PMI_FD"), getenv("PMI_RANK"), getenv("PMI_SIZE")};
	struct times t;
	char text[256];
	int r, others;

	if (!env[0] || !env[1] || !env[2])
		fail("no PMI_FD, PMI_RANK and PMI_SIZE");
	fd = atoi(env[0]);
	rank = atoi(env[1]);
	size = atoi(env[2]);
	others = argc > 1 ? atoi(argv[1]) : size;
	ask("cmd=response_to_init", "cmd=init pmi_version=1 pmi_subversion=1\n");
	ask("cmd=maxes", "cmd=get_maxes\n");
	if (sscanf(value(ask("cmd=my_kvsname ", "cmd=get_my_kvsname\n"), " kvsname="), "%255s", kvs) != 1)
		fail("no name");
	put("businesscard", card(rank));

	t.cpu = -server();
	t.enter = now(CLOCK_MONOTONIC);
	barrier();
	t.first = now(CLOCK_MONOTONIC);
	for (r = rank; r < rank + others; r++)
		if (strcmp(get(r % size, "businesscard"), card(r % size)))
			fail("a wrong card");
	t.last = now(CLOCK_MONOTONIC);
	barrier();
	t.leave = now(CLOCK_MONOTONIC);
	t.cpu += server();

	t.peak = t.cpu ? peak() : 0;
	snprintf(text, sizeof text, FORM, t.enter, t.first, t.last, t.leave, t.cpu, t.peak);
	put("times", text);
	barrier();
	if (rank == 0)
		report();
	ask("cmd=finalize_ack", "cmd=finalize\n");
	return 0;
}
