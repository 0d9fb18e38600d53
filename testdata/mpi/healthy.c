/* A program that goes on for SECONDS, and writes and reads nothing meanwhile: healthy HOW SECONDS. */
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile double sink;
static double end;
static int rank, size;

static int goes_on(void) { return MPI_Wtime() < end; }

static void compute(double seconds) {
	double until = MPI_Wtime() + seconds;
	while (MPI_Wtime() < until)
		for (int i = 0; i < 100000; i++)
			sink += i;
}

/* The others wait in a collective for rank 0, which does something in one piece. */
static void serial(void) { if (rank == 0) compute(end - MPI_Wtime()); }
static void sleeps(void) { if (rank == 0) usleep(1e6 * (end - MPI_Wtime())); }
static void polls(void) { if (rank == 0) poll(NULL, 0, 1e3 * (end - MPI_Wtime())); }
static void spins(void) { compute(end - MPI_Wtime()); }

static void all_agree(void) {
	int on;
	do {
		on = goes_on();
		MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
	} while (on);
}

static void steps(void) {
	double sum, x = 1;
	do {
		compute(0.001);
		x = goes_on();
		MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
	} while (sum > 0);
}

static void pings(void) {
	int on = 1, peer = rank ^ 1; /* on counts the messages */
	if (peer >= size)
		return;
	while (on) {
		if (rank < peer) {
			on = goes_on() ? on + 1 : 0;
			MPI_Send(&on, 1, MPI_INT, peer, 0, MPI_COMM_WORLD);
			MPI_Recv(&on, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(&on, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(&on, 1, MPI_INT, peer, 0, MPI_COMM_WORLD);
		}
	}
}

/* The same with messages that are all equal, so that ranks are in the same state whenever they wait. */
static void equals(void) {
	int on = 1, peer = rank ^ 1;
	if (peer >= size)
		return;
	while (on) {
		if (rank < peer) {
			on = goes_on();
			MPI_Send(&on, 1, MPI_INT, peer, 0, MPI_COMM_WORLD);
			MPI_Recv(&on, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(&on, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(&on, 1, MPI_INT, peer, 0, MPI_COMM_WORLD);
		}
	}
}

/* Rank 0 waits for a message of one of its threads, which computes. */
static void *compute_and_send(void *unused) {
	compute(end - MPI_Wtime());
	MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
	return unused;
}

static void threads(void) {
	pthread_t thread;
	int got;
	if (rank > 0)
		return;
	pthread_create(&thread, NULL, compute_and_send, NULL);
	MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	pthread_join(thread, NULL);
}

/* Rank 0 waits for one of its threads, which sleeps, and the others wait for rank 0. */
static void *sleep_to_the_end(void *unused) { sleeps(); return unused; }
static void joins(void) {
	pthread_t thread;
	pthread_create(&thread, NULL, sleep_to_the_end, NULL);
	pthread_join(thread, NULL);
}

/* Rank 0 hands out work of different lengths. It polls for answers, and sleeps in between. */
static void master(void) {
	int work = 1, there;
	MPI_Status from;
	if (rank > 0) {
		while (MPI_Send(&work, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_Recv(&work, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), work > 0)
			compute(0.1 * work);
		return;
	}
	for (int left = size - 1; left > 0;) {
		MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, &from);
		if (!there) {
			usleep(1000);
			continue;
		}
		MPI_Recv(&work, 1, MPI_INT, from.MPI_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		work = goes_on() ? 1 + rand() % 10 : 0;
		left -= work == 0;
		MPI_Send(&work, 1, MPI_INT, from.MPI_SOURCE, 0, MPI_COMM_WORLD);
	}
}

int main(int argc, char **argv) {
	struct { const char *how; void (*run)(void); } all[] = {{"serial", serial}, {"sleeps", sleeps}, {"polls", polls}, {"spins", spins}, {"bcast", all_agree},
		{"steps", steps}, {"pings", pings}, {"equals", equals}, {"threads", threads}, {"joins", joins}, {"master", master}};
	int provided, threaded = !strcmp(argv[1], "threads");
	MPI_Init_thread(&argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	end = MPI_Wtime() + atof(argv[2]);
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(argv[1], all[i].how))
			all[i].run();
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
