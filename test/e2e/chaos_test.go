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

// A mishap is one job and what happens to it. All that was thrown by dice is in it.
type mishap struct {
	fault
	before  func(t *testing.T, b *bed)                     // the job starts
	run     func(t *testing.T, b *bed, tag string) *victim // instead of strike; nil: that
	mend    func(t *testing.T, b *bed)                     // what hit has broken, when mpiexec is over
	codes   []int                                          // that are right, beside code
	causes  []string                                       // and the reports that go with them
	killed  bool                                           // a helper, and so its claim is left as a dead file
	notice  string                                         // lines of mpiexec that are no report
	chatter []string                                       // and others
	after   func(t *testing.T, v *victim, r result)        // what else must be
}

// brief runs for three seconds and ends well.
var brief = program{"brief", func(_ *testing.T, tag string) []string {
	return []string{"sh", "-c", "echo ready; sleep 3." + tag}
}, 1}

// leaves ends at once, and leaves a deaf child in a session of its own.
var leaves = program{"leaves", func(_ *testing.T, tag string) []string {
	return []string{"sh", "-c", `setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1000.` + tag + `; done' & echo ready`}
}, 0}

// A kindOfMishap throws the dice.
type kindOfMishap struct {
	name string
	cast func(d *rand.Rand) mishap
}

func pick[T any](d *rand.Rand, from ...T) T { return from[d.IntN(len(from))] }

// aHost is one of those that run ranks, and the other one.
func aHost(d *rand.Rand) (hit, other string) {
	if d.IntN(2) == 0 {
		return "n1", "n2"
	}
	return "n2", "n1"
}

// hits is a mishap of a job under way.
func hits(p program, code int, cause string, hit func(*testing.T, *victim)) mishap {
	return mishap{fault: fault{program: p, hit: hit, code: code, cause: cause}}
}

// sending is a mishap that signals to mpiexec are.
func sending(p program, code int, first syscall.Signal, more ...any) mishap {
	m := hits(p, code, "", signals(first, more...))
	if p.name == "deaf" {
		m.options = []string{"--kill-grace", "1"}
	}
	return m
}

// striking kills one process on a host with a signal, after a moment.
func striking(d *rand.Rand, host string, sig syscall.Signal, is func([]string) bool) func(*testing.T, *victim) {
	which, pause := d.IntN(1000), time.Duration(d.IntN(200))*time.Millisecond
	return func(t *testing.T, v *victim) {
		<-time.After(pause)
		pids := v.find(t, host, is)
		if len(pids) == 0 {
			t.Fatalf("no such process on %s", host)
		}
		kill(t, sig, "process on "+host, pids[which%len(pids):][:1])
	}
}

// aRank knows the ranks of the shell and of the MPI program.
func aRank(args []string) bool { return second("spin")(args) || second("-c")(args) && args[0] == "sh" }

// early is a signal to an mpiexec that is still starting.
func early(d *rand.Rand, sig syscall.Signal, code int) mishap {
	pause := time.Duration(d.IntN(400)) * time.Millisecond
	m := mishap{fault: fault{program: shell, code: code, hit: func(t *testing.T, v *victim) {
		<-time.After(pause)
		v.cmd.Process.Signal(sig)
	}}}
	m.run = func(t *testing.T, b *bed, tag string) *victim {
		args := shell.args(t, tag)
		if sig == syscall.SIGINT { // which dash catches, and loses if it is about to start a child
			args = []string{"sleep", "1000." + tag}
		}
		return b.launch(t, tag, slices.Concat([]string{"-hosts", "n1:2,n2:2", "-n", "4"}, args)...)
	}
	if sig != syscall.SIGKILL {
		m.causes = []string{"", "cancelled by"}
	}
	return m
}

// launch starts mpiexec and waits for nothing.
func (b *bed) launch(t *testing.T, tag string, args ...string) *victim {
	return &victim{bed: b, tag: tag, running: b.start(t, job{args: args})}
}

// ends is a job that ends by itself, whatever was done before.
func ends(code int, cause string, args ...string) mishap {
	m := mishap{fault: fault{code: code, cause: cause, hit: func(*testing.T, *victim) {}}}
	m.run = func(t *testing.T, b *bed, tag string) *victim {
		return b.launch(t, tag, slices.Concat([]string{"-hosts", "n1:2,n2:2", "-n", "4"}, args)...)
	}
	return m
}

// sh is the arguments for a script in which TAG is in some argument.
func sh(script string) []string { return []string{"sh", "-c", script} }

// redirected runs mpiexec by a shell, whose script has the words of mpiexec as "$@" and
// tells its code on stderr.
func redirected(code int, cause, script string, args ...string) mishap {
	m := mishap{fault: fault{code: code, cause: cause, hit: func(*testing.T, *victim) {}}}
	m.run = func(t *testing.T, b *bed, tag string) *victim {
		words := slices.Concat([]string{"-c", script, tag, binary, "-hosts", "n1,n2", "-ppn", "1", "-n", "2"}, args)
		return &victim{bed: b, tag: tag, running: b.startAs(t, job{}, append([]string{"sh"}, words...))}
	}
	return m
}

// cut takes the link of a host down; mend brings it up.
func cut(host string) (down, up func(*testing.T, *bed)) {
	set := func(up bool) func(*testing.T, *bed) {
		return func(t *testing.T, b *bed) {
			if err := b.Link(host, up); err != nil {
				t.Fatal(err)
			}
		}
	}
	return set(false), set(true)
}

// onHost runs a command of sh on a host.
func onHost(host, script string) func(*testing.T, *bed) {
	return func(t *testing.T, b *bed) { b.on(t, host, "sh", "-c", script) }
}

const (
	lossy  = `printf 'table inet chaos {\nchain input {\ntype filter hook input priority 0;\nnumgen random mod 100 < 15 drop\n}\n}\n' | nft -f -`
	intact = `nft delete table inet chaos`
	// netem is not in every kernel; a narrow link delays as well.
	narrow = `tc qdisc add dev $(ip -o link | sed -n 's/^[0-9]*: \(eth[^@:]*\|[a-z]*[0-9][^@:]*\)[@:].*/\1/p' | head -1) root tbf rate 2mbit burst 5000 latency 400ms`
	wide   = `tc qdisc del dev $(ip -o link | sed -n 's/^[0-9]*: \(eth[^@:]*\|[a-z]*[0-9][^@:]*\)[@:].*/\1/p' | head -1) root`
)

// filling fills a folder's file system on a host before the start.
func filling(m mishap, host, dir string) mishap {
	m.before = onHost(host, "mount -o remount,size=1m "+dir+" && ! head -c 9000000 /dev/zero 2>/dev/null >"+dir+"/filled")
	m.mend = onHost(host, "rm "+dir+"/filled && mount -o remount,size=50% "+dir)
	return m
}

// kindsOfMishap are the faults of the chaos.
var kindsOfMishap = []kindOfMishap{
	{"rank killed", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		return hits(pick(d, shell, spin), 137, "rank ", striking(d, host, syscall.SIGKILL, aRank))
	}},
	{"rank crashes", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		return hits(spin, 139, "Segmentation fault", striking(d, host, syscall.SIGSEGV, aRank))
	}},
	{"rank terminated", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		return hits(pick(d, shell, spin), 143, "rank ", striking(d, host, syscall.SIGTERM, aRank))
	}},
	{"helper killed", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := hits(pick(d, shell, spin), 125, "lost contact with "+host, striking(d, host, syscall.SIGKILL, aHelper))
		m.killed = true
		return m
	}},
	{"keeper killed", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := hits(pick(d, shell, spin), 125, "lost contact with "+host, striking(d, host, syscall.SIGKILL, aKeeper))
		m.killed = true
		return m
	}},
	{"session of sshd killed", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := hits(pick(d, shell, spin), 125, "lost contact with "+host, striking(d, host, syscall.SIGKILL, isSession))
		return m
	}},
	{"helper told to end", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		return hits(pick(d, shell, spin), 125, host+" was told to end (SIGTERM)", striking(d, host, syscall.SIGTERM, aHelper))
	}},
	{"a rank and a helper killed", func(d *rand.Rand) mishap {
		host, other := aHost(d)
		first, next := striking(d, host, syscall.SIGKILL, aRank), striking(d, other, syscall.SIGKILL, aHelper)
		m := hits(shell, 137, "rank ", func(t *testing.T, v *victim) {
			var both sync.WaitGroup
			both.Go(func() { v.tryTo(first) })
			both.Go(func() { v.tryTo(next) })
			both.Wait()
		})
		m.codes, m.causes = []int{125}, []string{"rank ", "lost contact with " + other}
		m.killed = true
		return m
	}},
	{"mpiexec killed", func(d *rand.Rand) mishap {
		return sending(pick(d, shell, spin, stopped, deaf), 137, syscall.SIGKILL)
	}},
	{"mpiexec killed early", func(d *rand.Rand) mishap { return early(d, syscall.SIGKILL, 137) }},
	{"mpiexec stopped and killed", func(d *rand.Rand) mishap {
		m := sending(pick(d, shell, spin), 137, syscall.SIGSTOP, syscall.SIGKILL)
		return m
	}},
	{"mpiexec stopped for a while", func(d *rand.Rand) mishap {
		pause := time.Duration(d.IntN(4000)) * time.Millisecond
		return hits(brief, 0, "", func(t *testing.T, v *victim) {
			v.cmd.Process.Signal(syscall.SIGSTOP)
			<-time.After(pause)
			v.cmd.Process.Signal(syscall.SIGCONT)
		})
	}},
	{"local mpiexec killed", func(d *rand.Rand) mishap {
		m := sending(pick(d, shell, spin), 137, syscall.SIGKILL)
		m.local = true
		m.killed = true
		return m
	}},
	{"guard killed, then SIGTERM", func(d *rand.Rand) mishap {
		m := hits(shell, 143, "", func(t *testing.T, v *victim) {
			kill(t, syscall.SIGKILL, "guard", v.guards())
			v.cmd.Process.Signal(syscall.SIGTERM)
		})
		m.local = true
		return m
	}},
	{"SIGTERM", func(d *rand.Rand) mishap {
		return sending(pick(d, shell, spin, stopped, deaf), 143, syscall.SIGTERM)
	}},
	{"SIGTERM early", func(d *rand.Rand) mishap { return early(d, syscall.SIGTERM, 143) }},
	{"SIGHUP", func(d *rand.Rand) mishap { return sending(pick(d, shell, spin), 129, syscall.SIGHUP) }},
	{"^C", func(d *rand.Rand) mishap { return sending(pick(d, shell, spin), 130, syscall.SIGINT) }},
	{"^C early", func(d *rand.Rand) mishap { return early(d, syscall.SIGINT, 130) }},
	{"^C twice", func(d *rand.Rand) mishap {
		return sending(intDeaf, 130, syscall.SIGINT, interrupted, syscall.SIGINT)
	}},
	{"^C thrice", func(d *rand.Rand) mishap {
		m := sending(intDeaf, 130, syscall.SIGINT, interrupted, syscall.SIGINT, syscall.SIGINT)
		m.options = []string{"--kill-grace", "1"}
		m.causes, m.codes = []string{"leaving at once; hosts clean up by themselves"}, []int{130} // the last words of TRUST-34, on a busy machine
		return m
	}},
	{"SIGQUIT", func(d *rand.Rand) mishap {
		m := hits(spin, 131, "rank ", signals(syscall.SIGQUIT))
		return m
	}},
	{"link down for a moment", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		down, up := cut(host)
		pause := time.Duration(d.IntN(800)) * time.Millisecond
		return hits(brief, 0, "", func(t *testing.T, v *victim) {
			down(t, v.bed)
			<-time.After(pause)
			up(t, v.bed)
		})
	}},
	{"link cut", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		down, up := cut(host)
		m := hits(pick(d, shell, spin), 125, "lost contact with "+host, func(t *testing.T, v *victim) { down(t, v.bed) })
		m.mend = up
		return m
	}},
	{"link cut, then SIGTERM", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		down, up := cut(host)
		m := hits(shell, 143, "", func(t *testing.T, v *victim) {
			down(t, v.bed)
			v.cmd.Process.Signal(syscall.SIGTERM)
		})
		m.options, m.mend = []string{"--kill-grace", "1"}, up
		return m
	}},
	{"packets lost", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := hits(brief, 0, "", func(*testing.T, *victim) {})
		m.before, m.mend = onHost(host, lossy), onHost(host, intact)
		m.options = []string{"--connect-timeout", "30"}
		return m
	}},
	{"a narrow link", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := hits(brief, 0, "", func(*testing.T, *victim) {})
		m.before, m.mend = onHost(host, narrow), onHost(host, wide)
		return m
	}},
	{"host behind a wall", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := ends(125, host+": ", append([]string{"--connect-timeout", "4", "--retries", "1"}, sh("echo no")...)...)
		m.before = func(t *testing.T, b *bed) {
			if err := b.Block(host); err != nil {
				t.Fatal(err)
			}
		}
		m.mend = func(t *testing.T, b *bed) {
			if err := b.Unblock(host); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}},
	{"helper stopped for a while", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		pause := time.Duration(d.IntN(4000)) * time.Millisecond
		return hits(brief, 0, "", func(t *testing.T, v *victim) {
			pids := v.find(t, host, aHelper)
			kill(t, syscall.SIGSTOP, "helper", pids)
			<-time.After(pause)
			kill(t, syscall.SIGCONT, "helper", pids)
		})
	}},
	{"helper stopped for good", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		var pids []int
		m := hits(shell, 124, "the job ran longer than -timeout 10s", func(t *testing.T, v *victim) {
			pids = v.find(t, host, aHelper)
			kill(t, syscall.SIGSTOP, "helper", pids)
		})
		m.options = []string{"-timeout", "10", "--kill-grace", "1"}
		m.notice = host + ": processes of the job could not be ended in time"
		m.mend = func(t *testing.T, b *bed) { kill(t, syscall.SIGCONT, "helper", pids) }
		return m
	}},
	{"rank stopped, -timeout", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := hits(pick(d, shell, spin), 124, "the job ran longer than -timeout 10s", striking(d, host, syscall.SIGSTOP, aRank))
		m.options = []string{"-timeout", "10"}
		return m
	}},
	{"-timeout with stacks", func(d *rand.Rand) mishap {
		m := hits(pick(d, shell, spin, deaf), 124, "the job ran longer than -timeout 10s", func(*testing.T, *victim) {})
		m.options = []string{"-timeout", "10", "--on-timeout", "stacks", "--kill-grace", "1"}
		return m
	}},
	{"nobody reads stdout", func(d *rand.Rand) mishap {
		m := redirected(0, "", `{ "$@" || echo code $? >&2; } | head -1`, "yes")
		m.after = func(t *testing.T, v *victim, r result) {
			if r.out != "y\n" || r.err != "code 141\n" {
				t.Errorf("stdout %q, stderr %q", r.out, r.err)
			}
		}
		return m
	}},
	{"stdout is full", func(d *rand.Rand) mishap {
		return redirected(125, "standard output: ", `exec "$@" >/dev/full`, "sh", "-c", "echo x; sleep 1000")
	}},
	{"no descriptors left for mpiexec", func(d *rand.Rand) mishap {
		limit := 8 + d.IntN(12)
		m := redirected(0, "", fmt.Sprintf(`ulimit -n %d; exec "$@"`, limit), "true")
		m.codes, m.causes = []int{125, 126}, []string{"", "too many open files"}
		return m
	}},
	{"exit code", func(d *rand.Rand) mishap {
		code, rank := 1+d.IntN(100), d.IntN(4)
		return ends(code, fmt.Sprintf("rank %d on ", rank), sh(fmt.Sprintf("if [ $PMI_RANK = %d ]; then exit %d; fi; sleep 1000", rank, code))...)
	}},
	{"all fail at once", func(d *rand.Rand) mishap {
		code := 1 + d.IntN(100)
		return ends(code, "exited with code", sh(fmt.Sprint("setsid sleep 1000 & exit ", code))...)
	}},
	{"abort", func(d *rand.Rand) mishap {
		code, rank := 1+d.IntN(100), d.IntN(4)
		m := ends(code, fmt.Sprintf("rank %d on ", rank))
		m.run = func(t *testing.T, b *bed, tag string) *victim {
			return b.launch(t, tag, "-hosts", "n1:2,n2:2", "-n", "4", mpi(t, "misc"), "abort", strconv.Itoa(rank), strconv.Itoa(code))
		}
		return m
	}},
	{"exit of one that others wait for", func(d *rand.Rand) mishap {
		code, rank := 1+d.IntN(100), d.IntN(4)
		m := ends(code, fmt.Sprintf("rank %d on ", rank))
		m.run = func(t *testing.T, b *bed, tag string) *victim {
			return b.launch(t, tag, "-hosts", "n1:2,n2:2", "-n", "4", mpi(t, "misc"), pick(d, "quit", "exit"), strconv.Itoa(rank), strconv.Itoa(code))
		}
		return m
	}},
	{"program missing", func(d *rand.Rand) mishap {
		return ends(127, "not found", "no-such-program")
	}},
	{"directory missing", func(d *rand.Rand) mishap {
		return ends(127, "working directory /no/such/place", "-wdir", "/no/such/place", "true")
	}},
	{"deaf children left behind", func(d *rand.Rand) mishap { return hits(leaves, 0, "", func(*testing.T, *victim) {}) }},
	{"/dev/shm full", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		return filling(hits(brief, 0, "", func(*testing.T, *victim) {}), host, "/dev/shm")
	}},
	{"/tmp full", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		return filling(hits(brief, 0, "", func(*testing.T, *victim) {}), host, "/tmp")
	}},
	{"ledger's disk full", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := filling(hits(brief, 0, "", func(*testing.T, *victim) {}), host, "/var/tmp")
		m.notice = "not kept apart from other jobs"
		return m
	}},
	{"our program lost on a host", func(d *rand.Rand) mishap {
		host, _ := aHost(d)
		m := hits(brief, 0, "", func(*testing.T, *victim) {})
		m.before = onHost(host, "rm -rf ~/.cache/remshell")
		return m
	}},
}

// tryTo strikes unless the job is over already.
func (v *victim) tryTo(hit func(*testing.T, *victim)) {
	var quiet testing.T
	done := make(chan struct{})
	go func() { // Fatal ends the goroutine
		defer close(done)
		hit(&quiet, v)
	}()
	<-done
}

// A lane is a bed on which one job comes after the other.
type lane struct {
	*bed
	seed  uint64
	kinds []kindOfMishap
}

// job runs one job to its end and looks at what it has left.
func (l lane) job(t *testing.T, number int) {
	d := rand.New(rand.NewPCG(l.seed, uint64(number)))
	kind := l.kinds[(number+d.IntN(2)*d.IntN(len(l.kinds)))%len(l.kinds)]
	t.Run(fmt.Sprintf("%d %s", number, kind.name), func(t *testing.T) {
		t.Logf("again: CHAOS_SEED=%d CHAOS_ONLY=%d CHAOS_KIND='%s' make chaos", l.seed, number, os.Getenv("CHAOS_KIND"))
		m := kind.cast(d)
		defer l.mend(t, &m)
		if m.before != nil {
			m.before(t, l.bed)
		}
		var v *victim
		if m.run != nil {
			v = m.run(t, l.bed, strconv.FormatInt(time.Now().UnixNano(), 10))
		} else {
			v = strike(t, l.bed, m.program, m.local, m.options...)
		}
		m.hit(t, v)
		r := v.wait(t)
		l.mend(t, &m)
		m.judge(t, r)
		if m.after != nil {
			m.after(t, v, r)
		}
		v.vanish(t, 2*silence+gone)
		if live := l.listing(t, "n1,n2").Jobs; len(live) > 0 {
			t.Errorf("claims that live on: %v", live)
		}
		if m.killed { // the next job sweeps what does not live
			l.run(t, "-hosts", "n1,n2", "-ppn", "1", "-n", "2", "true").good(t)
		}
		l.noTraces(t)
	})
}

// mend repairs what the mishap has broken, once.
func (l lane) mend(t *testing.T, m *mishap) {
	if m.mend != nil {
		m.mend(t, l.bed)
		m.mend = nil
	}
}

// judge asserts the right code and the one right report.
func (m *mishap) judge(t *testing.T, r result) {
	t.Helper()
	reports := slices.DeleteFunc(r.reports(), func(line string) bool {
		return m.notice != "" && strings.Contains(line, m.notice) ||
			slices.ContainsFunc(m.chatter, func(text string) bool { return strings.Contains(line, text) })
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

// noTraces asserts that no claim, ticket or temporary file is left.
func (l lane) noTraces(t *testing.T) {
	t.Helper()
	for _, h := range l.Hosts {
		l.noClaims(t, h.Name)
		for _, dir := range []string{"/tmp", "/dev/shm", "/run/user"} {
			files, _ := filepath.Glob(l.Root(h.Name) + dir + "/*remshell*")
			files = slices.DeleteFunc(files, bare)
			if len(files) > 0 {
				t.Errorf("left behind on %s: %q", h.Name, files)
			}
		}
	}
}

// bare reports whether a name is a folder with nothing but folders in it: the one of the user
// for what is private, which the next job uses again.
func bare(name string) bool {
	only := true
	filepath.WalkDir(name, func(_ string, d fs.DirEntry, err error) error {
		only = only && err == nil && d.IsDir()
		return nil
	})
	return only
}

// number reads a variable; without it, otherwise.
func number(t *testing.T, name string, otherwise int) int {
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
	needNamespaces(t)
	t.Parallel()
	seed := uint64(number(t, "CHAOS_SEED", int(time.Now().UnixNano()%1e9)+1))
	jobs, only := number(t, "CHAOS", 15), number(t, "CHAOS_ONLY", 0)
	lanes := number(t, "CHAOS_LANES", 1)
	kinds := slices.Clone(kindsOfMishap)
	if os.Getenv("CHAOS") != "" { // some take a minute
		kinds = slices.Concat(kinds, kindsOfSurvival, kindsOfAsks)
	}
	kinds = slices.DeleteFunc(kinds, func(k kindOfMishap) bool { return !strings.Contains(k.name, os.Getenv("CHAOS_KIND")) })
	if len(kinds) == 0 {
		t.Fatalf("CHAOS_KIND: no kind of fault has %q in its name", os.Getenv("CHAOS_KIND"))
	}
	t.Logf("seed %d, %d jobs, %d kinds of fault", seed, jobs, len(kinds))
	first := int(seed % uint64(len(kinds))) // a short run has other kinds each time
	for i := range lanes {
		t.Run(fmt.Sprint("lane ", i+1), func(t *testing.T) {
			t.Parallel()
			l := lane{newBed(t, testbed.Options{Hosts: 2, SSHConfig: impatient}), seed, kinds}
			if r := l.run(t, "-hosts", "n1,n2", "-n", "2", "true"); r.code != 0 {
				t.Fatalf("the hosts do not even run true: %s", r.err)
			}
			for n := 1 + i; n <= jobs && only == 0; n += lanes {
				l.job(t, first+n)
			}
			if only > 0 && i == 0 {
				l.job(t, only)
			}
		})
	}
}
