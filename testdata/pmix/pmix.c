/*
 * pmix: a program without MPI that asks its launcher for what PMIx has.
 *
 *	rank 2 of 4: card of 0, card of 3, never: refused, late: at last, ocean: of rank 0
 *
 * one line per rank, of at least two. Each rank commits a card; ranks of equal parity meet
 * in a fence and see their cards, the others' are fetched one by one. A key that nobody puts
 * is refused after a second. Rank 0 asks for a key that the last rank puts only when it has
 * looked up a name, for which all wait, and which rank 0 publishes when it has asked.
 *
 * What goes wrong is told on stderr and ends the job with PMIx_Abort(2).
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

/* must ends the job unless a call went well. */
static void must(const char *call, pmix_status_t status)
{
	if (status == PMIX_SUCCESS)
		return;
	fprintf(stderr, "pmix: rank %u: %s: %s (%d)\n", me.rank, call, PMIx_Error_string(status), status);
	PMIx_Abort(2, "a wrong result", NULL, 0);
	exit(2);
}

static pmix_proc_t peer(pmix_rank_t rank)
{
	pmix_proc_t p;

	PMIX_LOAD_PROCID(&p, me.nspace, rank);
	return p;
}

static void put(const char *key, const char *text)
{
	pmix_value_t value = {.type = PMIX_STRING, .data.string = (char *)text};

	must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &value));
	must("PMIx_Commit", PMIx_Commit());
}

/* get copies what a rank has put; the status is that of PMIx_Get, which waits so many
 * seconds, without bound if that is 0. */
static pmix_status_t get(pmix_rank_t rank, const char *key, int seconds, char text[64])
{
	pmix_proc_t p = peer(rank);
	pmix_value_t *value;
	pmix_info_t info;
	pmix_status_t status;

	PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
	status = PMIx_Get(&p, key, &info, seconds > 0, &value);
	PMIX_INFO_DESTRUCT(&info);
	if (status != PMIX_SUCCESS)
		return status;
	snprintf(text, 64, "%s", value->data.string);
	PMIX_VALUE_RELEASE(value);
	return PMIX_SUCCESS;
}

static pmix_rank_t job_size(void)
{
	pmix_proc_t all = peer(PMIX_RANK_WILDCARD);
	pmix_value_t *value;
	pmix_rank_t size;

	must("PMIx_Get of the size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value));
	size = value->data.uint32;
	PMIX_VALUE_RELEASE(value);
	return size;
}

/* fence meets the ranks from first on, every step-th. */
static void fence(pmix_rank_t first, pmix_rank_t step, pmix_rank_t size)
{
	pmix_proc_t *members = calloc(size, sizeof *members);
	pmix_info_t collect;
	size_t n = 0;
	bool yes = true;

	for (pmix_rank_t r = first; r < size; r += step)
		members[n++] = peer(r);
	PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
	must("PMIx_Fence", PMIx_Fence(members, n, &collect, 1));
	PMIX_INFO_DESTRUCT(&collect);
	free(members);
}

/* A waiting is the answer to a PMIx_Get_nb that is still to come. */
struct waiting {
	pthread_mutex_t mutex;
	pthread_cond_t there;
	pmix_status_t status; /* PMIX_ERR_WOULD_BLOCK until then */
	char text[64];
};

static void answered(pmix_status_t status, pmix_value_t *value, void *arg)
{
	struct waiting *w = arg;

	pthread_mutex_lock(&w->mutex);
	w->status = status;
	if (status == PMIX_SUCCESS)
		snprintf(w->text, sizeof w->text, "%s", value->data.string);
	pthread_cond_signal(&w->there);
	pthread_mutex_unlock(&w->mutex);
}

static void await(struct waiting *w)
{
	pthread_mutex_lock(&w->mutex);
	while (w->status == PMIX_ERR_WOULD_BLOCK)
		pthread_cond_wait(&w->there, &w->mutex);
	pthread_mutex_unlock(&w->mutex);
	must("PMIx_Get_nb of what is put later", w->status);
}

static void publish(const char *name, const char *text)
{
	pmix_info_t info;

	PMIX_INFO_LOAD(&info, name, text, PMIX_STRING);
	must("PMIx_Publish", PMIx_Publish(&info, 1));
	PMIX_INFO_DESTRUCT(&info);
}

/* lookup waits until the name is published. */
static void lookup(const char *name, char text[64])
{
	pmix_pdata_t found;
	pmix_info_t wait;
	bool yes = true;

	PMIX_PDATA_CONSTRUCT(&found);
	snprintf(found.key, sizeof found.key, "%s", name);
	PMIX_INFO_LOAD(&wait, PMIX_WAIT, &yes, PMIX_BOOL);
	must("PMIx_Lookup", PMIx_Lookup(&found, 1, &wait, 1));
	snprintf(text, 64, "%s", found.value.data.string);
	PMIX_INFO_DESTRUCT(&wait);
	PMIX_PDATA_DESTRUCT(&found);
}

/* late is the key that the last rank puts when all wait for it. */
static void late(pmix_rank_t size, char text[64], char name[64])
{
	struct waiting w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PMIX_ERR_WOULD_BLOCK, ""};
	pmix_proc_t last = peer(size - 1);
	int seconds = 60;
	pmix_info_t info;

	if (me.rank == 0) {
		PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
		must("PMIx_Get_nb", PMIx_Get_nb(&last, "late", &info, 1, answered, &w));
		publish("ocean", "of rank 0");
	}
	lookup("ocean", name);
	if (me.rank == size - 1)
		put("late", "at last");
	if (me.rank == 0) {
		await(&w);
		snprintf(text, 64, "%s", w.text);
	} else {
		must("PMIx_Get of what is put later", get(size - 1, "late", 60, text));
	}
}

/* query asks about the system: there are no sets of processes, and what nobody knows is not served. */
static void query(void)
{
	pmix_query_t q;
	pmix_info_t *told = NULL;
	size_t n = 0;
	pmix_status_t status;

	PMIX_QUERY_CONSTRUCT(&q);
	PMIX_ARGV_APPEND(status, q.keys, PMIX_QUERY_NUM_PSETS);
	must("PMIX_ARGV_APPEND", status);
	must("PMIx_Query_info", PMIx_Query_info(&q, 1, &told, &n));
	if (n != 1 || told[0].value.type != PMIX_SIZE || told[0].value.data.size != 0)
		must("number of sets of processes", PMIX_ERR_BAD_PARAM);
	PMIX_INFO_FREE(told, n);
	PMIX_ARGV_APPEND(status, q.keys, "pmix.qry.unheard-of");
	status = PMIx_Query_info(&q, 1, &told, &n);
	if (status != PMIX_ERR_NOT_SUPPORTED)
		must("PMIx_Query_info of what nobody knows", status == PMIX_SUCCESS ? PMIX_ERROR : status);
	PMIX_QUERY_DESTRUCT(&q);
}

int main(void)
{
	char card[64], near[64], far[64], text[64], name[64];
	char *ocean[] = {"ocean", NULL};
	pmix_rank_t size, other;
	pmix_status_t status;

	must("PMIx_Init", PMIx_Init(&me, NULL, 0));
	size = job_size();
	query();
	snprintf(card, sizeof card, "card of %u", me.rank);
	put("card", card);
	fence(me.rank % 2, 2, size);
	must("PMIx_Get of a fenced card", get(me.rank % 2, "card", 0, near));
	other = size - 1 - (size - me.rank) % 2;
	must("PMIx_Get of another's card", get(other, "card", 0, far));
	status = get(other, "never", 1, text);
	if (status != PMIX_ERR_NOT_FOUND && status != PMIX_ERR_TIMEOUT)
		must("PMIx_Get of what nobody puts", status == PMIX_SUCCESS ? PMIX_ERROR : status);
	late(size, text, name);
	printf("rank %u of %u: %s, %s, never: refused, late: %s, ocean: %s\n", me.rank, size, near, far, text, name);
	fflush(stdout);
	fence(0, 1, size);
	if (me.rank == 0)
		must("PMIx_Unpublish", PMIx_Unpublish(ocean, NULL, 0));
	must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
