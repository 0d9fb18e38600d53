//go:build linux

package e2e

import (
	"cmp"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"remshell/tools/testbed"
)

// A chaosCase is one job and the fault that disturbs it. It holds all random choices.
type chaosCase struct {
	fault
	setUp      func(t *testing.T, b *testCluster)                        // the job starts
	run        func(t *testing.T, b *testCluster, tag string) *taggedJob // instead of strike; nil: that
	repair     func(t *testing.T, b *testCluster)                        // what hit has broken, when mpiexec is over
	codes      []int                                                     // that are right, beside code
	causes     []string                                                  // and the reports that go with them
	killed     bool                                                      // a helper, and so its claim is left as a dead file
	notice     string                                                    // lines of mpiexec that are no report
	otherLines []string                                                  // and others
	after      func(t *testing.T, v *taggedJob, r result)                // what else must be
}

// shortProgram runs for three seconds and exits with 0.
var shortProgram = program{"brief", func(_ *testing.T, tag string) []string {
	return []string{"sh", "-c", "echo ready; sleep 3." + tag}
}, 1}

// orphanProgram ends at once, and leaves a child that ignores signals in a session of its own.
var orphanProgram = program{"leaves", func(_ *testing.T, tag string) []string {
	return []string{"sh", "-c", `setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1000.` + tag + `; done' & echo ready`}
}, 0}

// A chaosKind makes cases of one kind by random choices.
type chaosKind struct {
	name     string
	generate func(d *rand.Rand) chaosCase
}

func pick[T any](d *rand.Rand, from ...T) T { return from[d.IntN(len(from))] }

// pickHost returns one of the two hosts that run ranks, and the other one.
func pickHost(d *rand.Rand) (hit, other string) {
	if d.IntN(2) == 0 {
		return "n1", "n2"
	}
	return "n2", "n1"
}

// runningCase returns a case in which hit disturbs a running job.
func runningCase(p program, code int, cause string, hit func(*testing.T, *taggedJob)) chaosCase {
	return chaosCase{fault: fault{program: p, hit: hit, code: code, cause: cause}}
}

// signalCase returns a case in which signals are sent to mpiexec.
func signalCase(p program, code int, first syscall.Signal, more ...any) chaosCase {
	m := runningCase(p, code, "", sendSignals(first, more...))
	if p.name == "deaf" {
		m.options = []string{"--kill-grace", "1"}
	}
	return m
}

// killProcessOn kills one process on a host with a signal, after a moment.
func killProcessOn(d *rand.Rand, host string, sig syscall.Signal, is func([]string) bool) func(*testing.T, *taggedJob) {
	which, pause := d.IntN(1000), time.Duration(d.IntN(200))*time.Millisecond
	return func(t *testing.T, v *taggedJob) {
		<-time.After(pause)
		pids := v.findOn(t, host, is)
		if len(pids) == 0 {
			t.Fatalf("no such process on %s", host)
		}
		signalPIDs(t, sig, "process on "+host, pids[which%len(pids):][:1])
	}
}

// isRank reports whether args are those of a rank of shellProgram or spinProgram.
func isRank(args []string) bool {
	return secondArgIs("spin")(args) || secondArgIs("-c")(args) && args[0] == "sh"
}

// startingCase returns a case in which a signal is sent to an mpiexec that is still starting.
func startingCase(d *rand.Rand, sig syscall.Signal, code int) chaosCase {
	pause := time.Duration(d.IntN(400)) * time.Millisecond
	m := chaosCase{fault: fault{program: shellProgram, code: code, hit: func(t *testing.T, v *taggedJob) {
		<-time.After(pause)
		v.cmd.Process.Signal(sig)
	}}}
	m.run = func(t *testing.T, b *testCluster, tag string) *taggedJob {
		args := shellProgram.args(t, tag)
		if sig == syscall.SIGINT { // which dash catches, and loses if it is about to start a child
			args = []string{"sleep", "1000." + tag}
		}
		return b.startTaggedJob(t, tag, slices.Concat([]string{"-hosts", "n1:2,n2:2", "-n", "4"}, args)...)
	}
	if sig != syscall.SIGKILL {
		m.causes = []string{"", "cancelled by"}
	}
	return m
}

// startTaggedJob starts mpiexec and returns at once.
func (b *testCluster) startTaggedJob(t *testing.T, tag string, args ...string) *taggedJob {
	return &taggedJob{cluster: b, tag: tag, runningJob: b.startMpiexec(t, mpiexecCall{args: args})}
}

// endCase returns a case in which the job ends by itself, whatever was done before.
func endCase(code int, cause string, args ...string) chaosCase {
	m := chaosCase{fault: fault{code: code, cause: cause, hit: func(*testing.T, *taggedJob) {}}}
	m.run = func(t *testing.T, b *testCluster, tag string) *taggedJob {
		return b.startTaggedJob(t, tag, slices.Concat([]string{"-hosts", "n1:2,n2:2", "-n", "4"}, args)...)
	}
	return m
}

// shellArgs returns the arguments for a script in which TAG is in some argument.
func shellArgs(script string) []string { return []string{"sh", "-c", script} }

// redirectedCase runs mpiexec by a shell, whose script has the words of mpiexec as "$@" and
// prints its exit code on stderr.
func redirectedCase(code int, cause, script string, args ...string) chaosCase {
	m := chaosCase{fault: fault{code: code, cause: cause, hit: func(*testing.T, *taggedJob) {}}}
	m.run = func(t *testing.T, b *testCluster, tag string) *taggedJob {
		words := slices.Concat([]string{"-c", script, tag, binary, "-hosts", "n1,n2", "-ppn", "1", "-n", "2"}, args)
		return &taggedJob{cluster: b, tag: tag, runningJob: b.startCommand(t, mpiexecCall{}, append([]string{"sh"}, words...))}
	}
	return m
}

// cutLink takes the link of a host down; mend brings it up.
func cutLink(host string) (down, up func(*testing.T, *testCluster)) {
	set := func(up bool) func(*testing.T, *testCluster) {
		return func(t *testing.T, b *testCluster) {
			if err := b.SetLink(host, up); err != nil {
				t.Fatal(err)
			}
		}
	}
	return set(false), set(true)
}

// runShellOn returns a function that runs a shell script on a host.
func runShellOn(host, script string) func(*testing.T, *testCluster) {
	return func(t *testing.T, b *testCluster) { b.runOn(t, host, "sh", "-c", script) }
}

const (
	lossyLink  = `printf 'table inet chaos {\nchain input {\ntype filter hook input priority 0;\nnumgen random mod 100 < 15 drop\n}\n}\n' | nft -f -`
	normalLink = `nft delete table inet chaos`
	// netem is not in every kernel; a narrow link delays as well.
	narrowLink = `tc qdisc add dev $(ip -o link | sed -n 's/^[0-9]*: \(eth[^@:]*\|[a-z]*[0-9][^@:]*\)[@:].*/\1/p' | head -1) root tbf rate 2mbit burst 5000 latency 400ms`
	wideLink   = `tc qdisc del dev $(ip -o link | sed -n 's/^[0-9]*: \(eth[^@:]*\|[a-z]*[0-9][^@:]*\)[@:].*/\1/p' | head -1) root`
)

// fullDiskCase fills a folder's file system on a host before the start.
func fullDiskCase(m chaosCase, host, dir string) chaosCase {
	m.setUp = runShellOn(host, "mount -o remount,size=1m "+dir+" && ! head -c 9000000 /dev/zero 2>/dev/null >"+dir+"/filled")
	m.repair = runShellOn(host, "rm "+dir+"/filled && mount -o remount,size=50% "+dir)
	return m
}

// chaosKinds are the faults of the chaos.
var chaosKinds = []chaosKind{
	{"rank killed", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		return runningCase(pick(d, shellProgram, spinProgram), 137, "rank ", killProcessOn(d, host, syscall.SIGKILL, isRank))
	}},
	{"rank crashes", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		return runningCase(spinProgram, 139, "Segmentation fault", killProcessOn(d, host, syscall.SIGSEGV, isRank))
	}},
	{"rank terminated", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		return runningCase(pick(d, shellProgram, spinProgram), 143, "rank ", killProcessOn(d, host, syscall.SIGTERM, isRank))
	}},
	{"helper killed", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := runningCase(pick(d, shellProgram, spinProgram), 125, "lost contact with "+host, killProcessOn(d, host, syscall.SIGKILL, isHelperArgs))
		m.killed = true
		return m
	}},
	{"reaper killed", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := runningCase(pick(d, shellProgram, spinProgram), 125, "lost contact with "+host, killProcessOn(d, host, syscall.SIGKILL, isReaperArgs))
		m.killed = true
		return m
	}},
	{"session of sshd killed", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := runningCase(pick(d, shellProgram, spinProgram), 125, "lost contact with "+host, killProcessOn(d, host, syscall.SIGKILL, isSession))
		return m
	}},
	{"helper told to end", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		return runningCase(pick(d, shellProgram, spinProgram), 125, "the processes on "+host+" received a signal that ends them (SIGTERM)", killProcessOn(d, host, syscall.SIGTERM, isHelperArgs))
	}},
	{"a rank and a helper killed", func(d *rand.Rand) chaosCase {
		host, other := pickHost(d)
		first, next := killProcessOn(d, host, syscall.SIGKILL, isRank), killProcessOn(d, other, syscall.SIGKILL, isHelperArgs)
		m := runningCase(shellProgram, 137, "rank ", func(t *testing.T, v *taggedJob) {
			var both sync.WaitGroup
			both.Go(func() { v.hitUnlessOver(first) })
			both.Go(func() { v.hitUnlessOver(next) })
			both.Wait()
		})
		m.codes, m.causes = []int{125}, []string{"rank ", "lost contact with " + other}
		m.killed = true
		return m
	}},
	{"mpiexec killed", func(d *rand.Rand) chaosCase {
		return signalCase(pick(d, shellProgram, spinProgram, stoppedProgram, deafProgram), 137, syscall.SIGKILL)
	}},
	{"mpiexec killed early", func(d *rand.Rand) chaosCase { return startingCase(d, syscall.SIGKILL, 137) }},
	{"mpiexec stopped and killed", func(d *rand.Rand) chaosCase {
		m := signalCase(pick(d, shellProgram, spinProgram), 137, syscall.SIGSTOP, syscall.SIGKILL)
		return m
	}},
	{"mpiexec stopped for a while", func(d *rand.Rand) chaosCase {
		pause := time.Duration(d.IntN(4000)) * time.Millisecond
		return runningCase(shortProgram, 0, "", func(t *testing.T, v *taggedJob) {
			v.cmd.Process.Signal(syscall.SIGSTOP)
			<-time.After(pause)
			v.cmd.Process.Signal(syscall.SIGCONT)
		})
	}},
	{"local mpiexec killed", func(d *rand.Rand) chaosCase {
		m := signalCase(pick(d, shellProgram, spinProgram), 137, syscall.SIGKILL)
		m.local = true
		m.killed = true
		return m
	}},
	{"guard killed, then SIGTERM", func(d *rand.Rand) chaosCase {
		m := runningCase(shellProgram, 143, "", func(t *testing.T, v *taggedJob) {
			signalPIDs(t, syscall.SIGKILL, "guard", v.guards())
			v.cmd.Process.Signal(syscall.SIGTERM)
		})
		m.local = true
		return m
	}},
	{"SIGTERM", func(d *rand.Rand) chaosCase {
		return signalCase(pick(d, shellProgram, spinProgram, stoppedProgram, deafProgram), 143, syscall.SIGTERM)
	}},
	{"SIGTERM early", func(d *rand.Rand) chaosCase { return startingCase(d, syscall.SIGTERM, 143) }},
	{"SIGHUP", func(d *rand.Rand) chaosCase {
		return signalCase(pick(d, shellProgram, spinProgram), 129, syscall.SIGHUP)
	}},
	{"^C", func(d *rand.Rand) chaosCase {
		return signalCase(pick(d, shellProgram, spinProgram), 130, syscall.SIGINT)
	}},
	{"^C early", func(d *rand.Rand) chaosCase { return startingCase(d, syscall.SIGINT, 130) }},
	{"^C twice", func(d *rand.Rand) chaosCase {
		return signalCase(deafToINTProgram, 130, syscall.SIGINT, interruptedText, syscall.SIGINT)
	}},
	{"^C thrice", func(d *rand.Rand) chaosCase {
		m := signalCase(deafToINTProgram, 130, syscall.SIGINT, interruptedText, syscall.SIGINT, syscall.SIGINT)
		m.options = []string{"--kill-grace", "1"}
		m.causes, m.codes = []string{"exiting at once; the hosts end the remaining ranks by themselves"}, []int{130} // the last words of TRUST-34, on a busy machine
		return m
	}},
	{"SIGQUIT", func(d *rand.Rand) chaosCase {
		m := runningCase(spinProgram, 131, "rank ", sendSignals(syscall.SIGQUIT))
		return m
	}},
	{"link down for a moment", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		down, up := cutLink(host)
		pause := time.Duration(d.IntN(800)) * time.Millisecond
		return runningCase(shortProgram, 0, "", func(t *testing.T, v *taggedJob) {
			down(t, v.cluster)
			<-time.After(pause)
			up(t, v.cluster)
		})
	}},
	{"link cut", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		down, up := cutLink(host)
		m := runningCase(pick(d, shellProgram, spinProgram), 125, "lost contact with "+host, func(t *testing.T, v *taggedJob) { down(t, v.cluster) })
		m.repair = up
		return m
	}},
	{"link cut, then SIGTERM", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		down, up := cutLink(host)
		m := runningCase(shellProgram, 143, "", func(t *testing.T, v *taggedJob) {
			down(t, v.cluster)
			v.cmd.Process.Signal(syscall.SIGTERM)
		})
		m.options, m.repair = []string{"--kill-grace", "1"}, up
		return m
	}},
	{"packets lost", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := runningCase(shortProgram, 0, "", func(*testing.T, *taggedJob) {})
		m.setUp, m.repair = runShellOn(host, lossyLink), runShellOn(host, normalLink)
		m.options = []string{"--connect-timeout", "30"}
		return m
	}},
	{"a narrow link", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := runningCase(shortProgram, 0, "", func(*testing.T, *taggedJob) {})
		m.setUp, m.repair = runShellOn(host, narrowLink), runShellOn(host, wideLink)
		return m
	}},
	{"host behind a wall", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := endCase(125, host+": ", append([]string{"--connect-timeout", "4", "--retries", "1"}, shellArgs("echo no")...)...)
		m.setUp = func(t *testing.T, b *testCluster) {
			if err := b.Block(host); err != nil {
				t.Fatal(err)
			}
		}
		m.repair = func(t *testing.T, b *testCluster) {
			if err := b.Unblock(host); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}},
	{"helper stopped for a while", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		pause := time.Duration(d.IntN(4000)) * time.Millisecond
		return runningCase(shortProgram, 0, "", func(t *testing.T, v *taggedJob) {
			pids := v.findOn(t, host, isHelperArgs)
			signalPIDs(t, syscall.SIGSTOP, "helper", pids)
			<-time.After(pause)
			signalPIDs(t, syscall.SIGCONT, "helper", pids)
		})
	}},
	{"helper stopped for good", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		var pids []int
		m := runningCase(shellProgram, 124, "the job ran longer than -timeout 10s", func(t *testing.T, v *taggedJob) {
			pids = v.findOn(t, host, isHelperArgs)
			signalPIDs(t, syscall.SIGSTOP, "helper", pids)
		})
		m.options = []string{"-timeout", "10", "--kill-grace", "1"}
		m.notice = host + ": mpiexec could not end all processes of the job in time"
		m.repair = func(t *testing.T, b *testCluster) { signalPIDs(t, syscall.SIGCONT, "helper", pids) }
		return m
	}},
	{"rank stopped, -timeout", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := runningCase(pick(d, shellProgram, spinProgram), 124, "the job ran longer than -timeout 10s", killProcessOn(d, host, syscall.SIGSTOP, isRank))
		m.options = []string{"-timeout", "10"}
		return m
	}},
	{"-timeout with stacks", func(d *rand.Rand) chaosCase {
		m := runningCase(pick(d, shellProgram, spinProgram, deafProgram), 124, "the job ran longer than -timeout 10s", func(*testing.T, *taggedJob) {})
		m.options = []string{"-timeout", "10", "--on-timeout", "stacks", "--kill-grace", "1"}
		return m
	}},
	{"nobody reads stdout", func(d *rand.Rand) chaosCase {
		m := redirectedCase(0, "", `{ "$@" || echo code $? >&2; } | head -1`, "yes")
		m.after = func(t *testing.T, v *taggedJob, r result) {
			if r.out != "y\n" || r.err != "code 141\n" {
				t.Errorf("stdout %q, stderr %q", r.out, r.err)
			}
		}
		return m
	}},
	{"stdout is full", func(d *rand.Rand) chaosCase {
		return redirectedCase(125, "standard output: ", `exec "$@" >/dev/full`, "sh", "-c", "echo x; sleep 1000")
	}},
	{"no descriptors left for mpiexec", func(d *rand.Rand) chaosCase {
		limit := 8 + d.IntN(12)
		m := redirectedCase(0, "", fmt.Sprintf(`ulimit -n %d; exec "$@"`, limit), "true")
		m.codes, m.causes = []int{125, 126}, []string{"", "too many open files"}
		return m
	}},
	{"exit code", func(d *rand.Rand) chaosCase {
		code, rank := 1+d.IntN(100), d.IntN(4)
		return endCase(code, fmt.Sprintf("rank %d on ", rank), shellArgs(fmt.Sprintf("if [ $PMI_RANK = %d ]; then exit %d; fi; sleep 1000", rank, code))...)
	}},
	{"all fail at once", func(d *rand.Rand) chaosCase {
		code := 1 + d.IntN(100)
		return endCase(code, "exited with code", shellArgs(fmt.Sprint("setsid sleep 1000 & exit ", code))...)
	}},
	{"abort", func(d *rand.Rand) chaosCase {
		code, rank := 1+d.IntN(100), d.IntN(4)
		m := endCase(code, fmt.Sprintf("rank %d on ", rank))
		m.run = func(t *testing.T, b *testCluster, tag string) *taggedJob {
			return b.startTaggedJob(t, tag, "-hosts", "n1:2,n2:2", "-n", "4", mpiProgram(t, "misc"), "abort", strconv.Itoa(rank), strconv.Itoa(code))
		}
		return m
	}},
	{"exit of one that others wait for", func(d *rand.Rand) chaosCase {
		code, rank := 1+d.IntN(100), d.IntN(4)
		m := endCase(code, fmt.Sprintf("rank %d on ", rank))
		m.run = func(t *testing.T, b *testCluster, tag string) *taggedJob {
			return b.startTaggedJob(t, tag, "-hosts", "n1:2,n2:2", "-n", "4", mpiProgram(t, "misc"), pick(d, "quit", "exit"), strconv.Itoa(rank), strconv.Itoa(code))
		}
		return m
	}},
	{"program missing", func(d *rand.Rand) chaosCase {
		return endCase(127, "not found", "no-such-program")
	}},
	{"directory missing", func(d *rand.Rand) chaosCase {
		return endCase(127, "working directory /no/such/place", "-wdir", "/no/such/place", "true")
	}},
	{"deaf children left behind", func(d *rand.Rand) chaosCase {
		return runningCase(orphanProgram, 0, "", func(*testing.T, *taggedJob) {})
	}},
	{"/dev/shm full", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		return fullDiskCase(runningCase(shortProgram, 0, "", func(*testing.T, *taggedJob) {}), host, "/dev/shm")
	}},
	{"/tmp full", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		return fullDiskCase(runningCase(shortProgram, 0, "", func(*testing.T, *taggedJob) {}), host, "/tmp")
	}},
	{"ledger's disk full", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := fullDiskCase(runningCase(shortProgram, 0, "", func(*testing.T, *taggedJob) {}), host, "/var/tmp")
		m.notice = ": cannot use the claims in "
		return m
	}},
	{"our program lost on a host", func(d *rand.Rand) chaosCase {
		host, _ := pickHost(d)
		m := runningCase(shortProgram, 0, "", func(*testing.T, *taggedJob) {})
		m.setUp = runShellOn(host, "rm -rf ~/.cache/remshell")
		return m
	}},
}

// hitUnlessOver strikes unless the job is over already.
func (v *taggedJob) hitUnlessOver(hit func(*testing.T, *taggedJob)) {
	var quiet testing.T
	done := make(chan struct{})
	go func() { // Fatal ends the goroutine
		defer close(done)
		hit(&quiet, v)
	}()
	<-done
}

// A chaosLane is a test cluster on which jobs run one after the other.
type chaosLane struct {
	*testCluster
	seed  uint64
	kinds []chaosKind
}

// runCase runs one job to its end and looks at what it has left.
func (l chaosLane) runCase(t *testing.T, number int) {
	d := rand.New(rand.NewPCG(l.seed, uint64(number)))
	kind := l.kinds[(number+d.IntN(2)*d.IntN(len(l.kinds)))%len(l.kinds)]
	t.Run(fmt.Sprintf("%d %s", number, kind.name), func(t *testing.T) {
		t.Logf("again: CHAOS_SEED=%d CHAOS_ONLY=%d CHAOS_KIND='%s' make chaos", l.seed, number, os.Getenv("CHAOS_KIND"))
		m := kind.generate(d)
		defer l.repairOnce(t, &m)
		if m.setUp != nil {
			m.setUp(t, l.testCluster)
		}
		var v *taggedJob
		if m.run != nil {
			v = m.run(t, l.testCluster, strconv.FormatInt(time.Now().UnixNano(), 10))
		} else {
			v = startTagged(t, l.testCluster, m.program, m.local, m.options...)
		}
		m.hit(t, v)
		r := v.wait(t)
		l.repairOnce(t, &m)
		m.checkResult(t, r)
		if m.after != nil {
			m.after(t, v, r)
		}
		v.checkGone(t, 2*keepAliveLimit+goneTimeout)
		if live := l.readListing(t, "n1,n2").Jobs; len(live) > 0 {
			t.Errorf("claims that live on: %v", live)
		}
		if m.killed { // the next job sweeps what does not live
			l.runMpiexec(t, "-hosts", "n1,n2", "-ppn", "1", "-n", "2", "true").checkSuccess(t)
		}
		l.checkNoTraces(t)
	})
}

// repairOnce undoes the damage of a case, once.
func (l chaosLane) repairOnce(t *testing.T, m *chaosCase) {
	if m.repair != nil {
		m.repair(t, l.testCluster)
		m.repair = nil
	}
}

// checkResult fails the test unless the exit code and the one report are right.
func (m *chaosCase) checkResult(t *testing.T, r result) {
	t.Helper()
	reports := slices.DeleteFunc(r.causes(), func(line string) bool {
		return m.notice != "" && strings.Contains(line, m.notice) ||
			slices.ContainsFunc(m.otherLines, func(text string) bool { return strings.Contains(line, text) })
	})
	for i, cause := range append([]string{m.cause}, m.causes...) {
		right := len(reports) == 0 && cause == "" || len(reports) == 1 && cause != "" && strings.Contains(reports[0], cause)
		if right && (r.code == m.code || i > 0 && slices.Contains(m.codes, r.code)) {
			return
		}
	}
	t.Errorf("exit %d after %v, want %d %v; reports %q, want one with %q or one of %q\nstdout: %.1000s\nstderr: %s",
		r.code, r.took, m.code, m.codes, reports, m.cause, m.causes, r.out, r.err)
}

// checkNoTraces fails the test if a claim, a ticket or a temporary file is left.
func (l chaosLane) checkNoTraces(t *testing.T) {
	t.Helper()
	for _, h := range l.Hosts {
		l.noClaims(t, h.Name)
		for _, dir := range []string{"/tmp", "/dev/shm", "/run/user"} {
			files, _ := filepath.Glob(l.Root(h.Name) + dir + "/*remshell*")
			files = slices.DeleteFunc(files, isEmptyTree)
			if len(files) > 0 {
				t.Errorf("left behind on %s: %q", h.Name, files)
			}
		}
	}
}

// isEmptyTree reports whether a name is a folder with nothing but folders in it: the one of the user
// for what is private, which the next job uses again.
func isEmptyTree(name string) bool {
	only := true
	filepath.WalkDir(name, func(_ string, d fs.DirEntry, err error) error {
		only = only && err == nil && d.IsDir()
		return nil
	})
	return only
}

// intVariable returns the value of a variable, or otherwise if it is not set.
func intVariable(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	n, err := strconv.Atoi(cmp.Or(text, "0"))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return cmp.Or(n, otherwise)
}

// Issue 6, done when 2: jobs on which everything breaks that can be broken on purpose. Of
// each the exit code and the one report are right, and nothing is left behind: no
// process, claim, ticket or temporary file. CHAOS is how many jobs, CHAOS_SEED and
// CHAOS_ONLY repeat one; CHAOS_KIND is a part of the names of those kinds that are wanted.
func TestChaos(t *testing.T) {
	requireNamespaces(t)
	t.Parallel()
	seed := uint64(intVariable(t, "CHAOS_SEED", int(time.Now().UnixNano()%1e9)+1))
	jobs, only := intVariable(t, "CHAOS", 15), intVariable(t, "CHAOS_ONLY", 0)
	lanes := intVariable(t, "CHAOS_LANES", 1)
	kinds := slices.Clone(chaosKinds)
	if os.Getenv("CHAOS") != "" { // some take a minute
		kinds = slices.Concat(kinds, chaosRestartKinds, chaosControlKinds, chaosGangKinds)
	}
	kinds = slices.DeleteFunc(kinds, func(k chaosKind) bool { return !strings.Contains(k.name, os.Getenv("CHAOS_KIND")) })
	if len(kinds) == 0 {
		t.Fatalf("CHAOS_KIND: no kind of fault has %q in its name", os.Getenv("CHAOS_KIND"))
	}
	t.Logf("seed %d, %d jobs, %d kinds of fault", seed, jobs, len(kinds))
	first := int(seed % uint64(len(kinds))) // a short run has other kinds each time
	for i := range lanes {
		t.Run(fmt.Sprint("lane ", i+1), func(t *testing.T) {
			t.Parallel()
			l := chaosLane{newTestCluster(t, testbed.Options{Hosts: 2, SSHConfig: shortKeepAlive}), seed, kinds}
			if r := l.runMpiexec(t, "-hosts", "n1,n2", "-n", "2", "true"); r.code != 0 {
				t.Fatalf("the hosts do not even run true: %s", r.err)
			}
			for n := 1 + i; n <= jobs && only == 0; n += lanes {
				l.runCase(t, first+n)
			}
			if only > 0 && i == 0 {
				l.runCase(t, only)
			}
		})
	}
}
