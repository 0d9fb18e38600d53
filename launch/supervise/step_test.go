package supervise

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"remshell/job"
)

// twoNodes is a plan of four ranks: 0 and 1 on a, 2 and 3 on b.
var twoNodes = job.Plan{Size: 4, Nodes: []job.NodePlan{
	{Name: "a", Ranks: []job.RankPlan{{Rank: 0}, {Rank: 1}}},
	{Name: "b", Ranks: []job.RankPlan{{Rank: 2}, {Rank: 3}}},
}}

// Short constructors for the rows below.
func exits(rank, code int) RankEnded { return RankEnded{&job.Exit{Rank: rank, Code: code}} }
func dies(rank, signal int) RankEnded {
	return RankEnded{&job.Exit{Rank: rank, Signal: signal}}
}
func asked(rank, signal int) RankEnded {
	return RankEnded{&job.Exit{Rank: rank, Signal: signal, ToldToEnd: true}}
}
func leaves(rank int) RankEnded { return RankEnded{&job.Exit{Rank: rank, PMI: job.PMIOpen}} }
func sig(s job.Signal) Signaled {
	return Signaled{s}
}

func abortsToo(rank, code int) RankEnded {
	return RankEnded{&job.Exit{Rank: rank, Code: code, PMI: job.PMIAborted}}
}

func aborts(rank, code int, text string) Failure {
	return Failure{Kind: MPIAbort, Rank: rank, Code: code, Text: text}
}
func hangsUp(rank int) Failure { return Failure{Kind: PMIDisconnected, Rank: rank} }

var (
	stuck       = Failure{Kind: PMIBarrierBroken, Text: "stuck"}
	diskFull    = Failure{Kind: OutputFailed, Text: "standard output: no space left on device"}
	badInput    = Failure{Kind: StdinFailed, Text: "input/output error"}
	nobodyReads = Failure{Kind: StdoutGone}
)

// stacks is the policy of -timeout 60 --on-timeout stacks.
var stacks = Policy{Timeout: time.Minute, StackTime: 4 * time.Second, EndPolicy: job.EndPolicy{StacksOnTimeout: true}}

// saving says that ranks were asked for a checkpoint, with a minute's time.
var saving = CheckpointRequested{Grace: time.Minute}

// warning is --warn USR1@10.
var warning = job.EndWarning{Signal: int(job.SIGUSR1), Before: 10 * time.Second}

// begun are the events that all ranks run.
var begun = []any{RankStarted{0}, RankStarted{1}, RankStarted{2}, RankStarted{3}}

// ending returns a batch job that ends a given time after its start.
func ending(after time.Duration) BatchJob {
	return BatchJob{System: "slurm", Job: "4711", End: time.Unix(1_000_000, 0).Add(after)}
}

// slurmJob is a batch job in which mpiexec runs.
var slurmJob = BatchJob{System: "slurm", Job: "4711"}

// never asserts that no Tick is due. A deadline that stays in the past would make supervision loop.
type noTick struct{}

var never noTick

// after is a pause before the next event.
type after time.Duration

// well are the ends of all ranks with 0, in order.
var well = []any{exits(0, 0), exits(1, 0), exits(2, 0), exits(3, 0)}

var drained = []any{NodeDrained{Node: 0}, NodeDrained{Node: 1}}

func sequence(parts ...any) []any {
	var all []any
	for _, p := range parts {
		if list, ok := p.([]any); ok {
			all = append(all, list...)
		} else {
			all = append(all, p)
		}
	}
	return all
}

// Each row is a sentence of the guide.
var steps = []struct {
	name   string
	rules  Policy
	events []any
	want   string // actions
	code   int
	cause  string // part of it
}{
	{"all well", Policy{}, sequence(well, drained), "linger finish", 0, ""},
	{"nodes are done before their last rank is told", Policy{}, sequence(well[:3], NodeDrained{Node: 0}, NodeDrained{Node: 1}, exits(3, 0)), "finish", 0, ""},
	{"first failure decides", Policy{}, sequence(exits(1, 7), dies(0, 15), exits(2, 3), exits(3, 0), drained),
		"end(10s) finish", 7, "rank 1 on a exited with code 7"},
	{"a crash is 128 and the signal", Policy{}, sequence(dies(2, 11), dies(0, 15), dies(1, 15), dies(3, 15), drained),
		"end(10s) finish", 139, "rank 2 on b died: Segmentation fault (signal 11)"},
	{"-K0 lets the others go on", Policy{EndPolicy: job.EndPolicy{KeepOnExit: true}}, sequence(exits(1, 7), exits(0, 9), exits(2, 0), exits(3, 0), drained),
		"linger finish", 7, "rank 1 on a"},
	{"who has saved waits for the others", Policy{}, sequence(saving, exits(1, 85), exits(0, 85), exits(2, 85), exits(3, 85), drained), "linger finish", 85, "rank 1 on a exited with code 85"},
	{"some of which have nothing to save", Policy{}, sequence(saving, exits(1, 85), exits(0, 0), exits(2, 0), exits(3, 0), drained), "linger finish", 85, "rank 1 on a exited with code 85"},
	{"for as long as it may take", Policy{}, sequence(saving, exits(1, 85), after(time.Minute), Tick{}), "end(10s)", 85, "rank 1 on a exited with code 85"},
	{"another failure wins", Policy{}, sequence(saving, exits(1, 85), exits(2, 3)), "end(10s)", 3, "rank 2 on b exited with code 3"},
	{"and so does a node that is lost", Policy{}, sequence(saving, exits(1, 85), NodeLost{1, ""}), "end(10s)", 125, "lost contact with b"},
	{"but not what others make of who left", Policy{}, sequence(saving, exits(1, 85), Failure{Kind: PMIBarrierBroken, Text: "rank 1 ended"}, after(time.Second), Tick{}), "end(10s)", 85, "rank 1 on a exited with code 85"},
	{"who was not asked has failed", Policy{}, sequence(exits(1, 85)), "end(10s)", 85, "rank 1 on a exited with code 85"},
	{"or too long ago", Policy{}, sequence(saving, after(2*time.Minute), exits(1, 85)), "end(10s)", 85, "rank 1 on a exited with code 85"},
	{"-K0 does not hold for a crash", Policy{EndPolicy: job.EndPolicy{KeepOnExit: true}}, sequence(dies(1, 9)), "end(10s)", 137, "signal 9"},
	{"-disable-auto-cleanup does", Policy{EndPolicy: job.EndPolicy{KeepAll: true}}, sequence(dies(1, 9)), "report", 137, "signal 9"},
	{"and for a rank that exits", Policy{EndPolicy: job.EndPolicy{KeepAll: true}}, sequence(exits(1, 5), exits(0, 0), exits(2, 0), exits(3, 0), drained), "report linger finish", 5, "code 5"},
	{"and for a lost connection", Policy{EndPolicy: job.EndPolicy{KeepAll: true}}, sequence(Failure{Kind: PMIDisconnected, Rank: 1}, after(time.Minute), Tick{}), "", 0, ""},
	{"and for a barrier, reported once", Policy{EndPolicy: job.EndPolicy{KeepAll: true}}, sequence(Failure{Kind: PMIBarrierBroken}, Failure{Kind: PMIBarrierBroken}, after(time.Minute), Tick{}), "report", 0, ""},
	{"and for junk on PMI", Policy{EndPolicy: job.EndPolicy{KeepAll: true}}, sequence(Failure{Kind: PMIMalformed, Rank: 1}, after(time.Minute), Tick{}), "report", 0, ""},
	{"and for a rank without finalize, which is reported", Policy{EndPolicy: job.EndPolicy{KeepAll: true}}, sequence(RankEnded{&job.Exit{Rank: 1, PMI: job.PMIOpen}}, after(time.Minute), Tick{}), "report", 0, ""},
	{"-timeout after a rank that failed is reported", Policy{Timeout: time.Minute, EndPolicy: job.EndPolicy{KeepAll: true}}, sequence(exits(1, 5), after(time.Minute), Tick{}), "report report states end(10s)", 5, "code 5"},
	{"but not for MPI_Abort", Policy{EndPolicy: job.EndPolicy{KeepAll: true}}, sequence(Failure{Kind: MPIAbort, Rank: 1, Code: 3}), "end(10s)", 3, "MPI_Abort"},
	{"--exit-status max", Policy{EndPolicy: job.EndPolicy{StatusRule: "max"}}, sequence(exits(1, 3), exits(0, 4), asked(2, 15), asked(3, 9), drained),
		"end(10s) finish", 4, "code 3"},
	{"--exit-status or", Policy{EndPolicy: job.EndPolicy{StatusRule: "or"}}, sequence(exits(1, 3), exits(0, 4), asked(2, 15), asked(3, 9), drained),
		"end(10s) finish", 7, "code 3"},
	{"--exit-status rank0", Policy{EndPolicy: job.EndPolicy{StatusRule: "rank0", KeepOnExit: true}}, sequence(exits(1, 3), exits(0, 0), exits(2, 0), exits(3, 0), drained),
		"linger finish", 0, "code 3"},
	{"node lost", Policy{}, sequence(NodeLost{1, "connection reset"}, dies(0, 15), dies(1, 15), NodeDrained{Node: 0}),
		"end(10s) finish", 125, "lost contact with b (connection reset) after 00:00:00, where ranks 2-3 ran"},
	{"a node that was done is not lost", Policy{}, sequence(exits(2, 0), exits(3, 0), NodeDrained{Node: 1}, NodeLost{1, "eof"}, exits(0, 0), exits(1, 0), NodeDrained{Node: 0}),
		"linger finish", 0, ""},
	{"all nodes lost", Policy{}, sequence(NodeLost{0, ""}, NodeLost{1, ""}), "end(10s) finish", 125, "lost contact with a"},
	{"abort", Policy{}, sequence(aborts(2, 7, "bad"), exits(2, 0), asked(0, 9), asked(1, 9), asked(3, 9), drained),
		"end(10s) finish", 7, "rank 2 on b called MPI_Abort with code 7: bad"},
	{"a crash is the cause of an abort elsewhere", Policy{}, sequence(aborts(0, 101, ""), dies(2, 11), asked(0, 15), asked(1, 15), asked(3, 15), drained),
		"end(10s) finish", 139, "rank 2 on b died"},
	{"a crash is the cause of an abort beside it", Policy{}, sequence(aborts(0, 101, ""), dies(1, 9)), "end(10s)", 137, "rank 1 on a died"},
	{"a crash is the cause of an exit elsewhere", Policy{}, sequence(exits(0, 1), dies(2, 11)), "end(10s)", 139, "rank 2 on b died"},
	{"a lost node whose connection was asked for the reason", Policy{}, sequence(exits(0, 1), after(1900*time.Millisecond), NodeLost{1, "reset"}), "end(10s)", 125, "lost contact with b"},
	{"a lost node is the cause of an abort elsewhere", Policy{}, sequence(aborts(0, 101, ""), NodeLost{1, "reset"}), "end(10s)", 125, "lost contact with b"},
	{"an exit is the cause of an abort elsewhere", Policy{}, sequence(aborts(0, 101, ""), exits(2, 3), asked(1, 15), asked(3, 15), drained),
		"end(10s) finish", 3, "rank 2 on b exited with code 3"},
	{"one that aborts too is not", Policy{}, sequence(aborts(0, 101, ""), abortsToo(2, 101)), "end(10s)", 101, "rank 0 on a called MPI_Abort"},
	{"an exit with 0 is not", Policy{}, sequence(aborts(0, 101, ""), exits(2, 0)), "end(10s)", 101, "rank 0 on a called MPI_Abort"},
	{"not of one of its own", Policy{}, sequence(aborts(2, 7, ""), NodeLost{1, "reset"}), "end(10s)", 7, "rank 2 on b called MPI_Abort"},
	{"a crash after an exit beside it is another failure", Policy{}, sequence(exits(0, 1), dies(1, 11)), "end(10s)", 1, "rank 0 on a"},
	{"a crash when asked to end is none", Policy{}, sequence(aborts(0, 7, ""), asked(2, 11)), "end(10s)", 7, "MPI_Abort with code 7"},
	{"a late crash is another failure", Policy{}, sequence(aborts(0, 7, ""), after(2*time.Second), dies(2, 11)), "end(10s)", 7, "MPI_Abort with code 7"},
	{"the death of a rank by its own abort", Policy{}, sequence(aborts(0, 7, ""), dies(0, 6)), "end(10s)", 7, "MPI_Abort with code 7"},
	{"the first of two crashes", Policy{}, sequence(dies(0, 11), dies(2, 9)), "end(10s)", 139, "rank 0 on a"},
	{"abort with 0 is still an end", Policy{}, sequence(aborts(2, 0, "")), "end(10s)", 1, "MPI_Abort with code 0"},
	{"exec failed", Policy{}, sequence(RankStartFailed{3, 126, "program x: no", "chmod"}, dies(0, 15), dies(1, 15), dies(2, 15), drained),
		"end(10s) finish", 126, "rank 3 on b: program x: no"},
	{"a broken barrier waits for its cause", Policy{}, sequence(stuck, dies(2, 11)), "end(10s)", 139, "rank 2 on b died"},
	{"a broken barrier without one", Policy{}, sequence(stuck, after(time.Second), Tick{}), "end(10s)", 1, "stuck"},
	{"left without finalize, others follow", Policy{}, sequence(hangsUp(1), leaves(1), after(2*time.Second), leaves(0), leaves(2), leaves(3), drained),
		"linger finish", 0, ""},
	{"left without finalize, others stay", Policy{}, sequence(leaves(1), after(5*time.Second), Tick{}), "end(10s)", 1, "rank 1 on a ended without calling MPI_Finalize"},
	{"junk on PMI is a death", Policy{}, sequence(Failure{Kind: PMIMalformed, Rank: 1, Text: "pmi: junk"}, exits(1, 0)), "end(10s)", 1, "rank 1 on a: pmi: junk"},
	{"a start that takes too long", Policy{StartBy: time.Unix(1_000_060, 0)}, sequence(RankStarted{0}, RankStarted{2}, after(time.Minute), Tick{}), "end(10s)", 125, "2 ranks had not started"},
	{"a start in time", Policy{StartBy: time.Unix(1_000_060, 0)}, sequence(RankStarted{0}, RankStarted{1}, RankStarted{2}, RankStarted{3}, after(time.Hour), Tick{}), "", 0, ""},
	{"timeout", Policy{Timeout: time.Minute}, sequence(after(time.Minute), Tick{}, dies(0, 15)), "states end(10s)", 124, "longer than -timeout 1m0s"},
	{"a warning before a timeout", Policy{Timeout: time.Minute, Warn: warning}, sequence(begun, after(49*time.Second), Tick{}, after(time.Second), Tick{}, Tick{}, after(10*time.Second), Tick{}),
		"SIGUSR1 report states end(10s)", 124, "longer than -timeout 1m0s"},
	{"a warning before a walltime", Policy{WallTime: TimeLimit{Max: time.Minute}, Warn: warning}, sequence(begun, after(51*time.Second), Tick{}), "SIGUSR1 report", 0, ""},
	{"a warning before the batch system's end", Policy{Timeout: time.Hour, Warn: warning, BatchJob: ending(time.Minute)}, sequence(begun, after(50*time.Second), Tick{}), "SIGUSR1 report", 0, ""},
	{"a warning for ranks that have not begun", Policy{Timeout: time.Second, Warn: warning}, sequence(Tick{}, begun, after(warnRetry), Tick{}), "SIGUSR1 report", 0, ""},
	{"no warning of a job that ends", Policy{Timeout: 12 * time.Second, Warn: warning}, sequence(begun, exits(1, 3), after(3*time.Second), Tick{}), "end(10s)", 3, "code 3"},
	{"a margin before the batch system's end", Policy{Margin: 10 * time.Second, BatchJob: ending(time.Minute)}, sequence(begun, after(50*time.Second+1), Tick{}),
		"batch-line states end(10s)", 124, "walltime: 50.001 s used, 50 s allowed by --batch-option margin="},
	{"a margin that has begun", Policy{Margin: time.Hour, BatchJob: ending(time.Minute)}, sequence(begun, after(time.Second+1), Tick{}), "batch-line states end(10s)", 124, "walltime: 1.001 s used, 1 s allowed by --batch-option margin="},
	{"no margin, no end of ours", Policy{BatchJob: ending(time.Minute)}, sequence(begun, after(time.Hour), Tick{}), "", 0, ""},
	{"timeout with stacks", stacks, sequence(after(time.Minute), Tick{}, dies(0, 3), dies(1, 3), after(4*time.Second+stacksGrace), Tick{}, never, dies(2, 15), dies(3, 15), drained),
		"states SIGQUIT end(10s) finish", 124, "longer than -timeout 1m0s"},
	{"timeout with stacks, all end by them", stacks, sequence(after(time.Minute), Tick{}, dies(0, 3), dies(1, 3), dies(2, 3), dies(3, 3), drained, never),
		"states SIGQUIT linger finish", 124, "longer than -timeout 1m0s"},
	{"timeout with stacks, then ^C", stacks, sequence(after(time.Minute), Tick{}, sig(job.SIGINT)), "states SIGQUIT end(1s) report", 124, "longer than"},
	{"timeout after ^C", Policy{Timeout: time.Minute}, sequence(sig(job.SIGINT), after(time.Minute), Tick{}, never), "SIGINT report states end(10s)", 130, ""},
	{"of two deadlines that have passed, the earlier counts", Policy{Timeout: time.Minute}, sequence(after(59500*time.Millisecond), stuck, after(5*time.Second), Tick{}), "states end(10s)", 124, "longer than -timeout 1m0s"},
	{"the same, the other way round", Policy{Timeout: time.Minute}, sequence(after(58500*time.Millisecond), stuck, after(5*time.Second), Tick{}), "end(10s)", 1, "stuck"},
	{"timeout does not strike early", Policy{Timeout: time.Minute}, sequence(after(59*time.Second), Tick{}), "", 0, ""},
	{"one ^C, ranks end", Policy{}, sequence(sig(job.SIGINT), dies(0, 2), exits(1, 1), exits(2, 0), dies(3, 2), drained),
		"SIGINT report linger finish", 130, ""},
	{"a full disk is no quiet end", Policy{}, sequence(diskFull), "end(10s)", 125, "standard output: no space left on device"},
	{"a full disk after the last rank", Policy{}, sequence(well, drained, diskFull), "linger finish finish", 125, "standard output"},
	{"SIGPIPE is ours", Policy{}, sequence(sig(job.SignalByName("SIGPIPE"))), "", 0, ""},
	{"^C shortens an ending", Policy{}, sequence(exits(1, 3), sig(job.SIGINT)), "end(10s) end(1s) report", 3, "code 3"},
	{"an ending is never lengthened", Policy{}, sequence(sig(job.SIGINT), sig(job.SIGINT), sig(job.SIGTERM)), "SIGINT report end(1s) report end(0s)", 130, ""},
	{"the batch system ends all nodes, of which two tell it", Policy{BatchJob: BatchJob{System: "slurm", Job: "4711"}}, sequence(HelperSignaled{0, job.SIGTERM, ""}, exits(1, 3), HelperSignaled{1, job.SIGTERM, ""}),
		"end(10s)", 143, "Slurm ends job 4711 (at its time limit, or because a user cancelled it)"},
	{"the batch system ends a rank, and then us", Policy{BatchJob: BatchJob{System: "slurm", Job: "4711"}}, sequence(dies(1, 15), sig(job.SIGTERM)),
		"end(10s)", 143, "Slurm ends job 4711 (at its time limit, or because a user cancelled it)"},
	{"a crash that the batch system only cleans up after", Policy{BatchJob: BatchJob{System: "slurm", Job: "4711"}}, sequence(dies(1, 11), sig(job.SIGTERM)),
		"end(10s)", 139, "rank 1 on a died"},
	{"the batch system kills a step, a rank before its helper", Policy{BatchJob: slurmJob}, sequence(dies(2, 9), after(900*time.Millisecond), NodeLost{1, "srun: STEP 4711.0 ON b CANCELLED"}),
		"end(10s)", 125, "lost contact with b (srun: STEP 4711.0 ON b CANCELLED) after 00:00:01, where ranks 2-3 ran"},
	{"the batch system kills a step, a rank before another node", Policy{BatchJob: slurmJob}, sequence(dies(0, 9), NodeLost{1, "reset"}, NodeLost{0, "reset"}),
		"end(10s) finish", 125, "lost contact with b (reset) after 00:00:00, where ranks 2-3 ran"},
	{"the batch system kills a step, one rank after the other", Policy{BatchJob: slurmJob}, sequence(dies(2, 9), dies(3, 9), NodeLost{1, "reset"}),
		"end(10s)", 125, "lost contact with b (reset) after 00:00:00, where ranks 2-3 ran"},
	{"a rank killed long before its node is lost", Policy{BatchJob: slurmJob}, sequence(dies(2, 9), after(6*time.Second), NodeLost{1, "reset"}), "end(10s)", 137, "rank 2 on b died"},
	{"a rank that crashed before its node is lost", Policy{BatchJob: slurmJob}, sequence(dies(2, 11), NodeLost{1, "reset"}), "end(10s)", 139, "rank 2 on b died"},
	{"a rank of which it is known why it was killed", Policy{BatchJob: slurmJob}, sequence(RankEnded{&job.Exit{Rank: 2, Signal: 9, Hint: "out of memory"}}, NodeLost{1, "reset"}), "end(10s)", 137, "rank 2 on b died"},
	{"a killed rank, and nobody who kills steps", Policy{}, sequence(dies(2, 9), NodeLost{1, "reset"}), "end(10s)", 137, "rank 2 on b died"},
	{"a rank that ends faster than its node tells who told both", Policy{BatchJob: slurmJob}, sequence(exits(2, 3), HelperSignaled{1, job.SIGTERM, ""}), "end(10s)", 125, "the processes on b received a signal that ends them (SIGTERM)"},
	{"a rank that failed before a node was told to end", Policy{BatchJob: slurmJob}, sequence(exits(2, 3), after(2*time.Second), HelperSignaled{1, job.SIGTERM, ""}), "end(10s)", 3, "rank 2 on b"},
	{"a rank that failed, and another node that was told to end", Policy{BatchJob: slurmJob}, sequence(exits(2, 3), HelperSignaled{0, job.SIGTERM, ""}), "end(10s)", 3, "rank 2 on b"},
	{"a node that is told to end, without a batch system", Policy{}, sequence(dies(2, 15), HelperSignaled{1, job.SIGTERM, ""}), "end(10s)", 125, "the processes on b received a signal that ends them (SIGTERM)"},
	{"a node that is told to end, and knows why", Policy{}, sequence(HelperSignaled{1, job.SIGTERM, "out of memory"}), "end(10s)", 125, "the processes on b received a signal that ends them (SIGTERM): out of memory"},
	{"a rank killed for memory, behind which systemd stops its session", Policy{}, sequence(RankEnded{&job.Exit{Rank: 2, Signal: 9, Hint: "out of memory"}}, HelperSignaled{1, job.SIGTERM, "out of memory"}), "end(10s)", 137, "rank 2 on b died"},
	{"a node lost long before the batch system ends the job", Policy{BatchJob: BatchJob{System: "slurm", Job: "4711"}}, sequence(NodeLost{1, "reset"}, after(6*time.Second), sig(job.SIGTERM)),
		"end(10s)", 125, "lost contact with b"},
	{"two ^C", Policy{}, sequence(sig(job.SIGINT), sig(job.SIGINT), dies(0, 9), dies(1, 9), dies(2, 9), dies(3, 9), drained),
		"SIGINT report end(1s) report finish", 130, ""},
	{"three ^C wait for nobody", Policy{}, sequence(sig(job.SIGINT), sig(job.SIGINT), sig(job.SIGINT)),
		"SIGINT report end(1s) report end(0s) finish", 130, ""},
	{"one ^C, a rank stays to clean up", Policy{}, sequence(sig(job.SIGINT), hangsUp(1), dies(1, 2), after(time.Minute), Tick{}, exits(0, 0), exits(2, 0), exits(3, 0), drained),
		"SIGINT report linger finish", 130, ""},
	{"one ^C, a doubt from before", Policy{}, sequence(hangsUp(1), sig(job.SIGINT), dies(1, 2), after(time.Minute), Tick{}),
		"SIGINT report", 130, ""},
	{"one ^C, then a node is lost", Policy{}, sequence(sig(job.SIGINT), NodeLost{1, "reset"}), "SIGINT report end(10s)", 130, ""},
	{"ranks that were not started before the end", Policy{}, sequence(exits(0, 3), NodeDrained{Node: 0}, NodeDrained{Node: 1}), "end(10s) finish", 3, "rank 0 on a"},
	{"SIGTERM", Policy{}, sequence(sig(job.SIGTERM), dies(0, 15)), "end(10s) report", 143, ""},
	{"a doubt while the job is ending", Policy{}, sequence(sig(job.SIGTERM), hangsUp(1), after(2*time.Second), Tick{}, never), "end(10s) report", 143, ""},
	{"a doubt from before the end", Policy{}, sequence(hangsUp(1), sig(job.SIGTERM), after(2*time.Second), Tick{}, never), "end(10s) report", 143, ""},
	{"SIGTERM twice does not wait", Policy{}, sequence(sig(job.SIGTERM), sig(job.SIGTERM)), "end(10s) report end(0s)", 143, ""},
	{"SIGHUP", Policy{}, sequence(sig(job.SIGHUP)), "end(10s)", 129, ""},
	{"^C after a failure changes no code", Policy{}, sequence(exits(1, 7), sig(job.SIGINT)), "end(10s) end(1s) report", 7, "code 7"},
	{"SIGUSR1 is passed on", Policy{}, sequence(sig(job.SIGUSR1)), "SIGUSR1", 0, ""},
	{"SIGCHLD is not", Policy{}, sequence(sig(job.SignalByName("SIGCHLD"))), "", 0, ""},
	{"--forward-signals none", Policy{SignalPolicy: job.SignalPolicy{Forward: []int{}}}, sequence(sig(job.SIGUSR1), sig(job.SIGQUIT)), "", 0, ""},
	{"--forward-signals URG", Policy{SignalPolicy: job.SignalPolicy{Forward: []int{int(job.SignalByName("SIGURG"))}}}, sequence(sig(job.SignalByName("SIGURG")), sig(job.SIGUSR1)), "SIGURG", 0, ""},
	{"^Z", Policy{}, sequence(sig(job.SIGTSTP)), "suspend", 0, ""},
	{"nobody reads our stdout", Policy{}, sequence(nobodyReads, dies(0, 15), dies(1, 13), dies(2, 15), dies(3, 15), drained), "end(10s) finish", 141, ""},
	{"processes that cannot be killed", Policy{}, sequence(dies(1, 11), after(21*time.Second), Tick{}), "end(10s) report finish", 139, "signal 11"},
	{"a reader slower than leftover children", Policy{}, sequence(well, NodeProcessesGone{Node: 0}, NodeProcessesGone{Node: 1}, after(time.Hour), Tick{}, never, drained),
		"linger finish", 0, ""},
	{"a reader slower than leftover children, and a child that cannot be killed", Policy{}, sequence(well, NodeProcessesGone{Node: 0}, after(time.Hour), Tick{}),
		"linger report finish", 0, ""},
	{"a reader too slow for who ends the job", Policy{}, sequence(well, NodeProcessesGone{Node: 0}, NodeProcessesGone{Node: 1}, after(time.Hour), Tick{}, sig(job.SIGTERM),
		never, after(21*time.Second), Tick{}), "linger end(10s) report finish", 143, ""},
	{"a rank told twice", Policy{}, sequence(exits(1, 0), exits(1, 5)), "", 0, ""},
	{"a rank that does not exist", Policy{}, sequence(exits(99, 5), exits(-1, 5)), "", 0, ""},
}

func TestStep(t *testing.T) {
	for _, test := range steps {
		t.Run(test.name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			test.rules.Grace = 10 * time.Second
			state := NewState(twoNodes, test.rules, now)
			var did []string
			for _, event := range test.events {
				if pause, ok := event.(after); ok {
					now = now.Add(time.Duration(pause))
					continue
				}
				if event == never {
					if next := state.Next(); !next.IsZero() && !next.After(now) {
						t.Errorf("a tick is due again at once")
					}
					continue
				}
				for _, action := range state.Step(event, now) {
					did = append(did, word(action))
				}
			}
			cause := ""
			if state.Cause != nil {
				cause = state.Cause.Text
			}
			if got := strings.Join(did, " "); got != test.want || state.ExitCode() != test.code || !strings.Contains(cause, test.cause) ||
				test.cause == "" && cause != "" {
				t.Errorf("events %+v\n did  %s, code %d, cause %q\n want %s, code %d, cause %q",
					test.events, got, state.ExitCode(), cause, test.want, test.code, test.cause)
			}
		})
	}
}

func word(action Action) string {
	switch a := action.(type) {
	case SignalAllRanks:
		return a.String()
	case EndAll:
		if a.Linger > 0 {
			return "linger"
		}
		return fmt.Sprintf("end(%v)", a.Grace)
	case ReportLine:
		return "report"
	case BatchLine:
		return "batch-line"
	case InspectRanks:
		return "states"
	case StopLauncher:
		return "suspend"
	case Finish:
		return "finish"
	}
	return fmt.Sprintf("%T", action)
}

// A spawned group is part of the job: a failure of its ranks ends the job, and the job waits for
// them.
func TestSpawnedGroups(t *testing.T) {
	onA := GroupSpawned{Nodes: []int{0, 0}}
	onC := GroupSpawned{NewNodes: []string{"c"}, Nodes: []int{1, 2}}
	for _, test := range []struct {
		name   string
		events []any
		want   string
	}{
		{"the job waits for them", sequence(onA, well, exits(4, 0), exits(5, 0), drained), "[{2s 500ms} {}] 0"},
		{"also on nodes that are drained, and new ones",
			sequence(exits(2, 0), exits(3, 0), NodeDrained{Node: 1}, onC, exits(0, 0), exits(1, 0), NodeDrained{Node: 0},
				exits(4, 0), exits(5, 0), NodeDrained{Node: 1}, NodeDrained{Node: 2}), "[{2s 500ms} {}] 0"},
		{"their failure is the job's", sequence(onC, exits(5, 4)), "[{0s 1m0s}] 4 rank 1:1 on c exited with code 4"},
		{"of two groups", sequence(onA, onC, dies(7, 9)), "[{0s 1m0s}] 137 rank 2:1 on c died: Killed (signal 9)"},
		{"a lost node", sequence(onC, NodeLost{Node: 2}), "[{0s 1m0s}] 125 lost contact with c after 00:00:00, where rank 5 ran"},
		{"one that cannot be started ends the job not",
			sequence(onA, RankStarted{4}, GroupKilled{4, 2}, RankStartFailed{Rank: 5, Code: 127}, dies(4, 9), well, drained), "[{2s 500ms} {}] 0"},
		{"whatever came first", sequence(onA, GroupKilled{4, 2}, dies(5, 9), RankStartFailed{Rank: 4, Code: 127}), "[] 0"},
	} {
		now := time.Unix(0, 0)
		s := NewState(twoNodes, Policy{Grace: time.Minute}, now)
		actions := []Action{}
		for _, event := range test.events {
			actions = append(actions, s.Step(event, now)...)
		}
		cause := ""
		if s.Cause != nil {
			cause = " " + s.Cause.Text
		}
		if got := fmt.Sprintf("%v %d%s", actions, s.ExitCode(), cause); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
	s := NewState(twoNodes, Policy{}, time.Now())
	if s.Step(exits(0, 0), time.Now()); s.MaySpawn(0) || !s.MaySpawn(1) || s.MaySpawn(4) {
		t.Error("who may spawn: not a rank that is over, or that there is not")
	}
	if s.Step(Signaled{job.SIGINT}, time.Now()); s.MaySpawn(1) {
		t.Error("a rank that was told to end may spawn")
	}
}
