/*
 * family MODE N [KEY VALUE]...: processes that start others with PMIx_Spawn, without MPI.
 *
 *	family place N       rank 0 starts N children with those keys (pmix.mapby core), who tell where they are
 *	family names N       rank 0 starts two groups of N; a child of the first publishes, all of the second look up
 *	family group N       rank 0 and its N children make a group of them all, with a number, and unmake it
 *	family wait N        rank 0 starts N children, of which the first waits for a key of the last, the second
 *	                     for a name, and the others in a fence; without an end
 *
 *	place 3: spawned
 *	child 1 of 3 on n2: node rank 4
 *	names: 2 of the second know what the first has
 *	group of 3: the same number; unmade
 *
 * "place N: refused" is said where nothing was started; each child of place tells for itself, and of
 * the others the last one that needs to know. What goes wrong is told on stderr and ends the job with
 * PMIx_Abort(2).
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

static void fail(const char *call, pmix_status_t status)
{
	fprintf(stderr, "family: rank %u of %s: %s: %s (%d)\n", me.rank, me.nspace, call, PMIx_Error_string(status), status);
	PMIx_Abort(2, "a wrong result", NULL, 0);
	exit(2);
}

static void must(const char *call, pmix_status_t status)
{
	if (status != PMIX_SUCCESS)
		fail(call, status);
}

/* number is what a process is told of itself, or of its job. */
static unsigned number(const pmix_proc_t *of, const char *key)
{
	pmix_value_t *value;
	pmix_status_t status;
	unsigned n = 0;

	must(key, PMIx_Get(of, key, NULL, 0, &value));
	PMIX_VALUE_GET_NUMBER(status, value, n, unsigned);
	must(key, status);
	PMIX_VALUE_RELEASE(value);
	return n;
}

static unsigned size_of(const char *nspace)
{
	pmix_proc_t all;

	PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
	return number(&all, PMIX_JOB_SIZE);
}

static void fence(const char *nspace)
{
	pmix_proc_t all;

	PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
	must("PMIx_Fence", PMIx_Fence(&all, 1, NULL, 0));
}

/* spawn starts n children that do what role says, with the keys of a NULL-ended list of words. */
static pmix_status_t spawn(char *program, char *role, int n, char **words, pmix_nspace_t children)
{
	pmix_app_t app;
	pmix_info_t infos[8];
	size_t ninfo = 0;
	pmix_status_t status;

	PMIX_APP_CONSTRUCT(&app);
	app.cmd = strdup(program);
	PMIX_ARGV_APPEND(status, app.argv, program);
	PMIX_ARGV_APPEND(status, app.argv, "child"); /* what is spawned spawns nothing */
	PMIX_ARGV_APPEND(status, app.argv, role);
	app.maxprocs = n;
	for (; words[0] && words[1] && ninfo < 8; words += 2)
		PMIX_INFO_LOAD(&infos[ninfo++], words[0], words[1], PMIX_STRING);
	status = PMIx_Spawn(infos, ninfo, &app, 1, children);
	PMIX_APP_DESTRUCT(&app);
	return status;
}

static void publish(const char *key, const char *text)
{
	pmix_info_t info;

	PMIX_INFO_LOAD(&info, key, text, PMIX_STRING);
	must("PMIx_Publish", PMIx_Publish(&info, 1));
	PMIX_INFO_DESTRUCT(&info);
}

/* lookup waits for a name. */
static void lookup(const char *key, char *text, size_t room)
{
	pmix_pdata_t found;
	pmix_info_t wait;
	bool yes = true;

	PMIX_PDATA_CONSTRUCT(&found);
	snprintf(found.key, sizeof found.key, "%s", key);
	PMIX_INFO_LOAD(&wait, PMIX_WAIT, &yes, PMIX_BOOL);
	must("PMIx_Lookup", PMIx_Lookup(&found, 1, &wait, 1));
	snprintf(text, room, "%s", found.value.type == PMIX_STRING ? found.value.data.string : "");
	PMIX_INFO_DESTRUCT(&wait);
	PMIX_PDATA_DESTRUCT(&found);
}

/* kin makes a group of a parent and its children, and unmakes it; returns its number. */
static size_t kin(const char *parents, const char *children)
{
	pmix_proc_t members[2];
	pmix_info_t wish, *results = NULL;
	size_t count = 0, context = 0;
	bool yes = true;

	PMIX_LOAD_PROCID(&members[0], parents, 0);
	PMIX_LOAD_PROCID(&members[1], children, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&wish, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
	must("PMIx_Group_construct", PMIx_Group_construct("kin", members, 2, &wish, 1, &results, &count));
	for (size_t i = 0; i < count; i++)
		if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID))
			context = results[i].value.data.size;
	PMIX_INFO_DESTRUCT(&wish);
	PMIX_INFO_FREE(results, count);
	must("PMIx_Group_destruct", PMIx_Group_destruct("kin", NULL, 0));
	return context;
}

static void place(void)
{
	pmix_value_t *host;

	must("PMIx_Get of the host", PMIx_Get(&me, PMIX_HOSTNAME, NULL, 0, &host));
	printf("child %u of %u on %s: node rank %u\n", me.rank, size_of(me.nspace), host->data.string, number(&me, PMIX_NODE_RANK));
	PMIX_VALUE_RELEASE(host);
}

static void group(const char *parents)
{
	char first[32], mine[32];
	size_t context = kin(parents, me.nspace);

	snprintf(mine, sizeof mine, "%zu", context);
	lookup("number of kin", first, sizeof first);
	if (context == 0 || strcmp(first, mine) != 0)
		fail("the same number", PMIX_ERR_BAD_PARAM);
	fence(me.nspace);
	if (me.rank == 0)
		printf("group of %u: the same number; unmade\n", size_of(me.nspace) + 1);
}

static void wait_for(void)
{
	pmix_proc_t last;
	pmix_value_t *value;
	char text[8];

	PMIX_LOAD_PROCID(&last, me.nspace, size_of(me.nspace) - 1);
	switch (me.rank) {
	case 0:
		must("PMIx_Get", PMIx_Get(&last, "card", NULL, 0, &value));
		break;
	case 1:
		lookup("sea", text, sizeof text);
		break;
	default:
		fence(me.nspace);
	}
}

static void child(const char *role, const char *parents)
{
	char text[64];

	if (strcmp(role, "place") == 0) {
		place();
	} else if (strcmp(role, "publish") == 0) {
		if (me.rank == size_of(me.nspace) - 1)
			publish("ocean", "of the first");
		lookup("read", text, sizeof text); /* published names may go with who has published them */
	} else if (strcmp(role, "lookup") == 0) {
		lookup("ocean", text, sizeof text);
		if (strcmp(text, "of the first") != 0)
			fail("what the first has", PMIX_ERR_BAD_PARAM);
		fence(me.nspace);
		if (me.rank == 0) {
			printf("names: %u of the second know what the first has\n", size_of(me.nspace));
			publish("read", "yes");
		}
	} else if (strcmp(role, "group") == 0) {
		group(parents);
	} else if (strcmp(role, "wait") == 0) {
		wait_for();
	}
}

static void parent(char *program, char *mode, int n, char **words)
{
	pmix_nspace_t children;
	char text[32];

	if (strcmp(mode, "place") == 0) {
		printf("place %d: %s\n", n, spawn(program, "place", n, words, children) == PMIX_SUCCESS ? "spawned" : "refused");
	} else if (strcmp(mode, "names") == 0) {
		must("PMIx_Spawn", spawn(program, "publish", n, words, children));
		must("PMIx_Spawn", spawn(program, "lookup", n, words, children));
	} else if (strcmp(mode, "wait") == 0) {
		must("PMIx_Spawn", spawn(program, "wait", n, words, children));
	} else if (strcmp(mode, "group") == 0) {
		must("PMIx_Spawn", spawn(program, "group", n, words, children));
		snprintf(text, sizeof text, "%zu", kin(me.nspace, children));
		publish("number of kin", text);
	} else {
		fail(mode, PMIX_ERR_BAD_PARAM);
	}
}

int main(int argc, char **argv)
{
	pmix_proc_t all;
	pmix_value_t *from;

	must("PMIx_Init", PMIx_Init(&me, NULL, 0));
	if (argc < 2)
		fail("what shall I do", PMIX_ERR_BAD_PARAM);
	if (argc > 2 && strcmp(argv[1], "child") == 0) {
		PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
		must("PMIx_Get of the parent", PMIx_Get(&all, PMIX_PARENT_ID, NULL, 0, &from));
		child(argv[2], from->data.proc->nspace);
		PMIX_VALUE_RELEASE(from);
	} else {
		fence(me.nspace); /* before the first one nothing is spawned (TRUST-12) */
		if (me.rank == 0)
			parent(argv[0], argv[1], argc > 2 ? atoi(argv[2]) : 1, argv + 3);
		fence(me.nspace);
	}
	fflush(stdout);
	must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
