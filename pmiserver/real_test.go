//go:build linux

package pmiserver_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"remshell/pmiserver"
	"remshell/pmiserver/spawn"
	"remshell/pmiserver/transcript"
	"remshell/test/pmitest"
)

var record = flag.String("record", "", "write what is said in TestReal to files of this `directory`")

// A testLauncher runs real programs with servers in this process, with the parts of a launcher that
// the server needs. The ranks are distributed over "nodes", which are all on this host.
type testLauncher struct {
	nodes       int
	ports       bool // connect by PMI_PORT, not by PMI_FD
	names       pmiserver.NameTable
	coordinator *pmitest.FenceCoordinator
	in          pmiserver.Listener
	port        string
	recorder    transcript.Recorder

	mu      sync.Mutex // guards the fields below
	groups  []pmiserver.Info
	servers []*pmiserver.Server
	procs   []*exec.Cmd
	out     bytes.Buffer // of all ranks
	ends    []string     // problems, such as "KILL(7) why"
	all     sync.WaitGroup
}

// An outputWriter collects the output of ranks. The programs write whole lines.
type outputWriter struct{ t *testLauncher }

func (o outputWriter) Write(b []byte) (int, error) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	return o.t.out.Write(b)
}

// run starts a first group and waits until all processes have ended.
func (t *testLauncher) run(commands ...spawn.Command) (string, error) {
	t.coordinator = pmitest.NewFenceCoordinator()
	if t.ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		defer l.Close()
		t.port = l.Addr().String()
		go t.listen(l)
	}
	late := time.AfterFunc(60*time.Second, func() { t.end("too late") })
	defer late.Stop()
	if _, err := t.start(spawn.Request{Commands: commands}); err != nil {
		return "", err
	}
	t.all.Wait()
	lines := strings.Split(strings.TrimSpace(t.out.String()), "\n")
	slices.Sort(lines)
	if len(t.ends) > 0 {
		return strings.Join(lines, "\n"), errors.New(strings.Join(t.ends, ", "))
	}
	return strings.Join(lines, "\n"), nil
}

func (t *testLauncher) listen(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		t.all.Go(func() { t.ended(t.in.Serve(context.Background(), conn)) })
	}
}

// Spawn implements spawn.Spawner.
func (t *testLauncher) Spawn(_ context.Context, r spawn.Request) (string, []int, error) {
	at := t.numberOf(r.Group)
	t.recorder.AddReply(at, r.Rank, "SPAWN "+r.String())
	group, err := t.start(r)
	if err != nil {
		t.recorder.AddEvent(at, r.Rank, "FAILED "+err.Error())
	} else {
		t.recorder.AddEvent(at, r.Rank, "STARTED")
	}
	return group, nil, err
}

func (t *testLauncher) numberOf(group string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.IndexFunc(t.groups, func(i pmiserver.Info) bool { return i.Name == group })
}

// start starts a group, or nothing.
func (t *testLauncher) start(r spawn.Request) (string, error) {
	for _, c := range r.Commands {
		if _, err := exec.LookPath(c.Argv[0]); err != nil {
			return "", err
		}
	}
	info := pmiserver.Info{Size: r.Size(), Parent: r.Group, Preputs: r.Preputs, Universe: 8}
	var apps, nodes []int
	for i, c := range r.Commands {
		for range c.Count {
			apps, nodes = append(apps, i), append(nodes, len(apps)%t.nodes)
		}
	}
	info.Mapping = mapping(nodes)
	info.AppNum = func(rank int) int { return apps[rank] }
	t.mu.Lock()
	number := len(t.groups)
	info.Name = fmt.Sprint("k", number)
	t.groups = append(t.groups, info)
	t.mu.Unlock()
	used := slices.Compact(slices.Sorted(slices.Values(nodes)))
	t.coordinator.AddGroup(info.Name, used, nodes)
	for _, n := range used {
		info.Ranks = ranksOf(nodes, n)
		s := t.serve(number, n, info)
		for local, rank := range info.Ranks {
			if err := t.fork(s, info, rank, local, r.Commands[apps[rank]]); err != nil {
				return "", err
			}
		}
	}
	return info.Name, nil
}

// serve creates the server of a group on a node.
func (t *testLauncher) serve(number, node int, info pmiserver.Info) *pmiserver.Server {
	s := pmiserver.New(info, t.coordinator.Node(node))
	s.Names, s.Spawner = &t.names, t
	s.Trace = func(rank int, line string) { t.recorder.Trace(number, rank, line) }
	s.Abort = func(_, code int, message string) { t.end(strings.TrimSpace(fmt.Sprintf("KILL(%d) %s", code, message))) }
	s.Broken = func(err error) { t.end(err.Error()) }
	s.StateChanged = func(rank int, _, to pmiserver.State) {
		if to == pmiserver.Closed || to == pmiserver.Lost {
			t.coordinator.RankLeft(info.Name, node, rank)
		}
	}
	t.mu.Lock()
	t.servers = append(t.servers, s)
	t.mu.Unlock()
	return s
}

// fork starts one process.
func (t *testLauncher) fork(s *pmiserver.Server, info pmiserver.Info, rank, local int, c spawn.Command) error {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = outputWriter{t}, outputWriter{t}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PMI") })
	add := func(key string, value any) { cmd.Env = append(cmd.Env, fmt.Sprint(key, "=", value)) }
	if info.Parent != "" {
		add("PMI_SPAWNED", 1)
	}
	add("MPI_LOCALRANKID", local)
	add("MPI_LOCALNRANKS", len(info.Ranks))
	add("MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "127.0.0.1")
	if t.ports {
		add("PMI_PORT", t.port)
		add("PMI_ID", t.in.ExpectRank(s, rank))
		return t.begin(cmd)
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	syscall.SetNonblock(fds[0], true)
	mine, theirs := os.NewFile(uintptr(fds[0]), "pmi"), os.NewFile(uintptr(fds[1]), "PMI_FD")
	defer theirs.Close()
	cmd.ExtraFiles = []*os.File{theirs}
	add("PMI_FD", 3)
	add("PMI_RANK", rank)
	add("PMI_SIZE", info.Size)
	if err := t.begin(cmd); err != nil {
		mine.Close()
		return err
	}
	t.all.Go(func() {
		defer mine.Close()
		t.ended(s.Serve(context.Background(), rank, mine))
	})
	return nil
}

func (t *testLauncher) begin(cmd *exec.Cmd) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	t.procs = append(t.procs, cmd)
	t.all.Go(func() {
		if err := cmd.Wait(); err != nil {
			t.ended(err)
		}
	})
	return nil
}

// ended records the end of a connection or a process.
func (t *testLauncher) ended(err error) {
	if err != nil {
		t.end(err.Error())
	}
}

// end ends all groups; the first reason counts.
func (t *testLauncher) end(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ends) == 0 {
		t.ends = append(t.ends, why)
	}
	for _, s := range t.servers {
		s.Freeze()
	}
	for _, cmd := range t.procs {
		cmd.Process.Kill()
	}
}

// The requests of MPICH 3.4.1 and Slurm's libpmi2 work, on one node and on two simulated ones, by
// PMI_FD and by PMI_PORT.
func TestReal(t *testing.T) {
	if testing.Short() {
		return // make check must not need MPI
	}
	for _, c := range []struct {
		name    string
		n       int
		line    string // program and arguments
		want    string // output, sorted
		wantErr string
	}{
		{"hello", 4, "hello", "allreduce ok\nring ok", ""},
		{"spawn", 2, "spawn one 3", "children: 3 of 2 parents, appnum 0, sum 9 (3)\nparents: 2 and 3 children, sum 9", ""},
		{"multiple", 2, "spawn many 2 1", "children: 3 of 2 parents, appnum 0, sum 9 (2)\n" +
			"children: 3 of 2 parents, appnum 1, sum 9\nparents: 2 and 3 children, sum 9", ""},
		{"nested", 1, "spawn nested 3", "children: 1 of 1 parents, appnum 0, sum 2 (3)\nparents: 1 and 1 children, sum 2 (3)", ""},
		{"missing", 2, "spawn missing", "spawn: refused", ""},
		{"abort", 2, "spawn abort 7", "", "KILL(7)"},
		{"names", 2, "spawn names", "accepted 17\nconnected 42", ""},
		{"libpmi2", 4, "pmi2", "pmi2: 4 ranks, all as it should be", ""},
	} {
		for _, how := range []struct {
			name  string
			nodes int
			ports bool
		}{{"one", 1, false}, {"two", 2, false}, {"port", 2, true}} {
			t.Run(c.name+"/"+how.name, func(t *testing.T) {
				argv := strings.Fields(c.line)
				argv[0] = program(t, argv[0])
				crew := &testLauncher{nodes: how.nodes, ports: how.ports}
				out, err := crew.run(spawn.Command{Argv: argv, Count: c.n})
				if got := summary(out); got != c.want && c.want != "" || fmt.Sprint(err) != c.wantErr && (err != nil || c.wantErr != "") {
					t.Errorf("got\n%s\n%v\nwant\n%s\n%v", got, err, c.want, c.wantErr)
				}
				if *record != "" {
					crew.write(t, filepath.Join(*record, c.name+"-"+how.name+".pmi"), c.line)
				}
			})
		}
	}
}

// summary removes what depends on the machine, and counts equal lines.
func summary(out string) string {
	var lines []string
	for line := range strings.SplitSeq(out, "\n") {
		if before, after, found := strings.Cut(line, " on "); found {
			_, after, _ = strings.Cut(after, ",")
			line = before + "," + after
		}
		if !strings.HasPrefix(line, "rank ") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	for i := 0; i < len(lines); i++ {
		n := 1
		for i+n < len(lines) && lines[i+n] == lines[i] {
			n++
		}
		if n > 1 {
			lines[i] += fmt.Sprintf(" (%d)", n)
			lines = slices.Delete(lines, i+1, i+n)
		}
	}
	return strings.Join(lines, "\n")
}

// write writes the conversation as a transcript.
func (t *testLauncher) write(test *testing.T, path, title string) {
	f, err := os.Create(path)
	if err != nil {
		test.Fatal(err)
	}
	defer f.Close()
	first := t.groups[0]
	job := fmt.Sprintf("fresh size=%d name=%s universe=%d mapping=%s", first.Size, first.Name, first.Universe, first.Mapping)
	letters := "ab"[:t.nodes]
	if t.nodes > 1 {
		job += " nodes=" + strings.Repeat(letters, first.Size)[:first.Size]
	}
	var sizes []int
	for _, g := range t.groups {
		sizes = append(sizes, g.Size)
	}
	job += " spawns=" + letters
	if err := t.recorder.Write(f, "MPICH 3.4.1, "+title, job, sizes); err != nil {
		test.Fatal(err)
	}
}

// compile builds the programs of testdata once.
var compile = sync.OnceValue(func() error {
	return exec.Command("../testdata/programs.sh").Run()
})

// program returns the path of a program of testdata.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../build/programs", name))
	if err != nil || compile() != nil {
		t.Skip("no MPI on this machine; run as root: testdata/install.sh")
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("not compiled on this machine: %v; run as root: testdata/install.sh", err)
	}
	return path
}
