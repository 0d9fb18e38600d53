/*
 * steps: a long computation that can be started again. "steps N" does N steps; it saves where it is when it is
 * asked to, and begins there, with as many ranks as there are then.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void ask(int number)
{
	(void)number;
	asked = 1;
}

struct state { long step; double sum; };

static void load(const char *file, struct state *s)
{
	FILE *f = fopen(file, "r");
	if (f == NULL)
		return; /* from the beginning */
	if (fscanf(f, "%ld %lf", &s->step, &s->sum) != 2)
		MPI_Abort(MPI_COMM_WORLD, 1);
	fclose(f);
}

/* A new file takes the place of the old one: whenever we are killed, one of the two is whole. */
static void save(const char *file, const struct state *s)
{
	char new[4096];
	snprintf(new, sizeof new, "%s.new", file);
	FILE *f = fopen(new, "w");
	if (f == NULL || fprintf(f, "%ld %.17g\n", s->step, s->sum) < 0 || fflush(f) != 0 || fsync(fileno(f)) != 0 ||
	    fclose(f) != 0 || rename(new, file) != 0)
		perror(file); /* the one before is still there */
}

int main(int argc, char **argv)
{
	int rank, mine, any;
	struct state s = {0, 0};
	long steps = argc > 1 ? atol(argv[1]) : 100;
	const char *dir = getenv("MPIEXEC_CKPT_DIR");
	char file[4000];

	signal(SIGUSR1, ask); /* first of all: until then it would kill us */
	snprintf(file, sizeof file, "%s/state", dir ? dir : ".");
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 0)
		load(file, &s);
	MPI_Bcast(&s, sizeof s, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank == 0 && s.step > 0)
		printf("goes on behind step %ld\n", s.step);
	while (s.step < steps) {
		double part = 1.0 / (rank + 1 + s.step), sum;
		usleep(50000); /* here one would compute */
		MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		s.sum += sum;
		s.step++;
		mine = asked; /* all save behind the same step: the first who was asked tells the others */
		MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
		if (any) {
			asked = 0;
			if (rank == 0)
				save(file, &s);
		}
	}
	if (rank == 0)
		printf("all %ld steps are done\n", s.step);
	MPI_Finalize();
	return 0;
}
