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
	"remshell/job/column"
	"remshell/pin"
	"remshell/transport"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// hostileText is what a compromised host might send as a text (TRUST-28).
const hostileText = "\x1b]0;mine\x07\x1b[2J\rgone\nmpiexec: all is well\u202e\u009b31m\x7f\xff"

// A fakeHelper is a helper of the test, which speaks the wire protocol. It replies as a helper does, and alter may
// change each message that it sends.
type fakeHelper struct {
	conn    *wire.Conn
	alter   func(wire.Message)
	replies map[string]wire.Message // replies that replace the usual ones, by type of the request
	silent  bool                    // it sends Hello and nothing more
	ranks   []job.RankPlan
	claims  []job.Claim // that its ledger lists
}

func (s *fakeHelper) send(m wire.Message) {
	s.alter(m)
	s.conn.Send(m)
}

// sampleMessages returns a message of each type that a helper may send, with each text field filled.
func sampleMessages() map[string]wire.Message {
	claim := job.Claim{IdleReason: "r", Job: "j", ParentJob: "i", UID: 1, User: "u", LauncherHost: "f", Node: "n", Nodes: 1, Size: 1, Command: "c",
		Since: time.Unix(1e9, 0), Ranks: []job.ClaimedRank{{CPUs: []int{0}, GPUs: []string{"g"}}}}
	for _, c := range column.All {
		claim.Reported = append(claim.Reported, c.Max)
	}
	probe := job.Probe{Hostname: "h", Arch: "a", Kernel: "k", Model: "m", Identity: "i", Memory: job.Memory{Total: 1 << 30}}
	probe.Topology.Cores = []pin.Core{{CoreLocation: pin.CoreLocation{L2: -1, L3: -1, Kind: "x"}, CPUs: []int{0}}}
	probe.GPUs = []gpu.GPU{{Vendor: gpu.NVIDIA, Address: "0000:01:00.0"}}
	all := []wire.Message{
		&wire.Hello{Version: wire.Version, Build: "b", Release: "r", Host: "h"},
		&wire.NodeInfo{Probe: probe, Err: "e"},
		&wire.DecisionLocked{Notice: "n"}, &wire.Surveyed{Notice: "n", Occupancy: job.Occupancy{BusyGPUs: []string{"g"}, BusyCPUs: []int{0}, Ranks: 1, BoundRanks: 1, TopUser: "w", TopJob: "j"}}, &wire.QueuePosition{Err: "e", EvictedBy: "v", Ahead: 1, Total: 2, Head: job.Ticket{Number: 1, Job: "j", UID: 77, User: "u", LauncherHost: "f", Summary: "s", Nodes: "n", Since: time.Unix(1e9, 0)}}, &wire.ClaimsChanged{},
		&wire.Prepared{Group: "g", Notice: "n", Rendezvous: "m"}, &wire.Refused{Group: "g", Code: 125, Reason: "r", Hint: "h"}, &wire.ClaimConflict{Group: "g", Reason: "r"},
		&wire.LedgerListed{Claims: []job.Claim{claim}, Tickets: []job.Ticket{{Number: 1, Job: "j", UID: 1, User: "u", LauncherHost: "f", Summary: "s", Since: time.Unix(1e9, 0)}}, States: []job.RankState{{Phase: "running", WaitsFor: "w", WaitChannel: "s", ProcState: "k"}}, Err: "e"},
		&wire.MarkWritten{Err: "e"}, &wire.MarksRead{Marks: []string{"w"}}, &wire.JobSignaled{Err: "e"}, &wire.Evicted{Done: []string{"d"}, Err: "e"},
		&wire.ControlRequest{ID: "i", Role: "r", Request: job.ControlRequest{Job: "j", User: "u", Verb: job.VerbEnd, Args: []string{"a"}, Since: time.Unix(1e9, 0)}},
		&wire.ControlReply{State: job.ReplyRefused, Text: "t", Ranks: []job.NodeRankState{{Node: "n", RankState: job.RankState{Phase: "running", WaitsFor: "w", WaitChannel: "s", ProcState: "k"}}}},
		&wire.Started{PID: 7, Code: 127, Err: "e", Hint: "h"},
		&wire.Data{}, &wire.Credit{}, &wire.Fence{ID: "f"}, &wire.RankMapRequest{Group: "g"},
		&wire.PMIReport{Event: wire.PMIAborted, Code: 3, Text: "t"}, &wire.PMIReport{Event: wire.PMIMalformed, Text: "t"}, &wire.PMIReport{Event: wire.PMIBarrierBroken, Text: "t"},
		&wire.Exited{Exit: job.Exit{Code: 3, Hint: "h", MPILibrary: "b"}},
		&wire.HelperSignaled{Signal: 15}, &wire.ProcessesGone{}, &wire.Drained{}, &wire.AttemptReady{}, &wire.Log{Text: "l"}, &wire.Ping{},
		&wire.Diagnosed{Diagnosis: job.NodeDiagnosis{Address: "a", Interface: "i", OwnAddresses: []string{"o"}, OwnNameErr: "e", Limits: []job.Rlimit{{Name: "n", Flag: "f", Soft: 1, Hard: 1}},
			DevShm: job.FileSystem{Path: "p", Err: "e"}, TempDirs: []job.FileSystem{{Path: "p", Err: "e"}}, Fabric: "f",
			Dir: job.Defect{Code: "c", Text: "t", Remedy: "r"}, Program: job.Defect{Code: "c", Text: "t", Remedy: "r"}, DirName: "d", ProgramPath: "f"}},
		&wire.ProbePortOpened{Err: "e"}, &wire.PeersProbed{Probes: []job.PeerProbe{{}}},
	}
	for _, k := range wire.Kinds() {
		if k.Example != nil && k.Sender != wire.Launcher {
			all = append(all, k.Example(0))
		}
	}
	byName := make(map[string]wire.Message)
	for _, m := range all {
		name := reflect.TypeOf(m).Elem().Name()
		if p, ok := m.(*wire.PMIReport); ok {
			name += fmt.Sprint(p.Event)
		}
		byName[name] = m
	}
	return byName
}

// textsOf returns the fields of a message that can hold a text.
func textsOf(v reflect.Value) (found []reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return textsOf(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[job.Attributes]() {
			return nil // only label fields: package wire rejects other texts
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

func setHostileText(v reflect.Value) {
	if v.Kind() == reflect.String {
		v.SetString(hostileText)
	} else {
		v.SetBytes([]byte(hostileText))
	}
}

// serve replies until mpiexec is done or the connection is closed.
func (s *fakeHelper) serve() {
	defer s.conn.Close()
	hello := sampleMessages()["Hello"].(*wire.Hello)
	s.alter(hello)
	s.conn.SendHello(hello)
	node := sampleMessages()["NodeInfo"].(*wire.NodeInfo)
	node.Err = ""
	s.send(node)
	for {
		m, err := s.conn.Recv()
		if err != nil {
			return
		}
		if s.silent {
			continue
		}
		if prepare, ok := m.(*wire.Prepare); ok {
			s.ranks = prepare.Ranks
		}
		if instead := s.replies[reflect.TypeOf(m).Elem().Name()]; instead != nil {
			s.send(instead)
			continue
		}
		s.reply(m)
	}
}

func (s *fakeHelper) reply(m wire.Message) {
	switch m := m.(type) {
	case *wire.LockDecision:
		s.send(&wire.DecisionLocked{})
	case *wire.Survey:
		s.send(&wire.Surveyed{})
	case *wire.Enqueue:
		s.send(&wire.QueuePosition{Total: 1})
	case *wire.ListLedger:
		s.send(&wire.LedgerListed{Claims: s.claims})
	case *wire.ControlRequest:
		s.send(&wire.ControlReply{ID: m.ID, State: job.ReplyDone})
	case *wire.SignalJob:
		s.send(&wire.JobSignaled{})
	case *wire.Evict:
		s.send(&wire.Evicted{})
	case *wire.Diagnose:
		s.send(&wire.Diagnosed{})
	case *wire.OpenProbePort:
		s.send(&wire.ProbePortOpened{})
	case *wire.ProbePeers:
		s.send(&wire.PeersProbed{})
	case *wire.Prepare:
		s.send(&wire.Prepared{Group: m.Group.Name})
	case *wire.Start:
		for _, r := range s.ranks {
			s.send(&wire.Started{Rank: r.Rank, PID: 100 + r.Rank})
		}
		if extra := s.replies["after the start"]; extra != nil {
			s.send(extra)
		}
		for _, r := range s.ranks {
			s.send(&wire.Exited{Exit: job.Exit{Rank: r.Rank}})
		}
	case *wire.EndJob:
		s.send(&wire.ProcessesGone{})
		s.send(&wire.Drained{})
	}
}

// A fakeHelperDialer connects each host to the helper that it returns.
type fakeHelperDialer func(conn *wire.Conn) *fakeHelper

func (s fakeHelperDialer) Dial(ctx context.Context, hosts []transport.Host) <-chan transport.Result {
	return transport.DialEach(ctx, hosts, func(context.Context, transport.Host) (io.ReadWriteCloser, error) {
		here, there := net.Pipe()
		go s(wire.NewConn(there, wire.Helper)).serve()
		return here, nil
	})
}

// A syncBuffer collects output of several goroutines.
type syncBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// checkHarmless returns what is dangerous in printed text, or "" if nothing is.
func checkHarmless(printed string) string {
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

// runAgainstFake runs mpiexec against fake helpers, and returns all it printed.
func runAgainstFake(t *testing.T, args []string, says map[string]wire.Message, poison func(wire.Message)) string {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
	defer done()
	var printed syncBuffer
	home := t.TempDir()
	file := filepath.Join(home, "file")
	for i := range args {
		args[i] = strings.Replace(args[i], "FILE", file, 1)
	}
	Main(ctx, args, System{
		In: strings.NewReader(""), Out: &printed, Err: &printed, FS: os.DirFS("/"), Suspend: func() {}, CatchSignal: func(os.Signal) {},
		Environ: []string{"HOME=" + home, "USER=me", "PATH=/bin", "MPIEXEC_LEDGER=" + home},
		Getwd:   func() (string, error) { return "/", nil },
		Dialer: fakeHelperDialer(func(conn *wire.Conn) *fakeHelper {
			claims := sampleMessages()["LedgerListed"].(*wire.LedgerListed).Claims
			return &fakeHelper{conn: conn, replies: says, alter: poison, claims: claims}
		}),
	})
	if ctx.Err() != nil {
		t.Errorf("mpiexec %v waits for ever; it said %q", args, printed.String())
	}
	written, _ := os.ReadFile(file)
	return printed.String() + string(written)
}

// A messageCase says how to provoke a message of a helper: the command lines, and the request that it is the reply to. An
// empty request means that the helper sends it unasked.
type messageCase struct {
	question string
	lines    []string
}

// featureCase is the case of a message of a feature, unless it needs an option.
var featureCase = messageCase{"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}}

// messageCases has the case of each message of a helper.
var messageCases = map[string]messageCase{
	"Hello":           {"", []string{"-n 1 -host a true", "-v -n 1 -host a true", "-vv -n 1 -host a true"}},
	"NodeInfo":        {"", []string{"-v -n 1 -host a true", "-n 1 -host a --display-topo --display-map --report-bindings true", "--dry-run --probe -host a -n 1 true", "--doctor -host a"}},
	"DecisionLocked":  {"LockDecision", []string{"-v -n 1 -host a true"}},
	"Surveyed":        {"Survey", []string{"-v -n 1 -host a true", "--dry-run --probe -host a -n 1 true"}},
	"QueuePosition":   {"Enqueue", []string{"-v -n 9 -host a:1 --wait=1 true"}},
	"ClaimsChanged":   {"WatchClaims", nil},
	"Prepared":        {"Prepare", []string{"-v -n 1 -host a true"}},
	"Refused":         {"Prepare", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"ClaimConflict":   {"Prepare", []string{"-v -n 1 -host a true"}},
	"LedgerListed":    {"ListLedger", []string{"--ps a", "--ps --json a", "--queue a", "--status j a", "--ps -v a", "--doctor a"}},
	"JobSignaled":     {"SignalJob", []string{"--signal USR1 j a", "--signal USR1 -v j a"}},
	"ControlRequest":  {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"ControlReply":    {"ControlRequest", []string{"--end j a", "--status j a", "--status j --json a"}},
	"Evicted":         {"Evict", []string{"--evict j a", "--evict j -v a"}},
	"Started":         {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"Data":            {"", nil}, // has the output of ranks
	"Credit":          {"", nil},
	"Fence":           {"after the start", []string{"-v -n 1 -host a true"}},
	"RankMapRequest":  {"after the start", []string{"-v -n 1 -host a true"}},
	"Notify":          {"after the start", []string{"-v -n 1 -host a true"}},
	"PMIReport1":      {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"PMIReport2":      {"after the start", []string{"-n 1 -host a true"}},
	"PMIReport3":      {"after the start", []string{"-n 1 -host a true"}},
	"Spawn":           {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"Exited":          {"after the start", []string{"-n 1 -host a true", "-v -n 2 -host a:2 true"}},
	"PMITrace":        {"after the start", []string{"--pmi-trace FILE -n 1 -host a true"}},
	"SampledUsage":    {"after the start", nil}, // it has no texts
	"HelperSignaled":  {"", nil},
	"LimitExceeded":   {"after the start", nil}, // its only texts are names of limits
	"ProcessesGone":   {"", nil},
	"Drained":         {"", nil},
	"AttemptReady":    {"", nil},
	"Log":             {"after the start", []string{"-n 1 -host a true", "-v -n 1 -host a true"}},
	"Ping":            {"", nil},
	"Diagnosed":       {"Diagnose", []string{"--doctor a", "--doctor --json a", "--doctor -v a"}},
	"MarkWritten":     {"WriteMark", []string{"-v -n 2 -host a:1,b:1 true", "-n 2 -host a:1,b:1 true"}},
	"MarksRead":       {"ReadMarks", []string{"-v -n 2 -host a:1,b:1 true"}},
	"ProbePortOpened": {"OpenProbePort", []string{"--doctor -host a,b"}},
	"PeersProbed":     {"ProbePeers", []string{"--doctor -host a,b"}},
	"MissingFiles":    {"StageFiles", nil},
	"FileCredit":      {"StageFiles", nil},
	"StageResult":     {"StageFiles", []string{"--stage /etc/passwd -n 1 -host a true", "-v --stage /etc/passwd -n 1 -host a true"}},
}

// Whatever text a helper puts into a message, mpiexec prints nothing that controls the terminal, and no line that only
// looks like a message of mpiexec.
func TestTextOfHelpers(t *testing.T) {
	for name, sample := range sampleMessages() {
		place, known := messageCases[name]
		switch {
		case known:
		case wiretest.RowOf(sample).Example != nil:
			place = featureCase
		default:
			t.Errorf("%s: nobody says what asks for it", name)
		}
		for i := range textsOf(reflect.ValueOf(sample)) {
			for _, line := range place.lines {
				t.Run(fmt.Sprintf("%s/%d/%s", name, i, line), func(t *testing.T) {
					t.Parallel()
					m := sampleMessages()[name]
					setHostileText(textsOf(reflect.ValueOf(m))[i])
					says, poison := map[string]wire.Message{place.question: m}, func(wire.Message) {}
					if place.question == "" { // each helper sends it
						poison = func(sent wire.Message) { replaceMessage(sent, m) }
					}
					printed := runAgainstFake(t, strings.Fields(line), says, poison)
					if harm := checkHarmless(printed); harm != "" {
						t.Errorf("mpiexec printed %s", harm)
					}
				})
			}
		}
	}
}

// replaceMessage overwrites sent with m if both have the same type.
func replaceMessage(sent, m wire.Message) {
	if a, b := reflect.ValueOf(sent), reflect.ValueOf(m); a.Type() == b.Type() {
		a.Elem().Set(b.Elem())
	}
}

// sampleMessages has each message that a helper may send.
func TestSamplesAreComplete(t *testing.T) {
	known := sampleMessages()
	for _, kind := range wire.Kinds() {
		if kind.Sender != wire.Launcher && known[kind.Name] == nil && known[kind.Name+"1"] == nil {
			t.Errorf("%s is not among the samples", kind.Name)
		}
	}
}
