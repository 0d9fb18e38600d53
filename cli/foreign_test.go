//go:build linux

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"remshell/gpu"
	"remshell/job"
	"remshell/limit"
	"remshell/pin"
	"remshell/pmiserver/spawn"
	"remshell/reach"
	"remshell/wire"
)

// evil is what a host that was broken into puts where there is a text (TRUST-28).
const evil = "\x1b]0;mine\x07\x1b[2J\rgone\nmpiexec: all is well\u202e\u009b31m\x7f\xff"

// A stranger is a helper of the test's own, which speaks the real wire. It answers as a
// helper does, and poison may change each of its messages on the way out.
type stranger struct {
	conn   *wire.Conn
	poison func(wire.Message)
	says   map[string]wire.Message // instead of what it would, by the type of the question
	deaf   bool                    // it says who it is, and nothing more
	ranks  []job.RankPlan
	claims []job.Claim // that it lists
}

func (s *stranger) send(m wire.Message) {
	s.poison(m)
	s.conn.Send(m)
}

// sample is one message of each type that a helper may send, with a text in each field
// that can have one.
func samples() map[string]wire.Message {
	claim := job.Claim{Resting: "r", Job: "j", Inside: "i", UID: 1, User: "u", From: "f", Node: "n", Nodes: 1, Size: 1, Command: "c",
		Since: time.Unix(1e9, 0), Ranks: []job.ClaimedRank{{CPUs: []int{0}, GPUs: []string{"g"}}}}
	probe := job.Probe{Hostname: "h", Arch: "a", Kernel: "k", Model: "m", Identity: "i", Memory: job.Memory{Total: 1 << 30}}
	probe.Topology.Cores = []pin.Core{{Place: pin.Place{L2: -1, L3: -1, Kind: "x"}, CPUs: []int{0}}}
	probe.GPUs = []gpu.GPU{{Vendor: gpu.NVIDIA, Address: "0000:01:00.0"}}
	all := []wire.Message{
		&wire.Hello{Version: wire.Version, Build: "b", Release: "r", Host: "h"},
		&wire.Node{Probe: probe, Err: "e"},
		&wire.Gated{Notice: "n"}, &wire.Surveyed{Notice: "n", Use: job.Use{BusyGPUs: []string{"g"}, Busy: []int{0}, Procs: 1, Seated: 1, Who: "w", WhoJob: "j"}}, &wire.Queued{Err: "e", Evicted: "v", Ahead: 1, Total: 2, Head: job.Ticket{Number: 1, Job: "j", UID: 77, User: "u", From: "f", Summary: "s", Nodes: "n", Since: time.Unix(1e9, 0)}}, &wire.Changed{},
		&wire.Prepared{Group: "g", Notice: "n", Meet: "m"}, &wire.Refused{Group: "g", Code: 125, Reason: "r", Hint: "h"}, &wire.Taken{Group: "g", Reason: "r"},
		&wire.Listed{Claims: []job.Claim{claim}, Tickets: []job.Ticket{{Number: 1, Job: "j", UID: 1, User: "u", From: "f", Summary: "s", Since: time.Unix(1e9, 0)}}, States: []job.RankState{{Life: "running", Waits: "w", Sleep: "s", Kind: "k", Stack: "t"}}, Err: "e"},
		&wire.Laid{Err: "e"}, &wire.Sought{Words: []string{"w"}}, &wire.Alerted{Err: "e"}, &wire.Evicted{Done: []string{"d"}, Err: "e"},
		&wire.Ask{ID: "i", Right: "r", Ask: job.Ask{Job: "j", User: "u", Verb: job.AskEnd, Args: []string{"a"}, Since: time.Unix(1e9, 0)}},
		&wire.Answer{State: job.AskRefused, Text: "t", Ranks: []job.PlacedState{{Node: "n", RankState: job.RankState{Life: "running", Waits: "w", Sleep: "s", Kind: "k"}}}},
		&wire.Started{PID: 7, Code: 127, Err: "e", Hint: "h"},
		&wire.Data{}, &wire.Credit{}, &wire.Fence{ID: "f"}, &wire.Name{Service: "s", Port: "p"}, &wire.Peers{Group: "g"}, &wire.Fetch{Group: "g", Key: "k"}, &wire.Fetched{Err: "e"}, &wire.Notify{Group: "g", To: "t"}, &wire.Utter{File: "f", Name: "n"},
		&wire.PMI{Event: wire.PMIAborted, Code: 3, Text: "t"}, &wire.PMI{Event: wire.PMIJunk, Text: "t"}, &wire.PMI{Event: wire.PMIBroken, Text: "t"},
		&wire.Spawn{Request: spawn.Request{Group: "g", Commands: []spawn.Command{{Argv: []string{"a"}, Count: 1}}}},
		&wire.Exited{Exit: job.Exit{Code: 3, Hint: "h", Built: "b"}},
		&wire.Sampled{Host: job.Sample{Mem: 1}, Ranks: []job.RankSample{{Sample: job.Sample{Mem: 1}}}},
		&wire.Trace{Line: "< cmd=init"}, &wire.States{Ranks: []job.RankState{{Life: "running", Waits: "w", Sleep: "s", Kind: "k", Stack: "t"}}},
		&wire.Caught{Signal: 15}, &wire.Exceeded{Bound: job.Bound{Resource: limit.RankMem}, Used: 1}, &wire.Emptied{}, &wire.Cleaned{Remnants: []job.Remnant{{Kind: job.PosixShm, ID: "i", Err: "e"}}}, &wire.Drained{}, &wire.Renewed{}, &wire.Log{Text: "l"}, &wire.Ping{},
		&wire.Examined{Exam: job.Exam{Address: "a", Interface: "i", OwnName: []string{"o"}, NameErr: "e", Limits: []job.Limit{{Name: "n", Flag: "f", Soft: 1, Hard: 1}},
			Shared: job.Space{Path: "p", Err: "e"}, Folders: []job.Space{{Path: "p", Err: "e"}}, Fabric: "f",
			Dir: job.Defect{Code: "c", Text: "t", Remedy: "r"}, Program: job.Defect{Code: "c", Text: "t", Remedy: "r"}, DirName: "d", Found: "f"}},
		&wire.Listening{Err: "e"}, &wire.PeersProbed{Probes: []job.PeerProbe{{}}},
		&wire.Wanted{}, &wire.Took{}, &wire.Staged{Code: 125, Reason: "r", Hint: "h"},
	}
	byName := make(map[string]wire.Message)
	for _, m := range all {
		name := reflect.TypeOf(m).Elem().Name()
		if p, ok := m.(*wire.PMI); ok {
			name += fmt.Sprint(p.Event)
		}
		byName[name] = m
	}
	return byName
}

// textsOf are the fields of a message that can hold a text.
func textsOf(v reflect.Value) (found []reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return textsOf(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[job.Traits]() {
			return nil // labels alone: what is not refused by package wire
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type() != reflect.TypeFor[time.Time]() {
				found = append(found, textsOf(v.Field(i))...)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return []reflect.Value{v}
		}
		for i := range v.Len() {
			found = append(found, textsOf(v.Index(i))...)
		}
	case reflect.String:
		return []reflect.Value{v}
	}
	return found
}

func spoil(v reflect.Value) {
	if v.Kind() == reflect.String {
		v.SetString(evil)
	} else {
		v.SetBytes([]byte(evil))
	}
}

// serve answers until its mpiexec is satisfied or gone.
func (s *stranger) serve() {
	defer s.conn.Close()
	hello := samples()["Hello"].(*wire.Hello)
	s.poison(hello)
	s.conn.Announce(hello)
	node := samples()["Node"].(*wire.Node)
	node.Err = ""
	s.send(node)
	for {
		m, err := s.conn.Recv()
		if err != nil {
			return
		}
		if s.deaf {
			continue
		}
		if prepare, ok := m.(*wire.Prepare); ok {
			s.ranks = prepare.Ranks
		}
		if instead := s.says[reflect.TypeOf(m).Elem().Name()]; instead != nil {
			s.send(instead)
			continue
		}
		s.answer(m)
	}
}

func (s *stranger) answer(m wire.Message) {
	switch m := m.(type) {
	case *wire.Gate:
		s.send(&wire.Gated{})
	case *wire.Survey:
		s.send(&wire.Surveyed{})
	case *wire.Enqueue:
		s.send(&wire.Queued{Total: 1})
	case *wire.List:
		s.send(&wire.Listed{Claims: s.claims})
	case *wire.Ask:
		s.send(&wire.Answer{ID: m.ID, State: job.AskDone})
	case *wire.Alert:
		s.send(&wire.Alerted{})
	case *wire.Evict:
		s.send(&wire.Evicted{})
	case *wire.Examine:
		s.send(&wire.Examined{})
	case *wire.Listen:
		s.send(&wire.Listening{})
	case *wire.ProbePeers:
		s.send(&wire.PeersProbed{})
	case *wire.Prepare:
		s.send(&wire.Prepared{Group: m.Group.Name})
	case *wire.Start:
		for _, r := range s.ranks {
			s.send(&wire.Started{Rank: r.Rank, PID: 100 + r.Rank})
		}
		if extra := s.says["after the start"]; extra != nil {
			s.send(extra)
		}
		for _, r := range s.ranks {
			s.send(&wire.Exited{Exit: job.Exit{Rank: r.Rank}})
		}
	case *wire.End:
		s.send(&wire.Emptied{})
		s.send(&wire.Drained{})
	}
}

// strangers dials them.
type strangers func(conn *wire.Conn) *stranger

func (s strangers) Dial(ctx context.Context, hosts []reach.Host) <-chan reach.Result {
	return reach.Each(ctx, hosts, func(context.Context, reach.Host) (io.ReadWriteCloser, error) {
		here, there := net.Pipe()
		go s(wire.NewConn(there, wire.Helper)).serve()
		return here, nil
	})
}

// A sheet is what was printed; several write it.
type sheet struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *sheet) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *sheet) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// harmed says what is wrong with a text that was printed; empty: nothing.
func harmed(printed string) string {
	for line := range strings.Lines(printed) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "mpiexec: all is well") {
			return fmt.Sprintf("a forged line: %q", line)
		}
		for _, r := range line {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				return fmt.Sprintf("%U in %q", r, line)
			}
		}
		if strings.ToValidUTF8(line, "") != line {
			return fmt.Sprintf("no UTF-8: %q", line)
		}
	}
	return ""
}

// converse runs mpiexec with a command line against a stranger, and returns all it said.
func converse(t *testing.T, args []string, says map[string]wire.Message, poison func(wire.Message)) string {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
	defer done()
	var printed sheet
	home := t.TempDir()
	file := filepath.Join(home, "file")
	for i := range args {
		args[i] = strings.Replace(args[i], "FILE", file, 1)
	}
	Main(ctx, args, System{
		In: strings.NewReader(""), Out: &printed, Err: &printed, FS: os.DirFS("/"), Suspend: func() {}, Catch: func(os.Signal) {},
		Environ: []string{"HOME=" + home, "USER=me", "PATH=/bin", "MPIEXEC_LEDGER=" + home},
		Getwd:   func() (string, error) { return "/", nil },
		Dialer: strangers(func(conn *wire.Conn) *stranger {
			claims := samples()["Listed"].(*wire.Listed).Claims
			return &stranger{conn: conn, says: says, poison: poison, claims: claims}
		}),
	})
	if ctx.Err() != nil {
		t.Errorf("mpiexec %v waits for ever; it said %q", args, printed.String())
	}
	written, _ := os.ReadFile(file)
	return printed.String() + string(written)
}

// where says, for each message of a helper, what mpiexec has to ask to get it: the command
// lines, and the question that it answers ("": it is said by itself).
var where = map[string]struct {
	question string
	lines    []string
}{
	"Hello":       {"", []string{"-n 1 -host a true", "-v -n 1 -host a true", "-vv -n 1 -host a true"}},
	"Node":        {"", []string{"-v -n 1 -host a true", "-n 1 -host a --display-topo --display-map --report-bindings true", "--dry-run --probe -host a -n 1 true", "--doctor -host a"}},
	"Gated":       {"Gate", []string{"-v -n 1 -host a true"}},
	"Surveyed":    {"Survey", []string{"-v -n 1 -host a true", "--dry-run --probe -host a -n 1 true"}},
	"Queued":      {"Enqueue", []string{"-v -n 9 -host a:1 --wait=1 true"}},
	"Changed":     {"Watch", nil},
	"Prepared":    {"Prepare", []string{"-v -n 1 -host a true"}},
	"Refused":     {"Prepare", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"Taken":       {"Prepare", []string{"-v -n 1 -host a true"}},
	"Listed":      {"List", []string{"--ps a", "--ps --json a", "--queue a", "--status j a", "--ps -v a", "--doctor a"}},
	"Alerted":     {"Alert", []string{"--signal USR1 j a", "--signal USR1 -v j a"}},
	"Ask":         {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"Answer":      {"Ask", []string{"--end j a", "--status j a", "--status j --json a"}},
	"Evicted":     {"Evict", []string{"--evict j a", "--evict j -v a"}},
	"Started":     {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"Data":        {"", nil}, // the ranks' own
	"Credit":      {"", nil},
	"Fence":       {"after the start", []string{"-v -n 1 -host a true"}},
	"Name":        {"after the start", []string{"-v -n 1 -host a true"}},
	"Peers":       {"after the start", []string{"-v -n 1 -host a true"}},
	"Fetch":       {"after the start", []string{"-v -n 1 -host a true"}},
	"Fetched":     {"after the start", []string{"-v -n 1 -host a true"}},
	"Notify":      {"after the start", []string{"-v -n 1 -host a true"}},
	"Utter":       {"after the start", []string{"-n 1 -host a true"}},
	"PMI1":        {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"PMI2":        {"after the start", []string{"-n 1 -host a true"}},
	"PMI3":        {"after the start", []string{"-n 1 -host a true"}},
	"Spawn":       {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"Exited":      {"after the start", []string{"-n 1 -host a true", "-v -n 2 -host a:2 true"}},
	"Trace":       {"after the start", []string{"--pmi-trace FILE -n 1 -host a true"}},
	"States":      {"after the start", []string{"-v -n 1 -host a true"}},
	"Sampled":     {"after the start", nil}, // it has no texts
	"Caught":      {"", nil},
	"Exceeded":    {"after the start", nil}, // it has no texts but the names of limits
	"Emptied":     {"", nil},
	"Cleaned":     {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"Drained":     {"", nil},
	"Renewed":     {"", nil},
	"Log":         {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"Ping":        {"", nil},
	"Examined":    {"Examine", []string{"--doctor a", "--doctor --json a", "--doctor -v a"}},
	"Laid":        {"Lay", []string{"-v -n 2 -host a:1,b:1 true", "-n 2 -host a:1,b:1 true"}},
	"Sought":      {"Seek", []string{"-v -n 2 -host a:1,b:1 true"}},
	"Listening":   {"Listen", []string{"--doctor -host a,b"}},
	"PeersProbed": {"ProbePeers", []string{"--doctor -host a,b"}},
	"Wanted":      {"Stage", nil},
	"Took":        {"Stage", nil},
	"Staged":      {"Stage", []string{"--stage /etc/passwd -n 1 -host a true", "-v --stage /etc/passwd -n 1 -host a true"}},
}

// Whatever a helper puts into whichever text of its messages, what mpiexec prints has
// nothing in it that a terminal would obey, and no line that only looks like ours.
func TestTextOfHelpers(t *testing.T) {
	for name, sample := range samples() {
		place, known := where[name]
		if !known {
			t.Errorf("%s: nobody says what asks for it", name)
		}
		for i := range textsOf(reflect.ValueOf(sample)) {
			for _, line := range place.lines {
				t.Run(fmt.Sprintf("%s/%d/%s", name, i, line), func(t *testing.T) {
					t.Parallel()
					m := samples()[name]
					spoil(textsOf(reflect.ValueOf(m))[i])
					says, poison := map[string]wire.Message{place.question: m}, func(wire.Message) {}
					if place.question == "" { // one that each helper sends
						poison = func(sent wire.Message) { poisoned(sent, m) }
					}
					printed := converse(t, strings.Fields(line), says, poison)
					if harm := harmed(printed); harm != "" {
						t.Errorf("mpiexec printed %s", harm)
					}
				})
			}
		}
	}
}

// poisoned puts one message in the place of another of its type.
func poisoned(sent, m wire.Message) {
	if a, b := reflect.ValueOf(sent), reflect.ValueOf(m); a.Type() == b.Type() {
		a.Elem().Set(b.Elem())
	}
}

// Nothing is missing in samples: each message that a helper may send is there.
func TestSamplesAreComplete(t *testing.T) {
	known := samples()
	for _, kind := range wire.Kinds() {
		if kind.From != wire.Launcher && known[kind.Name] == nil && known[kind.Name+"1"] == nil {
			t.Errorf("%s is not among the samples", kind.Name)
		}
	}
}
