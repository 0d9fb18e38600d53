/*
 * exchange.h: what exchange.c and ../pmix/modex.c measure. Rank 0 prints one line for all
 * ranks, which tell it when nothing is measured any more:
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

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

/* The card of a rank: addresses and ports of the length that UCX and libfabric have. */
static char *card(int r)
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

	if (!local)
		local = getenv("OMPI_COMM_WORLD_LOCAL_RANK"); /* Open MPI's launcher */
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

/* report prints the line, of times that get reads. */
static void report(const char *(*get)(int rank, const char *key))
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
