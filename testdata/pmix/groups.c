/*
 * groups: processes that make groups of themselves.
 *
 *	rank 2 of 4: pair, all, again; numbers differ
 *
 * The first and the last rank make a group, and the others another one of the same name; then all make
 * one, with a number that is the same for all of them, unmake it, and make it again.
 *
 * What goes wrong is told on stderr and ends the job with PMIx_Abort(2).
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static pmix_proc_t me;

/* must ends the job unless a call went well. */
static void must(const char *call, pmix_status_t status)
{
	if (status == PMIX_SUCCESS)
		return;
	fprintf(stderr, "groups: rank %u: %s: %s (%d)\n", me.rank, call, PMIx_Error_string(status), status);
	PMIx_Abort(2, "a wrong result", NULL, 0);
	exit(2);
}

/* group makes a group, and returns its number. */
static size_t group(const char *name, pmix_proc_t *members, size_t n)
{
	pmix_info_t wish, *results = NULL;
	size_t count = 0, number = 0;
	bool yes = true;

	PMIX_INFO_LOAD(&wish, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
	must("PMIx_Group_construct", PMIx_Group_construct(name, members, n, &wish, 1, &results, &count));
	for (size_t i = 0; i < count; i++)
		if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID))
			number = results[i].value.data.size;
	if (number == 0)
		must("number of a group", PMIX_ERR_NOT_FOUND);
	PMIX_INFO_FREE(results, count);
	PMIX_INFO_DESTRUCT(&wish);
	return number;
}

/* agree ends the job unless all have the same number, which the first rank publishes. */
static void agree(const char *key, size_t number)
{
	char text[32], name[64];
	pmix_pdata_t found;
	pmix_info_t info;
	bool yes = true;

	snprintf(text, sizeof text, "%zu", number);
	snprintf(name, sizeof name, "number of %s", key);
	if (me.rank == 0) {
		PMIX_INFO_LOAD(&info, name, text, PMIX_STRING);
		must("PMIx_Publish", PMIx_Publish(&info, 1));
		PMIX_INFO_DESTRUCT(&info);
		return;
	}
	PMIX_PDATA_CONSTRUCT(&found);
	snprintf(found.key, sizeof found.key, "%s", name);
	PMIX_INFO_LOAD(&info, PMIX_WAIT, &yes, PMIX_BOOL);
	must("PMIx_Lookup", PMIx_Lookup(&found, 1, &info, 1));
	if (atoi(found.value.data.string) != atoi(text))
		must("the same number", PMIX_ERR_BAD_PARAM);
	PMIX_INFO_DESTRUCT(&info);
	PMIX_PDATA_DESTRUCT(&found);
}

int main(void)
{
	pmix_proc_t all, pair[2];
	pmix_value_t *value;
	size_t mine, first, second;
	uint32_t size;

	must("PMIx_Init", PMIx_Init(&me, NULL, 0));
	PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
	must("PMIx_Get of the size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value));
	size = value->data.uint32;
	PMIX_VALUE_RELEASE(value);
	PMIX_LOAD_PROCID(&pair[0], me.nspace, me.rank);
	PMIX_LOAD_PROCID(&pair[1], me.nspace, size - 1 - me.rank);
	mine = group("pair", pair, 2);
	first = group("all", &all, 1);
	agree("the first", first);
	must("PMIx_Group_destruct", PMIx_Group_destruct("all", NULL, 0));
	second = group("all", &all, 1);
	agree("the second", second);
	printf("rank %u of %u: pair, all, again; numbers %s\n", me.rank, size, mine != first && first != second && mine != second ? "differ" : "are equal");
	fflush(stdout);
	must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
