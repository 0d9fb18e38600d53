//go:build linux

package spawn

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"remshell/job"
	"remshell/launch/launchtest"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// allowAnyHost lets the job spawn on any other host.
func allowAnyHost(r *launchtest.Run) *launchtest.Run {
	r.Req.SpawnHosts = job.SpawnHosts{Any: true, Option: "--spawn-hosts any"}
	return r
}

// goesOn runs a job whose rank 0 tries a spawn that fails, writes "on", and spawns on its own node.
func goesOn(t *testing.T, r *launchtest.Run, reasons ...string) {
	t.Helper()
	result, err := r.Do(t)
	if err != nil || result.Code != 0 || !strings.Contains(r.Out.String(), "\non\n") || !strings.Contains(r.Out.String(), "leaf\n") {
		t.Errorf("code %d, %v, stdout %q, stderr %q", result.Code, err, r.Out.String(), r.Err.String())
	}
	for _, reason := range reasons {
		if !strings.Contains(r.Err.String(), reason) {
			t.Errorf("stderr %q, want %q", r.Err.String(), reason)
		}
	}
}

// If a new node refuses a spawn or is lost meanwhile, only the spawn fails: no node of the job is
// at fault.
func TestANewNodeFailsItsSpawn(t *testing.T) {
	refuses := launchtest.FakeHelper("z", func(c *wire.Conn, m wire.Message) bool {
		p, is := m.(*wire.Prepare)
		if is {
			c.Send(&wire.Refused{Group: p.Group.Name, Code: 127, Reason: "no such program"})
		}
		return is
	})
	dies := launchtest.FakeHelper("z", func(c *wire.Conn, m wire.Message) bool {
		_, is := m.(*wire.Prepare)
		if is {
			c.Abandon()
		}
		return is
	})
	fine := launchtest.FakeHelper("y", func(*wire.Conn, wire.Message) bool { return false })
	for name, test := range map[string]struct {
		z      func(*wire.Conn)
		reason string
	}{
		"refuses": {refuses, "z: no such program"},
		"dies":    {dies, "z: mpiexec lost contact with the host before the ranks started"},
	} {
		t.Run(name, func(t *testing.T) {
			r := allowAnyHost(launchtest.NewPMIRun(1, "spawn 3 leaf host=y,z; say on; spawn 1 leaf host=a", map[string]string{"leaf": "say leaf"}, "a:2"))
			r.Helpers.Fakes = map[string]func(*wire.Conn){"y": fine, "z": test.z}
			goesOn(t, r, test.reason)
		})
	}
}

// A host that is a node of the job under another name is recognized by the mark that both can see.
func TestSpawnOntoAnotherNameOfANode(t *testing.T) {
	r := allowAnyHost(launchtest.NewPMIRun(1, "spawn 2 leaf host=c~2; say on; spawn 1 leaf host=c~1", map[string]string{"leaf": "say leaf"}, "c~1:4"))
	goesOn(t, r)
	if strings.Contains(r.Err.String(), "silent") || strings.Count(r.Out.String(), "leaf\n") != 3 {
		t.Errorf("%q, %q", r.Out.String(), r.Err.String())
	}
}

// Node numbers come from a cluster file and may have gaps. A host that joins gets none of these
// numbers (TRUST-9).
func TestNewHostHasANumberOfItsOwn(t *testing.T) {
	r := allowAnyHost(launchtest.NewPMIRun(1, "spawn 1 host host=z; spawn 1 host host=y; spawn 1 host host=z", map[string]string{"host": "env MPIEXEC_HOST"}, "a:3", "b:3"))
	r.Req.Nodes[0].ID, r.Req.Nodes[1].ID = 1, 2
	result, err := r.Do(t)
	if err != nil || result.Code != 0 || strings.Count(r.Out.String(), "env MPIEXEC_HOST: z") != 2 || strings.Count(r.Out.String(), "env MPIEXEC_HOST: y") != 1 ||
		strings.Count(r.Err.String(), "z now belongs to the job, because rank 0 on a requested it (--spawn-hosts any)") != 1 {
		t.Errorf("code %d, %v, stdout %q, stderr %q", result.Code, err, r.Out.String(), r.Err.String())
	}
}

// Spawned ranks run where the user allows it (TRUST-9).
func TestSpawnHosts(t *testing.T) {
	host := func(name string) []job.NodeDef {
		return []job.NodeDef{{Name: name, Host: name, Slots: 2, Local: name == "here"}}
	}
	any := job.SpawnHosts{Any: true, Option: "--spawn-hosts any"}
	for _, test := range []struct {
		allow job.SpawnHosts
		key   string
		want  string // on stderr; empty: the spawn succeeds silently
	}{
		{job.SpawnHosts{}, "host=b", ""},
		{job.SpawnHosts{}, "add-host=b", ""},
		{job.SpawnHosts{}, "host=c", "rank 0 on a: the spawn was refused: the job does not include c (allowed with --spawn-hosts c)"},
		{job.SpawnHosts{}, "hosts=c1,b,c2", "rank 0 on a: the spawn was refused: the job does not include c[1-2] (allowed with --spawn-hosts c[1-2])"},
		{job.SpawnHosts{}, "add-host=c", "the job does not include c"},
		{job.SpawnHosts{}, "host=here", "the job does not include here (allowed with --spawn-hosts here)"},
		{job.SpawnHosts{Job: true}, "host=b", "the job does not include b (allowed with --spawn-hosts candidates)"},
		{job.SpawnHosts{Job: true}, "host=a", ""},
		{job.SpawnHosts{List: host("c"), Option: "--spawn-hosts c"}, "host=c", "c now belongs to the job, because rank 0 on a requested it (--spawn-hosts c)"},
		{job.SpawnHosts{List: host("c"), Option: "--spawn-hosts c"}, "host=d", "the job does not include d"},
		{any, "host=c", "c now belongs to the job, because rank 0 on a requested it (--spawn-hosts any)"},
		{any, "host=here", "the job does not include here (allowed with --spawn-hosts any,localhost)"},
		{any, "host=alias", "the job does not include alias (allowed with --spawn-hosts any,localhost)"},
		{job.SpawnHosts{Any: true, List: host("here"), Option: "--spawn-hosts any,localhost"}, "host=here", "here now belongs to the job"},
		{job.SpawnHosts{None: true, Option: "--no-spawn"}, "host=a", "rank 0 on a: the spawn was refused: MPI_Comm_spawn is not allowed (--no-spawn)"},
		{job.SpawnHosts{None: true, Option: "--no-spawn"}, "", "rank 0 on a: the spawn was refused: MPI_Comm_spawn is not allowed (--no-spawn)"},
	} {
		r := launchtest.NewPMIRun(1, "spawn 1 leaf "+test.key+"; say on", map[string]string{"leaf": "say leaf"}, "a:3", "b:3")
		r.Req.SpawnHosts, r.Localhost = test.allow, "alias"
		result, err := r.Do(t)
		refused := strings.Contains(test.want, "the spawn was refused") || strings.HasPrefix(test.want, "the job does not include")
		if err != nil || result.Code != 0 || !strings.Contains(r.Out.String(), "on\n") || strings.Contains(r.Out.String(), "leaf\n") == refused ||
			!strings.Contains(r.Err.String(), test.want) || test.want == "" && r.Err.String() != "" {
			t.Errorf("%s %q: code %d, %v, stdout %q, stderr %q", test.allow.Option, test.key, result.Code, err, r.Out.String(), r.Err.String())
		}
	}
}

// Spawned ranks without free CPUs share those of their own job. This is reported once, and refused
// with --nooversubscribe.
func TestSpawnedRanksShare(t *testing.T) {
	const notice = "rank 0 on a spawns ranks, but no CPUs are free; they share the CPUs of the job (--nooversubscribe forbids that)\n"
	r := launchtest.NewPMIRun(1, "spawn 3 leaf; spawn 3 leaf; say on", map[string]string{"leaf": "say leaf"}, "a:1")
	result, err := r.Do(t)
	if err != nil || result.Code != 0 || strings.Count(r.Out.String(), "leaf\n") != 6 || r.Err.String() != notice {
		t.Errorf("code %d, %v, stdout %q, stderr %q", result.Code, err, r.Out.String(), r.Err.String())
	}
	r = launchtest.NewPMIRun(1, "spawn 2 leaf; say on; spawn 1 leaf", map[string]string{"leaf": "say leaf"}, "a:2")
	r.Req.NoOversubscribe = true
	goesOn(t, r, "2 ranks do not fit: there are free slots for only 1 rank on 1 node (a)")
}

// A group on several nodes may spawn after its first barrier, which proves that all its nodes take
// part (TRUST-10).
func TestSpawnBeforeTheFirstBarrier(t *testing.T) {
	r := launchtest.NewPMIRun(2, "0: spawn 1 leaf; barrier; 0: say on; 0: spawn 1 leaf", map[string]string{"leaf": "say leaf"}, "a:2", "b:2")
	r.Req.Apps[0].PerNode = 1
	goesOn(t, r, "rank 0 on a: the spawn was refused: no rank may spawn before the first barrier of its MPI_COMM_WORLD")
}

// hostile returns a job of two ranks. The first is on a regular node and ends by itself; the helper
// of the other sends messages once it runs.
func hostile(t *testing.T, says ...wire.Message) (r *launchtest.Run, answers chan *Spawned) {
	t.Helper()
	answers = make(chan *Spawned, len(says))
	over := make(chan bool)
	r = launchtest.NewRun(2, "cat", "a", "b")
	r.In = &awaiting{over: over}
	r.Helpers.Fakes = map[string]func(*wire.Conn){"b": launchtest.FakeHelper("b", func(c *wire.Conn, m wire.Message) bool {
		switch m := m.(type) {
		case *wire.Start:
			c.Send(&wire.Started{Rank: 1, PID: 1})
			for _, m := range says {
				c.Send(m)
			}
			return true
		case *Spawned:
			answers <- m
			if m.ID == len(says) {
				c.Send(&wire.Exited{Exit: job.Exit{Rank: 1}})
				close(over)
			}
			return true
		}
		return false
	})}
	return r, answers
}

// An awaiting is an input that ends when something is over.
type awaiting struct{ over <-chan bool }

func (a *awaiting) Read([]byte) (int, error) {
	<-a.over
	return 0, io.EOF
}

// asks returns a spawn request as a helper sends it.
func asks(id, count int, group string, rank int, info ...spawn.Pair) *Spawn {
	return &Spawn{ID: id, Request: spawn.Request{Group: group, Rank: rank,
		Commands: []spawn.Command{{Argv: []string{"/bin/echo", "spawned"}, Count: count, Info: info}}}}
}

// A helper cannot make a job spawn whose ranks never used PMI.
func TestAMuteJobDoesNotSpawn(t *testing.T) {
	r, answers := hostile(t, asks(1, 1, "test", 1))
	result, err := r.Do(t)
	answer := <-answers
	if err != nil || result.Code != 0 || answer.Err == "" || r.Out.String() != "" ||
		!strings.Contains(r.Err.String(), "rank 1 on b: the spawn was refused: no rank may spawn before the first barrier of its MPI_COMM_WORLD") {
		t.Errorf("code %d, %v, answer %+v, stdout %q, stderr %q", result.Code, err, answer, r.Out.String(), r.Err.String())
	}
}

// asking returns a job of one rank. Its helper requests a spawn, and lets the rank exit after the
// reply.
func asking(m *Spawn) (r *launchtest.Run, answers chan *Spawned) {
	answers = make(chan *Spawned, 1)
	r = launchtest.NewRun(1, "", "z")
	r.Helpers.Fakes = map[string]func(*wire.Conn){"z": launchtest.FakeHelper("z", func(c *wire.Conn, got wire.Message) bool {
		switch got := got.(type) {
		case *wire.Start:
			c.Send(&wire.Started{Rank: 0, PID: 1})
			c.Send(m)
		case *Spawned:
			answers <- got
			c.Send(&wire.Exited{Exit: job.Exit{Rank: 0}})
		default:
			return false
		}
		return true
	})}
	return r, answers
}

// Files that a helper names in the keys "file" and "hostfile" are not opened on the launching
// machine. One may be a pipe that blocks, or a file that no node may see (TRUST-11).
func TestFilesThatAHelperNames(t *testing.T) {
	dir := t.TempDir()
	pipe, secret := filepath.Join(dir, "pipe"), filepath.Join(dir, "secret")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte("-----BEGIN PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{pipe, secret, "/dev/zero", "-"} {
		for _, key := range []string{"file", "hostfile"} {
			r, answers := asking(asks(1, 1, "test", 0, spawn.Pair{Key: key, Value: file}))
			result, err := r.Do(t)
			answer := <-answers
			if want := fmt.Sprintf(`info key %q: the helper on the rank's host did not read the file %s`, key, file); err != nil || result.Code != 0 || answer.Err != want {
				t.Errorf("%s=%s: code %d, %v, answer %q, stderr %q", key, file, result.Code, err, answer.Err, r.Err.String())
			}
		}
	}
}

// A spawn request without a program is refused.
func TestASpawnOfNothing(t *testing.T) {
	r, answers := asking(&Spawn{ID: 1, Request: spawn.Request{Group: "test"}})
	result, err := r.Do(t)
	if answer := <-answers; err != nil || result.Code != 0 || answer.Err != "the spawn request names no program" {
		t.Errorf("code %d, %v, answer %q, stderr %q", result.Code, err, answer.Err, r.Err.String())
	}
}

// The size of spawns is limited before anything is planned (TRUST-12), and so is the number of
// reports to the user.
func TestHowMuchIsSpawned(t *testing.T) {
	for count, want := range map[int]string{
		1 << 24: "a spawn cannot start 16777216 ranks; allowed: 1 to 1048576",
		1 << 20: "1048576 ranks do not fit: these hosts may have at most 4096 ranks",
		4097:    "4097 ranks do not fit: these hosts may have at most 4096 ranks",
	} {
		r := launchtest.NewPMIRun(1, fmt.Sprintf("spawn %d leaf; say on; spawn 1 leaf", count), map[string]string{"leaf": "say leaf"}, "a:2")
		goesOn(t, r, want)
	}
	var says []wire.Message
	for id := range 1000 {
		says = append(says, asks(id+1, 1<<19, "test", 0))
	}
	// The reply to the last request comes last, unless it was refused: the test ends either way.
	var texts []string
	r := launchtest.NewRun(1, "", "z")
	r.Helpers.Fakes = map[string]func(*wire.Conn){"z": launchtest.FakeHelper("z", func(c *wire.Conn, m wire.Message) bool {
		switch m := m.(type) {
		case *wire.Start:
			c.Send(&wire.Started{Rank: 0, PID: 1})
			for _, m := range says[:64] { // more at once is a violation (TRUST-4)
				c.Send(m)
			}
		case *Spawned:
			if next := len(texts) + 64; next < len(says) {
				c.Send(says[next])
			}
			if texts = append(texts, m.Err); len(texts) == len(says) {
				c.Send(&wire.Exited{Exit: job.Exit{Rank: 0}})
			}
		default:
			return false
		}
		return true
	})}
	result, err := r.Do(t)
	if err != nil || result.Code != 0 || slices.Contains(texts, "") || !strings.HasSuffix(r.Err.String(), "mpiexec: mpiexec does not report further refused spawn requests\n") ||
		strings.Count(r.Err.String(), "\n") != 100 {
		t.Errorf("code %d, %v, %d answers, stderr %q", result.Code, err, len(texts), r.Err.String())
	}
}

// The reason of a refusal may come from a helper: it is one line, without escape sequences
// (TRUST-28).
func TestTextOfARefusedSpawn(t *testing.T) {
	says := asks(1, 1, "test", 0)
	says.Fault = "no file\x1b[2J\nmpiexec: all is well" + strings.Repeat("!", 2000)
	r := launchtest.NewRun(1, "", "z")
	r.Helpers.Fakes = map[string]func(*wire.Conn){"z": launchtest.FakeHelper("z", func(c *wire.Conn, m wire.Message) bool {
		switch m.(type) {
		case *wire.Start:
			c.Send(&wire.Started{Rank: 0, PID: 1})
			c.Send(says)
		case *Spawned:
			c.Send(&wire.Exited{Exit: job.Exit{Rank: 0}})
		default:
			return false
		}
		return true
	})}
	result, err := r.Do(t)
	const want = "mpiexec: rank 0 on z: spawn -n 1 /bin/echo spawned: no file\\x1b[2J mpiexec: all is well!!!"
	if err != nil || result.Code != 0 || !strings.HasPrefix(r.Err.String(), want) || strings.Count(r.Err.String(), "\n") != 1 {
		t.Errorf("code %d, %v, stderr %q", result.Code, err, r.Err.String())
	}
}

// The node rank of a spawned rank counts all ranks that the job has had on the node, also those
// that have ended. A new node has had none.
func TestNodeRanksCountAllRanksOfTheJob(t *testing.T) {
	leaf := map[string]string{"leaf": "env OMPI_COMM_WORLD_NODE_RANK"}
	r := allowAnyHost(launchtest.NewPMIRun(1, "spawn 2 leaf host=a; spawn 1 leaf host=y; spawn 1 leaf host=a; spawn 1 leaf host=y", leaf, "a:8"))
	r.Req.Compat = []string{"ompi"}
	result, err := r.Do(t)
	got := slices.Sorted(strings.Lines(r.Out.String()))
	var want []string
	for _, number := range []int{0, 1, 1, 2, 3} { // y twice, and a, whose first rank spawns
		want = append(want, fmt.Sprintf("env OMPI_COMM_WORLD_NODE_RANK: %d\n", number))
	}
	got = slices.DeleteFunc(got, func(line string) bool { return !strings.HasPrefix(line, "env ") })
	if err != nil || result.Code != 0 || !slices.Equal(got, want) {
		t.Errorf("code %d, %v, %q, want %q; stderr %q", result.Code, err, got, want, r.Err.String())
	}
}
