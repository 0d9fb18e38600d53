/*
 * exchange [OTHERS]: what an MPI_Init asks of PMI, and how long it takes.
 *
 *	init, get_maxes, get_my_kvsname, put of a card of ~110 bytes
 *	barrier, get of every rank's card, or of so many others', barrier
 *
 * As libpmi does, a request is one write, and an answer one read as long as it comes
 * whole. What rank 0 prints stands in exchange.h; the ranks tell it by two more puts and
 * barriers.
 */
#include "exchange.h"

#include <stdarg.h>

static int fd;
static char kvs[256];
static char answer[8192];
static size_t have, used; /* bytes in answer: read, and of the line before */

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
		report(get);
	ask("cmd=finalize_ack", "cmd=finalize\n");
	return 0;
}
