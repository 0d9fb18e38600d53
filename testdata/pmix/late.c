/*
 * late [group]: a fence whose time is over, or a group.
 *
 *	rank 2 of 4: late, then all of 4
 *	rank 2 of 4: late, then a group of 4; late, then unmade
 *
 * Rank 0 waits a second for the others, who come to that fence only when it has told them (by a
 * name) that it has waited in vain: all of them find it late. They meet in the next one. With group
 * they do so twice, when they make a group of them all and when they unmake it.
 *
 * What goes wrong is told on stderr and ends the job with PMIx_Abort(2).
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

/* must ends the job unless a call went as it should. */
static void must(const char *call, pmix_status_t status, pmix_status_t want)
{
	if (status == want)
		return;
	fprintf(stderr, "late: rank %u: %s: %s (%d)\n", me.rank, call, PMIx_Error_string(status), status);
	PMIx_Abort(2, "a wrong result", NULL, 0);
	exit(2);
}

static void tell_others(const char *word)
{
	pmix_info_t info;

	PMIX_INFO_LOAD(&info, word, "yes", PMIX_STRING);
	must("PMIx_Publish", PMIx_Publish(&info, 1), PMIX_SUCCESS);
	PMIX_INFO_DESTRUCT(&info);
}

static void await_word(const char *word)
{
	pmix_pdata_t found;
	pmix_info_t wait;
	bool yes = true;

	PMIX_PDATA_CONSTRUCT(&found);
	snprintf(found.key, sizeof found.key, "%s", word);
	PMIX_INFO_LOAD(&wait, PMIX_WAIT, &yes, PMIX_BOOL);
	must("PMIx_Lookup", PMIx_Lookup(&found, 1, &wait, 1), PMIX_SUCCESS);
	PMIX_INFO_DESTRUCT(&wait);
	PMIX_PDATA_DESTRUCT(&found);
}

typedef pmix_status_t together(const pmix_proc_t *all, const pmix_info_t *infos, size_t n);

static pmix_status_t fence(const pmix_proc_t *all, const pmix_info_t *infos, size_t n)
{
	return PMIx_Fence(all, 1, infos, n);
}

static pmix_status_t construct(const pmix_proc_t *all, const pmix_info_t *infos, size_t n)
{
	pmix_info_t *results = NULL;
	size_t count = 0;
	pmix_status_t status = PMIx_Group_construct("all", all, 1, infos, n, &results, &count);

	PMIX_INFO_FREE(results, count);
	return status;
}

static pmix_status_t destruct(const pmix_proc_t *all, const pmix_info_t *infos, size_t n)
{
	(void)all;
	return PMIx_Group_destruct("all", infos, n);
}

/* late comes to what all do together, in vain, and then once more. */
static void late(const char *what, together *call, const pmix_proc_t *all)
{
	int second = 1;
	pmix_info_t limit;

	if (me.rank == 0) {
		PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &second, PMIX_INT);
		must(what, call(all, &limit, 1), PMIX_ERR_TIMEOUT);
		PMIX_INFO_DESTRUCT(&limit);
		tell_others(what);
	} else {
		await_word(what);
		must(what, call(all, NULL, 0), PMIX_ERR_TIMEOUT);
	}
	must(what, call(all, NULL, 0), PMIX_SUCCESS);
}

int main(int argc, char **argv)
{
	pmix_proc_t all;
	pmix_value_t *size;

	must("PMIx_Init", PMIx_Init(&me, NULL, 0), PMIX_SUCCESS);
	PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
	must("PMIx_Get of the size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size), PMIX_SUCCESS);
	if (argc > 1 && strcmp(argv[1], "group") == 0) {
		late("PMIx_Group_construct", construct, &all);
		late("PMIx_Group_destruct", destruct, &all);
		printf("rank %u of %u: late, then a group of %u; late, then unmade\n", me.rank, size->data.uint32, size->data.uint32);
	} else {
		late("PMIx_Fence", fence, &all);
		printf("rank %u of %u: late, then all of %u\n", me.rank, size->data.uint32, size->data.uint32);
	}
	fflush(stdout);
	PMIX_VALUE_RELEASE(size);
	must("PMIx_Finalize", PMIx_Finalize(NULL, 0), PMIX_SUCCESS);
	return 0;
}
