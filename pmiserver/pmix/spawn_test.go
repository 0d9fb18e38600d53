package pmix

import (
	"context"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/pmiserver/spawn"
	"remshell/test/pmixtest"
)

// A fakeSpawner starts nothing, and records the requests.
type fakeSpawner struct {
	group string
	err   error
	asked chan spawn.Request // gets each request; may be nil
	hold  chan bool          // if not nil, Spawn waits for it
}

func (s *fakeSpawner) Spawn(ctx context.Context, r spawn.Request) (group string, codes []int, err error) {
	if s.asked != nil {
		s.asked <- r
	}
	if s.hold != nil {
		<-s.hold
	}
	return s.group, nil, s.err
}

// A namespaceFunc is a GroupFinder that returns namespaces of groups, and finds no group.
type namespaceFunc func(group string) string

func (f namespaceFunc) Namespace(group string) string { return f(group) }

func (namespaceFunc) FindGroup(context.Context, string) (Group, error) {
	return Group{}, errors.New("nowhere")
}

// newSpawnServer serves a group of one rank, with a Spawner.
func newSpawnServer(t *testing.T, starts *fakeSpawner) *Server {
	s, _ := newTestServer(t, 1, 1)
	s.groups[0].Spawner = starts
	s.GroupFinder = namespaceFunc(func(group string) string { return "rs-0123456789abcdef-" + group })
	return s
}

// spawnBody is a SPAWN request.
func spawnBody(options message.Options, programs ...bfrops.Program) []byte {
	return pmixtest.Encode(&message.Spawn{Options: options, Programs: programs})
}

// A recorded spawn of Open MPI becomes a spawn.Request with the environment that it contains.
func TestSpawnOfOpenMPI(t *testing.T) {
	checked := 0
	for _, m := range pmixtest.Read(t).ClientMessages() {
		if m.Kind != "SPAWN" {
			continue
		}
		checked++
		parsed, err := message.Parse(m.Body())
		if err != nil {
			t.Fatal(err)
		}
		r, status := spawnRequest(parsed.(*message.Spawn))
		if status != message.Success || !r.PMIx || len(r.Commands) != 1 {
			t.Fatalf("%v: %+v", status, r)
		}
		c := r.Commands[0]
		if c.Count != 2 || len(c.Argv) != 1 || len(c.Info) != 1 || c.Info[0].Key != "wdir" || len(c.Env) == 0 {
			t.Errorf("%+v", c)
		}
	}
	if checked != 3 {
		t.Errorf("%d requests", checked)
	}
}

// PMIx options become MPI info keys. Unknown options are ignored, and too many programs are refused.
func TestSpawnRequest(t *testing.T) {
	text := func(key, value string) bfrops.Info { return bfrops.Info{Key: key, Value: bfrops.TextOf(value)} }
	variable := func(key, name, value string) bfrops.Info {
		raw := bfrops.AppendText(bfrops.AppendText(nil, name), value)
		var packed []byte
		for len(raw) > 0 { // elements have no count, unlike packs
			size := 4 + int(raw[7])
			packed, raw = append(packed, raw[4:4+size]...), raw[4+size:]
		}
		return bfrops.Info{Key: key, Value: bfrops.Value{Type: bfrops.Envar, Bytes: append(packed, ':')}}
	}
	program := bfrops.Program{Command: "./b", Args: []string{"b", "x y"}, Environment: []string{"A=1"}, Dir: "/home", Ranks: 3}
	for _, test := range []struct {
		name     string
		job, own message.Options
		want     message.Status
		info     []spawn.Pair
		env      []string
	}{
		{name: "plain", info: []spawn.Pair{{Key: "wdir", Value: "/home"}}, env: []string{"A=1"}},
		{name: "hosts", job: message.Options{text("pmix.hostfile", "f")}, own: message.Options{text("pmix.host", "n1,n2"), text("pmix.wdir", "/tmp")}, env: []string{"A=1"},
			info: []spawn.Pair{{Key: "hostfile", Value: "f"}, {Key: "host", Value: "n1,n2"}, {Key: "wdir", Value: "/tmp"}}},
		{name: "variables", own: message.Options{variable("pmix.envar.set", "B", "2"), variable("pmix.envar.prepnd", "PATH", "/x"), variable("pmix.envar.add", "", "3")},
			info: []spawn.Pair{{Key: "wdir", Value: "/home"}}, env: []string{"A=1", "B=2"}},
		{name: "unknown", job: message.Options{text("pmix.pers", "ompi"), text("color", "blue")}, info: []spawn.Pair{{Key: "wdir", Value: "/home"}}, env: []string{"A=1"}},
		{name: "more hosts", own: message.Options{text("pmix.addhost", "n9"), text("pmix.addhostfile", "f")},
			info: []spawn.Pair{{Key: "wdir", Value: "/home"}, {Key: "host", Value: "n9"}, {Key: "hostfile", Value: "f"}}, env: []string{"A=1"}},
		{name: "hosts that are none", own: message.Options{{Key: "pmix.host", Value: bfrops.Uint32Of(7)}}, info: []spawn.Pair{{Key: "wdir", Value: "/home"}}, env: []string{"A=1"}},
	} {
		p := program
		p.Options = test.own
		got, status := spawnRequest(&message.Spawn{Options: test.job, Programs: []bfrops.Program{p}})
		if status != test.want {
			t.Errorf("%s: %v, want %v", test.name, status, test.want)
		}
		want := spawn.Request{PMIx: true, Commands: []spawn.Command{{Argv: []string{"./b", "x y"}, Count: 3, Info: test.info, Env: test.env}}}
		if status == message.Success && !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", test.name, got, want)
		}
	}
	for name, programs := range map[string][]bfrops.Program{
		"nothing":         nil,
		"no ranks":        {{Command: "./b"}},
		"no program":      {{Ranks: 1}},
		"too many ranks":  {{Command: "./b", Ranks: 1 << 25}},
		"too many in all": {{Command: "./b", Ranks: 1 << 24}, {Command: "./b", Ranks: 1}},
	} {
		if _, status := spawnRequest(&message.Spawn{Programs: programs}); status != message.BadParameter {
			t.Errorf("%s: %v", name, status)
		}
	}
	if _, status := spawnRequest(&message.Spawn{Programs: make([]bfrops.Program, maxPrograms+1)}); status != message.NoMemory {
		t.Errorf("too many programs: %v", status)
	}
}

// The reply to a spawn comes when all ranks run, with their namespace, or with the reason why none does
// (PMIX-44).
func TestSpawnAnswers(t *testing.T) {
	body := spawnBody(nil, bfrops.Program{Command: "./b", Ranks: 1})
	for _, test := range []struct {
		err  error
		want message.Status
	}{
		{nil, message.Success},
		{errors.New("no such file or directory"), message.Failed},
		{spawn.NoSlots("cpus-full"), message.NoMemory},
	} {
		asked := make(chan spawn.Request, 1)
		c := initialized(t, newSpawnServer(t, &fakeSpawner{group: "7", err: test.err, asked: asked}), 0)
		r := bfrops.NewReader(c.request(body))
		if got := message.Status(r.Status()); got != test.want {
			t.Errorf("%v is answered by %v", test.err, got)
		}
		if test.err == nil {
			if space := r.Namespace(); space != "rs-0123456789abcdef-7" {
				t.Errorf("the children are %q", space)
			}
		}
		if got := <-asked; got.Group != "k" || got.Rank != 0 || !got.PMIx {
			t.Errorf("asked for %+v", got)
		}
	}
	s, _ := newTestServer(t, 1, 1)
	if got := initialized(t, s, 0).status(body); got != message.NotSupported {
		t.Errorf("where nothing can be started: %v", got)
	}
}

// A rank may have maxSpawns spawns without a reply.
func TestTooManySpawns(t *testing.T) {
	starts := &fakeSpawner{group: "1", hold: make(chan bool)}
	c := initialized(t, newSpawnServer(t, starts), 0)
	body := spawnBody(nil, bfrops.Program{Command: "./b", Ranks: 1})
	for range maxSpawns {
		c.send(body)
	}
	if got := c.status(body); got != message.NoMemory {
		t.Errorf("one more is answered by %v", got)
	}
	close(starts.hold)
	for range maxSpawns {
		if _, answer := c.receive(); statusOf(answer) != message.Success {
			t.Errorf("one of those under way is answered by %s", hex.EncodeToString(answer))
		}
	}
	if got := c.status(body); got != message.Success {
		t.Errorf("when there is room again: %v", got)
	}
}
